//! Many flows on one switch: what setting them up costs, whether that grows with their number, and what idle ones cost.
//! Figures stand in bench/results/processes.md. `FLOWS` sets the number of idle flows (default 10000), a tenth as many
//! become active.

use std::time::{Duration, Instant};
use zsr_api::controller as proto;
use zsr_bench::live::{Live, Stepper, windows};

const POLL_IDLE_US: u64 = 1_000_000;

fn main() {
    let idle: usize = std::env::var("FLOWS").map_or(10_000, |n| n.parse().expect("FLOWS is a number"));
    println!("{}", zsr_bench::machine());
    let live = Live::up(4);
    let hosts = ["h1", "h2", "h3", "h4"];
    let request = || proto::CreateFlowRequest {
        item_size: 64,
        ring_size: 4096,
        settings: Some(proto::Settings { poll_interval_us: Some(POLL_IDLE_US), ..Default::default() }),
        ..Default::default()
    };
    let timed = |n: usize| {
        let begun = Instant::now();
        live.create(&format!("f{n}"), &[hosts[n % 4]], &[hosts[(n + 1) % 4]], request());
        begun.elapsed()
    };
    let times: Vec<Duration> = (0..idle).map(timed).collect();
    print("create", &times);

    let seconds = 5;
    // Statistics of so many rings take a moment themselves, so processor time is another window's.
    let (before, asked) = (sums(&live).polls, Instant::now());
    std::thread::sleep(Duration::from_secs(seconds));
    let polled = (sums(&live).polls - before) as f64 / asked.elapsed().as_secs_f64();
    let before = live.processor_time();
    std::thread::sleep(Duration::from_secs(seconds));
    let cores = (live.processor_time() - before).as_secs_f64() / seconds as f64;
    println!("{idle} idle flows, polled once a second: {polled:.0} polls/s, {cores:.2} cores");

    let active: Vec<proto::Flow> = (0..idle / 10)
        .map(|n| {
            let busy = proto::CreateFlowRequest { settings: None, ..request() };
            live.create(&format!("a{n}"), &[hosts[n % 4]], &[hosts[(n + 1) % 4]], busy)
        })
        .collect();
    let pump = Stepper::start(&active);
    // Until each has moved something.
    while pump.popped().contains(&0) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let before = sums(&live);
    let counted = windows(1, Duration::from_secs(seconds), &|| pump.popped()).remove(0);
    let least = counted.iter().copied().fold(f64::MAX, f64::min);
    let most = counted.iter().copied().fold(0.0, f64::max);
    println!(
        "{} active flows beside them: {:.1} MB/s together, {:.1} to {:.1} kB/s each",
        active.len(),
        counted.iter().sum::<f64>() / 1e6,
        least / 1e3,
        most / 1e3
    );
    let after = sums(&live);
    let transfers = after.transfers - before.transfers;
    println!(
        "  {:.0} transfers/s, {:.2} polls and {:.3} retries per transfer",
        transfers as f64 / seconds as f64,
        (after.polls - before.polls) as f64 / transfers as f64,
        (after.retries - before.retries) as f64 / transfers as f64,
    );
    drop(pump);
    let delete = |name: String| {
        let begun = Instant::now();
        let request = proto::DeleteFlowRequest { name, force: true };
        live.session
            .change(|mut c| async move { c.delete_flow(request).await })
            .unwrap_or_else(|e| panic!("{e}"));
        begun.elapsed()
    };
    let times: Vec<Duration> = (0..idle).map(|n| delete(format!("f{n}"))).collect();
    print("delete", &times);
}

/// Of all flows, since they were made.
#[derive(Default)]
struct Sums {
    polls: u64,
    transfers: u64,
    retries: u64,
}

fn sums(live: &Live) -> Sums {
    let stats =
        live.session.call(|mut c| async move { c.get_stats(proto::GetStatsRequest::default()).await });
    let mut sums = Sums::default();
    for flow in stats.unwrap_or_else(|e| panic!("{e}")).flows {
        sums.polls += flow.polls;
        sums.transfers += flow.transfers;
        sums.retries += flow.retries;
    }
    sums
}

/// Mean and median of each tenth.
fn print(what: &str, times: &[Duration]) {
    println!("{what}: {} flows in {:.2?}", times.len(), times.iter().sum::<Duration>());
    for (n, tenth) in times.chunks(times.len().div_ceil(10).max(1)).enumerate() {
        let mut sorted = tenth.to_vec();
        sorted.sort();
        let mean = tenth.iter().sum::<Duration>() / tenth.len() as u32;
        let (median, worst) = (sorted[sorted.len() / 2], sorted[sorted.len() - 1]);
        println!(
            "  from {:>5}: mean {mean:>8.1?}  median {median:>8.1?}  worst {worst:>8.1?}",
            n * tenth.len()
        );
    }
}
