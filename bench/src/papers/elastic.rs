//! Consumers that join and leave.

use std::time::Duration;

use zsr_api::controller as proto;
use zsr_plan::state::NewMember;
use zsr_ring::{Consumer, Producer};
use zsr_simnet::LinkConfig;
use zsr_tests::controlled::Controlled;
use zsr_topology::RingRole;

use super::{Curve, Drawn, Figure, at_least, at_most};

pub(super) const FIGURE: Figure = Figure {
    name: "12.13",
    title: "a load balance whose consumers become four and one again",
    says: "Zero-sided RDMA, figure 12.13: consumers are added to a running query (TPC-H Q1) and taken away again. Throughput follows their \
           number at once, and the producer notices nothing. Here a consumer takes what Q1 would, and computes nothing.",
    broken: "joining: the three others are never added",
    draw,
};

const ITEM: usize = 4096;
/// Items that a consumer takes in a step of 100 us.
const SPEED: u64 = 4;
const STEP: Duration = Duration::from_micros(100);
/// Milliseconds between two changes.
const SPAN: u64 = 60;

struct Run {
    sim: Controlled,
    producer: Producer,
    consumers: Vec<Consumer>,
    item: Vec<u8>,
    /// Items that came, by milliseconds.
    came: Vec<u64>,
    begun: u64,
}

impl Run {
    fn step(&mut self) {
        while self.producer.try_push(&self.item).is_ok() {}
        let ms = ((self.sim.net.now() - self.begun) / 1_000_000) as usize;
        self.came.resize(self.came.len().max(ms + 1), 0);
        for consumer in &mut self.consumers {
            for _ in 0..SPEED {
                if consumer.try_pop(&mut self.item).is_err() {
                    break;
                }
                self.came[ms] += 1;
            }
        }
        self.sim.run_for(STEP);
    }

    fn run_for(&mut self, ms: u64) {
        let end = self.sim.net.now() + ms * 1_000_000;
        while self.sim.net.now() < end {
            self.step();
        }
    }
}

/// Items per millisecond, and the milliseconds at which consumers had joined and left.
fn run(broken: bool) -> (Vec<u64>, u64, u64) {
    let mut sim = Controlled::new("hosts: [h1, h2, h3, h4, h5]\nflows: []\n", LinkConfig::FAST, 3);
    let controller = sim.controller(None).expect("a controller");
    let member = |host: &str| vec![proto::Member { host: host.into(), ..Default::default() }];
    let request = proto::CreateFlowRequest {
        name: "f".into(),
        kind: proto::FlowKind::LoadBalance.into(),
        producers: member("h1"),
        consumers: member("h2"),
        item_size: ITEM as u32,
        ring_size: 1 << 19,
        ..Default::default()
    };
    let flow = sim.create(&controller, request);
    let (producer, consumers) = (sim.producer(&flow, 0), vec![sim.consumer(&flow, 1)]);
    let begun = sim.net.now();
    let mut run = Run { sim, producer, consumers, item: vec![0; ITEM], came: Vec::new(), begun };
    run.run_for(SPAN);
    let names: [&'static str; 3] = ["h3", "h4", "h5"];
    for name in names.into_iter().filter(|_| !broken) {
        let member = NewMember { name: name.into(), host: name.into(), ..NewMember::default() };
        let asking = controller.clone();
        let asked = run.sim.begin(async move { asking.add_member("f", RingRole::Consumer, &member).await });
        let asked = asked.expect("a controller");
        while !asked.is_finished() {
            run.step();
        }
        let flow = run.sim.result(asked).expect("an answer").expect("it joins");
        run.consumers.push(run.sim.consumer(&flow, flow.rings().count() - 1));
    }
    let joined = (run.sim.net.now() - begun) / 1_000_000;
    run.run_for(SPAN);
    for name in names.into_iter().filter(|_| !broken) {
        let asking = controller.clone();
        let asked = run.sim.begin(async move { asking.remove_member("f", name, false).await });
        let asked = asked.expect("a controller");
        while !asked.is_finished() {
            run.step();
        }
        run.sim.result(asked).expect("an answer").expect("it leaves");
        let gone = run.consumers.remove(1);
        gone.detach();
    }
    let left = (run.sim.net.now() - begun) / 1_000_000;
    run.run_for(SPAN);
    run.came.pop();
    (run.came, joined, left)
}

fn draw(broken: bool) -> Drawn {
    let (came, joined, left) = run(broken);
    let rate = |items: u64| (items * ITEM as u64) as f64 / 1e9 * 1e3;
    let points: Vec<(f64, f64)> = came
        .chunks(5)
        .zip(0..)
        .map(|(part, n)| (f64::from(n) * 5.0, rate(part.iter().sum()) / part.len() as f64))
        .collect();
    let mean = |from: u64, to: u64| {
        let part = &came[from as usize..to as usize];
        rate(part.iter().sum()) / part.len() as f64
    };
    let end = came.len() as u64;
    let (before, with_four, after) = (mean(10, SPAN), mean(joined + 10, joined + SPAN), mean(left + 10, end));
    let least = came[10..].iter().copied().min().unwrap_or(0);
    let rules = vec![
        at_least("four consumers over one", with_four / before, 3.6),
        at_most("one again over one", after / before, 1.1),
        at_least("the slowest millisecond over the mean of one consumer", rate(least) / before, 0.5),
    ];
    let curves = vec![Curve::new("all consumers", points)];
    Drawn { x: "ms", y: "GB/s", log_x: false, curves, stated: Vec::new(), rules }
}
