//! The NIC: what it holds, and the calls that set it up.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;

use zsr_wire::roce::Path;
use zsr_wire::{Mac, Qpn, Rkey, atomic, reth};

use crate::config::{Access, MAX_WINDOW, NicConfig};
use crate::datagram::{self, Datagram};
use crate::memory::MemoryRegion;
use crate::mr::{MrError, MrTable};
use crate::qp::{Conn, Modify, QpCaps, QpError, QpInfo, QpState, QpTable, RtrAttr};
use crate::responder::Env;
use crate::sched::Sched;
use crate::stats::Stats;
use crate::template::Template;
use crate::ud::{Address, AddressAttr, Ud};
use crate::work::{Completion, CompletionQueue, MAX_PACKETS, Operation, PostError, Receive, WorkRequest};

/// ARP requests that may wait to be answered.
const ARP_QUEUE: usize = 64;

pub(crate) struct ArpReply {
    pub(crate) mac: Mac,
    pub(crate) ip: Ipv4Addr,
}

/// A RoCEv2 NIC without I/O. Frames go in by [`Nic::handle`] and come out by [`Nic::poll_transmit`]; time is whatever
/// the caller says, in nanoseconds, and must not go backwards.
pub struct Nic {
    pub(crate) config: NicConfig,
    pub(crate) mrs: MrTable,
    pub(crate) qps: QpTable,
    pub(crate) sched: Sched,
    pub(crate) stats: Stats,
    pub(crate) completions: CompletionQueue,
    /// Ways to other hosts, for datagrams.
    pub(crate) addresses: Vec<Template>,
    pub(crate) arp_replies: VecDeque<ArpReply>,
    pub(crate) datagrams: VecDeque<Datagram>,
    /// Frames that queue pairs keep, all together.
    pub(crate) kept: usize,
    neighbours: Vec<(Ipv4Addr, Mac)>,
}

/// The parts of a NIC that its queue pairs' state machines use.
macro_rules! env {
    ($nic:ident, $now:expr) => {
        &mut Env {
            mrs: &$nic.mrs,
            stats: &mut $nic.stats,
            completions: &mut $nic.completions,
            addresses: &$nic.addresses,
            window: $nic.config.reorder_window.into(),
            now: $now,
        }
    };
}
pub(crate) use env;

impl Nic {
    /// A NIC without regions, queue pairs and neighbours.
    pub fn new(config: NicConfig) -> Nic {
        let window = config.reorder_window.min(MAX_WINDOW);
        Nic {
            config: NicConfig { reorder_window: window, ..config },
            mrs: MrTable::new(config.seed),
            qps: QpTable::new(config.seed),
            sched: Sched::default(),
            stats: Stats::default(),
            completions: CompletionQueue::default(),
            addresses: Vec::new(),
            arp_replies: VecDeque::with_capacity(ARP_QUEUE),
            datagrams: VecDeque::with_capacity(datagram::QUEUE),
            kept: 0,
            neighbours: Vec::new(),
        }
    }

    /// The settings with which the NIC was made.
    pub fn config(&self) -> &NicConfig {
        &self.config
    }

    /// Registers memory: the peer's (and this NIC's own) requests reach it at I/O virtual addresses from `iova` on,
    /// as far as `access` allows. The key returned is both remote and local key. The region stays alive until it is
    /// deregistered.
    pub fn register_mr(
        &mut self,
        region: Arc<dyn MemoryRegion>,
        iova: u64,
        access: Access,
    ) -> Result<Rkey, MrError> {
        self.mrs.register(region, iova, access)
    }

    /// Makes a key invalid and lets go of its memory. READs and WRITEs under way get a NAK at their next packet.
    pub fn deregister_mr(&mut self, rkey: Rkey) -> Result<(), MrError> {
        self.mrs.deregister(rkey)
    }

    /// Adds or changes a line of the static neighbour table, which [`RtrAttr::dest_mac`] `None` looks into.
    pub fn add_neighbour(&mut self, ip: Ipv4Addr, mac: Mac) {
        match self.neighbours.iter_mut().find(|n| n.0 == ip) {
            Some(line) => line.1 = mac,
            None => self.neighbours.push((ip, mac)),
        }
    }

    /// Memory regions and queue pairs that there are.
    pub fn held(&self) -> (usize, usize) {
        (self.mrs.len(), self.qps.len())
    }

    /// Makes a queue pair in state Reset.
    pub fn create_qp(&mut self, caps: QpCaps) -> Result<Qpn, QpError> {
        let qpn = self.qps.create(caps)?;
        self.sched.reserve(self.qps.slots());
        self.completions.grow(caps.send_depth + caps.recv_depth);
        Ok(qpn)
    }

