//! The requester side of a queue pair: work requests in, requests out, completions back (IBTA vol. 1, 9.7.3 and 9.7.6).
//!
//! Work requests get their PSNs when they are posted. `una` is the oldest PSN without an answer. `cursor` is the next
//! packet to be sent. `high` is the end of what has been sent at least once. Every repair is "go back": the cursor
//! returns to `una`, and for a READ to its first missing response.

use std::collections::VecDeque;

use zsr_wire::aeth::{self, NakCode, Syndrome, rnr_timer_ns};
use zsr_wire::roce::Packet;
use zsr_wire::{Frame, Opcode, Psn, Qpn, atomic, reth};

use crate::config::{Access, Mtu};
use crate::qp::{Conn, RtsAttr};
use crate::responder::Env;
use crate::stats::DropReason;
use crate::template::Head;
use crate::work::{Completion, CompletionKind, Operation, Status, WorkRequest};

/// PSNs that may be outstanding. Far below 2²³, so that old and new are told apart.
const WINDOW: u32 = 1 << 16;
/// WRITE packets that may be outstanding, so that a lost acknowledgement is noticed before long.
const WRITE_WINDOW: u32 = 512;
/// An acknowledgement is asked for at least every so many packets.
const ACK_EVERY: u32 = 64;
/// Largest factor of the retransmission time, as a power of two.
const MAX_BACKOFF: u32 = 6;

struct Wqe {
    work: WorkRequest,
    first: Psn,
    packets: u32,
    /// READ or atomic operation: responses received.
    received: u32,
}

impl Wqe {
    /// A READ or an atomic operation, which is as a READ of one packet to all but the wire.
    fn fetches(&self) -> bool {
        self.work.operation.fetches()
    }

    fn end(&self) -> Psn {
        self.first.plus(self.packets)
    }
}

/// The work request that broke the queue pair has completed with this status.
pub(crate) struct Broken;

pub(crate) struct Requester {
    queue: VecDeque<Wqe>,
    depth: usize,
    next_psn: Psn,
    una: Psn,
    high: Psn,
    /// Entry of `queue` and packet in it that is sent next.
    cursor: (usize, u32),
    reads_out: usize,
    attr: RtsAttr,
    deadline: Option<u64>,
    /// Waiting for a receiver that is not ready, until `deadline`.
    not_ready: bool,
    retries: u8,
    rnr_retries: u8,
    /// A gap has been repaired and nothing new has come since: later packets behind the same gap say nothing new.
    repaired: bool,
}

impl Requester {
    pub(crate) fn new(depth: usize) -> Requester {
        Requester {
            queue: VecDeque::with_capacity(depth),
            depth,
            next_psn: Psn::ZERO,
            una: Psn::ZERO,
            high: Psn::ZERO,
            cursor: (0, 0),
            reads_out: 0,
            attr: RtsAttr::new(Psn::ZERO),
            deadline: None,
            not_ready: false,
            retries: 0,
            rnr_retries: 0,
            repaired: false,
        }
    }

    pub(crate) fn connect(&mut self, attr: RtsAttr) {
        self.disconnect();
        (self.next_psn, self.una, self.high) = (attr.sq_psn, attr.sq_psn, attr.sq_psn);
        self.attr = attr;
    }

    pub(crate) fn disconnect(&mut self) {
        self.queue.clear();
        self.cursor = (0, 0);
        self.reads_out = 0;
        self.deadline = None;
        self.not_ready = false;
        (self.retries, self.rnr_retries, self.repaired) = (0, 0, false);
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    pub(crate) fn send_psn(&self) -> Psn {
        self.next_psn
    }

    #[inline]
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.deadline
    }

    /// Queues a work request that has been checked.
    pub(crate) fn post(&mut self, work: WorkRequest, mtu: Mtu) {
        let packets = mtu.packets(work.local.len);
        self.queue.push_back(Wqe { work, first: self.next_psn, packets, received: 0 });
        self.next_psn = self.next_psn.plus(packets);
    }

    /// Completes everything that is queued as flushed.
    pub(crate) fn flush(&mut self, env: &mut Env<'_>, qpn: Qpn) {
        while let Some(wqe) = self.queue.pop_front() {
            complete(env, qpn, &wqe.work, Status::Flushed);
        }
        self.disconnect();
    }

    /// Whether a packet may be sent now.
    #[inline]
    pub(crate) fn sendable(&self) -> bool {
        let Some(wqe) = self.queue.get(self.cursor.0) else { return false };
        if self.not_ready {
            return false;
        }
        let out = wqe.first.plus(self.cursor.1).distance(self.una);
        if wqe.fetches() {
            // A single READ longer than the window is still sent, alone.
            self.reads_out < usize::from(self.attr.max_rd_atomic)
                && (out + wqe.packets <= WINDOW || self.cursor.0 == 0)
        } else {
            out < WRITE_WINDOW
        }
    }

