//! A witness at the switch: it knows the host at the far end of each queue pair, follows every request, and panics when
//! the switch sends a packet that the protocol forbids.
//!
//! The witness believes only packets whose ICRC is right. Its assertions about packets that leave the switch:
//! - one request is outstanding per queue pair; a repeat is the same request, or the rest of the same READ, never
//!   further back;
//! - a READ response leaves as the WRITE fragment of the same position, with the same payload and the same ICRC
//!   trailer, which is right for the new headers too; lengths add up to the READ's;
//! - a consumer is asked for its state (a WRITE of nothing under the PSN before the transfer) only while one of the
//!   consumers of the transfer has not acknowledged it;
//! - a commit leaves directly behind the last fragment, or alone when the consumer has said that it lacks nothing else;
//! - a tail leaves when the commit is acknowledged, a READ when the tail is.

use std::cell::Cell;
use std::net::Ipv4Addr;

use zsr_wire::frame::Frame;
use zsr_wire::roce::{EXT_AT, IP_AT, Packet};
use zsr_wire::{Opcode, icrc, ipv4};

const PSN: u32 = 0xff_ffff;
const CLOSED: u32 = 1;

/// The purpose of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// READ of a producer's head word.
    ProducerPoll,
    /// Response to a READ of a producer's head word.
    ProducerWord,
    /// READ of a consumer's tail word.
    ConsumerPoll,
    /// Response to a READ of a consumer's tail word.
    ConsumerWord,
    /// READ of items.
    Read,
    /// First, middle, last or only fragment of items on its way to the switch.
    Response(Opcode),
    /// First, middle, last or only fragment of items on its way to the consumer.
    Write(Opcode),
    /// WRITE of a commit record.
    Commit,
    /// ACK of a commit record.
    Committed,
    /// WRITE of nothing, by whose ACK a consumer reports its state.
    Probe,
    /// ACK of a WRITE of nothing.
    Probed,
    /// WRITE of the commit record that closes the ring.
    LastCommit,
    /// ACK of the last commit record.
    LastCommitted,
    /// WRITE of a producer's tail word.
    Tail,
    /// ACK of a tail word.
    TailAck,
    /// NAK of a consumer that misses a packet.
    Gap,
    /// Notification to a producer that its packets meet congestion.
    Cnp,
    /// Anything else.
    Other,
}

/// Number of the newest fragment that went one way, from 0 at the beginning of its transfer.
#[derive(Debug, Default)]
pub struct FragmentNumber(Cell<u64>);

impl FragmentNumber {
    /// The number of a fragment that goes this way now, as this kind of WRITE.
    pub fn next(&self, opcode: Opcode) -> u64 {
        let begins = [Opcode::WriteFirst, Opcode::WriteOnly].contains(&opcode);
        self.0.set(if begins { 0 } else { self.0.get() + 1 });
        self.get()
    }

    /// The number of the newest fragment.
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}

/// The purpose of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// READs of a producer's head word.
    ProducerPoll,
    /// READs of items, WRITEs of the tail word.
    ProducerData,
    /// READs of a consumer's tail word.
    ConsumerPoll,
    /// WRITEs of items and commit records.
    ConsumerData,
}

/// A queue pair and its outstanding (or last) request.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The queue pair's purpose.
    pub role: Role,
    /// The switch's port.
    pub port: u16,
    /// The host's MAC address. Frames from its port with another address are dropped.
    pub mac: [u8; 6],
    /// The host's IPv4 address.
    pub ip: Ipv4Addr,
    /// The queue pair's number at the host.
    pub host_qpn: u32,
    /// The queue pair's number at the switch.
    pub switch_qpn: u32,
    /// Bytes of payload in a packet.
    pub mtu: u32,
    /// Bytes of items in the ring.
    pub ring_size: u32,
    /// Whether the host's words are big-endian.
    pub big_endian: bool,
    /// Of a producer: the data queue pairs of all consumers that may get its items, by index.
    pub consumers: Vec<usize>,
    /// The consumers of its newest transfer.
    bound: Vec<usize>,
    request: Request,
}

