//! The responder side of a queue pair: requests in, memory accesses and responses out (IBTA vol. 1, 9.7.4 and 9.7.5).

use std::collections::VecDeque;

use zsr_wire::aeth::{NakCode, Syndrome};
use zsr_wire::roce::Packet;
use zsr_wire::{Opcode, Psn, Qpn, Rkey, atomic, reth};

use crate::access::Change;
use crate::ahead::Ahead;
use crate::config::{Access, Mtu};
use crate::mr::MrTable;
use crate::stats::{DropReason, Stats};
use crate::template::Template;
use crate::work::{CompletionQueue, Receive, Status};

/// Acknowledgements and NAKs that may wait in a response queue. More than one waits only behind READs.
const MAX_ACKS: usize = 16;

/// The parts of the NIC that the state machines of a queue pair may use.
pub(crate) struct Env<'a> {
    pub(crate) mrs: &'a MrTable,
    pub(crate) stats: &'a mut Stats,
    pub(crate) completions: &'a mut CompletionQueue,
    /// Ways to other hosts, for datagrams.
    pub(crate) addresses: &'a [Template],
    /// [`crate::NicConfig::reorder_window`].
    pub(crate) window: u32,
    pub(crate) now: u64,
}

/// An acknowledgement to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ack {
    pub(crate) psn: Psn,
    pub(crate) syndrome: Syndrome,
    pub(crate) msn: u32,
}

/// A READ being answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadJob {
    pub(crate) rkey: Rkey,
    pub(crate) address: u64,
    pub(crate) len: u32,
    pub(crate) first: Psn,
    pub(crate) packets: u32,
    /// Packets made so far.
    pub(crate) next: u32,
    pub(crate) msn: u32,
    /// Carried out before; does not count against what the peer may have outstanding.
    pub(crate) again: bool,
    /// Whether the memory may have to be waited for.
    pub(crate) waits: bool,
}

/// The word that an atomic operation found, to be sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtomicAnswer {
    pub(crate) psn: Psn,
    pub(crate) original: u64,
    pub(crate) msn: u32,
    /// Carried out before, as with READs.
    again: bool,
}

/// One entry of the response queue.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Response {
    Ack(Ack),
    Read(ReadJob),
    Atomic(AtomicAnswer),
}

/// A WRITE of several packets that is under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteCursor {
    rkey: Rkey,
    address: u64,
    remaining: u32,
    total: u32,
}

/// A message of several packets that is under way.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Under {
    Write(WriteCursor),
    /// A SEND, of which so many bytes have come.
    Send {
        at: u32,
    },
}

/// Where a request lies in the order of its queue pair.
#[must_use]
pub(crate) enum Place {
    /// Next, or carried out before.
    Taken,
    /// So many packets behind one that is missing.
    Behind { distance: u32 },
}

/// A request that must be answered with a NAK which breaks the queue pair.
pub(crate) struct Fatal;

pub(crate) struct Responder {
    pub(crate) expected: Psn,
    pub(crate) msn: u32,
    /// The gap (or the missing receive) has been reported; silence until the expected packet comes.
    reported: bool,
    pub(crate) under: Option<Under>,
    queue: VecDeque<Response>,
    /// The words that the last atomic operations found, as many as the peer may have outstanding (responder resources).
    answers: VecDeque<AtomicAnswer>,
    /// READs and answers to atomic operations in the queue, and duplicates among them.
    reads: usize,
    again: usize,
    max_reads: usize,
    rnr_timer: u8,
    recvs: VecDeque<Receive>,
    pub(crate) ahead: Ahead,
}

impl Responder {
    pub(crate) fn new(recv_depth: usize) -> Responder {
        Responder {
            expected: Psn::ZERO,
            msn: 0,
            reported: false,
            under: None,
            queue: VecDeque::new(),
            answers: VecDeque::new(),
            reads: 0,
            again: 0,
            max_reads: 0,
            rnr_timer: 0,
            recvs: VecDeque::with_capacity(recv_depth),
            ahead: Ahead::default(),
        }
    }

    /// Forgets everything but posted receives.
    pub(crate) fn connect(&mut self, expected: Psn, max_reads: u8, rnr_timer: u8, window: u16) {
        self.disconnect();
        self.expected = expected;
        self.max_reads = usize::from(max_reads);
        self.rnr_timer = rnr_timer;
        // Two places per READ: duplicates of all of them may wait too. One more place is for a last NAK.
        self.queue.reserve(2 * self.max_reads + MAX_ACKS + 1);
        self.answers.reserve(self.max_reads);
        self.ahead.reserve(window);
    }