    /// Makes the next request packet in `frame`. To be called when [`Requester::sendable`].
    pub(crate) fn transmit(
        &mut self,
        env: &mut Env<'_>,
        qpn: Qpn,
        conn: &mut Conn,
        frame: &mut Frame,
    ) -> Result<(), Broken> {
        let (index, k) = self.cursor;
        let Some(wqe) = self.queue.get(index) else { return Ok(()) };
        let mtu = conn.mtu;
        let ident = conn.ident();
        let ok = if wqe.work.operation.is_atomic() {
            emit_atomic(wqe, conn, ident, frame)
        } else if wqe.fetches() {
            emit_read(wqe, mtu, conn, ident, frame)
        } else {
            emit_message(wqe, k, env, conn, ident, frame)
        };
        if !ok {
            return Err(self.break_at(env, qpn, index, Status::LocalProtection));
        }
        let (sent_to, last) =
            if wqe.fetches() { (wqe.end(), true) } else { (wqe.first.plus(k + 1), k + 1 == wqe.packets) };
        if wqe.fetches() {
            self.reads_out += 1;
        }
        self.cursor = if last { (index + 1, 0) } else { (index, k + 1) };
        if sent_to.distance(self.una) > self.high.distance(self.una) {
            self.high = sent_to;
        }
        if self.deadline.is_none() {
            self.arm(env.now);
        }
        Ok(())
    }

    fn arm(&mut self, now: u64) {
        self.deadline = match self.attr.timeout_ns {
            0 => None,
            t => Some(now.saturating_add(t << u32::from(self.retries).min(MAX_BACKOFF))),
        };
    }

    /// Something new was answered: counters of trouble start afresh, and so does the timer.
    fn progress(&mut self, now: u64) {
        (self.retries, self.rnr_retries, self.repaired) = (0, 0, false);
        self.not_ready = false;
        if self.una == self.high {
            self.deadline = None;
        } else {
            self.arm(now);
        }
    }

    /// Everything is sent again from the oldest unanswered packet on.
    fn go_back(&mut self, env: &mut Env<'_>) {
        env.stats.retries += 1;
        self.repaired = true;
        self.reads_out = 0;
        // The front entry is the oldest that is not complete, and `una` lies within it.
        let k = self.queue.front().map_or(0, |w| if w.fetches() { 0 } else { self.una.distance(w.first) });
        self.cursor = (0, k);
    }

    /// Counts a retry because of loss; breaks the queue pair when there were too many.
    fn retry(&mut self, env: &mut Env<'_>, qpn: Qpn) -> Result<(), Broken> {
        if self.retries >= self.attr.retry_count {
            return Err(self.break_at(env, qpn, 0, Status::RetryExceeded));
        }
        self.retries += 1;
        self.go_back(env);
        self.arm(env.now);
        Ok(())
    }

    /// The timer has run out.
    pub(crate) fn on_timeout(&mut self, env: &mut Env<'_>, qpn: Qpn) -> Result<(), Broken> {
        if self.not_ready {
            self.not_ready = false;
            self.deadline = None;
            self.go_back(env);
            return Ok(());
        }
        env.stats.timeouts += 1;
        self.retry(env, qpn)
    }

    /// Completes entry `index` with an error, everything before it as it is, and flushes the rest.
    fn break_at(&mut self, env: &mut Env<'_>, qpn: Qpn, index: usize, status: Status) -> Broken {
        let mut i = 0;
        while let Some(wqe) = self.queue.pop_front() {
            complete(env, qpn, &wqe.work, if i == index { status } else { Status::Flushed });
            i += 1;
        }
        self.disconnect();
        Broken
    }

    /// Everything before `end` is answered, as far as no READ among it still lacks responses. Returns whether it
    /// got all the way.
    fn answered(&mut self, env: &mut Env<'_>, qpn: Qpn, end: Psn) -> bool {
        let before = self.una;
        let mut whole = true;
        while let Some(wqe) = self.queue.front() {
            let done = end.since(wqe.end()) >= 0;
            if wqe.fetches() {
                let have = wqe.first.plus(wqe.received);
                if wqe.received < wqe.packets {
                    self.una = have;
                    whole = end.since(have) <= 0;
                    break;
                }
            } else if !done {
                if end.since(self.una) > 0 {
                    self.una = end;
                }
                break;
            }
            self.una = wqe.end();
            self.retire(env, qpn);
        }
        // After going back, the cursor may lie before what is answered by now.
        if let (0, Some(wqe)) = (self.cursor.0, self.queue.front())
            && !wqe.fetches()
        {
            self.cursor.1 = self.cursor.1.max(self.una.distance(wqe.first));
        }
        if self.una != before {
            self.progress(env.now);
        }
        whole
    }

