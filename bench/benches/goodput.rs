//! `cargo bench -p zsr-bench --bench goodput`: a whole run, 1:1 with batches of 64 KiB, beside this machine's rate of
//! copying and checking, and the parts of a packet's time.

use std::hint::black_box;
use zsr_bench::stages::{Stages, Stepper};
use zsr_bench::{Times, job, machine, measure, pin};

const BATCH: u32 = 64 << 10;
const BYTES: u64 = 256 << 20;
const RUNS: usize = 5;
const BURST: usize = 32;

fn main() {
    println!("1:1, batches of 64 KiB; {}", machine());
    // The runs come first: their threads go where the system puts them.
    println!("\nwhole runs, {} MiB each, {RUNS} runs", BYTES >> 20);
    println!("{:46}processor time per packet, ns", "");
    println!(
        "  MTU     item   goodput MB/s (min median max)   fabric    all   packets   mean batch   control packets/transfer"
    );
    for mtu in [1024, 4096] {
        for item in [4 << 10, BATCH] {
            runs(mtu, item);
        }
    }
    pin(0);
    let (copy, far, crc) = machine_rates();
    println!("\nthis machine, one core, ns per KiB (MB/s), median of short rounds");
    for (what, t) in [
        ("memcpy, blocks of 64 KiB, in cache", copy),
        ("memcpy, blocks of 64 KiB, out of cache", far),
        ("CRC-32, blocks of 1 KiB, in cache", crc),
    ] {
        println!("  {what:40} {:>6.1} ({:.0})", t.median, 1024e3 / t.median);
    }
    println!(
        "\nwhere a packet's time goes, ns per data packet, one thread, bursts of {BURST} (medians over transfers)"
    );
    println!(
        "  MTU     item   push  make  links switch  take   pop control  total   MB/s   of it 3 CRCs, 4 copies"
    );
    for mtu in [1024, 4096] {
        for item in [4 << 10, BATCH] {
            breakdown(mtu, item, (copy.median, crc.median));
        }
    }
}

/// Whole runs, through the same function as `zsr run`.
fn runs(mtu: u32, item: u32) {
    let text = format!(
        "defaults: {{mtu: {mtu}}}\nhosts: [h1, h2]\nflows:\n  - {{name: f, producers: [h1], consumers: [h2], \
         item_size: {item}, ring_size: 1MiB, max_batch: {BATCH}}}\n\
         workload: {{kind: synthetic, items: {}}}\n",
        BYTES / u64::from(item)
    );
    let jobs: Vec<job::Job> = (0..RUNS).map(|_| job::run(&text)).collect();
    let of = |f: &dyn Fn(&job::Job) -> f64| Times::of(jobs.iter().map(f).collect());
    let per_packet =
        |j: &job::Job, t: std::time::Duration| t.as_nanos() as f64 / j.flow.switch.data_packets as f64;
    let goodput = of(&|j| j.flow.goodput() / 1e6);
    println!(
        "{mtu:>5} {item:>8}   {:>12.0} {:>7.0} {:>7.0}   {:>6.0} {:>6.0}   {:>7.0} {:>12.0} {:>26.1}",
        goodput.min,
        goodput.median,
        goodput.max,
        of(&|j| per_packet(j, j.fabric)).median,
        of(&|j| per_packet(j, j.process)).median,
        of(&|j| j.flow.switch.data_packets as f64).median,
        of(&|j| j.flow.mean_batch()).median,
        of(&|j| j.flow.switch.control_packets as f64 / j.flow.switch.transfers as f64).median,
    );
}

/// ns per KiB: copying between two areas of 1 MiB and of 64 MiB, and CRC-32 of 1 KiB in 64 KiB.
fn machine_rates() -> (Times, Times, Times) {
    let copying = |size: usize, rounds: usize| {
        let (from, mut to) = (vec![7u8; size], vec![1u8; size]);
        measure(rounds, size as u64 / 1024, || {
            for (from, to) in from.chunks_exact(64 << 10).zip(to.chunks_exact_mut(64 << 10)) {
                to.copy_from_slice(black_box(from));
            }
            black_box(&mut to);
        })
    };
    // Both areas together fit the second-level cache of most machines in the first case.
    let (near, far) = (copying(256 << 10, 501), copying(64 << 20, 21));
    let data = vec![7u8; 64 << 10];
    let crc = measure(501, 64 * 8, || {
        for _ in 0..8 {
            for block in data.chunks_exact(1024) {
                black_box(zsr_wire::icrc::crc32(0, black_box(block)));
            }
        }
    });
    (near, far, crc)
}

fn breakdown(mtu: u32, item: u32, (copy, crc): (f64, f64)) {
    let mut stepper = Stepper::new(item, BATCH, mtu, BURST);
    let batch: Vec<Stages> = (0..600)
        .map(|_| {
            stepper.stages = Stages::default();
            for _ in 0..4 {
                stepper.transfer(BATCH / item);
            }
            stepper.stages
        })
        .skip(20)
        .collect();
    let median = |f: &dyn Fn(&Stages) -> u64| {
        Times::of(batch.iter().map(|s| f(s) as f64 / s.packets as f64).collect()).median
    };
    let total = median(&Stages::total);
    let kib = f64::from(mtu) / 1024.0;
    println!(
        "{mtu:>5} {item:>8}  {:>5.0} {:>5.0} {:>6.0} {:>6.0} {:>5.0} {:>5.0} {:>7.0} {total:>6.0} {:>6.0}   {:>5.0} {:>5.0}",
        median(&|s| s.push),
        median(&|s| s.transmit),
        median(&|s| s.links),
        median(&|s| s.switch),
        median(&|s| s.receive),
        median(&|s| s.pop),
        median(&|s| s.control),
        f64::from(mtu) * 1e3 / total,
        3.0 * crc * kib,
        4.0 * copy * kib,
    );
}
