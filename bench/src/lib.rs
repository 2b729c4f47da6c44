//! Benchmarks and baselines: their shared parts.

pub mod alloc;
pub mod baseline;
pub mod flow;
pub mod job;
pub mod live;
pub mod papers;
pub mod stages;

use std::time::{Duration, Instant};

/// Least, median and greatest of repeated measurements: nanoseconds per operation, unless it says otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Least.
    pub min: f64,
    /// Median.
    pub median: f64,
    /// Greatest.
    pub max: f64,
}

impl Times {
    /// Sorts the measurements; there must be at least one.
    pub fn of(mut values: Vec<f64>) -> Times {
        values.sort_by(f64::total_cmp);
        Times { min: values[0], median: values[values.len() / 2], max: values[values.len() - 1] }
    }
}

/// The time, in microseconds, within which that many tenths of these sorted times lie; there must be at least one.
pub fn within_us(times: &[Duration], tenths: usize) -> f64 {
    times[(times.len() - 1) * tenths / 10].as_nanos() as f64 / 1e3
}

/// The `n`th of pauses of 0.5 to 1.5 times `pause`, in steps of the golden ratio. So all phases of periodic events are
/// met alike.
pub fn uneven(pause: Duration, n: u32) -> Duration {
    pause.mul_f64(0.5 + (f64::from(n) * 0.618_034).fract())
}

/// Runs `f`, which does `operations` operations, `rounds` times after one round to warm up.
pub fn measure(rounds: usize, operations: u64, mut f: impl FnMut()) -> Times {
    let [times] = compare(rounds, operations, [&mut f]);
    times
}

/// Runs functions that do `operations` operations each, in turn, `rounds` times after one round to warm up. So a
/// disturbance of the machine affects all alike. A round should be well below a scheduler's time slice, so that most
/// rounds run through.
pub fn compare<const N: usize>(rounds: usize, operations: u64, mut fs: [&mut dyn FnMut(); N]) -> [Times; N] {
    let mut times: [Vec<f64>; N] = std::array::from_fn(|_| Vec::with_capacity(rounds));
    for round in 0..=rounds.max(1) {
        for (f, times) in fs.iter_mut().zip(&mut times) {
            let start = Instant::now();
            f();
            if round > 0 {
                times.push(start.elapsed().as_nanos() as f64 / operations as f64);
            }
        }
    }
    times.map(Times::of)
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