    /// Destroys a queue pair. Requests that were posted to it never complete.
    pub fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), QpError> {
        let (slot, mut qp) = self.qps.destroy(qpn).ok_or(QpError::Unknown(qpn))?;
        self.sched.forget(slot);
        self.kept -= qp.resp.ahead.len();
        self.completions.forget(qp.promised());
        self.completions.shrink(qp.caps.send_depth + qp.caps.recv_depth);
        Ok(())
    }

    /// Takes a queue pair one step through its states.
    pub fn modify_qp(&mut self, qpn: Qpn, step: Modify) -> Result<(), QpError> {
        let slot = self.qps.slot(qpn).ok_or(QpError::Unknown(qpn))?;
        let qp = self.qps.at_mut(slot).ok_or(QpError::Unknown(qpn))?;
        let to = match step {
            Modify::Reset => QpState::Reset,
            Modify::Init { .. } => QpState::Init,
            Modify::Rtr(_) => QpState::ReadyToReceive,
            Modify::Rts(_) | Modify::Datagrams(_) => QpState::ReadyToSend,
            Modify::Error => QpState::Error,
        };
        let (from, window) = (qp.state, self.config.reorder_window);
        match (from, step) {
            (_, Modify::Reset) => {
                self.completions.forget(qp.promised());
                qp.resp.recvs().clear();
                self.kept -= qp.resp.ahead.len();
                qp.resp.disconnect();
                qp.req.disconnect();
                (qp.conn, qp.ud, qp.access) = (None, None, Access::NONE);
                (qp.cnp_due, qp.cnp_last, qp.rate, qp.held_until) = (false, None, None, 0);
            }
            (QpState::Reset | QpState::Init, Modify::Init { access }) => qp.access = access,
            (QpState::Init, Modify::Rtr(attr)) => {
                let path = path(&self.config, &self.neighbours, &attr)?;
                qp.conn = Some(Conn::new(&path, attr.dest_qpn, attr.mtu));
                qp.resp.connect(attr.rq_psn, attr.max_dest_rd_atomic, attr.min_rnr_timer, window);
            }
            (QpState::ReadyToReceive, Modify::Rts(attr)) => {
                range("max_rd_atomic", attr.max_rd_atomic.into(), 1, 128, "1 to 128")?;
                range("timeout_ns", attr.timeout_ns, 0, 1 << 48, "at most 2^48 ns")?;
                range("rnr_retry", attr.rnr_retry.into(), 0, 7, "0 to 7")?;
                qp.req.connect(attr);
            }
            (QpState::Init, Modify::Datagrams(attr)) => {
                qp.ud = Some(Box::new(Ud::new(attr, qp.caps.send_depth)));
            }
            (QpState::Reset, Modify::Error) => return Err(QpError::Transition { qpn, from, to }),
            (_, Modify::Error) => {
                self.kept -= qp.resp.ahead.len();
                qp.resp.disconnect();
                qp.broke(env!(self, 0));
            }
            _ => return Err(QpError::Transition { qpn, from, to }),
        }
        qp.state = to;
        Ok(())
    }

    /// State and counters of a queue pair.
    pub fn qp_info(&self, qpn: Qpn) -> Option<QpInfo> {
        let qp = self.qps.at(self.qps.slot(qpn)?)?;
        Some(QpInfo {
            state: qp.state,
            expected_psn: qp.resp.expected,
            msn: qp.resp.msn,
            send_psn: qp.ud.as_ref().map_or(qp.req.send_psn(), |ud| ud.send_psn()),
            outstanding: qp.outstanding(),
        })
    }

    /// Makes an address, which stays as long as the NIC. Datagrams go to addresses.
    pub fn create_address(&mut self, attr: &AddressAttr) -> Result<Address, QpError> {
        let mac = neighbour(&self.neighbours, attr.mac, attr.ip)?;
        self.addresses.push(attr.template(self.config.mac, self.config.ip, mac));
        Ok(Address(self.addresses.len() as u32 - 1))
    }

    /// Posts an operation to a queue pair that is ready to send. Its completion comes by [`Nic::poll_completion`].
    pub fn post_send(&mut self, qpn: Qpn, work: WorkRequest) -> Result<(), PostError> {
        let slot = self.qps.slot(qpn).ok_or(PostError::UnknownQp(qpn))?;
        let qp = self.qps.at_mut(slot).ok_or(PostError::UnknownQp(qpn))?;
        let operation = work.operation;
        let mtu = match (qp.state, &qp.conn, &qp.ud, operation) {
            (QpState::ReadyToSend, Some(_), _, Operation::Datagram(_)) => {
                return Err(PostError::Service { qpn, operation, expected: "it is connected" });
            }
            (QpState::ReadyToSend, Some(conn), ..) => conn.mtu,
            (QpState::ReadyToSend, _, Some(ud), Operation::Datagram(to)) => {
                if to.address.0 as usize >= self.addresses.len() {
                    return Err(PostError::UnknownAddress(to.address));
                }
                if work.local.len > ud.mtu.bytes() {
                    return Err(PostError::LongDatagram { len: work.local.len, mtu: ud.mtu.bytes() });
                }
                ud.mtu
            }
            (QpState::ReadyToSend, _, Some(_), _) => {
                return Err(PostError::Service { qpn, operation, expected: "it sends datagrams" });
            }
            (state, ..) => return Err(PostError::State { qpn, state, expected: "it must be ReadyToSend" }),
        };
        if work.local.len > reth::MAX_MESSAGE || mtu.packets(work.local.len) > MAX_PACKETS {
            return Err(PostError::TooLong { len: work.local.len });
        }
        if qp.outstanding() >= qp.req.depth() {
            return Err(PostError::QueueFull { qpn, depth: qp.req.depth() });
        }
        if work.operation.is_atomic() && work.local.len as usize != atomic::WORD {
            return Err(PostError::AtomicLength { len: work.local.len });
        }
        let needed = if work.operation.fetches() { Access::LOCAL_WRITE } else { Access::NONE };
        let local = work.local;
        if !self.mrs.allows(local.lkey, local.address, local.len, needed) {
            let (lkey, len, address) = (local.lkey, local.len, local.address);
            return Err(PostError::LocalMemory { lkey, operation, len, address });
        }
        self.completions.promise()?;
        match &mut qp.ud {
            Some(ud) => ud.post(work),
            None => qp.req.post(work, mtu),
        }
        self.sched.update(slot, qp);
        Ok(())
    }

    /// Posts a receive: a place for one SEND or datagram, or one WRITE with immediate data, of a peer.
    pub fn post_recv(&mut self, qpn: Qpn, receive: Receive) -> Result<(), PostError> {
        let slot = self.qps.slot(qpn).ok_or(PostError::UnknownQp(qpn))?;
        let qp = self.qps.at_mut(slot).ok_or(PostError::UnknownQp(qpn))?;
        if matches!(qp.state, QpState::Reset | QpState::Error) {
            let expected = "it must be Init or later, and not in error";
            return Err(PostError::State { qpn, state: qp.state, expected });
        }
        let depth = qp.caps.recv_depth;
        if qp.resp.recvs().len() >= depth {
            return Err(PostError::QueueFull { qpn, depth });
        }
        if let Some(local) = receive.local
            && !self.mrs.allows(local.lkey, local.address, local.len, Access::LOCAL_WRITE)
        {
            return Err(PostError::ReceiveMemory(local));
        }
        self.completions.promise()?;
        qp.resp.recvs().push_back(receive);
        Ok(())
    }

    /// The oldest completion that has not been polled.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.pop()
    }

    /// When [`Nic::on_timeout`] should be called, in the caller's nanoseconds; `None` if no timer runs.
    #[inline]
    pub fn next_timeout(&self) -> Option<u64> {
        let retries = self.sched.timers.iter().filter_map(|&slot| self.qps.at(slot)?.deadline());
        let paced = self.sched.paced.iter().filter_map(|&slot| Some(self.qps.at(slot)?.free_at()));
        retries.chain(paced).min()
    }

    /// Carries out what timers until `now_ns` ask for. Calling it early or often does no harm.
    pub fn on_timeout(&mut self, now_ns: u64) {
        let (qps, data) = (&self.qps, &mut self.sched.data);
        self.sched.paced.retain(|&slot| {
            let waits = qps.at(slot).is_some_and(|qp| qp.free_at() > now_ns);
            if !waits {
                data.push_back(slot);
            }
            waits
        });
        let mut i = 0;
        while let Some(&slot) = self.sched.timers.get(i) {
            let Some(qp) = self.qps.at_mut(slot) else {
                self.sched.timers.swap_remove(i);
                continue;
            };
            match qp.deadline() {
                Some(deadline) if deadline <= now_ns => {
                    let env = env!(self, now_ns);
                    qp.resp.on_timeout(env);
                    let is_due = qp.req.deadline().is_some_and(|at| at <= now_ns);
                    if is_due && qp.req.on_timeout(env, qp.qpn).is_err() {
                        qp.broke(env);
                    }
                    self.sched.update(slot, qp);
                    i += 1;
                }
                Some(_) => i += 1,
                None => {
                    qp.in_timers = false;
                    self.sched.timers.swap_remove(i);
                }
            }
        }
    }

    /// Counters since the NIC was made.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}

