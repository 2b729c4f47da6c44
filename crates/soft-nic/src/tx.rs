//! Frames out: acknowledgements first, then one data packet per queue pair in turn.

use zsr_wire::aeth::{self, Syndrome};
use zsr_wire::message::Message;
use zsr_wire::roce::BTH_AT;
use zsr_wire::{Frame, FramePool, Opcode, Psn, arp, ethernet, vlan};

use crate::config::Access;
use crate::nic::{Nic, env};
use crate::qp::{Conn, Qp, QpState};
use crate::responder::{Ack, AtomicAnswer, Env, ReadJob, Response};
use crate::template::Head;
use crate::ud;

impl Nic {
    /// The next frame to be sent at time `now_ns`, if there is one; its buffer comes from `pool`. READ responses are
    /// made here, one packet per call, from what memory holds at that moment.
    #[inline]
    pub fn poll_transmit(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<Frame> {
        let mut frame = self.untagged(now_ns, pool)?;
        if self.config.tci != 0 && vlan::put(&mut frame, self.config.tci) {
            self.stats.tx_bytes += vlan::LEN as u64;
        }
        Some(frame)
    }

    #[inline]
    fn untagged(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<Frame> {
        if !self.arp_replies.is_empty() {
            return self.arp_reply(pool);
        }
        if !self.datagrams.is_empty() {
            return self.datagram(pool);
        }
        if self.sched.control.is_empty() && self.sched.data.is_empty() {
            return None;
        }
        let mut frame = pool.take();
        loop {
            let (slot, control) = match self.sched.control.pop_front() {
                Some(slot) => (slot, true),
                None => match self.sched.data.pop_front() {
                    Some(slot) => (slot, false),
                    None => {
                        pool.put(frame);
                        return None;
                    }
                },
            };
            let Some(qp) = self.qps.at_mut(slot) else { continue };
            let env = env!(self, now_ns);
            let made = if control {
                qp.in_control = false;
                send_control(env, qp, &mut frame)
            } else if qp.free_at() > now_ns {
                self.sched.paced.push(slot);
                continue;
            } else {
                qp.in_data = false;
                send_data(env, qp, &mut frame)
            };
            if !control
                && made
                && let Some(rate) = &mut qp.rate
            {
                rate.sent(now_ns, frame.len());
                if rate.is_over() {
                    qp.rate = None;
                }
            }
            self.sched.update(slot, qp);
            if made {
                self.stats.tx_frames += 1;
                self.stats.tx_bytes += frame.len() as u64;
                return Some(frame);
            }
            frame.reset();
        }
    }

    fn arp_reply(&mut self, pool: &mut FramePool) -> Option<Frame> {
        let to = self.arp_replies.pop_front()?;
        let mut frame = pool.take();
        // Padded to the shortest legal frame, as hardware would.
        let out = frame.grow_back(ethernet::MIN_FRAME)?;
        out.fill(0);
        let reply = arp::Repr {
            operation: arp::Operation::Reply,
            sender_mac: self.config.mac,
            sender_ip: self.config.ip,
            target_mac: to.mac,
            target_ip: to.ip,
        };
        ethernet::Repr { dst: to.mac, src: self.config.mac, ethertype: ethernet::ARP }.emit(out).ok()?;
        reply.emit(&mut out[ethernet::LEN..]).ok()?;
        self.stats.arp_replies += 1;
        self.stats.tx_frames += 1;
        self.stats.tx_bytes += frame.len() as u64;
        Some(frame)
    }
}

/// After so long it is looked again whether memory behind a bus has answered: a few times per copy of a GPU.
const LOOK_AGAIN_NS: u64 = 3_000;
/// Reserved bytes behind the BTH of a congestion notification.
const CNP_RESERVED: usize = 16;
/// Backward congestion bit in the BTH's reserved byte.
const BECN: u8 = 0x40;

fn send_control(env: &mut Env<'_>, qp: &mut Qp, frame: &mut Frame) -> bool {
    let Some(conn) = &mut qp.conn else { return false };
    if qp.cnp_due {
        qp.cnp_due = false;
        return emit_cnp(env, conn, frame);
    }
    match qp.resp.front() {
        Some(&Response::Ack(ack)) => {
            qp.resp.pop();
            match ack.syndrome {
                Syndrome::Ack { .. } => env.stats.acks += 1,
                Syndrome::RnrNak { .. } | Syndrome::Nak(_) => {}
            }
            emit_ack(conn, &ack, frame)
        }
        Some(&Response::Atomic(answer)) => {
            qp.resp.pop();
            emit_atomic_ack(conn, &answer, frame)
        }
        _ => false,
    }
}

fn send_data(env: &mut Env<'_>, qp: &mut Qp, frame: &mut Frame) -> bool {
    let Some(conn) = &mut qp.conn else { return ud::transmit(env, qp, frame) };
    let sends = qp.state == QpState::ReadyToSend && qp.req.sendable();
    let mut gone = None;
    match qp.resp.front_mut() {
        Some(Response::Read(job)) if !(sends && qp.requester_turn) => {
            qp.requester_turn = true;
            if job.waits && !is_here(env, conn, job) {
                qp.held_until = env.now + LOOK_AGAIN_NS;
                return false;
            }
            if emit_read_response(env, conn, job, frame) {
                job.next += 1;
                if job.next == job.packets {
                    qp.resp.pop();
                }
                return true;
            }
            gone = Some(job.first.plus(job.next));
        }
        _ => qp.requester_turn = false,
    }
    if let Some(psn) = gone {
        fail(env, qp, psn);
        return false;
    }
    if !sends {
        return false;
    }
    if qp.req.transmit(env, qp.qpn, conn, frame).is_err() {
        qp.broke(env);
        return false;
    }
    !frame.is_empty()
}

/// The memory of a READ that had been accepted is no longer registered.
#[cold]
fn fail(env: &mut Env<'_>, qp: &mut Qp, psn: Psn) {
    qp.resp.fail_front_read(env, psn);
    qp.broke(env);
}

fn emit_ack(conn: &mut Conn, ack: &Ack, frame: &mut Frame) -> bool {
    let head = Head {
        opcode: Opcode::Acknowledge,
        psn: ack.psn,
        ack_req: false,
        payload_len: 0,
        ident: conn.ident(),
    };
    let Some(mut open) = conn.template.start(frame, &head) else { return false };
    let ok = aeth::Repr { syndrome: ack.syndrome, msn: ack.msn }.emit(open.rest()).is_ok();
    open.seal();
    ok
}

fn emit_atomic_ack(conn: &mut Conn, answer: &AtomicAnswer, frame: &mut Frame) -> bool {
    let opcode = Opcode::AtomicAcknowledge;
    let head = Head { opcode, psn: answer.psn, ack_req: false, payload_len: 0, ident: conn.ident() };
    let Some(mut open) = conn.template.start(frame, &head) else { return false };
    let message =
        Message::AtomicAcknowledge(aeth::Repr { syndrome: Syndrome::ACK, msn: answer.msn }, answer.original);
    let ok = message.emit_extension(open.rest()).is_ok();
    open.seal();
    ok
}

#[cold]
fn emit_cnp(env: &mut Env<'_>, conn: &mut Conn, frame: &mut Frame) -> bool {
    let head =
        Head { opcode: Opcode::Cnp, psn: Psn::ZERO, ack_req: false, payload_len: 0, ident: conn.ident() };
    let Some(mut open) = conn.template.start(frame, &head) else { return false };
    open.rest()[..CNP_RESERVED].fill(0);
    open.seal();
    // The ICRC does not cover it.
    if let Some(byte) = frame.bytes_mut().get_mut(BTH_AT + 4) {
        *byte = BECN;
    }
    env.stats.cnps_sent += 1;
    true
}

/// Whether the next packet of a READ response can be made without waiting for its memory.
#[cold]
fn is_here(env: &Env<'_>, conn: &Conn, job: &ReadJob) -> bool {
    let (address, len) = next_piece(conn, job);
    env.mrs.is_here(job.rkey, address, len)
}

/// Where the next packet's bytes of a READ response are.
#[inline]
fn next_piece(conn: &Conn, job: &ReadJob) -> (u64, usize) {
    let skip = u64::from(job.next) << conn.mtu.shift();
    let len = (u64::from(job.len) - skip).min(conn.mtu.bytes().into()) as usize;
    (job.address.wrapping_add(skip), len)
}

/// One packet of a READ response; `false` if its memory is gone.
#[inline]
fn emit_read_response(env: &mut Env<'_>, conn: &mut Conn, job: &ReadJob, frame: &mut Frame) -> bool {
    let (address, len) = next_piece(conn, job);
    let opcode = match (job.next == 0, job.next + 1 == job.packets) {
        (true, true) => Opcode::ReadResponseOnly,
        (true, false) => Opcode::ReadResponseFirst,
        (false, false) => Opcode::ReadResponseMiddle,
        (false, true) => Opcode::ReadResponseLast,
    };
    let psn = job.first.plus(job.next);
    let head = Head { opcode, psn, ack_req: false, payload_len: len, ident: conn.ident() };
    let Some(mut open) = conn.template.start(frame, &head) else { return false };
    let at = opcode.extension_len();
    if at != 0 && (aeth::Repr { syndrome: Syndrome::ACK, msn: job.msn }).emit(open.rest()).is_err() {
        return false;
    }
    if !env.mrs.load(job.rkey, address, &mut open.rest()[at..at + len], Access::REMOTE_READ) {
        return false;
    }
    open.seal();
    env.stats.read_packets += 1;
    env.stats.read_bytes += len as u64;
    true
}
