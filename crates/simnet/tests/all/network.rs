//! The simulation itself: times of arrival, waiting for links, faults changed on the way, and the ways that runs end.

use std::cell::RefCell;
use std::rc::Rc;

use zsr_simnet::*;
use zsr_wire::{Frame, FramePool};

/// Sends frames of given lengths from port 0 as fast as it may, and notes what arrives and when.
#[derive(Default)]
struct Box1 {
    to_send: Vec<usize>,
    got: Vec<(u64, usize)>,
    timer: Option<u64>,
    rings: Vec<u64>,
    stuck: bool,
}

impl Node for Box1 {
    fn handle(&mut self, now_ns: u64, _port: u16, frame: Frame, pool: &mut FramePool) {
        self.got.push((now_ns, frame.len()));
        pool.put(frame);
    }

    fn poll_transmit(&mut self, _now_ns: u64, pool: &mut FramePool) -> Option<(u16, Frame)> {
        let len = self.to_send.pop()?;
        let mut frame = pool.take();
        frame.grow_back(len)?.fill(len as u8);
        Some((0, frame))
    }

    fn next_timer(&self) -> Option<u64> {
        self.timer
    }

    fn on_timer(&mut self, now_ns: u64) {
        self.rings.push(now_ns);
        if !self.stuck {
            self.timer = None;
        }
    }
}

fn sender(lengths: &[usize]) -> Box1 {
    Box1 { to_send: lengths.iter().rev().copied().collect(), ..Box1::default() }
}

const SLOW: LinkConfig = LinkConfig {
    bandwidth_bps: Some(1_000_000_000),
    latency_ns: 5_000,
    backlog_ns: 1_000,
    faults: [FaultRates::NONE; 2],
};

fn two(a: Box1, b: Box1, config: LinkConfig) -> (Network, NodeId, NodeId) {
    let mut net = Network::new(1);
    let (a, b) = (net.add(a), net.add(b));
    net.connect(End { node: a, port: 0 }, End { node: b, port: 3 }, config).unwrap();
    (net, a, b)
}

#[test]
fn frames_arrive_after_their_bits_and_the_latency() {
    let (mut net, a, b) = two(sender(&[101, 226, 976]), Box1::default(), SLOW);
    assert_eq!(net.run_until(u64::MAX, |_| false), Stop::Idle);
    // 24 bytes of overhead each, 8 ns per byte, one after the other.
    let node: &Box1 = net.node(b).unwrap();
    assert_eq!(node.got, [(6_000, 101), (8_000, 226), (16_000, 976)]);
    let stats = net.link_stats(End { node: a, port: 0 }).unwrap();
    assert_eq!(stats, LinkStats { frames: 3, bytes: 1303, busy_ns: 11_000 });
    assert_eq!(net.deliveries(), 3);
}

#[test]
fn a_sender_waits_while_its_link_is_busy() {
    let (mut net, a, _) = two(sender(&[976; 10]), Box1::default(), SLOW);
    // 8 µs per frame and 1 µs of backlog: a frame is taken 1 µs before the last one has left.
    net.run_until(15_000, |_| false);
    let node: &Box1 = net.node(a).unwrap();
    assert_eq!(node.to_send.len(), 10 - 3);
    assert_eq!(net.now(), 15_000);
    assert_eq!(net.run_until(u64::MAX, |_| false), Stop::Idle);
}

#[test]
fn timers_ring_on_time_and_one_that_never_moves_on_is_noticed() {
    let mut node = Box1 { timer: Some(777), ..Box1::default() };
    node.to_send = vec![];
    let (mut net, a, b) = two(node, Box1::default(), SLOW);
    assert_eq!(net.run_until(700, |_| false), Stop::Time);
    assert_eq!(net.run_until(u64::MAX, |_| false), Stop::Idle);
    assert_eq!(net.node::<Box1>(a).unwrap().rings, [777]);
    let node: &mut Box1 = net.node_mut(b).unwrap();
    (node.timer, node.stuck) = (Some(0), true);
    assert_eq!(net.run_until(u64::MAX, |_| false), Stop::Livelock(b));
}

#[test]
fn work_posted_by_the_condition_is_sent() {
    let (mut net, a, b) = two(Box1::default(), Box1::default(), SLOW);
    let mut posted = 0;
    let stop = net.run_until(u64::MAX, |net| {
        if net.node::<Box1>(b).unwrap().got.len() == posted && posted < 3 {
            net.node_mut::<Box1>(a).unwrap().to_send.push(100);
            posted += 1;
        }
        net.node::<Box1>(b).unwrap().got.len() == 3
    });
    assert_eq!((stop, posted), (Stop::Condition, 3));
}

#[test]
fn a_link_can_break_and_heal() {
    let (mut net, a, b) = two(sender(&[100; 4]), Box1::default(), SLOW);
    let from = End { node: a, port: 0 };
    assert!(net.set_faults(from, FaultRates { loss: 1.0, ..FaultRates::NONE }).unwrap());
    net.run_until(u64::MAX, |_| false);
    assert!(net.node::<Box1>(b).unwrap().got.is_empty());
    assert_eq!(net.fault_stats(from).unwrap().lost, 4);
    net.set_faults(from, FaultRates::NONE).unwrap();
    net.node_mut::<Box1>(a).unwrap().to_send.push(100);
    net.run_until(u64::MAX, |_| false);
    assert_eq!(net.node::<Box1>(b).unwrap().got.len(), 1);
    assert!(!net.set_faults(End { node: a, port: 9 }, FaultRates::NONE).unwrap());
}

#[test]
fn the_observer_sees_every_delivery() {
    let (mut net, _, b) = two(sender(&[100, 200]), Box1::default(), SLOW);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = seen.clone();
    net.observe(move |time, end, bytes| log.borrow_mut().push((time, end, bytes.len())));
    net.run_until(u64::MAX, |_| false);
    let end = End { node: b, port: 3 };
    assert_eq!(*seen.borrow(), [(5_992, end, 100), (7_784, end, 200)]);
}

#[test]
fn impossible_links_are_refused_and_frames_to_nowhere_counted() {
    let (mut net, a, b) = two(sender(&[]), sender(&[100]), SLOW);
    let free = |node, port| End { node, port };
    assert_eq!(net.connect(free(a, 0), free(b, 5), SLOW), Err(LinkError::PortTaken(0, 0)));
    assert_eq!(net.connect(free(a, 1), free(a, 1), SLOW), Err(LinkError::PortTaken(0, 1)));
    let nobody = NodeId(7);
    let error = net.connect(free(a, 1), free(nobody, 0), SLOW).unwrap_err();
    assert_eq!(error.to_string(), "node 7 is not in this network: it has nodes 0 to 1");
    let zero = LinkConfig { bandwidth_bps: Some(0), ..SLOW };
    assert_eq!(net.connect(free(a, 1), free(b, 5), zero), Err(LinkError::NoBandwidth));
    let bad = SLOW.with_faults(FaultRates { loss: 2.0, ..FaultRates::NONE });
    assert!(matches!(net.connect(free(a, 1), free(b, 5), bad), Err(LinkError::Faults(_))));
    net.run_until(u64::MAX, |_| false);
    assert_eq!(net.unplugged(b), Some(1));
}
