//! Shares of flows and producers in a live system: weights and rate caps, changed while data moves, and fairness within
//! a flow. Figures stand in bench/results/processes.md.

use std::time::Duration;
use zsr_api::controller as proto;
use zsr_bench::live::{Live, Pumps, windows};

const WINDOW: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);

fn main() {
    println!("{}", zsr_bench::machine());
    weights();
    caps();
    fairness();
}

fn settings() -> proto::Settings {
    proto::Settings::default()
}

fn flow(ring_size: u32) -> proto::CreateFlowRequest {
    proto::CreateFlowRequest { item_size: 4096, ring_size, ..Default::default() }
}

/// How far parts are from those by weight, at most.
fn off(rates: &[f64], weights: &[u32]) -> f64 {
    let (total, all) = (rates.iter().sum::<f64>(), weights.iter().sum::<u32>());
    let part = |(rate, weight): (&f64, &u32)| rate / (total * f64::from(*weight) / f64::from(all)) - 1.0;
    rates.iter().zip(weights).map(part).map(f64::abs).fold(0.0, f64::max)
}

fn show(rates: &[f64]) -> String {
    rates.iter().map(|r| format!("{:7.1}", r / 1e6)).collect::<Vec<_>>().join(" ")
}

fn weights() {
    let live = Live::up(4);
    let flows: Vec<Pumps> = ["a", "b", "c"]
        .iter()
        .zip(["h1", "h2", "h3"])
        .map(|(f, h)| Pumps::start(&live.create(f, &[h], &["h4"], flow(1 << 20))))
        .collect();
    let counters = || flows.iter().map(Pumps::popped).collect::<Vec<_>>();
    std::thread::sleep(SECOND);
    println!("\nweights; MB/s of flows a, b, c to one host");
    for weights in [[1, 1, 1], [1, 2, 4], [4, 2, 1], [1, 10, 1]] {
        for (name, weight) in ["a", "b", "c"].iter().zip(weights) {
            live.set(name, proto::Settings { weight: Some(weight), ..settings() });
        }
        println!("{weights:?}: windows of 100 ms after the change");
        let seen = windows(5, WINDOW, &counters);
        seen.iter().for_each(|r| println!("  {}  off by {:.3}", show(r), off(r, &weights)));
        let seen = windows(5, SECOND, &counters);
        println!("  then, of 1 s");
        seen.iter().for_each(|r| println!("  {}  off by {:.3}", show(r), off(r, &weights)));
    }
}

fn caps() {
    let live = Live::up(3);
    let (a, b) = (
        live.create("a", &["h1"], &["h3"], flow(1 << 20)),
        live.create("b", &["h2"], &["h3"], flow(1 << 20)),
    );
    let pumps = [Pumps::start(&a), Pumps::start(&b)];
    let counters = || pumps.iter().map(Pumps::popped).collect::<Vec<_>>();
    std::thread::sleep(SECOND);
    println!("\nrate cap of flow a, beside a flow without; MB/s");
    for cap in [0, 1_000_000, 80_000_000, 400_000_000] {
        live.set("a", proto::Settings { rate_cap_bps: Some(cap), ..settings() });
        let wanted = cap as f64 / 8.0;
        let judge = |r: &[f64]| match cap {
            0 => String::new(),
            _ => format!("  off by {:.3}", (r[0] / wanted - 1.0).abs()),
        };
        println!("{} Mbit/s: windows of 100 ms after the change", cap / 1_000_000);
        windows(5, WINDOW, &counters).iter().for_each(|r| println!("  {}{}", show(r), judge(r)));
        println!("  then, of 1 s");
        windows(3, SECOND, &counters).iter().for_each(|r| println!("  {}{}", show(r), judge(r)));
    }
}

fn fairness() {
    let live = Live::up(5);
    let created = live.create("f", &["h1", "h2", "h3", "h4"], &["h5"], flow(1 << 20));
    let pumps = Pumps::start(&created);
    let produced =
        || pumps.produced.iter().map(|p| p.load(std::sync::atomic::Ordering::Relaxed)).collect::<Vec<_>>();
    std::thread::sleep(SECOND);
    println!("\nfour producers of one flow; MB/s in windows of 1 s, and Jain's index");
    for rates in windows(5, SECOND, &produced) {
        let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|r| r * r).sum::<f64>());
        println!("  {}  {:.4}", show(&rates), sum * sum / (rates.len() as f64 * squares));
    }
}