fn range(name: &'static str, value: u64, low: u64, high: u64, expected: &'static str) -> Result<(), QpError> {
    if (low..=high).contains(&value) { Ok(()) } else { Err(QpError::Attribute { name, value, expected }) }
}

/// The MAC address given, or the one that the table has for the IP address.
fn neighbour(neighbours: &[(Ipv4Addr, Mac)], given: Option<Mac>, ip: Ipv4Addr) -> Result<Mac, QpError> {
    let known = neighbours.iter().find(|n| n.0 == ip).map(|n| n.1);
    given.or(known).ok_or(QpError::NoNeighbour(ip))
}

fn path(config: &NicConfig, neighbours: &[(Ipv4Addr, Mac)], attr: &RtrAttr) -> Result<Path, QpError> {
    range("max_dest_rd_atomic", attr.max_dest_rd_atomic.into(), 1, 128, "1 to 128")?;
    range("min_rnr_timer", attr.min_rnr_timer.into(), 0, 31, "0 to 31")?;
    let dst_mac = neighbour(neighbours, attr.dest_mac, attr.dest_ip)?;
    Ok(Path {
        src_mac: config.mac,
        dst_mac,
        src_ip: config.ip,
        dst_ip: attr.dest_ip,
        src_port: attr.src_port,
        tos: attr.tos,
        ttl: attr.ttl,
    })
}
