//! A program that writes nonsense into the control words of its own ring: its flow ends with an event that says so.
//! Other flows, also between the same hosts, lose nothing.

use std::time::Duration;

use tokio::sync::broadcast;
use zsr_api::controller as proto;
use zsr_ring::{Consumer, PopError, Producer, Ring};
use zsr_simnet::{LinkConfig, Rng};
use zsr_tests::controlled::Controlled;

const HOSTS: &str = "hosts: [h1, h2]\nflows: []\n";
const STEP: Duration = Duration::from_micros(100);
const RING: u32 = 4096;
const PRODUCER_HEAD: usize = zsr_wire::ring::PRODUCER_HEAD as usize;
const CONSUMER_TAIL: usize = zsr_wire::ring::CONSUMER_TAIL as usize;
/// Bytes in front of the items.
const CONTROL: usize = zsr_wire::ring::ITEMS as usize;

fn flow(name: &str) -> proto::CreateFlowRequest {
    let member = |host: &str| vec![proto::Member { host: host.into(), ..Default::default() }];
    proto::CreateFlowRequest {
        name: name.into(),
        producers: member("h1"),
        consumers: member("h2"),
        item_size: 64,
        ring_size: RING,
        ..Default::default()
    }
}

/// As a program may: it has mapped the ring's memory.
fn scribble(ring: &Ring, at: usize, bytes: &[u8]) {
    assert!(at + bytes.len() <= CONTROL);
    let base = ring.memory().base().as_ptr();
    for (i, byte) in bytes.iter().enumerate() {
        // SAFETY: the control page is in front of the items, in the ring's memory, to which nobody holds references.
        unsafe { base.add(at + i).write_volatile(*byte) };
    }
}

/// A flow that somebody breaks, and one beside it.
struct Two {
    sim: Controlled,
    tx: Producer,
    rx: Consumer,
    next: [u64; 2],
    events: broadcast::Receiver<proto::Event>,
}

impl Two {
    /// Pushes, pops, and lets time pass; whatever comes is the next item.
    fn step(&mut self) {
        let mut item = [0; 64];
        loop {
            item[..8].copy_from_slice(&self.next[0].to_le_bytes());
            if self.tx.try_push(&item).is_err() {
                break;
            }
            self.next[0] += 1;
        }
        self.sim.run_for(STEP);
        loop {
            match self.rx.try_pop(&mut item) {
                Ok(()) => {
                    assert_eq!(u64::from_le_bytes(item[..8].try_into().expect("8 bytes")), self.next[1])
                }
                Err(PopError::Empty) => return,
                Err(e) => panic!("{e}"),
            }
            self.next[1] += 1;
        }
    }
}

/// Breaks a flow by `break_it` on its rings, over and over; returns the reason why it failed, if it did. The other flow
/// goes on.
fn broken(seed: u64, break_it: impl Fn(&mut Rng, &Ring, &Ring)) -> Option<String> {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, seed);
    let controller = sim.controller(None).expect("a controller");
    let (mine, other) = (sim.create(&controller, flow("mine")), sim.create(&controller, flow("other")));
    let (mut push, pop) = (sim.producer(&mine, 0), sim.consumer(&mine, 1));
    let (tx, rx) = (sim.producer(&other, 0), sim.consumer(&other, 1));
    let (mut rng, mut failed) = (Rng::new(seed), None);
    let mut two = Two { events: controller.events(None).1, sim, tx, rx, next: [0; 2] };
    // The flow runs at first.
    for _ in 0..20 {
        let _ = push.try_push(&[1; 64]);
        two.step();
    }
    for _ in 0..100 {
        break_it(&mut rng, push.ring(), pop.ring());
        two.step();
        while let Ok(event) = two.events.try_recv() {
            if event.kind() == proto::EventKind::FlowFailed {
                assert_eq!(event.flow, "mine", "{}", event.text);
                failed = Some(event.text);
            }
        }
    }
    let before = two.next[1];
    for _ in 0..100 {
        two.step();
    }
    assert!(two.next[1] > before + 100, "the other flow stands still");
    assert_eq!(controller.get_flow("other").expect("there").failed, None);
    failed
}

#[test]
fn a_head_outside_of_the_ring_ends_the_flow_and_says_so() {
    for seed in 1..4 {
        let why = broken(seed, |rng, producer, _| {
            let beyond = (RING + 64 + 64 * rng.below(1 << 20) as u32).to_le_bytes();
            scribble(producer, PRODUCER_HEAD, &beyond);
        });
        let why = why.expect("the flow fails");
        assert!(why.contains("mine.h1") && why.contains("counter outside of its ring"), "{why}");
    }
}

#[test]
fn a_tail_outside_of_the_ring_ends_the_flow_and_says_so() {
    let why = broken(4, |_, producer, consumer| {
        // The switch looks at a consumer when there is something to move and it knows of little room.
        let head = producer.snapshot().tail.counter.wrapping_add(RING - 64);
        scribble(producer, PRODUCER_HEAD, &head.to_le_bytes());
        scribble(consumer, CONSUMER_TAIL, &0x4000_0000u32.to_le_bytes());
    });
    let why = why.expect("the flow fails");
    assert!(why.contains("counter outside of its ring"), "{why}");
}

#[test]
fn whatever_is_in_a_control_page_others_lose_nothing() {
    for seed in 10..20 {
        broken(seed, |rng, producer, consumer| {
            for ring in [producer, consumer] {
                let at = rng.below(128) as usize;
                let bytes: Vec<u8> = (0..1 + rng.below(64)).map(|_| rng.bits() as u8).collect();
                scribble(ring, at, &bytes);
            }
        });
    }
}
