//! NICs as the agent needs them: register memory, make queue pairs, connect them.

mod bell;
mod node;
pub mod soft;
mod steps;
pub mod verbs;

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

use zsr_wire::{Mac, Psn, Qpn, Rkey};

pub use node::NicNode;
pub use soft::{NicHandle, NicQueue, NicStopped, SoftNicBackend, nic_queue};

use zsr_api::agent::NicStats;
use zsr_ring::doorbell::Doorbell;
use zsr_ring::memory::Memory;

/// The properties of a NIC, for [`NicBackend::info`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicInfo {
    /// Name of the device.
    pub name: String,
    /// Kind of backend: "soft" or "verbs".
    pub backend: &'static str,
    /// MAC address.
    pub mac: Mac,
    /// IPv4 address of the RoCEv2 GID.
    pub ip: Ipv4Addr,
    /// Largest path MTU, bytes.
    pub path_mtu: u32,
    /// The VLAN that its frames are on; `None`: they have no tag.
    pub vlan: Option<u16>,
}

impl NicInfo {
    /// RoCEv2 GIDs: the IPv4 address, mapped (IBTA annex 17, A17.4.2).
    pub fn gids(&self) -> Vec<std::net::Ipv6Addr> {
        vec![self.ip.to_ipv6_mapped()]
    }
}

/// The far end of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpTarget {
    /// Number at the far end.
    pub qpn: Qpn,
    /// The peer's address.
    pub ip: Ipv4Addr,
    /// MAC address of the next hop.
    pub mac: Mac,
    /// PSN of the first request that comes from there.
    pub rq_psn: Psn,
    /// PSN of the first request that would be sent there.
    pub sq_psn: Psn,
    /// Path MTU, bytes: 256, 512, 1024, 2048 or 4096.
    pub path_mtu: u32,
    /// IPv4 type of service of what is sent there: DSCP and ECN bits.
    pub traffic_class: u8,
}

/// A ring at a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingPart {
    /// Remote key of its memory.
    pub rkey: Rkey,
    /// The queue pair for items, tail words and commit records.
    pub data: Qpn,
    /// The queue pair for READs of the word that the processing unit writes.
    pub poll: Qpn,
}

/// The kind of failure of a [`NicError`], for callers that decide what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NicErrorKind {
    /// The NIC's tables are full.
    Exhausted,
    /// The request is against the rules.
    Invalid,
    /// The NIC has stopped.
    Stopped,
    /// Anything else.
    Other,
}

/// A NIC refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NicError {
    /// The kind of failure.
    pub kind: NicErrorKind,
    /// The attempt, and why it failed.
    pub message: String,
}

impl fmt::Display for NicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for NicError {}

/// A NIC. Calls may block for as long as the device takes; the agent makes them one at a time.
///
/// Implementations are chosen at run time: the soft NIC, or [`verbs`].
pub trait NicBackend: Send + Sync + 'static {
    /// Name, addresses, limits.
    fn info(&self) -> NicInfo;

    /// Registers all of `memory` at I/O virtual address 0 for READ and WRITE by the peer. Makes two queue pairs in
    /// state RESET. Does all of it or nothing.
    ///
    /// # Errors
    /// [`NicError`]: tables full, NIC stopped.
    fn make(&self, memory: Arc<dyn Memory>) -> Result<RingPart, NicError>;

    /// Takes both queue pairs from RESET to RTS, peer allowed to READ and WRITE.
    ///
    /// # Errors
    /// [`NicError`]; the queue pairs are then in RESET, or unknown.
    fn connect(&self, ring: RingPart, data: &QpTarget, poll: &QpTarget) -> Result<(), NicError>;

    /// Takes both queue pairs to RESET from any state.
    ///
    /// # Errors
    /// [`NicError`]: unknown queue pair, NIC stopped. The other one is in RESET all the same.
    fn reset(&self, ring: RingPart) -> Result<(), NicError>;

    /// Destroys both queue pairs, makes the key invalid and lets go of its memory.
    ///
    /// # Errors
    /// The first [`NicError`]: unknown queue pair or key, NIC stopped. The others are gone all the same.
    fn destroy(&self, ring: RingPart) -> Result<(), NicError>;

    /// Why nothing passes the NIC's port at this moment, if the NIC can tell, and what to do. To be called now and
    /// then: a NIC mends first what it can. So it goes on when its address has been taken away and given again. May
    /// block for a second.
    fn trouble(&self) -> Option<NicError> {
        None
    }

    /// The NIC's counters, if it has any and has not stopped.
    fn stats(&self) -> Option<NicStats> {
        None
    }

    /// The doorbell of the ring with this secret, at the switch that `target` names: by default a UDP socket of the host.
    ///
    /// # Errors
    /// [`NicError`]: no socket.
    fn doorbell(&self, target: &QpTarget, secret: u32) -> Result<Box<dyn Doorbell>, NicError> {
        Ok(Box::new(bell::UdpBell::new(self.info().ip, target.ip, secret)?))
    }
}
