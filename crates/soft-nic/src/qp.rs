//! Queue pairs: states, attributes, and the dense table that finds them by number.

use std::net::Ipv4Addr;

use thiserror::Error;
use zsr_wire::roce::Path;
use zsr_wire::{Mac, Psn, Qpn};

use crate::config::{Access, Mtu};
use crate::dcqcn::Dcqcn;
use crate::numbers::Numbers;
use crate::requester::Requester;
use crate::responder::{Env, Responder, Response};
use crate::template::Template;
use crate::ud::{Ud, UdAttr};
use crate::work::Status;

/// State of a queue pair (IBTA vol. 1, 10.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QpState {
    /// Fresh, or made so again; does nothing.
    Reset,
    /// Has its rights; receives may be posted.
    Init,
    /// Ready to receive: connected, answers requests.
    ReadyToReceive,
    /// Ready to send: sends requests too.
    ReadyToSend,
    /// Broken: drops what comes, flushes what is posted.
    Error,
}

/// How much a queue pair can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpCaps {
    /// Send work requests outstanding at a time.
    pub send_depth: usize,
    /// Receives posted at a time.
    pub recv_depth: usize,
}

impl Default for QpCaps {
    fn default() -> QpCaps {
        QpCaps { send_depth: 64, recv_depth: 16 }
    }
}

/// The attributes that make a queue pair ready to receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtrAttr {
    /// The peer's queue pair.
    pub dest_qpn: Qpn,
    /// The peer's IP address.
    pub dest_ip: Ipv4Addr,
    /// MAC address of the peer or the next hop; `None` takes it from the neighbour table.
    pub dest_mac: Option<Mac>,
    /// PSN of the first request that is expected.
    pub rq_psn: Psn,
    /// Path MTU; both ends must have the same.
    pub mtu: Mtu,
    /// UDP source port of what this end sends.
    pub src_port: u16,
    /// READ requests and atomic operations of the peer that may be outstanding at a time (1 to 128); one more is an invalid request.
    pub max_dest_rd_atomic: u8,
    /// Encoded time that an RNR NAK asks the peer to wait ([`zsr_wire::aeth::rnr_timer_ns`]).
    pub min_rnr_timer: u8,
    /// IPv4 type of service of what this end sends. ECN-capable is 2.
    pub tos: u8,
    /// IPv4 time to live of what this end sends.
    pub ttl: u8,
}

impl RtrAttr {
    /// Usual values: 16 READs outstanding, 0.01 ms RNR time, ECN-capable, TTL 64, source port from the peer's number.
    pub fn new(dest_qpn: Qpn, dest_ip: Ipv4Addr, rq_psn: Psn, mtu: Mtu) -> RtrAttr {
        RtrAttr {
            dest_qpn,
            dest_ip,
            dest_mac: None,
            rq_psn,
            mtu,
            src_port: 0xc000 | (dest_qpn.get() as u16 & 0x3fff),
            max_dest_rd_atomic: 16,
            min_rnr_timer: 1,
            tos: 2,
            ttl: 64,
        }
    }
}

/// The attributes that make a queue pair ready to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtsAttr {
    /// PSN of the first request.
    pub sq_psn: Psn,
    /// Nanoseconds without progress after which requests are sent again; 0 waits for ever. Doubles with each retry
    /// in a row, up to 64 times.
    pub timeout_ns: u64,
    /// Retries in a row, for whatever reason but RNR, before giving up.
    pub retry_count: u8,
    /// RNR retries in a row before giving up; 7 never gives up.
    pub rnr_retry: u8,
    /// Own READ requests and atomic operations outstanding at a time; must not be more than the peer takes.
    pub max_rd_atomic: u8,
}

impl RtsAttr {
    /// Usual values: 1 ms, 7 retries, endless RNR retries, 16 READs.
    pub fn new(sq_psn: Psn) -> RtsAttr {
        RtsAttr { sq_psn, timeout_ns: 1_000_000, retry_count: 7, rnr_retry: 7, max_rd_atomic: 16 }
    }
}

/// A step of the state machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modify {
    /// From any state: forget everything.
    Reset,
    /// From Reset or Init: what the peer may do.
    Init {
        /// REMOTE_READ, REMOTE_WRITE and REMOTE_ATOMIC count.
        access: Access,
    },
    /// From Init: connect.
    Rtr(RtrAttr),
    /// From ready-to-receive: start sending.
    Rts(RtsAttr),
    /// From Init: send and take datagrams, without a connection. The queue pair is ready to send.
    Datagrams(UdAttr),
    /// From any state but Reset: break. Everything posted completes as flushed.
    Error,
}

