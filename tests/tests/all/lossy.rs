//! The controller's answer to losses, in virtual time. A flow that loses packets waits for round trips and not for the
//! timeouts that its settings allow, and gets its settings back when nothing is lost any more. `bench/benches/loss.rs`
//! measures the gain.

use std::time::Duration;

use zsr_api::controller as proto;
use zsr_plan::dataplane::model::Flow;
use zsr_ring::{Consumer, Producer};
use zsr_simnet::{FaultRates, LinkConfig};
use zsr_tests::controlled::Controlled;

/// Hosts with NICs that keep nothing behind a missing packet, to which timeouts matter most.
const HOSTS: &str = "hosts: [{name: h1, reorder_window: 0}, {name: h2, reorder_window: 0}, {name: h3, reorder_window: 0}]\nflows: []\n";
const MS: Duration = Duration::from_millis(1);
const ITEM: usize = 1024;
const LINK: LinkConfig =
    LinkConfig { bandwidth_bps: Some(500_000_000), latency_ns: 25_000, ..LinkConfig::FAST };
/// The table in which the switch has a worker's timeouts and batch.
const WORKER: &str = ".workers";

struct Busy {
    producer: Producer,
    consumers: Vec<Consumer>,
}

impl Busy {
    fn new(sim: &Controlled, flow: &Flow, consumers: usize) -> Self {
        let consumers = (1..=consumers).map(|at| sim.consumer(flow, at)).collect();
        Busy { producer: sim.producer(flow, 0), consumers }
    }

    /// Items that the first consumer popped within that time.
    fn run_for(&mut self, sim: &mut Controlled, time: Duration) -> u64 {
        let (end, mut popped) = (sim.net.now() + time.as_nanos() as u64, 0);
        let mut item = [7; ITEM];
        while sim.net.now() < end {
            while self.producer.try_push(&item).is_ok() {}
            sim.run_for(MS);
            for (at, consumer) in self.consumers.iter_mut().enumerate() {
                while consumer.try_pop(&mut item).is_ok() {
                    popped += u64::from(at == 0);
                }
            }
        }
        popped
    }
}

fn request(kind: proto::FlowKind, consumers: &[&str]) -> proto::CreateFlowRequest {
    let member = |host: &str| proto::Member { host: host.into(), ..Default::default() };
    proto::CreateFlowRequest {
        name: "f".into(),
        kind: kind.into(),
        producers: vec![member("h1")],
        consumers: consumers.iter().map(|h| member(h)).collect(),
        item_size: ITEM as u32,
        ring_size: 1 << 20,
        settings: Some(proto::Settings { max_batch: Some(128 << 10), ..Default::default() }),
        ..Default::default()
    }
}

fn adapts(kind: proto::FlowKind, consumers: &[&str]) {
    let mut sim = Controlled::new(HOSTS, LINK, 5);
    let controller = sim.controller(None).expect("a controller");
    let flow = sim.create(&controller, request(kind, consumers));
    let mut busy = Busy::new(&sim, &flow, consumers.len());
    busy.run_for(&mut sim, 200 * MS);
    let settings = sim.entries(WORKER);

    // While the controller stands still nobody adapts anything.
    (0..3).for_each(|host| sim.set_faults(host, FaultRates { loss: 0.03, ..FaultRates::NONE }));
    sim.stall_controller(true);
    let unadapted = busy.run_for(&mut sim, 500 * MS);
    assert_eq!(sim.entries(WORKER), settings);

    sim.stall_controller(false);
    busy.run_for(&mut sim, 1000 * MS);
    assert_ne!(sim.entries(WORKER), settings);
    let adapted = busy.run_for(&mut sim, 500 * MS);
    assert!(adapted > 2 * unadapted, "{adapted} items, and {unadapted} with the flow's own timeouts");

    (0..3).for_each(|host| sim.set_faults(host, FaultRates::NONE));
    busy.run_for(&mut sim, 2500 * MS);
    assert_eq!(sim.entries(WORKER), settings);
}

#[test]
fn a_flow_that_loses_packets_waits_for_round_trips_until_nothing_is_lost_any_more() {
    adapts(proto::FlowKind::Shuffle, &["h2"]);
}

#[test]
fn so_does_a_group() {
    adapts(proto::FlowKind::Replicate, &["h2", "h3"]);
}

/// A fifth of all packets is lost on each link. A flow that moves nothing for a while counts as idle and ticks rarely;
/// this flow does not.
#[test]
fn a_flow_that_waits_for_retries_alone_is_not_taken_for_idle() {
    let mut sim = Controlled::new(HOSTS, LINK, 5);
    let controller = sim.controller(None).expect("a controller");
    let flow = sim.create(&controller, request(proto::FlowKind::Shuffle, &["h2"]));
    let mut busy = Busy::new(&sim, &flow, 1);
    sim.run_for(2000 * MS);
    (0..3).for_each(|host| sim.set_faults(host, FaultRates { loss: 0.2, ..FaultRates::NONE }));
    let (end, mut popped) = (sim.net.now() + (4000 * MS).as_nanos() as u64, 0);
    while popped < 1000 {
        assert!(sim.net.now() < end, "{popped} items in 4 s");
        popped += busy.run_for(&mut sim, 10 * MS);
    }
}
