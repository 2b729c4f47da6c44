//! Shares of flows and of members.

use std::time::Duration;

use zsr_api::controller as proto;
use zsr_simnet::LinkConfig;
use zsr_tests::controlled::Controlled;
use zsr_tests::rig::{Rig, hosts, jain};

use super::{Curve, Drawn, Figure, at_least, at_most, gigabytes};

const MS: u64 = 1_000_000;
const SLOW: LinkConfig = LinkConfig { bandwidth_bps: Some(10_000_000_000), ..LinkConfig::FAST };

pub(super) const WEIGHTS: Figure = Figure {
    name: "12.11",
    title: "three flows to one host, of which the third has a weight",
    says: "Zero-sided RDMA, figure 12.11 (quality of service): flows that share a link get shares as they were told.",
    broken: "weights: all flows have the same",
    draw: weights,
};

/// Shares of three flows with weights 1, 1 and `weight` that share a host's link of 1 Gbit/s.
fn shares_by_weight(weight: u32) -> Vec<f64> {
    const LINK: LinkConfig = LinkConfig { bandwidth_bps: Some(1_000_000_000), ..LinkConfig::FAST };
    let mut sim = Controlled::new("hosts: [h1, h2, h3, h4]\nflows: []\n", LINK, 5);
    let controller = sim.controller(None).expect("a controller");
    let member = |host: &str| vec![proto::Member { host: host.into(), ..Default::default() }];
    let mut pairs = Vec::new();
    for (name, host, weight) in [("a", "h1", 1), ("b", "h2", 1), ("c", "h3", weight)] {
        let request = proto::CreateFlowRequest {
            name: name.into(),
            producers: member(host),
            consumers: member("h4"),
            item_size: 4096,
            ring_size: 1 << 18,
            settings: Some(proto::Settings { weight: Some(weight), ..Default::default() }),
            ..Default::default()
        };
        let flow = sim.create(&controller, request);
        pairs.push((sim.producer(&flow, 0), sim.consumer(&flow, 1), 0_u64));
    }
    let mut item = vec![0; 4096];
    let mut run = |sim: &mut Controlled, ms: u64| {
        let before: Vec<u64> = pairs.iter().map(|pair| pair.2).collect();
        let end = sim.net.now() + ms * MS;
        while sim.net.now() < end {
            for (tx, rx, popped) in &mut pairs {
                while tx.try_push(&item).is_ok() {}
                while rx.try_pop(&mut item).is_ok() {
                    *popped += 1;
                }
            }
            sim.run_for(Duration::from_micros(100));
        }
        pairs.iter().zip(before).map(|(pair, before)| pair.2 - before).collect::<Vec<u64>>()
    };
    // The controller learns first what the link carries.
    run(&mut sim, 2000);
    let shares = run(&mut sim, 500);
    let all = shares.iter().sum::<u64>() as f64;
    shares.into_iter().map(|share| share as f64 / all).collect()
}

fn weights(broken: bool) -> Drawn {
    let weights = [1, 2, 4, 8];
    let shares = weights.map(|weight| shares_by_weight(if broken { 1 } else { weight }));
    let points =
        |flow: usize| weights.iter().zip(&shares).map(move |(weight, of)| (f64::from(*weight), of[flow]));
    let wanted = weights.map(|weight| (f64::from(weight), f64::from(weight) / f64::from(weight + 2)));
    let curves = vec![
        Curve::new("the first flow", points(0)),
        Curve::new("the second flow", points(1)),
        Curve::new("the third flow", points(2)),
        Curve::new("by its weight", wanted),
    ];
    let off = curves[2].values().zip(curves[3].values()).map(|(is, wanted)| (is / wanted - 1.0).abs());
    let even = curves[0].values().zip(curves[1].values()).map(|(a, b)| (a / b - 1.0).abs());
    let rules = vec![
        at_most("how far the third flow's share is off its weight", off.fold(0.0, f64::max), 0.1),
        at_most("how far the first two are apart", even.fold(0.0, f64::max), 0.1),
    ];
    Drawn { x: "weight of the third flow", y: "share", log_x: true, curves, stated: Vec::new(), rules }
}

pub(super) const FAIRNESS: Figure = Figure {
    name: "12.14",
    title: "a replicate flow of 1 to 4 producers to 4 consumers",
    says: "Zero-sided RDMA, figure 12.14: producers share the flow equally, and all of them together get what one gets alone.",
    broken: "room: the ring of one producer has a single item",
    draw: fairness,
};

