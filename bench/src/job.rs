//! A whole run, as `zsr run` makes it, and what it cost.

use std::path::Path;
use std::time::Duration;
use zsr_cli::options::RunOptions;
use zsr_cli::report::{FlowReport, Outcome, Progress, Snapshot};
use zsr_topology::Topology;
use zsr_workload::{Control, Estimate};

/// A run of one flow.
#[derive(Clone, Debug)]
pub struct Job {
    /// The flow's figures.
    pub flow: FlowReport,
    /// Processor time of the thread with NICs, links and switch while data moved; zero where the system doesn't tell.
    pub fabric: Duration,
    /// Processor time of the whole process while data moved.
    pub process: Duration,
}

/// Runs a topology, given as text, with one flow.
///
/// # Panics
/// When it isn't valid, and when anything is not delivered: there is nothing to measure then.
pub fn run(text: &str) -> Job {
    let topology =
        Topology::parse(Path::new("bench.yaml"), text.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    let mut watch = Watch::default();
    let report = zsr_cli::job::run(&topology, &RunOptions::default(), &Control::default(), &mut watch)
        .unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(report.outcome, Outcome::Delivered);
    let flow = report.flows.into_iter().next().expect("one flow");
    Job { flow, fabric: watch.fabric, process: watch.process }
}

/// Looks at the processor times when data begins to move and when it ends.
#[derive(Default)]
struct Watch {
    fabric: Duration,
    process: Duration,
}

impl Progress for Watch {
    fn phase(&mut self, _: &str) {}

    fn start(&mut self, _: Estimate) {
        (self.fabric, self.process) = (thread_time("zsr-fabric"), process_time());
    }

    fn update(&mut self, _: Snapshot) {}

    fn finish(&mut self, _: Snapshot) {
        self.fabric = thread_time("zsr-fabric").saturating_sub(self.fabric);
        self.process = process_time().saturating_sub(self.process);
    }
}

/// Processor time of this process's thread of that name; zero if there is none.
fn thread_time(name: &str) -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let of_task = |path: std::path::PathBuf| {
        let comm = std::fs::read_to_string(path.join("comm")).ok()?;
        if comm.trim_end() != name {
            return None;
        }
        let times = std::fs::read_to_string(path.join("schedstat")).ok()?;
        times.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    };
    tasks.filter_map(|t| of_task(t.path())).next().unwrap_or_default()
}

/// Processor time of this process.
fn process_time() -> Duration {
    // SAFETY: the call writes a plain structure of ours.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}