#[derive(Clone, Debug)]
struct Request {
    first: u32,
    last: u32,
    done: bool,
    /// READ of items at a producer; a transfer, not the last commit, at a consumer.
    items: bool,
    length: u32,
    address: u32,
    /// First fragment of the newest repeat; at a consumer, the furthest that it has asked for.
    from: u32,
    content: Vec<u8>,
    /// Head of a consumer ring, or tail of a producer ring, before the request, which adds `length`.
    counter: u32,
    source: usize,
}

impl Request {
    fn end(&self) -> u32 {
        self.counter.wrapping_add(self.length)
    }

    /// The consumer reports that it has everything before `psn`.
    fn has(&mut self, psn: u32) {
        let position = psn.wrapping_sub(self.first) & PSN;
        if position <= self.last.wrapping_sub(self.first) & PSN {
            self.from = self.from.max(position);
        }
    }
}

impl Connection {
    /// A queue pair that has not been used; packets count from `psn`, bytes from `counter`.
    #[allow(clippy::too_many_arguments, reason = "all of what a connection is")]
    pub fn new(
        role: Role,
        (port, mac, ip): (u16, [u8; 6], Ipv4Addr),
        (host_qpn, switch_qpn): (u32, u32),
        (mtu, ring_size, big_endian): (u32, u32, bool),
        (psn, counter): (u32, u32),
    ) -> Connection {
        let last = psn.wrapping_sub(1) & PSN;
        let request = Request {
            first: last,
            last,
            done: true,
            items: false,
            length: 0,
            address: 0,
            from: 0,
            content: Vec::new(),
            counter,
            source: usize::MAX,
        };
        let (consumers, bound) = (Vec::new(), Vec::new());
        Connection {
            role,
            port,
            mac,
            ip,
            host_qpn,
            switch_qpn,
            mtu,
            ring_size,
            big_endian,
            consumers,
            bound,
            request,
        }
    }

