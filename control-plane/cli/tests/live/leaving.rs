//! Consumers that leave while a producer waits for room at another: what was pushed to them before is theirs, or is said to be lost.

use std::fs::File;
use std::process::{Child, Stdio};

use super::system::{Events, HOSTS, System, done, signal};

/// Items of 4 KiB, one in a ring.
const FLOW: [&str; 13] = [
    "flow",
    "create",
    "f",
    "-p",
    "h1",
    "-c",
    "h2",
    "h3",
    "--item-size",
    "4KiB",
    "--ring-size",
    "4KiB",
    "--routing=explicit(1)",
];

fn line(consumer: u32, number: u32) -> String {
    format!("{consumer},{number}\n")
}

/// A program that has pushed 10 lines to `h2`, less than an item, and waits for room in the ring to `h3`, which nobody empties.
/// Then come more lines for the second consumer.
fn blocked(system: &System) -> Child {
    blocked_with(system, &[])
}

/// The same in a flow with these settings.
fn blocked_with(system: &System, settings: &[&str]) -> Child {
    system.well(&[&FLOW, settings].concat());
    let path = system.folder.path().join("in");
    let lines = (0..2000).map(|n| line(u32::from(n >= 10), n));
    std::fs::write(&path, lines.collect::<String>()).expect("written");
    let mut command = system.command(&["produce", "f"]);
    let input = File::open(&path).expect("there");
    let child = command.stdin(input).stderr(Stdio::piped()).spawn().expect("it runs");
    await_full(system, &["f.h3", "f.h1.h3"]);
    child
}

fn await_full(system: &System, wanted: &[&str]) {
    loop {
        let top = system.json(&["top", "-n", "1", "--interval", "20ms"]).remove(0);
        let rings = top["flows"][0]["rings"].as_array().expect("rings").clone();
        if wanted.iter().all(|name| rings.iter().any(|r| r["name"] == *name && r["fill"] == 1.0)) {
            return;
        }
    }
}

fn consume(system: &System, member: &str) -> Child {
    let mut events = system.events();
    let mut command = system.command(&["consume", "f", "--member", member]);
    let child = command.stdout(Stdio::piped()).spawn().expect("it runs");
    // What comes for a member without a program keeps it in the flow.
    await_program(&mut events, member);
    child
}

fn await_program(events: &mut Events, member: &str) {
    while events.next("program-attached")["member"] != member {}
}

/// The numbers of the lines that came, in order.
fn numbers(consumer: Child) -> Vec<u32> {
    let done = done(consumer.wait_with_output().expect("it ends"));
    assert_eq!(done.code, Some(0), "{}", done.err);
    let number = |line: &str| line.split(',').nth(1).and_then(|n| n.parse().ok());
    done.out.lines().map(|line| number(line).expect("a number")).collect()
}

#[test]
fn a_consumer_that_leaves_gets_what_was_pushed_to_it_while_its_producer_waits() {
    let system = System::up(HOSTS);
    let producer = blocked(&system);
    let leaving = consume(&system, "h2");
    system.well(&["flow", "remove-member", "f", "h2"]);
    assert_eq!(numbers(leaving), (0..10).collect::<Vec<_>>());
    let other = consume(&system, "h3");
    let produced = done(producer.wait_with_output().expect("it ends"));
    assert_eq!((produced.code, produced.err.lines().count()), (Some(0), 1), "{}", produced.err);
    assert!(produced.err.contains("what was pushed is delivered (2000 records)"), "{}", produced.err);
    assert_eq!(numbers(other), (10..2000).collect::<Vec<_>>());
    system.well(&["flow", "delete", "f"]);
    system.down();
}

#[test]
fn a_program_goes_on_beside_a_host_that_hangs() {
    let system = System::up(HOSTS);
    let producer = blocked_with(&system, &["--policy=drop-member"]);
    let stays = consume(&system, "h2");
    let agent = system.pid("agent.h3");
    signal(agent, "-STOP");
    let produced = done(producer.wait_with_output().expect("it ends"));
    assert_eq!(produced.code, Some(0), "{}", produced.err);
    let got = numbers(stays);
    assert!(got.starts_with(&(0..10).collect::<Vec<_>>()), "{got:?}");
    assert!(got.is_sorted() && got.last() == Some(&1999), "the rest goes to who is left: {got:?}");
    signal(agent, "-KILL");
    system.well(&["flow", "delete", "f"]);
    system.down_after_deaths();
}

#[test]
fn a_ring_that_was_made_anew_under_its_name_is_another() {
    let system = System::up(HOSTS);
    let producer = blocked(&system);
    let first = consume(&system, "h2");
    system.well(&["flow", "remove-member", "f", "h2"]);
    system.well(&["flow", "add-consumer", "f", "h2"]);
    let [second, other] = ["h2", "h3"].map(|member| consume(&system, member));
    let produced = done(producer.wait_with_output().expect("it ends"));
    assert_eq!((produced.code, produced.err.lines().count()), (Some(0), 1), "{}", produced.err);
    assert!(produced.err.contains("what was pushed is delivered (2000 records)"), "{}", produced.err);
    assert_eq!(numbers(first), (0..10).collect::<Vec<_>>());
    let mut got = numbers(second);
    assert!(got.len() > 1000 && got.is_sorted(), "it is the second one now: {}", got.len());
    got.extend(numbers(other));
    got.sort_unstable();
    assert_eq!(got, (10..2000).collect::<Vec<_>>(), "every line once");
    system.well(&["flow", "delete", "f"]);
    system.down();
}

#[test]
fn what_is_lost_with_a_consumer_is_said() {
    let system = System::up(HOSTS);
    let producer = blocked(&system);
    // It can't do anything about it.
    signal(producer.id().into(), "-STOP");
    system.well(&["flow", "remove-member", "f", "h2"]);
    system.well(&["flow", "add-consumer", "f", "h2"]);
    signal(producer.id().into(), "-CONT");
    let [second, other] = ["h2", "h3"].map(|member| consume(&system, member));
    let produced = done(producer.wait_with_output().expect("it ends"));
    let lost = "error: flow `f`: 10 records that were pushed to consumer `h2` are lost: ring `f.h1.h2`";
    assert!(produced.code == Some(1) && produced.err.starts_with(lost), "{}", produced.err);
    assert_eq!(produced.err.lines().count(), 2, "{}", produced.err);
    assert!(
        produced.err.contains("some of what was pushed is lost, as said (2000 records)"),
        "{}",
        produced.err
    );
    // All others came.
    let mut got = numbers(second);
    got.extend(numbers(other));
    got.sort_unstable();
    assert_eq!(got, (10..2000).collect::<Vec<_>>(), "every other line once");
    system.well(&["flow", "delete", "f"]);
    system.down();
}
