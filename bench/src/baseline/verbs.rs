//! Verbs for programs: a send queue per queue pair and a completion queue per program, in memory that the program and
//! its NIC share. Posting and polling are as with a real NIC: stores and loads, no call into it.

use rtrb::{Consumer, Producer, RingBuffer};
use zsr_soft_nic::{
    Access, Modify, Mtu, Nic, Operation, PostError, RtrAttr, RtsAttr, Sge, Status, WorkRequest,
};
use zsr_wire::{Mac, Psn, Qpn, Rkey};

use super::cluster::Hosts;

/// Retransmission time: nothing is lost here, but a busy machine takes its time.
const TIMEOUT_NS: u64 = 10_000_000_000;

/// Work requests that a send queue holds.
const SEND_DEPTH: usize = 64;
/// Completions that a completion queue holds.
const COMPLETIONS: usize = 1024;

/// A work request was to complete in silence.
const SILENT: u64 = 1 << 63;
/// Bits of a work request's number that say whose it is.
const CONNECTION: u64 = 0xffff;
/// Where the number of the completion queue begins.
const QUEUE_SHIFT: u32 = 32;

/// Most work requests of a queue pair that the NIC has at a time.
pub(super) const NIC_DEPTH: usize = SEND_DEPTH;

/// Memory at the other side of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    pub(super) rkey: Rkey,
}

/// A connection's send queue, at the program.
pub struct SendQueue {
    requests: Producer<WorkRequest>,
    lkey: Rkey,
    remote: Remote,
    /// The numbers of the connection and of its completion queue, as in each work request.
    tag: u64,
}

impl SendQueue {
    /// Whether so many work requests could be posted.
    #[inline]
    pub(super) fn has_room(&self, requests: usize) -> bool {
        self.requests.slots() >= requests
    }

    /// Posts a WRITE of local memory at `from` to `to`. There must be room. The WRITE completes in silence unless it is
    /// `signaled`.
    #[inline]
    pub(super) fn write(&mut self, from: usize, len: usize, to: usize, signaled: bool) {
        self.post(Operation::Write, from, len, to, signaled);
    }

    /// Posts a READ of `from` into local memory at `to`, which is signaled. There must be room.
    #[inline]
    pub(super) fn read(&mut self, from: usize, len: usize, to: usize) {
        self.post(Operation::Read, to, len, from, true);
    }

    #[inline]
    fn post(&mut self, operation: Operation, local: usize, len: usize, remote: usize, signaled: bool) {
        let work = WorkRequest {
            wr_id: self.tag | if signaled { 0 } else { SILENT },
            operation,
            local: Sge { lkey: self.lkey, address: local as u64, len: len as u32 },
            remote_address: remote as u64,
            rkey: self.remote.rkey,
        };
        self.requests.push(work).expect("room was asked for");
    }
}

/// The completion of a work request.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// The connection's number.
    pub(super) connection: usize,
    /// A READ, or else a WRITE.
    pub(super) read: bool,
}

/// A program's completion queue.
pub(super) struct CompletionQueue(Consumer<Done>);

impl CompletionQueue {
    /// The oldest completion.
    #[inline]
    pub(super) fn poll(&mut self) -> Option<Done> {
        self.0.pop().ok()
    }
}

/// A send queue, at the NIC.
struct Served {
    qpn: Qpn,
    requests: Consumer<WorkRequest>,
    /// A request that the NIC had no room for.
    held: Option<WorkRequest>,
}

/// The NIC's side of all queues of a host.
#[derive(Default)]
pub struct Device {
    send: Vec<Served>,
    completions: Vec<Producer<Done>>,
}

impl Device {
    /// A new completion queue.
    pub(super) fn completion_queue(&mut self) -> (usize, CompletionQueue) {
        let (nic, program) = RingBuffer::new(COMPLETIONS);
        self.completions.push(nic);
        (self.completions.len() - 1, CompletionQueue(program))
    }

    /// The send queue of queue pair `qpn`, whose requests are number `connection` of the program with that completion
    /// queue.
    pub(super) fn send_queue(
        &mut self,
        qpn: Qpn,
        lkey: Rkey,
        remote: Remote,
        queue: usize,
        connection: usize,
    ) -> SendQueue {
        let (program, nic) = RingBuffer::new(SEND_DEPTH);
        self.send.push(Served { qpn, requests: nic, held: None });
        SendQueue { requests: program, lkey, remote, tag: (queue as u64) << QUEUE_SHIFT | connection as u64 }
    }

    /// Whether the NIC had no room for something that was posted.
    pub(super) fn is_held_up(&self) -> bool {
        self.send.iter().any(|served| served.held.is_some())
    }

    /// Hands what programs have posted to the NIC. Gives the number of requests.
    pub(super) fn carry_out(&mut self, nic: &mut Nic) -> usize {
        let mut posted = 0;
        for served in &mut self.send {
            while let Some(work) = served.held.take().or_else(|| served.requests.pop().ok()) {
                match nic.post_send(served.qpn, work) {
                    Ok(()) => posted += 1,
                    Err(PostError::QueueFull { .. }) => {
                        served.held = Some(work);
                        break;
                    }
                    Err(e) => panic!("{e}"),
                }
            }
        }
        posted
    }

    /// Tells programs what has completed.
    pub(super) fn complete(&mut self, nic: &mut Nic) {
        while let Some(completion) = nic.poll_completion() {
            assert_eq!(completion.status, Status::Success, "{completion:?}");
            if completion.wr_id & SILENT == 0 {
                let queue = (completion.wr_id >> QUEUE_SHIFT) as usize;
                let connection = (completion.wr_id & CONNECTION) as usize;
                let read = completion.kind == zsr_soft_nic::CompletionKind::Send(Operation::Read);
                self.completions[queue].push(Done { connection, read }).expect("programs poll");
            }
        }
    }
}

/// Connects two queue pairs, each a host and its number; the first one sends.
pub(super) fn connect(hosts: &mut Hosts, from: (usize, Qpn), to: (usize, Qpn)) {
    for ((host, qpn), (peer, peer_qpn)) in [(from, to), (to, from)] {
        let peer = &hosts.topology.hosts[peer];
        let mtu = Mtu::from_bytes(peer.mtu).expect("a path MTU");
        let rtr =
            RtrAttr { dest_mac: Some(Mac(peer.mac.0)), ..RtrAttr::new(peer_qpn, peer.ip, Psn::ZERO, mtu) };
        let rts = RtsAttr { timeout_ns: TIMEOUT_NS, ..RtsAttr::new(Psn::ZERO) };
        let nic: &mut Nic = &mut hosts.hands.nics[host];
        for step in [Modify::Init { access: Access::ALL }, Modify::Rtr(rtr), Modify::Rts(rts)] {
            nic.modify_qp(qpn, step).expect("a queue pair that is new");
        }
    }
}