    fn retire(&mut self, env: &mut Env<'_>, qpn: Qpn) {
        let Some(wqe) = self.queue.pop_front() else { return };
        if self.cursor.0 == 0 {
            self.cursor = (0, 0);
        } else {
            self.cursor.0 -= 1;
            if wqe.fetches() {
                self.reads_out = self.reads_out.saturating_sub(1);
            }
        }
        complete(env, qpn, &wqe.work, Status::Success);
    }

    /// Whether `psn` belongs to something that has been sent and not answered.
    fn outstanding(&self, psn: Psn) -> bool {
        psn.within(self.una, self.high.distance(self.una))
    }

    /// Takes one response packet whose ICRC and addresses have been checked.
    pub(crate) fn receive(
        &mut self,
        env: &mut Env<'_>,
        qpn: Qpn,
        mtu: Mtu,
        packet: &Packet<&[u8]>,
    ) -> Result<(), Broken> {
        if !self.outstanding(packet.psn()) {
            env.stats.drop(DropReason::StaleResponse);
            return Ok(());
        }
        match (packet.opcode(), packet.aeth()) {
            (op, _) if op.is_read_response() || op == Opcode::AtomicAcknowledge => {
                self.read_response(env, qpn, mtu, packet)
            }
            (Opcode::Acknowledge, Some(Ok(aeth))) => self.acknowledge(env, qpn, packet.psn(), &aeth),
            _ => {
                env.stats.drop(DropReason::StaleResponse);
                Ok(())
            }
        }
    }

    fn acknowledge(
        &mut self,
        env: &mut Env<'_>,
        qpn: Qpn,
        psn: Psn,
        aeth: &aeth::Repr,
    ) -> Result<(), Broken> {
        let positive = matches!(aeth.syndrome, Syndrome::Ack { .. });
        let whole = self.answered(env, qpn, if positive { psn.next() } else { psn });
        if !whole {
            // A READ before it still lacks responses, which can't come any more.
            return if self.repaired { Ok(()) } else { self.retry(env, qpn) };
        }
        match aeth.syndrome {
            Syndrome::Ack { .. } => Ok(()),
            Syndrome::RnrNak { timer } => {
                if self.attr.rnr_retry != 7 {
                    if self.rnr_retries >= self.attr.rnr_retry {
                        return Err(self.break_at(env, qpn, 0, Status::RnrRetryExceeded));
                    }
                    self.rnr_retries += 1;
                }
                self.not_ready = true;
                self.deadline = Some(env.now.saturating_add(rnr_timer_ns(timer)));
                Ok(())
            }
            Syndrome::Nak(NakCode::PsnSequence) => {
                if self.repaired {
                    return Ok(());
                }
                self.retry(env, qpn)
            }
            Syndrome::Nak(code) => {
                let status = match code {
                    NakCode::RemoteAccess => Status::RemoteAccess,
                    NakCode::RemoteOperational => Status::RemoteOperational,
                    _ => Status::RemoteInvalidRequest,
                };
                Err(self.break_at(env, qpn, 0, status))
            }
        }
    }

    fn read_response(
        &mut self,
        env: &mut Env<'_>,
        qpn: Qpn,
        mtu: Mtu,
        packet: &Packet<&[u8]>,
    ) -> Result<(), Broken> {
        let psn = packet.psn();
        // A response answers everything before it, too.
        if !self.answered(env, qpn, psn) {
            if self.repaired {
                env.stats.drop(DropReason::OutOfSequence);
                return Ok(());
            }
            return self.retry(env, qpn);
        }
        let Some(wqe) = self.queue.front_mut() else { return Ok(()) };
        let fits = wqe.fetches() && wqe.work.operation.is_atomic() == packet.original().is_some();
        if !fits || psn != wqe.first.plus(wqe.received) {
            env.stats.drop(DropReason::StaleResponse);
            return Ok(());
        }
        let offset = u64::from(wqe.received) << mtu.shift();
        let left = u64::from(wqe.work.local.len) - offset;
        // An atomic operation's word is in the host's byte order, as it was in the peer's.
        let word = packet.original().map(u64::to_ne_bytes);
        let payload = word.as_ref().map_or(packet.payload(), |word| word);
        if payload.len() as u64 != left.min(mtu.bytes().into()) {
            return Err(self.break_at(env, qpn, 0, Status::BadResponse));
        }
        let local = wqe.work.local;
        let at = local.address.wrapping_add(offset);
        if env.mrs.store(local.lkey, at, payload, Access::LOCAL_WRITE).is_err() {
            return Err(self.break_at(env, qpn, 0, Status::LocalProtection));
        }
        wqe.received += 1;
        self.answered(env, qpn, psn.next());
        Ok(())
    }
}

