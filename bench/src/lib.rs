//! Benchmarks and baselines: what they share.

pub mod flow;

use std::time::Instant;

/// Shortest, median and longest of repeated measurements, in nanoseconds per operation.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Shortest.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// Longest.
    pub max: f64,
}

/// Runs `f`, which does `operations` operations, `rounds` times after one round to warm up.
pub fn measure(rounds: usize, operations: u64, mut f: impl FnMut()) -> Times {
    f();
    let mut times: Vec<f64> = (0..rounds.max(1))
        .map(|_| {
            let start = Instant::now();
            f();
            start.elapsed().as_nanos() as f64 / operations as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    Times { min: times[0], median: times[times.len() / 2], max: times[times.len() - 1] }
}

/// Keeps the calling thread on core `core`, so that a measurement is not moved about; does nothing where that fails.
pub fn pin(core: usize) {
    // SAFETY: `set` is a plain bit set on our stack, and the call only reads it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// Name of this machine's processor and its number of cores.
pub fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|l| l.strip_prefix("model name")).unwrap_or(": unknown processor");
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    format!("{}, {cores} cores", model.trim_start_matches(['\t', ' ', ':']))
}