/// The properties of a queue pair that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpInfo {
    /// State.
    pub state: QpState,
    /// PSN of the next request that the responder expects.
    pub expected_psn: Psn,
    /// Messages that the responder has completed, modulo 2²⁴.
    pub msn: u32,
    /// PSN that the next posted send begins with.
    pub send_psn: Psn,
    /// Send work requests that are not completed.
    pub outstanding: usize,
}

/// Why a queue pair can't be made or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum QpError {
    /// No queue pair has this number.
    #[error("queue pair {0} does not exist")]
    Unknown(Qpn),
    /// Too many queue pairs.
    #[error("the NIC already holds {MAX_QPS} queue pairs: destroy some first")]
    TooMany,
    /// The step is not allowed from this state.
    #[error(
        "queue pair {qpn} can't go from {from:?} to {to:?}: the way is Reset, Init, ReadyToReceive, ReadyToSend"
    )]
    Transition {
        /// The queue pair.
        qpn: Qpn,
        /// State that it is in.
        from: QpState,
        /// State asked for.
        to: QpState,
    },
    /// No MAC address is known for the peer.
    #[error("no MAC address is known for {0}: add it to the neighbour table, or give dest_mac")]
    NoNeighbour(Ipv4Addr),
    /// An attribute is out of range.
    #[error("{name} is {value}: expected {expected}")]
    Attribute {
        /// Name of the attribute.
        name: &'static str,
        /// Value given.
        value: u64,
        /// The values that are allowed.
        expected: &'static str,
    },
}

/// The connected peer and how to reach it.
pub(crate) struct Conn {
    pub(crate) peer_ip: Ipv4Addr,
    pub(crate) mtu: Mtu,
    pub(crate) template: Template,
    ident: u16,
}

impl Conn {
    pub(crate) fn new(path: &Path, dest_qpn: Qpn, mtu: Mtu) -> Conn {
        Conn { peer_ip: path.dst_ip, mtu, template: Template::new(path, dest_qpn), ident: 0 }
    }

    /// A fresh IPv4 identification.
    #[inline]
    pub(crate) fn ident(&mut self) -> u16 {
        self.ident = self.ident.wrapping_add(1);
        self.ident
    }
}

/// One queue pair.
pub(crate) struct Qp {
    pub(crate) qpn: Qpn,
    pub(crate) caps: QpCaps,
    pub(crate) state: QpState,
    pub(crate) access: Access,
    /// There from ready-to-receive on.
    pub(crate) conn: Option<Conn>,
    pub(crate) resp: Responder,
    pub(crate) req: Requester,
    /// There instead of a connection.
    pub(crate) ud: Option<Box<Ud>>,
    /// A congestion notification is to be sent.
    pub(crate) cnp_due: bool,
    /// When the last one was asked for.
    pub(crate) cnp_last: Option<u64>,
    /// How fast it may send, while that is less than its link carries.
    pub(crate) rate: Option<Dcqcn>,
    /// When it is looked again whether the memory that it waits for has answered.
    pub(crate) held_until: u64,
    /// The requester transmits next, if both sides have something.
    pub(crate) requester_turn: bool,
    pub(crate) in_control: bool,
    pub(crate) in_data: bool,
    pub(crate) in_timers: bool,
}

impl Qp {
    fn new(qpn: Qpn, caps: QpCaps) -> Qp {
        Qp {
            qpn,
            caps,
            state: QpState::Reset,
            access: Access::NONE,
            conn: None,
            resp: Responder::new(caps.recv_depth),
            req: Requester::new(caps.send_depth),
            ud: None,
            cnp_due: false,
            cnp_last: None,
            rate: None,
            held_until: 0,
            requester_turn: false,
            in_control: false,
            in_data: false,
            in_timers: false,
        }
    }

    #[inline]
    pub(crate) fn wants_control(&self) -> bool {
        self.cnp_due || matches!(self.resp.front(), Some(Response::Ack(_) | Response::Atomic(_)))
    }

    #[inline]
    pub(crate) fn wants_data(&self) -> bool {
        matches!(self.resp.front(), Some(Response::Read(_)))
            || (self.state == QpState::ReadyToSend
                && (self.req.sendable() || self.ud.as_ref().is_some_and(|ud| ud.len() > 0)))
    }

    /// Work requests and receives that are not completed.
    pub(crate) fn promised(&mut self) -> usize {
        self.outstanding() + self.resp.recvs().len()
    }

