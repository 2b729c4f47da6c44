//! Runs schedules in processes of their own. Each begins in the same state, whatever ran before. A schedule that
//! panics, hangs or takes too much memory does not harm the others.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// How a schedule ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// A guarantee was broken, or something panicked.
    Failed,
    /// The schedule did not end in time.
    Hung,
}

/// How long a schedule may take, on the clock on the wall.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(1);

/// Runs `work` for every seed, `jobs` at a time, and calls `done` with each outcome until `done` returns `false`. The
/// caller must be the process's only thread.
pub fn run(
    seeds: impl Iterator<Item = u64>,
    jobs: usize,
    work: impl Fn(u64) -> bool,
    mut done: impl FnMut(u64, Outcome) -> bool,
) -> io::Result<()> {
    let mut seeds = seeds.fuse();
    let mut running: BTreeMap<i32, (u64, Instant)> = BTreeMap::new();
    let mut goes_on = true;
    loop {
        while goes_on && running.len() < jobs {
            let Some(seed) = seeds.next() else { break };
            // SAFETY: this process has one thread, so that the child finds no lock held.
            match unsafe { libc::fork() } {
                -1 => return Err(io::Error::last_os_error()),
                0 => {
                    let passed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(seed)));
                    // SAFETY: ends the child without running what the parent registered for its own end.
                    unsafe { libc::_exit(if passed.unwrap_or(false) { 0 } else { 1 }) }
                }
                child => drop(running.insert(child, (seed, Instant::now()))),
            }
        }
        if running.is_empty() {
            return Ok(());
        }
        let mut status = 0;
        // SAFETY: `status` is an int.
        let ended = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
        if ended <= 0 {
            for child in running.iter().filter(|(_, (_, begun))| begun.elapsed() > PATIENCE).map(|(c, _)| c) {
                // SAFETY: a child that nobody has waited for yet, so that the number is still its own.
                unsafe { libc::kill(*child, libc::SIGKILL) };
            }
            std::thread::sleep(LOOK);
            continue;
        }
        let Some((seed, begun)) = running.remove(&ended) else { continue };
        let outcome = match status {
            0 => Outcome::Passed,
            _ if begun.elapsed() > PATIENCE => Outcome::Hung,
            _ => Outcome::Failed,
        };
        goes_on &= done(seed, outcome);
    }
}
