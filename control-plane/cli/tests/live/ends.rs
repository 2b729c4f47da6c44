//! Flows that go by themselves when they have ended.

use super::system::{HOSTS, System, line, say, signal};

/// Makes flow `f` from h1 to h2, which is deleted when it has ended.
fn create(system: &System, more: &[&str]) {
    let create = ["flow", "create", "f", "-p", "h1", "-c", "h2", "--when-ended", "delete"];
    system.well(&[&create, more].concat());
}

#[test]
fn a_flow_goes_when_all_of_it_was_read_and_its_programs_have_gone() {
    let system = System::up(HOSTS);
    create(&system, &[]);
    let mut events = system.events();
    let (mut producer, _) = system.start(&["produce", "f"]);
    say(&mut producer, "one\n");
    drop(producer.stdin.take());
    assert!(producer.wait().expect("it ends").success());
    // Nobody has read it, so it waits for who does.
    events.next("flow-ended");
    assert_eq!(system.json(&["flow", "list"]).len(), 1);
    let (mut consumer, mut lines) = system.start(&["consume", "f"]);
    assert_eq!(line(&mut lines), "one");
    assert!(consumer.wait().expect("the stream ends").success());
    let deleted = events.next("flow-deleted");
    assert_eq!(deleted["text"], "all has been read to the end, and its programs have gone");
    assert_eq!(system.json(&["flow", "list"]).len() + system.json(&["ring", "list"]).len(), 0);
    // Its name is free, and the next flow of that name is another one.
    create(&system, &[]);
    assert_eq!(system.json(&["flow", "show", "f"])[0]["settings"]["when_ended"], "delete");
    system.well(&["flow", "set", "f", "--when-ended", "keep"]);
    assert_eq!(system.json(&["flow", "show", "f"])[0]["settings"]["when_ended"], "keep");
    system.down();
}

#[test]
fn a_consumer_that_comes_late_finds_the_end_of_a_flow_without_records() {
    let system = System::up(HOSTS);
    create(&system, &[]);
    let mut events = system.events();
    let (mut producer, _) = system.start(&["produce", "f"]);
    drop(producer.stdin.take());
    assert!(producer.wait().expect("it ends").success());
    events.next("flow-ended");
    let (mut consumer, _) = system.start(&["consume", "f"]);
    assert!(consumer.wait().expect("the stream ends").success());
    events.next("flow-deleted");
    system.down();
}

#[test]
fn a_flow_that_a_dead_program_has_failed_goes_when_the_others_have_heard_of_it() {
    let system = System::up(HOSTS);
    create(&system, &["--policy", "abort"]);
    let mut events = system.events();
    let (mut producer, _) = system.start(&["produce", "f"]);
    let (mut consumer, mut lines) = system.start(&["consume", "f"]);
    say(&mut producer, "one\n");
    assert_eq!(line(&mut lines), "one");
    signal(producer.id().into(), "-KILL");
    producer.wait().expect("it died");
    assert!(!consumer.wait().expect("it is told").success());
    events.next("flow-failed");
    let deleted = events.next("flow-deleted");
    assert_eq!(deleted["text"], "it has failed, and its programs have gone");
    assert_eq!(system.json(&["ring", "list"]).len(), 0);
    system.down();
}
