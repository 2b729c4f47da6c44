//! The command, as users call it.

use std::collections::BTreeSet;
use std::process::{Command, Output};

fn sim(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zsr-sim")).args(args).output().expect("it runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn some_schedules_pass() {
    let done = sim(&["--seeds", "12", "--from", "100"]);
    assert!(done.status.success() && text(&done).contains("12 schedules passed"), "{}", text(&done));
}

#[test]
fn a_seed_says_everything_in_every_process() {
    // Hosts and the controller die in it, the journal is full, the switch is cut off.
    let trace = |seed: &str| {
        let done = sim(&["--seed", seed]);
        assert!(done.status.success(), "{}", text(&done));
        let text = text(&done);
        // Without how long it took.
        text.rsplit_once(", in ").expect("a summary").0.to_owned()
    };
    for seed in ["2002", "2004"] {
        assert_eq!(trace(seed), trace(seed));
    }
}

fn script(args: &[&str], seeds: &str) -> String {
    let mut script = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/run"));
    let done = script.args(args).env("ZSR_SEEDS", seeds).env_remove("ZSR_FROM").output().expect("it runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    text(&done)
}

/// A line's words as numbers, but for the first `from`.
fn numbers(line: &str, from: usize) -> Vec<u64> {
    line.split(' ').skip(from).map(|word| word.parse().unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
}

#[test]
fn half_of_the_seeds_are_fresh() {
    let which = script(&["--which"], "401");
    let ranges: Vec<Vec<u64>> = which.lines().map(|line| numbers(line, 0)).collect();
    let [known, fresh] = &ranges[..] else { panic!("{which}") };
    assert_eq!(*known, [1, 200]);
    assert!(fresh[0] >= 1_000_000 && fresh[1] == 201, "{which}");
}

#[test]
fn the_log_counts_every_schedule() {
    let log = include_str!("../log");
    let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with('#')).collect();
    let commits: BTreeSet<&str> = lines.iter().filter_map(|line| line.split(' ').next()).collect();
    let (mut schedules, mut failed) = (0, 0);
    for line in &lines {
        let [_, count, fails] = numbers(line, 2)[..] else { panic!("{line}") };
        assert!(fails <= count, "{line}");
        (schedules, failed) = (schedules + count, failed + fails);
    }
    let sum = format!("counts {schedules} schedules at {} commits, {failed} of which failed", commits.len());
    assert!(script(&["--count"], "1").contains(&sum), "{sum}");
}

/// A member leaves, and its flow fails meanwhile: a transfer that was under way has nobody who answers.
#[test]
fn nobody_of_a_failed_flow_is_said_to_be_silent() {
    let done = sim(&["--seed", "1046179073000052", "--steps", "0,1,2,4"]);
    assert!(done.status.success(), "{}", text(&done));
}

#[test]
fn wrong_arguments_are_named() {
    let done = sim(&["--seed", "1", "--seeds", "2"]);
    assert_eq!(done.status.code(), Some(2));
}
