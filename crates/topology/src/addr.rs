//! Ethernet addresses, and the addresses that hosts and switches get when the file names none.

use std::collections::HashSet;
use std::fmt;
use std::net::Ipv4Addr;

/// An Ethernet address, first byte first on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// Reads `02:00:00:00:01:0a` (or with `-`).
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut bytes {
            let part = parts.next()?;
            if part.len() != 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return None;
            }
            *byte = u8::from_str_radix(part, 16).ok()?;
        }
        parts.next().is_none().then_some(MacAddr(bytes))
    }

    /// Neither a group address nor all zeros.
    pub fn is_unicast(self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Hands out addresses that no node of the file has taken.
pub(crate) struct Generator {
    ips: HashSet<Ipv4Addr>,
    macs: HashSet<MacAddr>,
}

impl Generator {
    pub fn new(ips: HashSet<Ipv4Addr>, macs: HashSet<MacAddr>) -> Self {
        Generator { ips, macs }
    }

    /// The first free address from 10.0.`block`.`first` on.
    pub fn ip(&mut self, block: u8, first: u8) -> Ipv4Addr {
        let start = u32::from(Ipv4Addr::new(10, 0, block, first));
        // At most as many as addresses in use are skipped, and a file can't name 2^20 of them.
        let free = (0..1 << 20)
            .map(|n| Ipv4Addr::from(start + n))
            .find(|ip| !matches!(ip.octets()[3], 0 | 255) && !self.ips.contains(ip))
            .unwrap_or(Ipv4Addr::from(start));
        self.ips.insert(free);
        free
    }

    /// The first free locally administered address in the block.
    pub fn mac(&mut self, block: u8) -> MacAddr {
        let free = (1..=u16::MAX)
            .map(|n| MacAddr([2, 0, 0, block, (n >> 8) as u8, n as u8]))
            .find(|mac| !self.macs.contains(mac))
            .unwrap_or(MacAddr([2, 0, 0, block, 0, 0]));
        self.macs.insert(free);
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macs_read_back() {
        let mac = MacAddr([2, 0, 0, 0xab, 0xcd, 0xef]);
        assert_eq!(MacAddr::parse(&mac.to_string()), Some(mac));
        for bad in ["", "02:00:00:00:00", "02:00:00:00:00:00:00", "2:0:0:0:0:1", "+2:00:00:00:00:01"] {
            assert_eq!(MacAddr::parse(bad), None, "{bad}");
        }
        assert!(!MacAddr([1, 0, 0, 0, 0, 1]).is_unicast());
    }

    #[test]
    fn generated_addresses_avoid_taken_ones() {
        let taken = HashSet::from([Ipv4Addr::new(10, 0, 1, 1), Ipv4Addr::new(10, 0, 1, 3)]);
        let mut gen_ = Generator::new(taken, HashSet::new());
        let ips: Vec<_> = (0..3).map(|_| gen_.ip(1, 1).octets()[3]).collect();
        assert_eq!(ips, [2, 4, 5]);
    }
}
