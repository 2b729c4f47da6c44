//! DFI's replication by multicast (DFI, section 5.4): sources SEND segments of one packet to a multicast group over UD, the switch copies
//! them, and targets give credits back. In virtual time, as packets: it has no soft NICs, and nothing is lost.
//!
//! - A target has RECVs for 64 segments of each source, and tells the source every 16 of them how many it has consumed.
//!   A source sends while each target has RECVs.
//! - With a *sequencer*, a source gets a number for each segment by FETCH_ADD at a host, one at a time, and targets consume segments in the
//!   order of these numbers.

use std::collections::{BTreeSet, VecDeque};

use zsr_simnet::{End, Network, Node, NodeId, Stop};
use zsr_wire::{Frame, FramePool};

use super::virtual_time::{LINK, Queue};

/// Payload of a segment: the path MTU, which a UD packet can't exceed.
pub const SEGMENT: usize = 4096;
/// RECVs of a target for each source: 256 KiB, as other rings here.
const WINDOW: u64 = 64;
/// Ethernet, IPv4, UDP, BTH, DETH and ICRC.
const HEADERS: usize = 14 + 20 + 8 + 12 + 8 + 4;
/// A FETCH_ADD, its answer, and a message of credits are about as long.
const SMALL: usize = 90;
/// To all targets.
const GROUP: u8 = 0xff;

/// What a frame is; it stands in its first bytes, with the destination, the source, and a number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Segment = 0,
    Credit = 1,
    Fetch = 2,
    Ticket = 3,
}

fn frame(what: What, to: u8, from: u8, number: u64, pool: &mut FramePool) -> Frame {
    let mut frame = pool.take();
    frame.reset();
    let len = if what == What::Segment { SEGMENT + HEADERS } else { SMALL };
    let begin = [&[what as u8, to, from, 0][..], &number.to_le_bytes()].concat();
    frame.append(&begin);
    frame.grow_back(len - begin.len()).expect("a frame has room for it").fill(0);
    frame
}

fn read(frame: &Frame) -> (u8, u8, u8, u64) {
    let bytes = frame.bytes();
    let number = bytes[4..12].try_into().expect("eight bytes");
    (bytes[0], bytes[1], bytes[2], u64::from_le_bytes(number))
}

struct Source {
    me: u8,
    /// Segments sent, and of each target those consumed.
    sent: u64,
    consumed: Vec<u64>,
    first_target: u8,
    sequencer: Option<u8>,
    /// Whether a number was asked for; numbers that have come.
    asked: bool,
    tickets: VecDeque<u64>,
}

impl Node for Source {
    fn handle(&mut self, _now: u64, _port: u16, got: Frame, pool: &mut FramePool) {
        let (what, _, from, number) = read(&got);
        if what == What::Credit as u8 {
            self.consumed[usize::from(from - self.first_target)] = number;
        } else if what == What::Ticket as u8 {
            self.asked = false;
            self.tickets.push_back(number);
        }
        pool.put(got);
    }

    fn poll_transmit(&mut self, _now: u64, pool: &mut FramePool) -> Option<(u16, Frame)> {
        let slowest = self.consumed.iter().copied().min().unwrap_or(0);
        if self.sent >= slowest + WINDOW {
            return None;
        }
        let number = match self.sequencer {
            None => self.sent,
            Some(_) if !self.tickets.is_empty() => self.tickets.pop_front()?,
            Some(_) if self.asked => return None,
            Some(sequencer) => {
                self.asked = true;
                return Some((0, frame(What::Fetch, sequencer, self.me, 0, pool)));
            }
        };
        self.sent += 1;
        Some((0, frame(What::Segment, GROUP, self.me, number, pool)))
    }
}

struct Target {
    me: u8,
    /// Segments consumed of each source, and in all.
    of: Vec<u64>,
    consumed: u64,
    /// With a sequencer: the number that is consumed next, and segments behind it, with their sources.
    next: Option<u64>,
    early: BTreeSet<(u64, u8)>,
    credits: VecDeque<(u8, u64)>,
}

impl Target {
    fn consume(&mut self, source: u8) {
        self.consumed += 1;
        let of = &mut self.of[usize::from(source)];
        *of += 1;
        if of.is_multiple_of(WINDOW / 4) {
            self.credits.push_back((source, *of));
        }
    }
}

