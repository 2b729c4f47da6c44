//! The cost of losses and of reordering, in virtual time: the share of the goodput without them that is left. For
//! losses, the table also has the largest share that one READ at a time can reach. Controller, agents, NICs and switch
//! are those that users run; links have 10 Gbit/s.
//!
//! `cargo bench -p zsr-bench --bench loss -- [KIND [RTT_US [SECONDS [WINDOW]]]]`. `SECONDS` of virtual time pass before
//! the second that is measured; in that time the controller gets to know the network. NICs keep `WINDOW` packets behind
//! a missing one.

use std::time::Duration;
use zsr_api::controller as proto;
use zsr_ring::{Consumer, PopError, Producer, PushError};
use zsr_simnet::{FaultRates, LinkConfig};
use zsr_tests::controlled::{Controlled, load};

const BANDWIDTH: u64 = 10_000_000_000;
/// The time of a packet of MTU 1024 on a link, in nanoseconds.
const PACKET_NS: f64 = 1090.0 * 8.0 / 10.0;
/// The most packets that overtake a packet at each of two links, where packets are reordered.
const PLACES: f64 = 32.0;
const ITEM: usize = 1024;
const RING: u64 = 8 << 20;
/// Of all packets of a link.
const RATES: [f64; 4] = [0.001, 0.01, 0.05, 0.2];
const MEASURED: Duration = Duration::from_secs(1);
/// Between two looks of programs at their rings.
const STEP: Duration = Duration::from_micros(500);

/// The largest share of the lossless goodput that remains when READs of up to `most` packets at a time go over a path
/// of `r` packets round trip. Each packet is lost with probability `p`. A READ whose answer has a hole is begun again
/// from there.
fn bound(p: f64, r: f64, most: usize) -> f64 {
    let mut expected = vec![0.0; most + 1];
    let mut best: f64 = 0.0;
    for n in 1..=most {
        let (mut again, mut all) = (0.0, 1.0);
        for i in 1..n {
            all *= 1.0 - p;
            again += p * all * expected[n - i];
        }
        expected[n] = (r + n as f64 + again) / (1.0 - p);
        best = best.max(n as f64 / expected[n]);
    }
    best * (r + most as f64) / most as f64
}

/// A flow of some kind from h1.
struct Flow {
    producer: Producer,
    consumers: Vec<Consumer>,
    item: [u8; ITEM],
}

impl Flow {
    /// Pushes and pops as many items as possible, for this time. Returns the bytes that all consumers popped.
    fn run(&mut self, sim: &mut Controlled, time: Duration) -> u64 {
        let (end, mut popped) = (sim.net.now() + time.as_nanos() as u64, 0);
        while sim.net.now() < end {
            loop {
                match self.producer.try_push(&self.item) {
                    Ok(()) => {}
                    Err(PushError::Full) => break,
                    Err(e) => panic!("{e}"),
                }
            }
            sim.run_for(STEP);
            for consumer in &mut self.consumers {
                loop {
                    match consumer.try_pop(&mut self.item) {
                        Ok(()) => popped += ITEM as u64,
                        Err(PopError::Empty) => break,
                        Err(e) => panic!("{e}"),
                    }
                }
            }
        }
        popped
    }
}