    /// Send work requests that are not completed.
    pub(crate) fn outstanding(&self) -> usize {
        self.req.len() + self.ud.as_ref().map_or(0, |ud| ud.len())
    }

    /// It is broken: what was posted completes as flushed.
    pub(crate) fn broke(&mut self, env: &mut Env<'_>) {
        self.state = QpState::Error;
        self.req.flush(env, self.qpn);
        if let Some(ud) = &mut self.ud {
            ud.flush(env, self.qpn);
        }
        while !self.resp.recvs().is_empty() {
            self.resp.received(env, self.qpn, None, 0, Status::Flushed);
        }
    }

    /// When it may send the next packet; 0 if nothing holds it up.
    #[inline]
    pub(crate) fn free_at(&self) -> u64 {
        self.rate.as_ref().map_or(0, Dcqcn::free_at).max(self.held_until)
    }

    /// When a timer of it ends.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<u64> {
        match (self.req.deadline(), self.resp.deadline()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Whether requests are taken.
    #[inline]
    pub(crate) fn receives(&self) -> bool {
        matches!(self.state, QpState::ReadyToReceive | QpState::ReadyToSend)
    }
}

const SLOT_BITS: u32 = 14;
/// Most queue pairs that one NIC holds at a time.
pub(crate) const MAX_QPS: usize = 1 << SLOT_BITS;

/// Generations of a slot: 1 to 1022. Without 0, the reserved numbers 0 and 1 do not come up; without 1023, multicast's
/// 0xffffff does not.
const GENERATIONS: u32 = 1022;

struct Slot {
    qp: Option<Qp>,
    generation: u32,
}

/// All queue pairs of a NIC. A number is a slot (low bits) and the slot's generation. So the number of a destroyed
/// queue pair comes back only after 1022 others in its place.
pub(crate) struct QpTable {
    slots: Vec<Slot>,
    free: Vec<u16>,
    numbers: Numbers,
}

impl QpTable {
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(crate) fn new(seed: Option<u64>) -> QpTable {
        let numbers = Numbers::new(seed, 0x7170_6e75_6d62);
        QpTable { slots: Vec::new(), free: Vec::new(), numbers }
    }

    pub(crate) fn create(&mut self, caps: QpCaps) -> Result<Qpn, QpError> {
        let slot = match self.free.pop() {
            Some(slot) => usize::from(slot),
            None if self.slots.len() < MAX_QPS => {
                let generation = self.numbers.next() as u32 % GENERATIONS;
                self.slots.push(Slot { qp: None, generation });
                self.slots.len() - 1
            }
            None => return Err(QpError::TooMany),
        };
        let entry = &mut self.slots[slot];
        entry.generation = 1 + entry.generation % GENERATIONS;
        let qpn = Qpn::new(entry.generation << SLOT_BITS | slot as u32);
        entry.qp = Some(Qp::new(qpn, caps));
        Ok(qpn)
    }

    pub(crate) fn destroy(&mut self, qpn: Qpn) -> Option<(u16, Qp)> {
        let slot = self.slot(qpn)?;
        let qp = self.slots.get_mut(usize::from(slot))?.qp.take()?;
        self.free.push(slot);
        Some((slot, qp))
    }

    /// Slot of a queue pair that exists.
    #[inline]
    pub(crate) fn slot(&self, qpn: Qpn) -> Option<u16> {
        let slot = (qpn.get() & (MAX_QPS as u32 - 1)) as u16;
        match self.slots.get(usize::from(slot)) {
            Some(Slot { qp: Some(qp), .. }) if qp.qpn == qpn => Some(slot),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn at(&self, slot: u16) -> Option<&Qp> {
        self.slots.get(usize::from(slot))?.qp.as_ref()
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, slot: u16) -> Option<&mut Qp> {
        self.slots.get_mut(usize::from(slot))?.qp.as_mut()
    }

    /// Slots in use or used before: how large the lists of the scheduler can get.
    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_late_and_reserved_ones_never() {
        let mut table = QpTable::new(Some(3));
        let caps = QpCaps { send_depth: 0, recv_depth: 0 };
        let mut seen = std::collections::HashSet::new();
        for _ in 0..GENERATIONS {
            let qpn = table.create(caps).unwrap();
            assert!(seen.insert(qpn), "{qpn} came back");
            assert!(qpn.get() > 1 && qpn.get() < 0xff_ffff);
            assert_eq!(table.slot(qpn), Some(0));
            table.destroy(qpn).unwrap();
            assert_eq!(table.slot(qpn), None);
        }
        assert!(!seen.insert(table.create(caps).unwrap()));
    }
}
