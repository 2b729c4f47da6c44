//! `zsr-sim`: the whole system in virtual time. It runs the controller, agents, NICs, switch and P4 program of users,
//! under schedules of faults. A run depends on its seed alone, so a failure can be repeated.

mod entropy;
mod forger;
mod pool;
mod programs;
mod run;
mod schedule;
mod shrink;

use std::io::{IsTerminal, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use pool::Outcome;
use schedule::Schedule;

/// Stack of a schedule's thread, in bytes.
const STACK: usize = 16 << 20;

/// Simulates whole systems under faults, and checks that nothing is lost, doubled, torn or out of order.
#[derive(Parser)]
#[command(name = "zsr-sim", version)]
struct Args {
    /// How many seeds to run
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first of them
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// How many at a time; default: as many as there are cores
    #[arg(long)]
    jobs: Option<usize>,
    /// Only this seed, with everything that happens
    #[arg(long, conflicts_with_all = ["seeds", "from", "jobs"])]
    seed: Option<u64>,
    /// With --seed: only these steps of the schedule, as a failure prints them
    #[arg(long, requires = "seed", value_delimiter = ',')]
    steps: Option<Vec<usize>>,
    /// Stop at the first seed that fails, without making its schedule shorter
    #[arg(long, conflicts_with = "seed")]
    until_failure: bool,
    /// With --seed: write the packets that the switch sees to this folder
    #[arg(long, requires = "seed")]
    pcap: Option<std::path::PathBuf>,
}

/// Has memory taken from one heap that grows in big steps and never shrinks, since a schedule takes and gives back a
/// lot.
fn one_heap() {
    for (what, value) in [
        (libc::M_ARENA_MAX, 1),
        (libc::M_MMAP_THRESHOLD, 1 << 30),
        (libc::M_TRIM_THRESHOLD, i32::MAX),
        (libc::M_TOP_PAD, 16 << 20),
    ] {
        // SAFETY: no other thread runs yet.
        unsafe { libc::mallopt(what, value) };
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    one_heap();
    match args.seed {
        Some(seed) => one(seed, args.steps.as_deref(), args.pcap.as_deref()),
        None => many(&args),
    }
}

fn one(seed: u64, steps: Option<&[usize]>, pcap: Option<&std::path::Path>) -> ExitCode {
    if let Some(folder) = pcap {
        // SAFETY: no other thread runs yet.
        unsafe { std::env::set_var("ZSR_CAPTURES", folder) };
    }
    let schedule = Schedule::new(seed);
    let schedule = match steps {
        Some(steps) => schedule.keeping(|at| steps.contains(&at)),
        None => schedule,
    };
    println!(
        "seed {seed}: MTU {}, {} Gbit/s, first PSN {:?}, big-endian hosts {:?}, {} ns for a pass, pipes {}, {}faults {:?}",
        schedule.mtu,
        schedule.bandwidth_bps / 1_000_000_000,
        schedule.first_psn,
        schedule.big_endian,
        schedule.pass_ns,
        schedule.pipes,
        if schedule.standby { "a standby, " } else { "" },
        schedule.rates
    );
    schedule.steps.iter().enumerate().for_each(|(at, step)| println!("{at:>4} {step}"));
    let begun = Instant::now();
    match apart(schedule, true) {
        Some(summary) => {
            println!("passed: {summary}, in {:.1} s", begun.elapsed().as_secs_f64());
            ExitCode::SUCCESS
        }
        None => ExitCode::FAILURE,
    }
}

/// Runs a schedule in a thread of its own, whose hash maps draw their seeds from the schedule's from the first one on.
/// `None`: it failed.
fn apart(schedule: Schedule, trace: bool) -> Option<run::Summary> {
    let run = move || {
        entropy::seed(schedule.seed);
        run::run(&schedule, trace)
    };
    let thread = std::thread::Builder::new().name("schedule".into()).stack_size(STACK).spawn(run);
    thread.ok()?.join().ok()
}

/// Runs a schedule whose steps are those, without a word.
fn passes(seed: u64, keep: impl Fn(usize) -> bool) -> bool {
    std::panic::set_hook(Box::new(|_| ()));
    apart(Schedule::new(seed).keeping(keep), false).is_some()
}

/// Runs a schedule, and prints the first error in one line.
fn says_why(seed: u64) -> bool {
    let said = std::sync::atomic::AtomicBool::new(false);
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.payload().downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.payload().downcast_ref::<&str>().copied()).unwrap_or_default();
        if !said.swap(true, std::sync::atomic::Ordering::Relaxed) {
            println!("seed {seed}: {}", text.lines().next().unwrap_or_default());
        }
    }));
    apart(Schedule::new(seed), false).is_some()
}

fn many(args: &Args) -> ExitCode {
    let jobs = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let (begun, mut ran, mut failed) = (Instant::now(), 0u64, Vec::new());
    let (mut shown, is_terminal) = (Instant::now(), std::io::stdout().is_terminal());
    let done = |seed: u64, outcome: Outcome| {
        ran += 1;
        if outcome != Outcome::Passed {
            println!("{}seed {seed}: {outcome:?}", if is_terminal { "\n" } else { "" });
            failed.push((seed, outcome));
        }
        if args.until_failure && !failed.is_empty() {
            return false;
        }
        let often = if is_terminal { Duration::from_millis(500) } else { Duration::from_secs(20) };
        if shown.elapsed() > often || ran == args.seeds {
            shown = Instant::now();
            let rate = ran as f64 / begun.elapsed().as_secs_f64();
            let text = format!("{ran} of {} seeds, {} failed, {rate:.0}/s ", args.seeds, failed.len());
            if is_terminal {
                print!("\r{text}")
            } else {
                println!("{text}")
            }
            let _ = std::io::stdout().flush();
        }
        true
    };
    // Loaded once, for all schedules.
    let loaded = zsr_tests::controlled::load();
    let seeds = args.from..args.from.saturating_add(args.seeds);
    let work = |seed| if args.until_failure { says_why(seed) } else { passes(seed, |_| true) };
    if let Err(e) = pool::run(seeds, jobs, work, done) {
        println!("\nno process can be made for a schedule: {e}");
        return ExitCode::from(2);
    }
    println!();
    drop(loaded);
    let Some((seed, outcome)) = failed.into_iter().min_by_key(|(seed, _)| *seed) else {
        println!("{ran} schedules passed in {:.0} s", begun.elapsed().as_secs_f64());
        return ExitCode::SUCCESS;
    };
    if args.until_failure {
        println!("first failure: seed {seed}: {outcome:?}");
        return ExitCode::FAILURE;
    }
    println!("the first seed that failed is {seed} ({outcome:?}); it is made shorter");
    says_why(seed);
    let steps = shrink::shrink(seed);
    let steps: Vec<String> = steps.iter().map(ToString::to_string).collect();
    println!("to see it:\n    cargo run --bin zsr-sim -- --seed {seed} --steps {}", steps.join(","));
    ExitCode::FAILURE
}
