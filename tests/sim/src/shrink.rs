//! Makes a schedule that fails shorter: takes steps out as long as it still fails.

use std::time::{Duration, Instant};

use crate::pool::{self, Outcome};
use crate::schedule::Schedule;

/// No attempt begins later than this: a schedule that fails because something never happens takes seconds each time.
const LONGEST: Duration = Duration::from_secs(120);

/// The steps of a seed's schedule that are needed for it to fail, or those that are left after `LONGEST`.
pub fn shrink(seed: u64) -> Vec<usize> {
    let begun = Instant::now();
    let mut steps: Vec<usize> = (0..Schedule::new(seed).steps.len()).collect();
    let mut piece = steps.len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        while at < steps.len() {
            if begun.elapsed() > LONGEST {
                return steps;
            }
            let without: Vec<usize> = steps
                .iter()
                .enumerate()
                .filter(|(i, _)| !(at..at + piece).contains(i))
                .map(|(_, s)| *s)
                .collect();
            match fails(seed, &without) {
                true => steps = without,
                false => at += piece,
            }
        }
        piece = if piece == 1 { 0 } else { piece.div_ceil(2) };
    }
    steps
}

fn fails(seed: u64, steps: &[usize]) -> bool {
    let mut failed = false;
    let ran = pool::run(
        std::iter::once(seed),
        1,
        |seed| crate::passes(seed, |at| steps.contains(&at)),
        |_, outcome| {
            failed = outcome != Outcome::Passed;
            true
        },
    );
    ran.is_ok() && failed
}