    pub(crate) fn disconnect(&mut self) {
        self.queue.clear();
        self.ahead = Ahead::default();
        self.answers.clear();
        (self.reads, self.again) = (0, 0);
        self.msn = 0;
        self.under = None;
        self.reported = false;
    }

    pub(crate) fn recvs(&mut self) -> &mut VecDeque<Receive> {
        &mut self.recvs
    }

    /// The response to be sent next.
    #[inline]
    pub(crate) fn front(&self) -> Option<&Response> {
        self.queue.front()
    }

    #[inline]
    pub(crate) fn front_mut(&mut self) -> Option<&mut Response> {
        self.queue.front_mut()
    }

    /// The front entry has been sent.
    #[inline]
    pub(crate) fn pop(&mut self) {
        let again = match self.queue.pop_front() {
            Some(Response::Read(job)) => job.again,
            Some(Response::Atomic(answer)) => answer.again,
            Some(Response::Ack(_)) | None => return,
        };
        self.reads -= 1;
        self.again -= usize::from(again);
    }

    /// The READ at the front can't be carried on, since its memory is gone: everything behind it is dropped, and a
    /// NAK takes its place.
    pub(crate) fn fail_front_read(&mut self, env: &mut Env<'_>, psn: Psn) {
        self.queue.clear();
        (self.reads, self.again) = (0, 0);
        self.push_nak(env, psn, NakCode::RemoteOperational);
    }

    pub(crate) fn push_ack(&mut self, env: &mut Env<'_>) {
        let psn = self.expected.minus(1);
        let ack = Ack { psn, syndrome: Syndrome::ACK, msn: self.msn };
        let acks = self.queue.len() - self.reads;
        match self.queue.back_mut() {
            Some(Response::Ack(last)) if matches!(last.syndrome, Syndrome::Ack { .. }) => {
                *last = ack;
                env.stats.acks_coalesced += 1;
            }
            _ if acks < MAX_ACKS => self.queue.push_back(Response::Ack(ack)),
            _ => env.stats.drop(DropReason::ResponseQueueFull),
        }
    }

    fn push_nak(&mut self, env: &mut Env<'_>, psn: Psn, code: NakCode) {
        env.stats.naks[(code as usize).min(3)] += 1;
        self.queue.push_back(Response::Ack(Ack { psn, syndrome: Syndrome::Nak(code), msn: self.msn }));
    }

    pub(crate) fn fatal(&mut self, env: &mut Env<'_>, psn: Psn, code: NakCode) -> Result<(), Fatal> {
        self.under = None;
        self.push_nak(env, psn, code);
        Err(Fatal)
    }

