//! The command, as people call it.

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

#[test]
fn wrong_arguments_are_named() {
    let done = sim(&["--seed", "1", "--seeds", "2"]);
    assert_eq!(done.status.code(), Some(2));
}