/// Bytes per virtual second at each consumer, and packets sent for each that was needed.
fn measure(
    kind: proto::FlowKind,
    rtt: Duration,
    faults: FaultRates,
    before: Duration,
    window: u16,
) -> (f64, f64) {
    let link = LinkConfig {
        bandwidth_bps: Some(BANDWIDTH),
        latency_ns: rtt.as_nanos() as u64 / 4,
        ..LinkConfig::FAST
    };
    let host = |n| format!("{{name: h{n}, reorder_window: {window}}}");
    let topology = format!("hosts: [{}, {}, {}]\nflows: []\n", host(1), host(2), host(3));
    let mut sim = Controlled::new(&topology, link, 1);
    let controller = sim.controller(None).expect("a controller");
    let member = |host: &str| proto::Member { host: host.into(), ..Default::default() };
    let hosts: &[&str] = if kind == proto::FlowKind::Shuffle { &["h2"] } else { &["h2", "h3"] };
    let request = proto::CreateFlowRequest {
        name: "f".into(),
        kind: kind.into(),
        producers: vec![member("h1")],
        consumers: hosts.iter().map(|h| member(h)).collect(),
        item_size: ITEM as u32,
        ring_size: RING as u32,
        ..Default::default()
    };
    let flow = sim.create(&controller, request);
    let consumers = (1..=hosts.len()).map(|at| sim.consumer(&flow, at)).collect();
    let mut flow = Flow { producer: sim.producer(&flow, 0), consumers, item: [7; ITEM] };
    (0..3).for_each(|host| sim.set_faults(host, faults));
    flow.run(&mut sim, before);
    let sent = |sim: &mut Controlled| {
        let wire = &sim.switch().switch;
        let sent = wire.info().counter("EgressShell.count_egress.sent").expect("a counter");
        // The connections of rings are numbered from 1; data and polls, the producer's first.
        (0..64).map(|cell| wire.counter_read(sent, cell).expect("a cell")).map(|c| c.bytes).sum::<u64>()
    };
    let earlier = sent(&mut sim);
    let popped = flow.run(&mut sim, MEASURED);
    let needed = (popped as f64 * 1090.0 / 1024.0).max(1.0);
    let each = popped / if kind == proto::FlowKind::Replicate { hosts.len() as u64 } else { 1 };
    (each as f64 / MEASURED.as_secs_f64(), (sent(&mut sim) - earlier) as f64 / needed)
}

fn main() {
    // A program that stays makes later ones cheap.
    let _program = load();
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let only = |at: usize, value: &str| args.get(at).is_none_or(|arg| arg == value || arg == "all");
    let before = Duration::from_secs_f64(args.get(2).map_or(3.0, |s| s.parse().expect("seconds")));
    let window = args.get(3).map_or(256, |w| w.parse().expect("packets"));
    println!("| flow | rtt us | per link | MB/s | share | bound | share / bound | bytes sent / needed |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let kinds = [
        ("shuffle", proto::FlowKind::Shuffle),
        ("replicate", proto::FlowKind::Replicate),
        ("load-balance", proto::FlowKind::LoadBalance),
    ];
    for (name, kind) in kinds.into_iter().filter(|(name, _)| only(0, name)) {
        for rtt in [10, 100, 1000].into_iter().filter(|rtt| only(1, &rtt.to_string())) {
            let measure = |faults| measure(kind, Duration::from_micros(rtt), faults, before, window);
            let (without, sent) = measure(FaultRates::NONE);
            println!("| {name} | {rtt} | nothing | {:.2} | 1 | 1 | 1 | {sent:.2} |", without / 1e6);
            for loss in RATES {
                let (goodput, sent) = measure(FaultRates { loss, ..FaultRates::NONE });
                // Each packet of items goes to the switch and on, to every consumer of a group.
                let links = if kind == proto::FlowKind::Replicate { 3 } else { 2 };
                let p = 1.0 - (1.0f64 - loss).powi(links);
                let (share, bound) = (goodput / without, bound(p, rtt as f64 * 1000.0 / PACKET_NS, 1024));
                println!(
                    "| {name} | {rtt} | {loss} lost | {:.2} | {share:.4} | {bound:.4} | {:.2} | {sent:.2} |",
                    goodput / 1e6,
                    share / bound
                );
            }
            for reorder in RATES {
                let reorder_ns = (PLACES * PACKET_NS) as u64;
                let (goodput, sent) = measure(FaultRates { reorder, reorder_ns, ..FaultRates::NONE });
                println!(
                    "| {name} | {rtt} | {reorder} late | {:.2} | {:.4} | | | {sent:.2} |",
                    goodput / 1e6,
                    goodput / without
                );
            }
        }
    }
}
