//! Comments on the packets of a link: flow, rings, transfer, fragment.
//!
//! A fragment's place in its transfer is its PSN less the PSN of the first fragment. The commit record directly behind
//! the last fragment says to which transfer a WRITE belongs. So fragments are held until the record has come, or for a
//! moment if it does not come. A transfer has the same name on both links: its place in the producer's ring.

use std::cell::OnceCell;
use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use zsr_link::{Direction, TapFrame};
use zsr_wire::aeth::{self, Syndrome};
use zsr_wire::ring::{ByteOrder, COMMIT_RECORD_LEN, CommitRecord, ITEMS, PRODUCER_TAIL};
use zsr_wire::roce::{BTH_AT, EXT_AT, IP_AT, UDP_AT};
use zsr_wire::{Opcode, bth, reth, udp, vlan};

use super::names::{Names, Pair, RingName};
use zsr_plan::p4::names::UDP_PORT_DOORBELL;

/// How long a fragment waits for its commit record.
const PATIENCE: Duration = Duration::from_millis(200);
/// Bytes that wait at most.
const HELD: usize = 32 << 20;
const PSN: u32 = 0xff_ffff;

/// A packet with its comment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Nanoseconds since 1970.
    pub time_ns: u64,
    /// Packets that the capture has lost before this one, since it began.
    pub lost: u64,
    /// The packet's direction.
    pub direction: Direction,
    /// Bytes of the whole frame.
    pub len: usize,
    /// Bytes that were captured.
    pub bytes: Vec<u8>,
    /// The comment, as `key=value` pairs; empty for packets that belong to no flow.
    pub comment: String,
}

/// Makes comments for the packets of one link, in order.
#[derive(Debug, Default)]
pub struct Annotator {
    held: VecDeque<Held>,
    held_bytes: usize,
    /// The newest transfer of each ring, by its data queue pair at the switch.
    newest: HashMap<u32, Rc<Transfer>>,
}

#[derive(Debug)]
struct Held {
    noted: Noted,
    since: Instant,
    fragment: Option<Fragment>,
}

/// The comment on a WRITE, once its commit record has come.
#[derive(Debug)]
struct Fragment {
    /// The consumer's ring.
    ring: Arc<RingName>,
    transfer: Option<Rc<Transfer>>,
    psn: u32,
}

#[derive(Debug)]
struct Transfer {
    /// PSN of the first fragment on this link.
    first: u32,
    /// Bytes of all fragments.
    length: u32,
    fragments: u32,
    /// The producer's ring, and the transfer's first byte in it.
    source: OnceCell<(Arc<RingName>, u32)>,
}

impl Transfer {
    fn new(first: u32, length: u32, mtu: u32) -> Rc<Transfer> {
        Rc::new(Transfer { first, length, fragments: length.div_ceil(mtu), source: OnceCell::new() })
    }

    /// The number of the fragment with this PSN, if there is one.
    fn place(&self, psn: u32) -> Option<u32> {
        let place = psn.wrapping_sub(self.first) & PSN;
        (place < self.fragments).then_some(place)
    }
}

/// The headers of a RoCEv2 packet, whose end may not have been captured.
struct Headers<'a> {
    src: Ipv4Addr,
    dst: Ipv4Addr,
    opcode: Opcode,
    qpn: u32,
    psn: u32,
    /// Extension headers and payload.
    rest: &'a [u8],
}

impl<'a> Headers<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Headers<'a>> {
        // Behind a VLAN tag the rest is where it would be without.
        let bytes = if vlan::tag(bytes).is_some() { &bytes[vlan::LEN..] } else { bytes };
        let ip = bytes.get(IP_AT..UDP_AT)?;
        let is_udp4 = bytes.get(12..14)? == [8, 0] && ip[0] == 0x45 && ip[9] == 17;
        if !is_udp4 || bytes.get(UDP_AT + 2..UDP_AT + 4)? != udp::ROCE_PORT.to_be_bytes() {
            return None;
        }
        let bth = bth::Packet::new_checked(bytes.get(BTH_AT..EXT_AT)?).ok()?;
        Some(Headers {
            src: Ipv4Addr::new(ip[12], ip[13], ip[14], ip[15]),
            dst: Ipv4Addr::new(ip[16], ip[17], ip[18], ip[19]),
            opcode: Opcode::from_code(bth.opcode_code())?,
            qpn: bth.dest_qp().get(),
            psn: bth.psn().get(),
            rest: &bytes[EXT_AT..],
        })
    }

    fn reth(&self) -> Option<reth::Repr> {
        reth::Packet::new_checked(self.rest.get(..reth::LEN)?).ok().map(|p| reth::Repr::parse(&p))
    }

    /// Whether the packet reports that something is missing or wrong.
    fn is_nak(&self) -> bool {
        let aeth = self.rest.get(..aeth::LEN).and_then(|b| aeth::Packet::new_checked(b).ok());
        aeth.is_some_and(|a| !matches!(Syndrome::from_code(a.syndrome_code()), Some(Syndrome::Ack { .. })))
    }
}

