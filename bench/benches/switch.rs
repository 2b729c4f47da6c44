//! `cargo bench -p zsr-bench --bench switch`: READ response -> WRITE in the software switch, with the real program and
//! one flow, on one core, and how often it allocates. NICs run between the measured stretches.
//!
//! `-- --instructions MTU` moves a fixed amount of data without measuring anything, for a profiler;
//! `bench/instructions` uses it.

use zsr_bench::alloc::Counting;
use zsr_bench::stages::Stepper;
use zsr_bench::{Times, machine, pin};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ITEM: u32 = 4096;
const BATCH: u32 = 1 << 20;
const WARM_UP: usize = 16;
const TRANSFERS: usize = 300;

fn main() {
    let mut args = std::env::args().skip(1).filter(|a| a != "--bench");
    match (args.next().as_deref(), args.next()) {
        (None, _) => rates(),
        (Some("--instructions"), Some(mtu)) => instructions(mtu.parse().expect("an MTU")),
        _ => {
            eprintln!("usage: cargo bench -p zsr-bench --bench switch [-- --instructions MTU]");
            std::process::exit(2);
        }
    }
}

fn rates() {
    println!("software switch, READ response -> WRITE, {TRANSFERS} transfers of 1 MiB each; {}", machine());
    println!("  MTU  burst   Mpps (min median max)   ns/packet (min median)   allocations/packet");
    pin(0);
    for mtu in [1024, 4096] {
        // 32 packets at a time are still in cache, as in the embedded fabric; 256 make the second-level cache too
        // small.
        for burst in [32, 256] {
            let mut stepper = Stepper::new(ITEM, BATCH, mtu, burst);
            for _ in 0..WARM_UP {
                stepper.transfer(BATCH / ITEM);
            }
            let (mut times, mut allocations, mut packets) = (Vec::new(), 0, 0);
            for _ in 0..TRANSFERS {
                stepper.stages = Default::default();
                stepper.transfer(BATCH / ITEM);
                let stages = &stepper.stages;
                times.push(stages.switch as f64 / stages.packets as f64);
                allocations += stages.switch_allocations;
                packets += stages.packets;
            }
            let t = Times::of(times);
            println!(
                "{mtu:>5}  {burst:>5}   {:>6.2} {:>6.2} {:>6.2}    {:>10.0} {:>7.0}    {:>12.3} ({allocations} in {packets})",
                1000.0 / t.max,
                1000.0 / t.median,
                1000.0 / t.min,
                t.min,
                t.median,
                allocations as f64 / packets as f64,
            );
        }
    }
}

fn instructions(mtu: u32) {
    let mut stepper = Stepper::new(ITEM, BATCH, mtu, 32);
    for _ in 0..4 {
        stepper.transfer(BATCH / ITEM);
    }
    println!("data packets: {}", stepper.stages.packets);
}