    fn word(&self, bytes: &[u8], at: usize) -> u32 {
        let bytes = bytes[at..at + 4].try_into().expect("4 bytes");
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn next(&self) -> u32 {
        (self.request.last + 1) & PSN
    }
}

/// The packets that the switch's ports have seen.
#[derive(Debug, Default)]
pub struct Wire {
    connections: Vec<Connection>,
    /// Whether each transfer goes to one of several consumers, which follows from its first fragment.
    balanced: bool,
    /// Transfers begun.
    pub transfers: u64,
    /// READs of items that were repeats, whole or in part.
    pub repeated_reads: u64,
    /// Fragments that were rewritten, right ones only.
    pub fragments: u64,
}

fn is_commit(frame: &[u8]) -> bool {
    Packet::new_checked(frame).is_ok_and(|p| {
        p.opcode() == Opcode::WriteOnly && p.reth().is_some_and(|r| r.address == 0 && r.length == 16)
    })
}

/// A frame as the switch and the NICs read it: the IPv4 checksum, which the ICRC does not cover, is made right.
pub fn mended(frame: &[u8]) -> Option<Vec<u8>> {
    let mut frame = frame.to_vec();
    let header: &mut [u8; ipv4::LEN] = frame.get_mut(IP_AT..IP_AT + ipv4::LEN)?.try_into().ok()?;
    header[10..12].fill(0);
    let sum = ipv4::checksum(header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    Some(frame)
}

impl Wire {
    /// A witness of these queue pairs. `balanced`: each transfer goes to one of the producer's consumers, not to all of
    /// them.
    pub fn new(connections: Vec<Connection>, balanced: bool) -> Wire {
        Wire { connections, balanced, ..Wire::default() }
    }

    /// Whether every request has been answered, so that nothing is on its way but polls.
    pub fn is_quiet(&self) -> bool {
        let polls = |c: &Connection| matches!(c.role, Role::ProducerPoll | Role::ConsumerPoll);
        self.connections.iter().all(|c| polls(c) || c.request.done)
    }

    fn sender(&self, port: u16, packet: &Packet<&[u8]>) -> Option<usize> {
        let (qpn, ip) = (packet.dest_qp().get(), packet.src_ip());
        self.connections.iter().position(|c| c.switch_qpn == qpn && c.port == port && c.ip == ip)
    }

    /// The kind of a frame that comes in at a port; `Other` unless the frame is right.
    pub fn kind_of_arrival(&self, port: u16, frame: &[u8]) -> Kind {
        if self.connections.is_empty() {
            return Kind::Other;
        }
        let Some(frame) = mended(frame) else { return Kind::Other };
        let Ok(packet) = Packet::new_checked(&frame[..]) else { return Kind::Other };
        let Some(index) = self.sender(port, &packet) else { return Kind::Other };
        let c = &self.connections[index];
        // No ICRC covers MAC addresses.
        if frame[6..12] != c.mac || !packet.icrc_ok() {
            return Kind::Other;
        }
        let ack = packet.opcode() == Opcode::Acknowledge;
        let good = frame[zsr_wire::roce::EXT_AT] & 0x60 == 0;
        match c.role {
            Role::ProducerPoll => Kind::ProducerWord,
            Role::ConsumerPoll => Kind::ConsumerWord,
            Role::ProducerData if !ack => Kind::Response(packet.opcode()),
            Role::ProducerData if good => Kind::TailAck,
            Role::ConsumerData if ack && good && c.request.items => {
                match packet.psn().get() == c.request.last {
                    true => Kind::Committed,
                    false => Kind::Probed,
                }
            }
            Role::ConsumerData if ack && good => Kind::LastCommitted,
            Role::ConsumerData if ack => Kind::Gap,
            _ => Kind::Other,
        }
    }

    /// A frame is about to be processed.
    pub fn arrives(&mut self, port: u16, frame: &[u8]) {
        let kind = self.kind_of_arrival(port, frame);
        if kind == Kind::Other {
            return;
        }
        let Some(frame) = mended(frame) else { return };
        let Ok(packet) = Packet::new_checked(&frame[..]) else { return };
        let Some(index) = self.sender(port, &packet) else { return };
        let r = &mut self.connections[index].request;
        let psn = packet.psn().get();
        match kind {
            Kind::ProducerWord | Kind::ConsumerWord if psn == r.last => r.done = true,
            Kind::TailAck if psn == r.last && !r.items => r.done = true,
            Kind::Committed | Kind::LastCommitted if psn == r.last => r.done = true,
            // The one names what it expects, the other what it has.
            Kind::Gap => r.has(psn),
            Kind::Probed => r.has(psn + 1),
            _ => {}
        }
    }

    /// Frames leave, because of the frame in `cause` or because of the time. Returns their kinds.
    pub fn leaves(&mut self, cause: Option<(u16, &[u8])>, out: &[(u16, Frame)]) -> Vec<Kind> {
        if self.connections.is_empty() {
            return vec![Kind::Other; out.len()];
        }
        let response = cause.and_then(|(port, frame)| {
            let right = matches!(self.kind_of_arrival(port, frame), Kind::Response(_));
            right.then(|| mended(frame)).flatten()
        });
        if let Some(frame) = &response {
            let packet = Packet::new_checked(&frame[..]).expect("checked above");
            let source = self.sender(cause.map_or(0, |c| c.0), &packet).expect("checked above");
            let bytes = &frame[..packet.frame_len()];
            return self.rewritten(source, &packet, bytes, out);
        }
        let mut kinds = Vec::with_capacity(out.len());
        for (port, frame) in out {
            // A commit may leave behind a damaged fragment, and its consumer will refuse it; one such commit for each
            // consumer.
            let kind = if kinds.contains(&Kind::Other) && is_commit(frame.bytes()) {
                Kind::Commit
            } else {
                self.made(*port, frame.bytes())
            };
            kinds.push(kind);
        }
        kinds
    }

    fn receiver(&self, port: u16, qpn: u32) -> Option<usize> {
        self.connections.iter().position(|c| c.host_qpn == qpn && c.port == port)
    }

    /// The frames that may follow from a right READ response: none, or for each consumer a fragment, or a last fragment
    /// and the commit.
    fn rewritten(
        &mut self,
        source: usize,
        packet: &Packet<&[u8]>,
        bytes: &[u8],
        out: &[(u16, Frame)],
    ) -> Vec<Kind> {
        // Consumers that have got a last fragment, and those that have got their commit.
        let (mut fragments, mut lasts) = (Vec::new(), Vec::new());
        let mut kinds = Vec::with_capacity(out.len());
        for (port, frame) in out {
            let write = Packet::new_checked(frame.bytes()).expect("the switch makes legal packets");
            let index = self.receiver(*port, write.dest_qp().get()).expect("for one of our queue pairs");
            if let Some(at) = lasts.iter().position(|l| *l == index) {
                lasts.remove(at);
                kinds.push(self.commit(index, &write, true));
                continue;
            }
            assert!(!fragments.contains(&index), "one fragment, twice");
            fragments.push(index);
            if self.balanced && self.connections[source].bound.is_empty() {
                self.begin(index, source);
                self.connections[source].bound.push(index);
            }
            let (kind, last) = self.fragment(source, packet, bytes, index, &write, frame.bytes());
            kinds.push(kind);
            if last {
                lasts.push(index);
            }
        }
        assert!(lasts.is_empty(), "the commit goes behind the last fragment");
        if !fragments.is_empty() {
            fragments.sort();
            assert_eq!(fragments, self.connections[source].bound, "a fragment goes to all consumers");
        }
        kinds
    }

    /// A READ response on its way to one consumer; returns whether it is the last one.
    fn fragment(
        &mut self,
        source: usize,
        packet: &Packet<&[u8]>,
        bytes: &[u8],
        index: usize,
        write: &Packet<&[u8]>,
        frame: &[u8],
    ) -> (Kind, bool) {
        let (c, p) = (&self.connections[index], &self.connections[source]);
        assert_eq!(c.role, Role::ConsumerData);
        assert_eq!(c.request.source, source, "a fragment of a producer that has no transfer");
        assert_eq!(write.payload(), packet.payload());
        let trailer = |bytes: &[u8]| bytes.last_chunk::<{ icrc::LEN }>().copied();
        assert_eq!(trailer(&frame[..write.frame_len()]), trailer(bytes));
        assert!(write.icrc_ok());
        let position = write.psn().get().wrapping_sub(c.request.first) & PSN;
        assert_eq!(position, packet.psn().get().wrapping_sub(p.request.first) & PSN);
        let frags = c.request.length.div_ceil(c.mtu);
        assert!(position < frags && p.request.items, "fragment {position} of {frags}");
        let last = position + 1 == frags;
        let opcode = match (position == 0, last) {
            (true, true) => Opcode::WriteOnly,
            (true, false) => Opcode::WriteFirst,
            (false, true) => Opcode::WriteLast,
            (false, false) => Opcode::WriteMiddle,
        };
        assert_eq!(write.opcode(), opcode);
        let length = if last { c.request.length - position * c.mtu } else { c.mtu };
        assert_eq!(write.payload().len() as u32, length, "fragment {position} of {frags}");
        assert!(!write.ack_req());
        if let Some(reth) = write.reth() {
            assert_eq!(reth.length, c.request.length);
            assert_eq!(reth.address, u64::from(4096 + (c.request.counter & (c.ring_size - 1))));
        }
        self.fragments += 1;
        (Kind::Write(opcode), last)
    }

    /// A consumer gets the transfer that its source has begun.
    fn begin(&mut self, consumer: usize, source: usize) {
        let r = &self.connections[source].request;
        let (length, address) = (r.length, r.address);
        let c = &mut self.connections[consumer];
        assert!(c.request.done, "a transfer while the consumer's last one is not done");
        let (first, counter) = (c.next(), c.request.end());
        assert!((counter & (c.ring_size - 1)) + length <= c.ring_size, "over the end of the consumer's ring");
        let frags = length.div_ceil(c.mtu);
        c.request = Request {
            first,
            last: (first + frags) & PSN,
            done: false,
            items: true,
            length,
            address,
            from: 0,
            content: Vec::new(),
            counter,
            source,
        };
    }

    /// A packet that the switch made itself, or a fragment that arrived damaged.
    fn made(&mut self, port: u16, frame: &[u8]) -> Kind {
        let Ok(packet) = Packet::new_checked(frame) else { return Kind::Other };
        let Some(index) = self.receiver(port, packet.dest_qp().get()) else { return Kind::Other };
        let c = &self.connections[index];
        if c.role == Role::ConsumerData {
            if is_commit(frame) && packet.icrc_ok() {
                return self.commit(index, &packet, false);
            }
            if packet.reth().is_some_and(|r| r.length == 0) {
                return self.probe(index, &packet);
            }
            assert!(!packet.icrc_ok(), "a damaged fragment was made to look right");
            return Kind::Other;
        }
        assert!(packet.icrc_ok(), "the switch makes right packets");
        if packet.opcode() == Opcode::Cnp {
            assert_eq!((c.role, packet.psn().get(), packet.ack_req()), (Role::ProducerData, 0, false));
            assert!(packet.bth().becn() && frame[EXT_AT..EXT_AT + 16] == [0; 16]);
            return Kind::Cnp;
        }
        assert!(packet.ack_req());
        match (c.role, packet.opcode()) {
            (Role::ProducerPoll, Opcode::ReadRequest) => self.poll(index, &packet, Kind::ProducerPoll),
            (Role::ConsumerPoll, Opcode::ReadRequest) => self.poll(index, &packet, Kind::ConsumerPoll),
            (Role::ProducerData, Opcode::ReadRequest) => self.read(index, &packet),
            (Role::ProducerData, Opcode::WriteOnly) => self.tail(index, &packet),
            (role, opcode) => panic!("{opcode:?} on a queue pair for {role:?}"),
        }
    }

    fn poll(&mut self, index: usize, packet: &Packet<&[u8]>, kind: Kind) -> Kind {
        let reth = packet.reth().expect("a READ has a RETH");
        assert_eq!((reth.address, reth.length), (if kind == Kind::ProducerPoll { 0 } else { 64 }, 8));
        let c = &mut self.connections[index];
        let psn = packet.psn().get();
        if psn == c.next() {
            assert!(c.request.done, "a second poll while one is outstanding");
            (c.request.first, c.request.last, c.request.done) = (psn, psn, false);
        } else {
            assert!(
                psn == c.request.last && !c.request.done,
                "a poll with PSN {psn} after {}",
                c.request.last
            );
        }
        kind
    }

    fn read(&mut self, index: usize, packet: &Packet<&[u8]>) -> Kind {
        let reth = packet.reth().expect("a READ has a RETH");
        let (psn, address) = (packet.psn().get(), reth.address as u32);
        assert_eq!(reth.address >> 32, 0);
        let p = &mut self.connections[index];
        if psn == p.next() && p.request.done {
            let frags = reth.length.div_ceil(p.mtu);
            let tail = p.request.end();
            assert_eq!(address, 4096 + (tail & (p.ring_size - 1)));
            assert!(address + reth.length <= 4096 + p.ring_size, "over the end of the producer's ring");
            p.request = Request {
                first: psn,
                last: (psn + frags - 1) & PSN,
                done: false,
                items: true,
                length: reth.length,
                address,
                from: 0,
                content: Vec::new(),
                counter: tail,
                source: index,
            };
            p.bound.clear();
            if !self.balanced {
                p.bound = p.consumers.clone();
                self.connections[index].bound.clone().into_iter().for_each(|c| self.begin(c, index));
            }
            self.transfers += 1;
        } else {
            assert!(p.request.items && !p.request.done, "a READ while another request is outstanding");
            let bound = self.connections[index].bound.clone();
            let lacking = bound.iter().any(|c| !self.connections[*c].request.done);
            assert!(lacking || bound.is_empty(), "a READ of items that are committed");
            let p = &mut self.connections[index];
            let from = psn.wrapping_sub(p.request.first) & PSN;
            assert!(from >= p.request.from, "a repeat that goes back from {} to {from}", p.request.from);
            assert!(from * p.mtu < p.request.length, "a repeat from beyond the end");
            assert_eq!(reth.length, p.request.length - from * p.mtu);
            assert_eq!(address, p.request.address + from * p.mtu);
            p.request.from = from;
            self.repeated_reads += 1;
        }
        Kind::Read
    }

    fn probe(&mut self, index: usize, packet: &Packet<&[u8]>) -> Kind {
        assert!(packet.icrc_ok() && packet.ack_req() && packet.payload().is_empty());
        let r = &self.connections[index].request;
        // Of several consumers, the one that a transfer is for is not known before it has got something.
        let before = if r.done && self.balanced {
            r.last
        } else {
            // A member of a group that has all is asked with the others.
            let waits = |c: &usize| !self.connections[*c].request.done;
            assert!(
                r.items && self.connections[r.source].bound.iter().any(waits),
                "a probe without a transfer"
            );
            r.first.wrapping_sub(1) & PSN
        };
        assert_eq!(packet.psn().get(), before, "a probe is a repeat of the last commit");
        Kind::Probe
    }

    fn tail(&mut self, index: usize, packet: &Packet<&[u8]>) -> Kind {
        let reth = packet.reth().expect("a WRITE Only has a RETH");
        assert_eq!((reth.address, reth.length, packet.payload().len()), (64, 8, 8));
        let bound = &self.connections[index].bound;
        let consumer_done = !bound.is_empty() && bound.iter().all(|c| self.connections[*c].request.done);
        let p = &mut self.connections[index];
        let psn = packet.psn().get();
        if psn == p.next() && p.request.items {
            assert!(consumer_done, "a tail in front of the commit's ACK");
            let tail = p.request.end();
            assert_eq!(p.word(packet.payload(), 0), tail);
            let r = &mut p.request;
            (r.first, r.last, r.done, r.items, r.counter, r.length) = (psn, psn, false, false, tail, 0);
            r.content = packet.payload().to_vec();
        } else {
            assert!(psn == p.request.last && !p.request.items && !p.request.done, "a tail out of turn");
            assert_eq!(packet.payload(), p.request.content);
        }
        Kind::Tail
    }

    fn commit(&mut self, index: usize, packet: &Packet<&[u8]>, behind_data: bool) -> Kind {
        assert!(packet.ack_req() && packet.icrc_ok());
        let reth = packet.reth().expect("a commit has a RETH");
        assert_eq!((reth.address, reth.length, packet.payload().len()), (0, 16, 16));
        let c = &mut self.connections[index];
        let psn = packet.psn().get();
        let head = c.word(packet.payload(), 0);
        let closed = c.word(packet.payload(), 4) & CLOSED != 0;
        if closed {
            if psn == c.next() && c.request.done {
                let r = &mut c.request;
                assert_eq!(head, r.end());
                (r.first, r.last, r.done, r.items, r.counter, r.length) = (psn, psn, false, false, head, 0);
                r.content = packet.payload().to_vec();
            } else {
                assert!(!c.request.items && psn == c.request.last, "a last commit out of turn");
                assert_eq!(packet.payload(), c.request.content);
            }
            return Kind::LastCommit;
        }
        assert!(c.request.items, "a commit without a transfer");
        assert_eq!(psn, c.request.last, "a commit behind fragments that do not end there");
        let frags = c.request.last.wrapping_sub(c.request.first) & PSN;
        assert!(behind_data || c.request.done || c.request.from == frags, "a commit in front of its data");
        assert_eq!(head, c.request.end());
        if c.request.content.is_empty() {
            c.request.content = packet.payload().to_vec();
        }
        assert_eq!(packet.payload(), c.request.content, "one transfer, two commits");
        Kind::Commit
    }
}