impl Annotator {
    /// Takes the next packet of the link, as of `now`.
    pub fn take(&mut self, now: Instant, (time_ns, lost): (u64, u64), frame: &TapFrame<'_>, names: &Names) {
        let noted = Noted {
            time_ns,
            lost,
            direction: frame.direction,
            len: frame.len,
            bytes: frame.bytes.to_vec(),
            comment: String::new(),
        };
        let mut held = Held { noted, since: now, fragment: None };
        if let Some(headers) = Headers::parse(frame.bytes) {
            if let Some((ring, pair)) = names.to_host(headers.dst, headers.qpn) {
                self.downward(&headers, ring, *pair, names, &mut held);
            } else if let Some((ring, pair)) = names.to_switch(headers.src, headers.qpn) {
                self.upward(&headers, ring, *pair, &mut held);
            }
        } else if is_doorbell(frame.bytes) {
            // The ring's secret would tell the producer, but captures do not know it.
            held.noted.comment = "what=doorbell".into();
        }
        self.held_bytes += held.noted.bytes.len();
        self.held.push_back(held);
    }

    /// The queue pair that a packet is for, by address and number, if the names lack it.
    pub fn lacks(frame: &TapFrame<'_>, names: &Names) -> Option<(Ipv4Addr, u32)> {
        let h = Headers::parse(frame.bytes)?;
        let known = names.to_host(h.dst, h.qpn).or_else(|| names.to_switch(h.src, h.qpn));
        known.is_none().then_some((h.dst, h.qpn))
    }

    /// The next packet whose comment is complete, or that has waited long enough; with `all`, the next one.
    pub fn next_noted(&mut self, now: Instant, all: bool) -> Option<Noted> {
        let first = self.held.front()?;
        let ready = match &first.fragment {
            Some(Fragment { transfer: Some(transfer), .. }) => transfer.source.get().is_some(),
            _ => true,
        };
        let late = now.saturating_duration_since(first.since) >= PATIENCE || self.held_bytes > HELD;
        if !(ready || late || all) {
            return None;
        }
        let Held { mut noted, fragment, .. } = self.held.pop_front()?;
        self.held_bytes -= noted.bytes.len();
        if let Some(Fragment { ring, transfer, psn }) = fragment {
            noted.comment = describe(&ring, transfer.as_deref(), "write", Some(psn));
        }
        Some(noted)
    }

    /// A packet from the switch to the host.
    fn downward(
        &mut self,
        h: &Headers<'_>,
        ring: &Arc<RingName>,
        pair: Pair,
        names: &Names,
        held: &mut Held,
    ) {
        let say = |what| about(ring, what);
        held.noted.comment = match (pair, h.opcode, h.reth()) {
            (Pair::Poll, Opcode::ReadRequest, _) => say("poll"),
            (Pair::Data, Opcode::Cnp, _) => say("cnp"),
            (Pair::Data, Opcode::ReadRequest, Some(reth)) if ring.is_producer => {
                let transfer = self.read(h.psn, &reth, ring);
                describe(ring, Some(&transfer), "read", None)
            }
            (Pair::Data, Opcode::WriteOnly, Some(reth))
                if ring.is_producer && reth.address == PRODUCER_TAIL =>
            {
                say("tail")
            }
            (Pair::Data, Opcode::WriteOnly, Some(reth)) if !ring.is_producer && reth.length == 0 => {
                say("probe")
            }
            (Pair::Data, Opcode::WriteOnly, Some(reth)) if !ring.is_producer && reth.address < ITEMS => {
                self.commit(h, ring, names)
            }
            (
                Pair::Data,
                Opcode::WriteFirst | Opcode::WriteMiddle | Opcode::WriteLast | Opcode::WriteOnly,
                reth,
            ) if !ring.is_producer => {
                // Only the first fragment has the number of fragments; a repeat of it has the same number.
                if let (Opcode::WriteFirst | Opcode::WriteOnly, Some(reth)) = (h.opcode, reth) {
                    let known = self.newest.get(&ring.data_qpn);
                    if known.is_none_or(|t| t.first != h.psn || t.length != reth.length) {
                        self.newest.insert(ring.data_qpn, Transfer::new(h.psn, reth.length, ring.mtu));
                    }
                }
                let transfer = self.transfer_of(ring, h.psn);
                held.fragment = Some(Fragment { ring: ring.clone(), transfer, psn: h.psn });
                return;
            }
            _ => say("other"),
        };
    }

