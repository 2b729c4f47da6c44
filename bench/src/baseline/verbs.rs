//! Verbs for programs: a send queue and a receive queue per queue pair, and a completion queue for each kind per program, in memory that
//! the program and its NIC share. Posting and polling are as with a real NIC: stores and loads, no call into it.

use rtrb::{Consumer, Producer, RingBuffer};
use zsr_soft_nic::{
    Access, CompletionKind, Modify, Mtu, Nic, Operation, PostError, Receive, RtrAttr, RtsAttr, Sge, Status,
    To, WorkRequest,
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
/// Where the program's own number of it begins, and that of the completion queue.
const COOKIE_SHIFT: u32 = 16;
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
        self.post(Operation::Write, from, len, to, signaled.then_some(0));
    }

    /// Posts a READ of `from` into local memory at `to`, which is signaled. There must be room.
    #[inline]
    pub(super) fn read(&mut self, from: usize, len: usize, to: usize) {
        self.read_as(0, from, len, to);
    }

    /// The same, with a number for its completion.
    #[inline]
    pub(super) fn read_as(&mut self, cookie: u16, from: usize, len: usize, to: usize) {
        self.post(Operation::Read, to, len, from, Some(cookie));
    }

    /// Posts a WRITE that is signaled with a number, with immediate data or without.
    pub(super) fn write_as(
        &mut self,
        cookie: u16,
        immediate: Option<u32>,
        from: usize,
        len: usize,
        to: usize,
    ) {
        self.post(immediate.map_or(Operation::Write, Operation::WriteImm), from, len, to, Some(cookie));
    }

    /// Posts a SEND. There must be room.
    pub(super) fn send(&mut self, cookie: Option<u16>, from: usize, len: usize) {
        self.post(Operation::Send, from, len, 0, cookie);
    }

    /// Posts a datagram. There must be room.
    pub(super) fn datagram(&mut self, cookie: Option<u16>, to: To, from: usize, len: usize) {
        self.post(Operation::Datagram(to), from, len, 0, cookie);
    }

    /// A request without a number completes in silence.
    #[inline]
    fn post(&mut self, operation: Operation, local: usize, len: usize, remote: usize, cookie: Option<u16>) {
        let work = WorkRequest {
            wr_id: self.tag | cookie.map_or(SILENT, |cookie| u64::from(cookie) << COOKIE_SHIFT),
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
    /// A READ, or else another request.
    pub(super) read: bool,
    /// The number that the program gave it.
    pub(super) cookie: u16,
}

/// The completion of a receive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    /// The connection's number.
    pub(super) connection: usize,
    /// The number that the program gave the receive.
    pub(super) cookie: u16,
    /// Immediate data.
    pub(super) immediate: Option<u32>,
}

/// A program's completion queue for receives.
pub(super) struct ArrivalQueue(Consumer<Came>);

impl ArrivalQueue {
    /// The oldest completion.
    pub(super) fn poll(&mut self) -> Option<Came> {
        self.0.pop().ok()
    }
}

/// A queue pair's receive queue, at the program.
pub(super) struct ReceiveQueue {
    receives: Producer<Receive>,
    lkey: Rkey,
    tag: u64,
}

impl ReceiveQueue {
    /// Posts a receive with `len` bytes of memory at `at`, or none. There must be room for it.
    pub(super) fn post(&mut self, cookie: u16, at: usize, len: usize) {
        let local = (len > 0).then_some(Sge { lkey: self.lkey, address: at as u64, len: len as u32 });
        let wr_id = self.tag | u64::from(cookie) << COOKIE_SHIFT;
        self.receives.push(Receive { wr_id, local }).expect("no more receives than buffers");
    }
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
    receive: Vec<(Qpn, Consumer<Receive>)>,
    completions: Vec<Producer<Done>>,
    arrivals: Vec<Producer<Came>>,
}

fn tag(queue: usize, connection: usize) -> u64 {
    (queue as u64) << QUEUE_SHIFT | connection as u64
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
        SendQueue { requests: program, lkey, remote, tag: tag(queue, connection) }
    }

    /// A new completion queue for `depth` receives.
    pub(super) fn arrival_queue(&mut self, depth: usize) -> (usize, ArrivalQueue) {
        let (nic, program) = RingBuffer::new(depth);
        self.arrivals.push(nic);
        (self.arrivals.len() - 1, ArrivalQueue(program))
    }

    /// The receive queue of queue pair `qpn` for `depth` receives, with the same numbers as its send queue but that of the completion
    /// queue.
    pub(super) fn receive_queue(
        &mut self,
        qpn: Qpn,
        lkey: Rkey,
        depth: usize,
        queue: usize,
        connection: usize,
    ) -> ReceiveQueue {
        let (program, nic) = RingBuffer::new(depth);
        self.receive.push((qpn, nic));
        ReceiveQueue { receives: program, lkey, tag: tag(queue, connection) }
    }

    /// Whether the NIC had no room for something that was posted.
    pub(super) fn is_held_up(&self) -> bool {
        self.send.iter().any(|served| served.held.is_some())
    }

    /// Hands what programs have posted to the NIC. Gives the number of requests.
    pub(super) fn carry_out(&mut self, nic: &mut Nic) -> usize {
        let mut posted = 0;
        for (qpn, receives) in &mut self.receive {
            while let Ok(receive) = receives.pop() {
                nic.post_recv(*qpn, receive).expect("no more receives than buffers");
            }
        }
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
            if completion.wr_id & SILENT != 0 {
                continue;
            }
            let queue = (completion.wr_id >> QUEUE_SHIFT) as usize;
            let connection = (completion.wr_id & CONNECTION) as usize;
            let cookie = (completion.wr_id >> COOKIE_SHIFT) as u16;
            match completion.kind {
                CompletionKind::Send(operation) => {
                    let done = Done { connection, read: operation == Operation::Read, cookie };
                    self.completions[queue].push(done).expect("programs poll");
                }
                CompletionKind::Receive { immediate } | CompletionKind::Datagram { immediate, .. } => {
                    let came = Came { connection, cookie, immediate };
                    self.arrivals[queue].push(came).expect("no more receives than places");
                }
            }
        }
    }
}

/// Connects two queue pairs, each a host and its number; the first one sends. One may be connected to itself.
pub(super) fn connect(hosts: &mut Hosts, from: (usize, Qpn), to: (usize, Qpn)) {
    let both = [(from, to), (to, from)];
    for ((host, qpn), (peer, peer_qpn)) in both.into_iter().take(if from == to { 1 } else { 2 }) {
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
