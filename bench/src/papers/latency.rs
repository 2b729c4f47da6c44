//! How long an item is on its way.

use std::collections::VecDeque;

use zsr_simnet::LinkConfig;
use zsr_tests::rig::Rig;

use super::{Curve, Drawn, Figure, Rule, Stated, at_most};

pub(super) const FIGURE: Figure = Figure {
    name: "12.10",
    title: "one way of an item of 64 B, by the rate of items",
    says: "Zero-sided RDMA, figure 12.10: the time an item takes stays below the interval of polls, and hardly depends on how many come \
           per second. With a doorbell it is some 15 us.",
    broken: "doorbells: all wait for polls",
    draw,
};

const ITEM: u64 = 64;
const INTERVAL_US: u64 = 100;
/// Items per microsecond.
const RATES: [f64; 6] = [0.005, 0.05, 0.5, 2.0, 8.0, 24.0];

/// Median time of items on their way, in microseconds, if `rate` are pushed per microsecond.
fn one_way(rate: f64, doorbell: bool) -> f64 {
    let yaml = format!(
        "
defaults: {{mtu: 4096}}
hosts: [h1, h2]
flows:
  - {{name: f, producers: [h1], consumers: [h2], item_size: {ITEM}, ring_size: 1MiB, poll_interval: {INTERVAL_US}us, doorbell: {doorbell}}}
workload: {{kind: synthetic, items: 1}}
"
    );
    const STEP: u64 = 2_000;
    let mut rig = Rig::new(&yaml, LinkConfig::FAST, 0);
    rig.feeds[0].closes = false;
    let (mut due, mut on_way, mut times) = (0.0, VecDeque::new(), Vec::new());
    let mut steps = 0_u64;
    let warm = 500_000;
    while rig.net.now() < warm || times.len() < 200 || rig.net.now() < 4 * warm {
        let now = rig.net.now();
        // Items come at other moments of the interval each time.
        due += rate * STEP as f64 / 1e3 * (0.5 + (steps as f64 * 0.618_034).fract());
        steps += 1;
        while due >= 1.0 && on_way.len() < 10_000 {
            due -= 1.0;
            on_way.push_back(now);
            rig.feeds[0].left += 1;
        }
        let popped: u64 = rig.popped_in(STEP).iter().sum::<u64>() / ITEM;
        for pushed in on_way.drain(..popped as usize) {
            if pushed >= warm {
                times.push(rig.net.now() - pushed);
            }
        }
    }
    times.sort_unstable();
    times[times.len() / 2] as f64 / 1e3
}

fn draw(broken: bool) -> Drawn {
    let polled = RATES.map(|rate| (rate, one_way(rate, false)));
    let rung = RATES.map(|rate| (rate, one_way(rate, !broken)));
    let curves =
        vec![Curve::new(format!("polls every {INTERVAL_US} us"), polled), Curve::new("doorbell", rung)];
    let interval = INTERVAL_US as f64;
    let waits = curves[0].first() > interval / 4.0;
    let rules = vec![
        at_most("the longest median with polls over their interval", curves[0].most() / interval, 1.0),
        Rule { text: "few items with polls wait for a poll".to_owned(), holds: waits },
        at_most("the longest median with a doorbell, in us,", curves[1].most(), 30.0),
        at_most(
            "the longest median with a doorbell over the shortest",
            curves[1].most() / curves[1].least(),
            3.0,
        ),
    ];
    let stated = vec![Stated { what: "doorbell, few items, us", paper: 15.0, ours: curves[1].first() }];
    Drawn { x: "items per us", y: "us", log_x: true, curves, stated, rules }
}