    /// A packet from the host to the switch.
    fn upward(&mut self, h: &Headers<'_>, ring: &Arc<RingName>, pair: Pair, held: &mut Held) {
        let is_response = matches!(
            h.opcode,
            Opcode::ReadResponseFirst
                | Opcode::ReadResponseMiddle
                | Opcode::ReadResponseLast
                | Opcode::ReadResponseOnly
        );
        held.noted.comment = match pair {
            Pair::Poll if is_response => about(ring, "word"),
            Pair::Data if is_response && ring.is_producer => {
                let transfer = self.transfer_of(ring, h.psn);
                describe(ring, transfer.as_deref(), "response", Some(h.psn))
            }
            _ if h.opcode == Opcode::Cnp => about(ring, "cnp"),
            _ if h.opcode == Opcode::Acknowledge => about(ring, if h.is_nak() { "nak" } else { "ack" }),
            _ => about(ring, "other"),
        };
    }

    fn transfer_of(&self, ring: &RingName, psn: u32) -> Option<Rc<Transfer>> {
        self.newest.get(&ring.data_qpn).filter(|t| t.place(psn).is_some()).cloned()
    }

    /// The transfer that a READ of items begins, or goes on with.
    fn read(&mut self, psn: u32, reth: &reth::Repr, ring: &Arc<RingName>) -> Rc<Transfer> {
        let at = reth.address.saturating_sub(ITEMS) as u32 & ring.size.wrapping_sub(1);
        if let Some(known) = self.newest.get(&ring.data_qpn)
            && let (Some(place), Some((_, offset))) = (known.place(psn), known.source.get())
            && at == offset.wrapping_add(place.wrapping_mul(ring.mtu))
        {
            return known.clone();
        }
        let transfer = Transfer::new(psn, reth.length, ring.mtu);
        let _ = transfer.source.set((ring.clone(), at));
        self.newest.insert(ring.data_qpn, transfer.clone());
        transfer
    }

    /// The comment of a commit record on the transfer before it.
    fn commit(&self, h: &Headers<'_>, ring: &RingName, names: &Names) -> String {
        let record = h.rest.get(reth::LEN..reth::LEN + COMMIT_RECORD_LEN);
        let Some(record) = record.and_then(|r| r.try_into().ok()) else { return about(ring, "commit") };
        // In the consumer's byte order, which a number tells: all are below 2^16.
        let known = [ByteOrder::Little, ByteOrder::Big].into_iter().find_map(|order| {
            let record = CommitRecord::from_bytes(record, order);
            Some((names.producer(record.producer_id)?, record.producer_tail))
        });
        let transfer = self.newest.get(&ring.data_qpn);
        let transfer = transfer.filter(|t| t.first.wrapping_add(t.fragments) & PSN == h.psn);
        if let (Some((producer, tail)), Some(transfer)) = (known, transfer) {
            let begin = tail.wrapping_sub(transfer.length) & producer.size.wrapping_sub(1);
            let _ = transfer.source.set((producer.clone(), begin));
        }
        match (transfer, known) {
            (Some(transfer), _) => describe(ring, Some(transfer), "commit", None),
            // The capture began in the middle of the transfer.
            (None, Some((producer, _))) => {
                format!("flow={} what=commit producer={} consumer={}", ring.flow, producer.name, ring.name)
            }
            (None, None) => about(ring, "commit"),
        }
    }
}

/// Whether a host reports that one of its producer rings has items.
fn is_doorbell(bytes: &[u8]) -> bool {
    let is_udp4 = bytes.get(12..14) == Some(&[8, 0]) && bytes.get(IP_AT + 9) == Some(&17);
    is_udp4 && bytes.get(UDP_AT + 2..UDP_AT + 4) == Some(&UDP_PORT_DOORBELL.to_be_bytes())
}

/// A packet that belongs to no transfer.
fn about(ring: &RingName, what: &str) -> String {
    let role = if ring.is_producer { "producer" } else { "consumer" };
    format!("flow={} what={what} {role}={}", ring.flow, ring.name)
}

/// The comment of a packet of a transfer, on the link of `ring`. Unknown values are `?`.
fn describe(ring: &RingName, transfer: Option<&Transfer>, what: &str, psn: Option<u32>) -> String {
    let source = transfer.and_then(|t| t.source.get());
    let producer =
        if ring.is_producer { ring.name.as_str() } else { source.map_or("?", |s| s.0.name.as_str()) };
    let mut text = format!("flow={} what={what} producer={producer}", ring.flow);
    match (ring.is_producer, ring.consumers.as_str()) {
        (false, _) => text.push_str(&format!(" consumer={}", ring.name)),
        // The consumer that the switch chose can't be seen on this link.
        (true, "") => {}
        (true, consumers) => text.push_str(&format!(" consumer={consumers}")),
    }
    // Writing to a string can't fail.
    let _ = match (transfer, source) {
        (Some(t), Some((_, at))) => write!(text, " transfer={at}+{}", t.length),
        (Some(t), None) => write!(text, " transfer=?+{}", t.length),
        (None, _) => write!(text, " transfer=?"),
    };
    if let Some(psn) = psn {
        let _ = match transfer.and_then(|t| Some((t.place(psn)? + 1, t.fragments))) {
            Some((n, of)) => write!(text, " fragment={n}/{of}"),
            None => write!(text, " fragment=?"),
        };
    }
    text
}
