//! `cargo bench -p zsr-bench --bench switch`: READ response -> WRITE in the software switch, with the real program and one
//! flow, on one core. NICs run between the measured stretches.

use std::time::{Duration, Instant};
use zsr_bench::flow::Flow;
use zsr_bench::{machine, pin};

const BATCH: u32 = 1 << 20;
const TRANSFERS: usize = 100;

fn main() {
    println!("software switch, 1 MiB transfers, {TRANSFERS} each; {}", machine());
    println!("  MTU    Mpps (min median max)   ns per packet (median)");
    pin(0);
    for mtu in [1024, 4096] {
        let mut flow = Flow::new(4096, 2 * BATCH, BATCH, mtu);
        let mut rates: Vec<f64> = (0..TRANSFERS).map(|_| transfer(&mut flow)).skip(TRANSFERS / 10).collect();
        rates.sort_by(f64::total_cmp);
        let median = rates[rates.len() / 2];
        println!(
            "{mtu:>5}    {:>6.2} {median:>6.2} {:>6.2}    {:>8.0}",
            rates[0],
            rates[rates.len() - 1],
            1000.0 / median
        );
    }
}

/// One transfer of `BATCH` bytes; the rate of its data packets in millions per second.
fn transfer(flow: &mut Flow) -> f64 {
    let item = [7u8; 4096];
    for _ in 0..BATCH / 4096 {
        flow.producer.try_push(&item).expect("room for a batch");
    }
    let (mut packets, mut time) = (0, Duration::ZERO);
    let mut frames = Vec::with_capacity(4096);
    let mut popped = 0;
    while popped < BATCH / 4096 {
        flow.now += 20_000;
        flow.tick();
        loop {
            flow.deliver();
            flow.collect(&mut frames);
            if frames.is_empty() {
                break;
            }
            let data = frames.len() > 100;
            if data {
                packets += frames.len();
            }
            let start = Instant::now();
            flow.process(&mut frames);
            if data {
                time += start.elapsed();
            }
        }
        if let Ok(view) = flow.consumer.peek() {
            popped += view.len() as u32;
        }
    }
    packets as f64 / time.as_secs_f64() / 1e6
}