impl Node for Target {
    fn handle(&mut self, _now: u64, _port: u16, got: Frame, pool: &mut FramePool) {
        let (_, _, source, number) = read(&got);
        pool.put(got);
        let Some(next) = &mut self.next else { return self.consume(source) };
        assert!(number >= *next && self.early.insert((number, source)), "a number comes twice");
        while let Some((number, source)) = self.early.first().copied()
            && self.next == Some(number)
        {
            self.early.pop_first();
            self.next = Some(number + 1);
            self.consume(source);
        }
    }

    fn poll_transmit(&mut self, _now: u64, pool: &mut FramePool) -> Option<(u16, Frame)> {
        let (source, consumed) = self.credits.pop_front()?;
        Some((0, frame(What::Credit, source, self.me, consumed, pool)))
    }
}

/// The counter, at a host of its own.
struct Sequencer {
    me: u8,
    next: u64,
    asked: VecDeque<u8>,
}

impl Node for Sequencer {
    fn handle(&mut self, _now: u64, _port: u16, got: Frame, pool: &mut FramePool) {
        self.asked.push_back(read(&got).2);
        pool.put(got);
    }

    fn poll_transmit(&mut self, _now: u64, pool: &mut FramePool) -> Option<(u16, Frame)> {
        let source = self.asked.pop_front()?;
        self.next += 1;
        Some((0, frame(What::Ticket, source, self.me, self.next - 1, pool)))
    }
}

/// The switch. A frame leaves by the port of its destination's number, or by those of all targets.
struct Copier {
    targets: std::ops::Range<u8>,
    out: VecDeque<(u16, Frame)>,
}

impl Node for Copier {
    fn handle(&mut self, _now: u64, _port: u16, got: Frame, pool: &mut FramePool) {
        let (_, to, _, _) = read(&got);
        if to != GROUP {
            self.out.push_back((OUT + u16::from(to), got));
            return;
        }
        for target in self.targets.clone() {
            let mut copy = pool.take();
            copy.reset();
            copy.append(got.bytes());
            self.out.push_back((OUT + u16::from(target), copy));
        }
        pool.put(got);
    }

    fn poll_transmit(&mut self, _now: u64, _pool: &mut FramePool) -> Option<(u16, Frame)> {
        self.out.pop_front()
    }
}

/// The switch sends by other ports than it receives from, as in [`super::virtual_time`].
const OUT: u16 = 1000;

/// Bytes per second that all targets consume together, from `sources` hosts to `targets` others.
pub fn goodput(sources: usize, targets: usize, sequencer: bool) -> f64 {
    let hosts = sources + targets + 1;
    let (first_target, last) = (sources as u8, (sources + targets) as u8);
    let mut net = Network::new(1);
    let switch = net.add(Copier { targets: first_target..last, out: VecDeque::new() });
    let mut nodes: Vec<NodeId> = Vec::new();
    for me in 0..hosts as u8 {
        nodes.push(if me < first_target {
            net.add(Source {
                me,
                sent: 0,
                consumed: vec![0; targets],
                first_target,
                sequencer: sequencer.then_some(last),
                asked: false,
                tickets: VecDeque::new(),
            })
        } else if me < last {
            let next = sequencer.then_some(0);
            let (of, early, credits) = (vec![0; sources], BTreeSet::new(), VecDeque::new());
            net.add(Target { me, of, consumed: 0, next, early, credits })
        } else {
            net.add(Sequencer { me, next: 0, asked: VecDeque::new() })
        });
    }
    let inside = zsr_simnet::LinkConfig { bandwidth_bps: None, latency_ns: 0, ..LINK };
    for (number, host) in (0..).zip(&nodes) {
        let queue = net.add(Queue::default());
        let end = |node, port| End { node, port };
        for (a, b, link) in [
            (end(*host, 0), end(switch, number), LINK),
            (end(switch, OUT + number), end(queue, 0), inside),
            (end(queue, 1), end(*host, 1), LINK),
        ] {
            net.connect(a, b, link).expect("free ports");
        }
    }
    let consumed = |net: &Network| -> u64 {
        let targets = &nodes[sources..sources + targets];
        targets.iter().map(|node| net.node::<Target>(*node).expect("a target").consumed).sum()
    };
    assert_eq!(net.run_for(400_000), Stop::Time);
    let (before, begun) = (consumed(&net), net.now());
    assert_eq!(net.run_for(1_500_000), Stop::Time);
    ((consumed(&net) - before) * SEGMENT as u64) as f64 * 1e9 / (net.now() - begun) as f64
}
