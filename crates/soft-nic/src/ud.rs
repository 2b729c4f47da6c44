//! The service unreliable datagram: a queue pair without a connection, whose messages are one packet each (IBTA vol. 1, 9.8.3).
//!
//! A datagram that gets lost, or that finds no receive, is gone; nobody is told. So one queue pair reaches any number of others.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use zsr_wire::roce::{Packet, Path};
use zsr_wire::{Frame, Mac, Opcode, Psn, Qpn, deth, ipv4};

use crate::config::{Access, Mtu};
use crate::qp::Qp;
use crate::receive::store;
use crate::requester::complete;
use crate::responder::Env;
use crate::stats::DropReason;
use crate::template::{Head, Template};
use crate::work::{Completion, CompletionKind, Operation, Status, To, WorkRequest};

/// Bytes before the payload in a receive's memory. The last 20 of them are the IPv4 header (IBTA vol. 1, A17.4.5.1).
pub const HEADER: u32 = 40;

/// The way to another host, as [`crate::Nic::create_address`] gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Address(pub(crate) u32);

/// The attributes of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressAttr {
    /// The other host's IP address.
    pub ip: Ipv4Addr,
    /// MAC address of that host or the next hop; `None` takes it from the neighbour table.
    pub mac: Option<Mac>,
    /// UDP source port of what goes there.
    pub src_port: u16,
    /// IPv4 type of service of what goes there.
    pub tos: u8,
    /// IPv4 time to live of what goes there.
    pub ttl: u8,
}

impl AddressAttr {
    /// Usual values: not ECN-capable, since nobody slows datagrams down; TTL 64.
    pub fn new(ip: Ipv4Addr) -> AddressAttr {
        AddressAttr { ip, mac: None, src_port: 0xc000, tos: 0, ttl: 64 }
    }

    pub(crate) fn template(&self, src_mac: Mac, src_ip: Ipv4Addr, dst_mac: Mac) -> Template {
        let AddressAttr { ip: dst_ip, src_port, tos, ttl, .. } = *self;
        Template::new(&Path { src_mac, dst_mac, src_ip, dst_ip, src_port, tos, ttl }, Qpn::new(0))
    }
}

/// The attributes that make a queue pair one for datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdAttr {
    /// Longest message.
    pub mtu: Mtu,
    /// Queue key: datagrams with another one are dropped.
    pub qkey: u32,
    /// PSN of the first datagram.
    pub sq_psn: Psn,
}

/// The sending side of a queue pair for datagrams.
pub(crate) struct Ud {
    pub(crate) mtu: Mtu,
    qkey: u32,
    next_psn: Psn,
    ident: u16,
    queue: VecDeque<WorkRequest>,
}

impl Ud {
    pub(crate) fn new(attr: UdAttr, depth: usize) -> Ud {
        let UdAttr { mtu, qkey, sq_psn } = attr;
        Ud { mtu, qkey, next_psn: sq_psn, ident: 0, queue: VecDeque::with_capacity(depth) }
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn send_psn(&self) -> Psn {
        self.next_psn
    }

    /// Queues a work request that has been checked.
    pub(crate) fn post(&mut self, work: WorkRequest) {
        self.queue.push_back(work);
    }

    /// Completes everything that is queued as flushed.
    pub(crate) fn flush(&mut self, env: &mut Env<'_>, qpn: Qpn) {
        while let Some(work) = self.queue.pop_front() {
            complete(env, qpn, &work, Status::Flushed);
        }
    }

    /// Makes the next datagram in `frame`: `None` if there is none, `Some(false)` if its memory is gone.
    fn emit(&mut self, env: &mut Env<'_>, qpn: Qpn, frame: &mut Frame) -> Option<bool> {
        let work = self.queue.pop_front()?;
        let Operation::Datagram(to) = work.operation else { return Some(false) };
        self.ident = self.ident.wrapping_add(1);
        let made = emit(env, qpn, &work, &to, self.next_psn, self.ident, frame);
        self.next_psn = self.next_psn.next();
        complete(env, qpn, &work, if made { Status::Success } else { Status::LocalProtection });
        Some(made)
    }
}

fn emit(
    env: &Env<'_>,
    qpn: Qpn,
    work: &WorkRequest,
    to: &To,
    psn: Psn,
    ident: u16,
    frame: &mut Frame,
) -> bool {
    let Some(template) = env.addresses.get(to.address.0 as usize) else { return false };
    let opcode = if to.immediate.is_some() { Opcode::DatagramOnlyImm } else { Opcode::DatagramOnly };
    let len = work.local.len as usize;
    let Some(mut open) =
        template.start(frame, &Head { opcode, psn, ack_req: false, payload_len: len, ident })
    else {
        return false;
    };
    open.goes_to(to.qpn);
    let out = open.rest();
    if (deth::Repr { qkey: to.qkey, src_qp: qpn }).emit(out).is_err() {
        return false;
    }
    if let Some(immediate) = to.immediate {
        out[deth::LEN..deth::LEN + 4].copy_from_slice(&immediate.to_be_bytes());
    }
    let at = opcode.extension_len();
    let local = work.local;
    let ok = env.mrs.load(local.lkey, local.address, &mut out[at..at + len], Access::NONE);
    open.seal();
    ok
}

/// Makes the next datagram of a queue pair without a connection; `false` if there is none.
pub(crate) fn transmit(env: &mut Env<'_>, qp: &mut Qp, frame: &mut Frame) -> bool {
    let Some(ud) = &mut qp.ud else { return false };
    match ud.emit(env, qp.qpn, frame) {
        None => false,
        Some(true) => true,
        // Hardware would only stop sending (SQE).
        Some(false) => {
            qp.broke(env);
            false
        }
    }
}

/// Takes a packet that has come to a queue pair without a connection.
pub(crate) fn receive(env: &mut Env<'_>, qp: &mut Qp, packet: &Packet<&[u8]>) -> Result<(), DropReason> {
    let (true, Some(ud)) = (qp.receives(), &qp.ud) else { return Err(DropReason::QpState) };
    let deth = packet.deth().ok_or(DropReason::Service)?;
    if deth.qkey != ud.qkey {
        return Err(DropReason::QKey);
    }
    let receive = qp.resp.recvs().pop_front().ok_or(DropReason::NoReceive)?;
    let payload = packet.payload();
    let len = HEADER + payload.len() as u32;
    let status = if receive.room() < len {
        Status::LocalLength
    } else if store(env, &receive, HEADER - ipv4::LEN as u32, packet.ip_header())
        && store(env, &receive, HEADER, payload)
    {
        Status::Success
    } else {
        Status::LocalProtection
    };
    let kind = CompletionKind::Datagram { from: deth.src_qp, immediate: packet.immediate() };
    env.completions.push(Completion { qpn: qp.qpn, wr_id: receive.wr_id, kind, status, len });
    env.stats.send_packets += 1;
    Ok(())
}