    /// Takes one request packet whose ICRC and addresses have been checked. One that is behind a missing packet is not carried out: it is to be
    /// kept ([`Ahead::keep`]) or dropped.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        env: &mut Env<'_>,
        qpn: Qpn,
        mtu: Mtu,
        rights: Access,
        packet: &Packet<&[u8]>,
    ) -> Result<Place, Fatal> {
        let distance = packet.psn().since(self.expected);
        if distance > 0 {
            self.ahead.went_on(env.window);
            if self.ahead.noticed(env.now, distance as u32, env.window) {
                self.report(env);
            }
            return Ok(Place::Behind { distance: distance as u32 });
        }
        if distance < 0 {
            self.ahead.came_again(packet.psn(), env.window);
            self.duplicate(env, mtu, rights, packet);
            return Ok(Place::Taken);
        }
        if self.ahead.is_open() {
            self.ahead.went_on(env.window);
            self.ahead.came(env.now, packet.psn());
        }
        match packet.opcode() {
            Opcode::ReadRequest => self.read(env, mtu, rights, packet),
            Opcode::FetchAdd | Opcode::CompareSwap => self.atomic(env, rights, packet),
            op if op.is_write() => self.write(env, qpn, mtu, rights, packet),
            op if op.is_send() => self.send(env, qpn, mtu, packet),
            _ => self.fatal(env, packet.psn(), NakCode::InvalidRequest),
        }?;
        Ok(Place::Taken)
    }

    /// A packet is missing: one NAK per gap (IBTA vol. 1, 9.7.5).
    #[cold]
    fn report(&mut self, env: &mut Env<'_>) {
        if self.reported || self.queue.len() - self.reads >= MAX_ACKS {
            return;
        }
        self.reported = true;
        self.ahead.reported();
        self.push_nak(env, self.expected, NakCode::PsnSequence);
    }

    /// When [`Responder::on_timeout`] has something to do.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<u64> {
        self.ahead.deadline().filter(|_| !self.reported)
    }

    /// A packet is missing for as long as a late one may take.
    pub(crate) fn on_timeout(&mut self, env: &mut Env<'_>) {
        if self.deadline().is_some_and(|at| at <= env.now) {
            self.report(env);
        }
    }

    /// Repeats a request that has been executed (IBTA vol. 1, 9.7.5). A READ is carried out again, and an atomic
    /// operation gets its answer again. Any other request is only acknowledged again.
    #[cold]
    fn duplicate(&mut self, env: &mut Env<'_>, mtu: Mtu, rights: Access, packet: &Packet<&[u8]>) {
        env.stats.duplicates += 1;
        if packet.atomic().is_some() {
            return self.answer_again(env, packet.psn());
        }
        let Some(reth) = packet.reth().filter(|_| packet.opcode() == Opcode::ReadRequest) else {
            self.push_ack(env);
            return;
        };
        let mut job = self.job(&reth, mtu, packet.psn(), true);
        let whole = job.first.plus(job.packets).since(self.expected) <= 0;
        let allowed = rights.allows(Access::REMOTE_READ)
            && reth.length <= reth::MAX_MESSAGE
            && env.mrs.allows(reth.rkey, reth.address, reth.length, Access::REMOTE_READ);
        if !whole || !allowed {
            env.stats.drop(DropReason::DuplicateRead);
            return;
        }
        job.waits = env.mrs.expect(reth.rkey, reth.address, reth.length);
        // The rest of a READ that still waits or is under way: start there again, or let it come.
        for entry in &mut self.queue {
            let Response::Read(queued) = entry else { continue };
            let offset = job.first.distance(queued.first);
            let skipped = u64::from(offset) << mtu.shift();
            let same_rest = offset < queued.packets
                && queued.rkey == job.rkey
                && queued.address.wrapping_add(skipped) == job.address
                && u64::from(queued.len) == u64::from(job.len) + skipped;
            if same_rest {
                if queued.next > offset {
                    *queued = ReadJob { again: queued.again, ..job };
                }
                return;
            }
        }
        if self.again < self.max_reads {
            self.reads += 1;
            self.again += 1;
            self.queue.push_back(Response::Read(job));
        } else {
            env.stats.drop(DropReason::DuplicateRead);
        }
    }

    /// An atomic operation that has been carried out.
    fn answer_again(&mut self, env: &mut Env<'_>, psn: Psn) {
        let waits = |entry: &Response| matches!(entry, Response::Atomic(answer) if answer.psn == psn);
        let known = self.answers.iter().find(|answer| answer.psn == psn);
        match known.copied() {
            Some(_) if self.queue.iter().any(waits) => {}
            Some(answer) if self.again < self.max_reads => {
                self.reads += 1;
                self.again += 1;
                self.queue.push_back(Response::Atomic(AtomicAnswer { again: true, msn: self.msn, ..answer }));
            }
            _ => env.stats.drop(DropReason::DuplicateAtomic),
        }
    }

    fn job(&self, reth: &reth::Repr, mtu: Mtu, first: Psn, again: bool) -> ReadJob {
        ReadJob {
            rkey: reth.rkey,
            address: reth.address,
            len: reth.length,
            first,
            packets: mtu.packets(reth.length),
            next: 0,
            msn: self.msn,
            again,
            waits: false,
        }
    }

    fn read(
        &mut self,
        env: &mut Env<'_>,
        mtu: Mtu,
        rights: Access,
        packet: &Packet<&[u8]>,
    ) -> Result<(), Fatal> {
        let psn = packet.psn();
        let Some(reth) = packet.reth() else {
            return self.fatal(env, psn, NakCode::InvalidRequest);
        };
        let invalid = self.under.is_some()
            || !rights.allows(Access::REMOTE_READ)
            || reth.length > reth::MAX_MESSAGE
            || !packet.payload().is_empty()
            || self.reads - self.again >= self.max_reads;
        if invalid {
            return self.fatal(env, psn, NakCode::InvalidRequest);
        }
        if !env.mrs.allows(reth.rkey, reth.address, reth.length, Access::REMOTE_READ) {
            return self.fatal(env, psn, NakCode::RemoteAccess);
        }
        self.reported = false;
        self.advance_msn();
        let mut job = self.job(&reth, mtu, psn, false);
        job.waits = env.mrs.expect(reth.rkey, reth.address, reth.length);
        self.expected = psn.plus(job.packets);
        self.reads += 1;
        self.queue.push_back(Response::Read(job));
        env.stats.read_requests += 1;
        Ok(())
    }

    fn atomic(&mut self, env: &mut Env<'_>, rights: Access, packet: &Packet<&[u8]>) -> Result<(), Fatal> {
        let psn = packet.psn();
        let Some(request) = packet.atomic() else {
            return self.fatal(env, psn, NakCode::InvalidRequest);
        };
        let invalid = self.under.is_some()
            || !rights.allows(Access::REMOTE_ATOMIC)
            || !request.address.is_multiple_of(atomic::WORD as u64)
            || !packet.payload().is_empty()
            || self.reads - self.again >= self.max_reads;
        if invalid {
            return self.fatal(env, psn, NakCode::InvalidRequest);
        }
        let change = match packet.opcode() {
            Opcode::FetchAdd => Change::Add(request.swap_or_add),
            _ => Change::Swap { compare: request.compare, swap: request.swap_or_add },
        };
        let original = match env.mrs.atomic(request.rkey, request.address, change) {
            Ok(original) => original,
            Err(code) => return self.fatal(env, psn, code),
        };
        self.reported = false;
        self.advance_msn();
        self.expected = psn.next();
        let answer = AtomicAnswer { psn, original, msn: self.msn, again: false };
        if self.answers.len() == self.max_reads {
            self.answers.pop_front();
        }
        self.answers.push_back(answer);
        self.reads += 1;
        self.queue.push_back(Response::Atomic(answer));
        env.stats.atomics += 1;
        Ok(())
    }

    #[inline]
    fn write(
        &mut self,
        env: &mut Env<'_>,
        qpn: Qpn,
        mtu: Mtu,
        rights: Access,
        packet: &Packet<&[u8]>,
    ) -> Result<(), Fatal> {
        let (psn, payload) = (packet.psn(), packet.payload());
        let cursor = match (packet.reth(), self.under) {
            (Some(reth), None) => {
                if !rights.allows(Access::REMOTE_WRITE) || reth.length > reth::MAX_MESSAGE {
                    return self.fatal(env, psn, NakCode::InvalidRequest);
                }
                if !env.mrs.allows(reth.rkey, reth.address, reth.length, Access::REMOTE_WRITE) {
                    return self.fatal(env, psn, NakCode::RemoteAccess);
                }
                WriteCursor {
                    rkey: reth.rkey,
                    address: reth.address,
                    remaining: reth.length,
                    total: reth.length,
                }
            }
            (None, Some(Under::Write(cursor))) => cursor,
            // A first packet within a message, or a later one without a first.
            _ => return self.fatal(env, psn, NakCode::InvalidRequest),
        };
        let (len, mtu) = (payload.len() as u32, mtu.bytes());
        let more = packet.opcode().more_follows();
        let length_fits =
            if more { len == mtu && cursor.remaining > mtu } else { len == cursor.remaining && len <= mtu };
        if !length_fits {
            return self.fatal(env, psn, NakCode::InvalidRequest);
        }
        if packet.immediate().is_some() && self.recvs.is_empty() {
            self.not_ready(env, psn);
            return Ok(());
        }
        if let Err(code) = env.mrs.store(cursor.rkey, cursor.address, payload, Access::REMOTE_WRITE) {
            return self.fatal(env, psn, code);
        }
        env.stats.write_packets += 1;
        env.stats.write_bytes += u64::from(len);
        self.went_on(psn.next());
        if more {
            self.under = Some(Under::Write(WriteCursor {
                address: cursor.address.wrapping_add(len.into()),
                remaining: cursor.remaining - len,
                ..cursor
            }));
        } else {
            self.under = None;
            self.advance_msn();
            if let Some(immediate) = packet.immediate() {
                self.received(env, qpn, Some(immediate), cursor.total, Status::Success);
            }
        }
        if packet.ack_req() {
            self.push_ack(env);
        }
        Ok(())
    }

    /// No receive is posted (IBTA vol. 1, 9.7.5): ask to come back later, and be silent until it does.
    #[cold]
    pub(crate) fn not_ready(&mut self, env: &mut Env<'_>, psn: Psn) {
        if self.queue.len() - self.reads >= MAX_ACKS {
            env.stats.drop(DropReason::ResponseQueueFull);
            return;
        }
        self.reported = true;
        env.stats.rnr_naks += 1;
        let syndrome = Syndrome::RnrNak { timer: self.rnr_timer };
        self.queue.push_back(Response::Ack(Ack { psn, syndrome, msn: self.msn }));
    }

    /// Notes that the expected packet has come, and which one is expected now.
    #[inline]
    pub(crate) fn went_on(&mut self, expected: Psn) {
        self.reported = false;
        self.expected = expected;
    }

    pub(crate) fn advance_msn(&mut self) {
        self.msn = (self.msn + 1) & 0xff_ffff;
    }
}