/// Tells of the end of a work request.
pub(crate) fn complete(env: &mut Env<'_>, qpn: Qpn, work: &WorkRequest, status: Status) {
    let kind = CompletionKind::Send(work.operation);
    env.completions.push(Completion { qpn, wr_id: work.wr_id, kind, status, len: work.local.len });
}

fn emit_atomic(wqe: &Wqe, conn: &Conn, ident: u16, frame: &mut Frame) -> bool {
    let (opcode, swap_or_add, compare) = match wqe.work.operation {
        Operation::CompareSwap { compare, swap } => (Opcode::CompareSwap, swap, compare),
        Operation::FetchAdd(add) => (Opcode::FetchAdd, add, 0),
        _ => return false,
    };
    let head = Head { opcode, psn: wqe.first, ack_req: false, payload_len: 0, ident };
    let Some(mut open) = conn.template.start(frame, &head) else { return false };
    let (address, rkey) = (wqe.work.remote_address, wqe.work.rkey);
    let ok = atomic::Repr { address, rkey, swap_or_add, compare }.emit(open.rest()).is_ok();
    open.seal();
    ok
}

/// A READ request for everything that has not come yet.
fn emit_read(wqe: &Wqe, mtu: Mtu, conn: &Conn, ident: u16, frame: &mut Frame) -> bool {
    let skip = u64::from(wqe.received) << mtu.shift();
    let head = Head {
        opcode: Opcode::ReadRequest,
        psn: wqe.first.plus(wqe.received),
        ack_req: false,
        payload_len: 0,
        ident,
    };
    let Some(mut open) = conn.template.start(frame, &head) else { return false };
    let reth = reth::Repr {
        address: wqe.work.remote_address.wrapping_add(skip),
        rkey: wqe.work.rkey,
        length: wqe.work.local.len - skip as u32,
    };
    let ok = reth.emit(open.rest()).is_ok();
    open.seal();
    ok
}

/// Packet `k` of a WRITE or a SEND.
fn emit_message(wqe: &Wqe, k: u32, env: &Env<'_>, conn: &Conn, ident: u16, frame: &mut Frame) -> bool {
    let work = &wqe.work;
    let mtu = conn.mtu;
    let skip = u64::from(k) << mtu.shift();
    let len = (u64::from(work.local.len) - skip).min(mtu.bytes().into()) as usize;
    let last = k + 1 == wqe.packets;
    let imm = match work.operation {
        Operation::WriteImm(imm) | Operation::SendImm(imm) if last => Some(imm),
        _ => None,
    };
    let sends = work.operation.is_send();
    let opcode = match (k == 0, last, imm.is_some()) {
        (true, true, false) if sends => Opcode::SendOnly,
        (true, true, true) if sends => Opcode::SendOnlyImm,
        (true, false, _) if sends => Opcode::SendFirst,
        (false, false, _) if sends => Opcode::SendMiddle,
        (false, true, false) if sends => Opcode::SendLast,
        (false, true, true) if sends => Opcode::SendLastImm,
        (true, true, false) => Opcode::WriteOnly,
        (true, true, true) => Opcode::WriteOnlyImm,
        (true, false, _) => Opcode::WriteFirst,
        (false, false, _) => Opcode::WriteMiddle,
        (false, true, false) => Opcode::WriteLast,
        (false, true, true) => Opcode::WriteLastImm,
    };
    let psn = wqe.first.plus(k);
    let ack_req = last || psn.get() % ACK_EVERY == ACK_EVERY - 1;
    let Some(mut open) = conn.template.start(frame, &Head { opcode, psn, ack_req, payload_len: len, ident })
    else {
        return false;
    };
    let out = open.rest();
    let mut at = 0;
    if k == 0 && !sends {
        let reth = reth::Repr { address: work.remote_address, rkey: work.rkey, length: work.local.len };
        if reth.emit(&mut out[at..]).is_err() {
            return false;
        }
        at += reth::LEN;
    }
    if let Some(imm) = imm {
        out[at..at + 4].copy_from_slice(&imm.to_be_bytes());
        at += 4;
    }
    let address = work.local.address.wrapping_add(skip);
    let ok = env.mrs.load(work.local.lkey, address, &mut out[at..at + len], Access::NONE);
    open.seal();
    ok
}
