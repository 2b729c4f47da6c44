//! One-way latency of single items through a live system: from `push` in one thread to `pop` in another, by poll
//! interval and with the doorbell. Figures stand in bench/results/processes.md.

use std::time::{Duration, Instant};
use zsr_api::controller as proto;
use zsr_bench::live::Live;
use zsr_bench::{uneven, within_us};

/// Items per figure.
const ITEMS: usize = 2000;

fn main() {
    println!("{}", zsr_bench::machine());
    println!("{:>12} {:>9}  one-way latency, µs: 1st decile, median, 9th decile", "poll, µs", "doorbell");
    let live = Live::up(2);
    for (poll, doorbell) in [(100, false), (1000, false), (10_000, false), (1000, true), (100_000, true)] {
        let settings =
            proto::Settings { poll_interval_us: Some(poll), doorbell: Some(doorbell), ..Default::default() };
        let name = format!("f{poll}{doorbell}");
        let more = proto::CreateFlowRequest {
            item_size: 64,
            ring_size: 4096,
            settings: Some(settings),
            ..Default::default()
        };
        let times = measure(&live.create(&name, &["h1"], &["h2"], more), poll);
        let [low, median, high] = [1, 5, 9].map(|tenths| within_us(&times, tenths));
        println!("{poll:>12} {doorbell:>9}  {low:8.1} {median:8.1} {high:8.1}");
    }
}

/// Sorted latencies of items that are pushed at times that have nothing to do with polls.
fn measure(flow: &proto::Flow, poll_us: u64) -> Vec<Duration> {
    let (mut producer, mut consumer) = Live::attach(flow);
    let begun = Instant::now();
    let popping = std::thread::spawn(move || {
        let mut item = [0; 64];
        let mut times = Vec::with_capacity(ITEMS);
        for _ in 0..ITEMS {
            consumer.pop(&mut item).unwrap_or_else(|e| panic!("{e}"));
            let sent = u64::from_le_bytes(item[..8].try_into().expect("eight bytes"));
            times.push(begun.elapsed() - Duration::from_nanos(sent));
        }
        times
    });
    let pause = Duration::from_micros(poll_us.min(2_000));
    for n in 0..ITEMS as u32 {
        std::thread::sleep(uneven(pause, n));
        let mut item = [0; 64];
        item[..8].copy_from_slice(&(begun.elapsed().as_nanos() as u64).to_le_bytes());
        producer.push(&item).unwrap_or_else(|e| panic!("{e}"));
    }
    let mut times = popping.join().expect("it pops");
    times.sort();
    times
}
