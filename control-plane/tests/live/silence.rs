//! Hosts that never answer, or no longer: their flows say so after `dead_after`, though no transfer waits for them.

use super::system::{System, line, say, signal};

/// Nothing passes h1's link, in either direction; its agent can be reached all the same.
const DEAF: &str = "
name: s
hosts: [h1, h2, h3]
links:
  - {from: h1, to: 's1:1', faults: {loss: 1.0}}
  - h2 -> s1:2
  - h3 -> s1:3
flows: []
";

fn create(system: &System, args: &[&str]) {
    let common = ["--item-size", "256", "--ring-size", "4KiB", "--dead-after", "1s"];
    system.well(&[&["flow", "create"][..], args, &common].concat());
}

#[test]
fn a_producer_that_never_answers_is_silent_and_its_flow_waits() {
    let system = System::up(DEAF);
    let mut events = system.events();
    create(&system, &["f", "-p", "h1", "-c", "h2"]);
    create(&system, &["g", "-p", "h3", "-c", "h2"]);
    let event = events.next("member-silent");
    assert_eq!((&event["flow"], &event["member"]), (&"f".into(), &"h1".into()));
    let text = event["text"].as_str().unwrap_or_default();
    assert!(text.starts_with("ring `f.h1.h2` has not answered for"), "{text}");
    let flow = system.json(&["flow", "show", "f"]).remove(0);
    assert_eq!(flow["state"], "impaired");
    assert!(flow["reason"].as_str().is_some_and(|why| why.contains("member `h1`: ring `f.h1.h2`")), "{flow}");
    assert_eq!(system.json(&["flow", "show", "g"])[0]["state"], "running");
    system.down();
}

#[test]
fn a_producer_that_never_answers_goes_where_the_policy_says_so() {
    let system = System::up(DEAF);
    let mut events = system.events();
    create(&system, &["f", "-p", "h1", "-c", "h2", "--policy", "abort"]);
    assert_eq!(events.next("member-silent")["member"], "h1");
    assert_eq!(events.next("flow-failed")["flow"], "f");

    create(&system, &["g", "-p", "h1", "-p", "h3", "-c", "h2", "--policy", "drop-member"]);
    assert_eq!(events.next("member-removed")["member"], "h1");
    let (mut producer, _) = system.start(&["produce", "g"]);
    let (_, mut lines) = system.start(&["consume", "g"]);
    say(&mut producer, "one\n");
    assert_eq!(line(&mut lines), "one");
    drop(producer.stdin.take());
    producer.wait().expect("it ends");
    system.down();
}

/// A full consumer ring is polled for room, and nothing else happens to it.
#[test]
fn a_consumer_that_is_only_polled_is_silent_while_it_hangs() {
    let system = System::up("name: s\nhosts: [h1, h2]\nflows: []\n");
    let mut events = system.events();
    create(&system, &["f", "-p", "h1", "-c", "h2"]);
    let (mut producer, _) = system.start(&["produce", "f", "--record-size", "128"]);
    say(&mut producer, &"x".repeat(16 << 10));
    // Both rings are full.
    let stalled = events.next("flow-stalled");
    assert_eq!(
        stalled["text"],
        "nothing has moved for 3 s: waits for a program to take 4 KiB out of ring `f.h2`"
    );
    let agent = system.pid("agent.h2");
    signal(agent, "-STOP");
    let event = events.next("member-silent");
    assert_eq!((&event["flow"], &event["member"]), (&"f".into(), &"h2".into()));
    signal(agent, "-CONT");
    let (mut consumer, mut lines) = system.start(&["consume", "f"]);
    line(&mut lines);
    events.next("flow-moves");
    assert_eq!(system.json(&["flow", "show", "f"])[0]["state"], "running");
    consumer.kill().expect("it runs");
    consumer.wait().expect("it ends");
    producer.kill().expect("it runs");
    producer.wait().expect("it ends");
    system.down();
}