/// Bytes that each producer's ring gave in 5 ms, in GB/s, and each share.
fn shares_of(producers: usize, broken: bool) -> (f64, Vec<u64>) {
    // Producers whose rings are small are drained in smaller pieces, but bytes count.
    let member = |n: usize| {
        let size = if broken && n == 1 { "4KiB".to_owned() } else { format!("{}KiB", 1024 >> (n % 2)) };
        format!("  - {{name: h{n}, rings: [{{name: a, role: producer, item_size: 4KiB, size: {size}}}]}}\n")
    };
    let yaml = format!(
        "defaults: {{mtu: 4096}}\nhosts:\n{}{}flows:\n  - {{name: f, kind: replicate, producers: [{}], consumers: [{}], \
         ring_size: 1MiB, max_batch: 128KiB}}\nworkload: {{kind: synthetic, items: 1}}\n",
        (1..=producers).map(member).collect::<String>(),
        (5..=8).map(|n| format!("  - h{n}\n")).collect::<String>(),
        (1..=producers).map(|n| format!("h{n}.a")).collect::<Vec<_>>().join(", "),
        (5..=8).map(|n| format!("h{n}")).collect::<Vec<_>>().join(", "),
    );
    let mut rig = Rig::new(&yaml, LinkConfig::FAST, u64::MAX);
    rig.run_for(MS);
    let (begin, taken) = (rig.net.now(), rig.taken_in(5 * MS));
    (gigabytes(taken.iter().sum(), rig.net.now() - begin), taken)
}

fn fairness(broken: bool) -> Drawn {
    let all: Vec<(f64, Vec<u64>)> = (1..=4).map(|n| shares_of(n, broken)).collect();
    let of = |least: bool| {
        all.iter().zip(1..).map(move |((total, shares), n)| {
            let sum = shares.iter().sum::<u64>() as f64;
            let one = if least { shares.iter().min() } else { shares.iter().max() };
            (f64::from(n), total * *one.expect("a producer") as f64 / sum)
        })
    };
    let curves = vec![
        Curve::new("all producers", all.iter().zip(1..).map(|((total, _), n)| (f64::from(n), *total))),
        Curve::new("the producer with the most", of(false)),
        Curve::new("the producer with the least", of(true)),
    ];
    let fair = all.iter().map(|(_, shares)| jain(shares)).fold(1.0, f64::min);
    let rules = vec![
        at_least("the smallest index of fairness", fair, 0.95),
        at_least("4 producers together over 1", curves[0].last() / curves[0].first(), 0.95),
    ];
    Drawn { x: "producers", y: "GB/s", log_x: false, curves, stated: Vec::new(), rules }
}

pub(super) const STRAGGLER: Figure = Figure {
    name: "DFI 7.12",
    title: "one of n targets takes half as much as the others",
    says: "DFI, figure 7.12: a slow target (by half) makes everybody wait in systems with equal parts. In a load balance of zsr each target \
           takes as many items as it can.",
    broken: "load balance: each target has an equal part",
    draw: straggler,
};

/// Time until all targets have had all items, over the time that their speeds together need.
fn slowed(targets: usize, kind: &str) -> f64 {
    const ITEMS: u64 = 2_000;
    /// Bytes per microsecond, which is far below the link.
    const SPEED: f64 = 20.0;
    let consumers: Vec<String> = (2..=targets + 1).map(|n| format!("h{n}")).collect();
    let yaml = format!(
        "
hosts: [{}]
flows:
  - {{name: f, kind: {kind}, producers: [h1], consumers: [{}], item_size: 1KiB, ring_size: 8KiB, max_batch: 4KiB}}
workload: {{kind: synthetic, items: 1}}
",
        hosts(targets + 1),
        consumers.join(", ")
    );
    let all = ITEMS * targets as u64;
    // A shuffle's producer has a ring for each target, with an equal part.
    let each = if kind == "shuffle" { ITEMS } else { all };
    let mut rig = Rig::new(&yaml, SLOW, each);
    let mut speeds = vec![SPEED; targets];
    speeds[0] = SPEED / 2.0;
    rig.sinks.iter_mut().zip(&speeds).for_each(|(sink, speed)| sink.speed = *speed);
    rig.run_for(10_000 * MS);
    let ended = rig.sinks.iter().map(|sink| sink.closed_at.expect("all see the end")).max().expect("a sink");
    let best = (all * 1024) as f64 / speeds.iter().sum::<f64>() * 1e3;
    ended as f64 / best
}

fn straggler(broken: bool) -> Drawn {
    let ours = if broken { "shuffle" } else { "load-balance" };
    let of = |kind: &str| [2, 4, 8].map(|n| (n as f64, slowed(n, kind)));
    let curves = vec![Curve::new("load balance", of(ours)), Curve::new("equal parts", of("shuffle"))];
    let rules = vec![
        at_most("the longest time of the load balance over the best one", curves[0].most(), 1.1),
        at_least("equal parts to 8 targets, over the best time,", curves[1].last(), 1.7),
    ];
    Drawn { x: "targets", y: "time over the best", log_x: false, curves, stated: Vec::new(), rules }
}
