//! The settings of a NIC and its connections.

use std::fmt;
use std::net::Ipv4Addr;

use zsr_wire::Mac;

/// Most packets that a queue pair keeps behind a missing one.
pub const MAX_WINDOW: u16 = 1024;

/// The settings with which a NIC is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NicConfig {
    /// The NIC's MAC address.
    pub mac: Mac,
    /// The NIC's IP address.
    pub ip: Ipv4Addr,
    /// Seed of remote keys and queue pair numbers. The same seed and the same calls give the same numbers, so everybody
    /// who knows the seed can work them out. `None`: the numbers come from the system's generator.
    pub seed: Option<u64>,
    /// Shortest time between two congestion notifications of one queue pair, in nanoseconds.
    pub cnp_interval_ns: u64,
    /// Rate of its link in bit/s, from which queue pairs come down when they get congestion notifications (DCQCN). `None`: notifications are
    /// only counted.
    pub line_rate: Option<u64>,
    /// Tag of all frames that it sends ([`zsr_wire::vlan::tci`]); 0: none. It takes frames of that VLAN only.
    pub tci: u16,
    /// Packets behind a missing one that a queue pair keeps until it comes, at most [`MAX_WINDOW`]. 0: none, like NICs
    /// that don't repeat selectively.
    pub reorder_window: u16,
}

impl NicConfig {
    /// A NIC for tests and simulations, with these addresses and seeded by them. It is on no VLAN, at a link of no
    /// known rate. It sends a congestion notification at most every 50 µs per queue pair, and keeps 256 packets behind
    /// a missing one.
    pub fn new(mac: Mac, ip: Ipv4Addr) -> NicConfig {
        let [a, b, c, d, e, f] = mac.0;
        let seed = u64::from_be_bytes([0, 0, a, b, c, d, e, f]) ^ u64::from(u32::from(ip)) << 32;
        NicConfig {
            mac,
            ip,
            seed: Some(seed),
            cnp_interval_ns: 50_000,
            line_rate: None,
            tci: 0,
            reorder_window: 256,
        }
    }
}

/// Path MTU: the most payload that one packet of a connection carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mtu {
    /// 256 bytes.
    Mtu256,
    /// 512 bytes.
    Mtu512,
    /// 1024 bytes.
    Mtu1024,
    /// 2048 bytes.
    Mtu2048,
    /// 4096 bytes.
    Mtu4096,
}

impl Mtu {
    /// Every path MTU, smallest first.
    pub const ALL: [Mtu; 5] = [Mtu::Mtu256, Mtu::Mtu512, Mtu::Mtu1024, Mtu::Mtu2048, Mtu::Mtu4096];

    /// The MTU of this many bytes, if there is one.
    pub fn from_bytes(bytes: u32) -> Option<Mtu> {
        Mtu::ALL.into_iter().find(|m| m.bytes() == bytes)
    }

    /// Base-2 logarithm of the bytes.
    #[inline]
    pub const fn shift(self) -> u32 {
        8 + self as u32
    }

    /// In bytes.
    #[inline]
    pub const fn bytes(self) -> u32 {
        1 << self.shift()
    }

    /// Packets that a message of `len` bytes takes; an empty message takes one.
    #[inline]
    pub const fn packets(self, len: u32) -> u32 {
        let n = (len as u64 + self.bytes() as u64 - 1) >> self.shift();
        if n == 0 { 1 } else { n as u32 }
    }
}

impl fmt::Display for Mtu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.bytes())
    }
}

/// The accesses that a memory region or a queue pair allows. Combine with [`Access::with`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Access(u8);

impl Access {
    /// Nothing but being read locally.
    pub const NONE: Access = Access(0);
    /// READs of this NIC's own requester may be stored there.
    pub const LOCAL_WRITE: Access = Access(1);
    /// The peer may READ.
    pub const REMOTE_READ: Access = Access(2);
    /// The peer may WRITE.
    pub const REMOTE_WRITE: Access = Access(4);
    /// The peer may carry out atomic operations.
    pub const REMOTE_ATOMIC: Access = Access(8);
    /// Everything.
    pub const ALL: Access = Access(15);

    /// Both rights.
    #[must_use]
    pub const fn with(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }

    /// Whether all rights of `other` are there.
    #[inline]
    pub const fn allows(self, other: Access) -> bool {
        self.0 & other.0 == other.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_round_up_and_empty_takes_one() {
        for mtu in Mtu::ALL {
            let b = mtu.bytes();
            assert_eq!([0, 1, b, b + 1, 4 * b].map(|len| mtu.packets(len)), [1, 1, 1, 2, 4], "{mtu}");
            assert_eq!(u64::from(mtu.packets(u32::MAX)), (1u64 << 32) >> mtu.shift());
            assert_eq!(Mtu::from_bytes(b), Some(mtu));
        }
        assert_eq!(Mtu::from_bytes(1500), None);
    }
}
