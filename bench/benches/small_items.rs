//! `cargo bench -p zsr-bench --bench small_items`: items of 64 bytes through a whole run, batched adaptively and one by
//! one. The topologies are those of `topologies/small-items.yaml` and `small-items-unbatched.yaml`.

use zsr_bench::{Times, job, machine};

const RUNS: usize = 9;
const BATCHED: &str = include_str!("../../topologies/small-items.yaml");
const SINGLE: &str = include_str!("../../topologies/small-items-unbatched.yaml");

fn main() {
    println!("64-byte items, 1:1, whole runs, {RUNS} of each in turn; {}", machine());
    let (mut batched, mut single) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        batched.push(job::run(BATCHED));
        single.push(job::run(SINGLE));
    }
    println!("{:12}   items/s (min median max)              items per transfer", "");
    let row = |name, jobs: &[job::Job]| {
        let rate = Times::of(jobs.iter().map(|j| j.flow.item_rate()).collect());
        let batch = Times::of(jobs.iter().map(|j| j.flow.mean_batch() / 64.0).collect());
        println!(
            "{name:12}   {:>10.0} {:>10.0} {:>10.0}   {:>12.1}",
            rate.min, rate.median, rate.max, batch.median
        );
        rate.median
    };
    let (a, b) = (row("adaptive", &batched), row("one by one", &single));
    println!("{:12}   {:.0} times", "", a / b);
}
