//! Programs, agents, the controller and whole systems that are killed.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::system::{HOSTS, System, done, line, say, signal};

#[test]
fn a_killed_program_is_an_event_and_its_successor_goes_on() {
    let system = System::up(HOSTS);
    system.well(&[
        "flow",
        "create",
        "f",
        "-p",
        "h1",
        "-c",
        "h2",
        "--item-size",
        "256",
        "--ring-size",
        "4KiB",
    ]);
    let mut events = system.events();
    let (mut first, _) = system.start(&["produce", "f", "--record-size", "4"]);
    events.next("program-attached");
    let (consumer, mut lines) = system.start(&["consume", "f", "--record-size", "4"]);
    events.next("program-attached");
    say(&mut first, "abc\n");
    assert_eq!(line(&mut lines), "abc");
    signal(first.id().into(), "-KILL");
    first.wait().expect("it died");
    let died = events.next("program-died");
    assert_eq!(
        (&died["flow"], &died["member"], &died["ring"]),
        (&"f".into(), &"h1".into(), &"f.h1.h2".into())
    );
    assert_eq!(system.json(&["flow", "show", "f"])[0]["state"], "impaired");

    let (mut second, _) = system.start(&["produce", "f", "--record-size", "4"]);
    events.next("program-attached");
    assert_eq!(system.json(&["flow", "show", "f"])[0]["state"], "running");
    say(&mut second, "xyz\n");
    drop(second.stdin.take());
    assert!(second.wait().expect("it ends").success());
    assert_eq!(line(&mut lines), "xyz");
    let mut consumer = consumer;
    assert!(consumer.wait().expect("the stream ends").success());
    system.down();
}

#[test]
fn an_interrupted_program_leaves_in_good_order() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "--item-size", "256"]);
    let mut events = system.events();
    let (mut producer, _) = system.start(&["produce", "f"]);
    let (mut consumer, mut lines) = system.start(&["consume", "f"]);
    say(&mut producer, "one\n");
    assert_eq!(line(&mut lines), "one");
    // Its input stays open; waiting for it would close it.
    let _input = producer.stdin.take();
    signal(producer.id().into(), "-INT");
    assert_eq!(producer.wait().expect("it ends").code(), Some(1));
    assert_eq!(events.next("program-left")["member"], "h1");
    signal(consumer.id().into(), "-TERM");
    assert_eq!(consumer.wait().expect("it ends").code(), Some(0));
    assert_eq!(events.next("program-left")["member"], "h2");
    assert_eq!(system.json(&["flow", "show", "f"])[0]["state"], "running");
    system.well(&["flow", "delete", "f"]);
    system.down();
}

#[test]
fn a_killed_agent_is_an_event_and_its_member_can_be_dropped() {
    let system = System::up(HOSTS);
    let create = ["flow", "create", "f", "-p", "h1", "-p", "h3", "-c", "h2", "--policy", "drop-member"];
    system.well(&create);
    let mut events = system.events();
    let agent = system.pid("agent.h1");
    signal(agent, "-KILL");
    assert_eq!(events.next("agent-lost")["host"], "h1");
    let removed = events.next("member-removed");
    assert_eq!((&removed["flow"], &removed["member"]), (&"f".into(), &"h1".into()));
    let status = system.zsr(&["status"]);
    assert!(
        status.code == Some(1) && status.out.contains("has died") && status.out.contains("LOST"),
        "{}",
        status.out
    );
    let refused = system.zsr(&["flow", "create", "g", "-p", "h1", "-c", "h2"]);
    assert!(refused.code == Some(1) && refused.err.contains("`h1`"), "{}", refused.err);
    assert_eq!(system.json(&["flow", "list"]).len(), 1);
    // The rest of the flow moves on.
    carries_a_line(&system);
    system.down();
}

#[test]
fn flows_outlive_their_controller() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2"]);
    let before = system.json(&["flow", "show", "f"]);
    signal(system.pid("controller"), "-KILL");
    while system.processes().iter().any(|(name, pid)| name == "controller" && pid.is_some()) {
        std::thread::yield_now();
    }
    let refused = system.zsr(&["flow", "list"]);
    assert!(refused.code == Some(1) && refused.err.contains("does not answer"), "{}", refused.err);

    let said = system.well(&["controller", system.path(), "--daemon"]);
    assert!(said.contains("runs in the background"), "{said}");
    let after = system.json(&["flow", "show", "f"]);
    assert_eq!(after[0]["producers"], before[0]["producers"]);
    carries_a_line(&system);
    system.well(&["flow", "delete", "f"]);
    assert_eq!(system.switch()["queue_pairs"], 0);
    system.down();
}

#[test]
fn what_a_crash_left_is_taken_over() {
    let system = System::up(HOSTS);
    let pids: Vec<u64> = system.processes().iter().map(|(_, pid)| pid.expect("all live")).collect();
    pids.iter().for_each(|pid| signal(*pid, "-KILL"));
    // Until the system has taken everything from them.
    while system.processes().iter().any(|(_, pid)| pid.is_some()) {
        std::thread::yield_now();
    }
    let up = system.zsr(&["up", system.path()]);
    assert!(up.code == Some(0) && up.err.contains("not ended in good order"), "{}", up.err);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2"]);
    // Down works whatever is left.
    signal(system.pid("switch"), "-KILL");
    system.down();
}

#[test]
fn flows_wait_for_their_switch_and_go_on_with_one_that_is_started_anew() {
    let system = System::up(HOSTS);
    let mut events = system.events();
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "--weight", "7"]);
    system.well(&["flow", "create", "g", "-p", "h1", "-c", "h2", "-c", "h3", "--kind", "replicate"]);
    let (mut consumer, mut lines) = system.start(&["consume", "f"]);
    let (mut producer, _) = system.start(&["produce", "f"]);
    say(&mut producer, "before\n");
    assert_eq!(line(&mut lines), "before");
    signal(system.pid("switch"), "-KILL");
    events.next("switch-lost");
    say(&mut producer, "meanwhile\n");
    for args in [&["flow", "create", "h", "-p", "h1", "-c", "h3"][..], &["flow", "delete", "g"]] {
        let refused = system.zsr(args);
        assert_eq!(refused.code, Some(1), "{}", refused.out);
        assert!(refused.err.contains("has gone") && refused.err.contains("zsr switch"), "{}", refused.err);
    }
    let shown = system.well(&["flow", "list"]);
    assert!(shown.contains("impaired"), "{shown}");

    system.well(&["switch", system.path(), "--daemon"]);
    events.next("switch-found");
    assert_eq!(events.next("flow-resumed")["flow"], "f");
    assert_eq!(events.next("flow-resumed")["flow"], "g");
    assert_eq!(line(&mut lines), "meanwhile");
    say(&mut producer, "behind\n");
    drop(producer.stdin.take());
    assert_eq!(line(&mut lines), "behind");
    assert!(producer.wait().expect("it ends").success() && consumer.wait().expect("it ends").success());
    system.well(&["flow", "delete", "f"]);
    system.well(&["flow", "delete", "g"]);
    assert_eq!((&system.switch()["workers"], &system.switch()["connected"]), (&0.into(), &true.into()));
    moves(&system);
    system.down();
}

#[test]
fn a_switch_that_hangs_is_lost_and_found_when_it_goes_on() {
    let system = System::up(HOSTS);
    let mut events = system.events();
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2"]);
    let switch = system.pid("switch");
    signal(switch, "-STOP");
    events.next("switch-lost");
    signal(switch, "-CONT");
    // It has forgotten nothing.
    events.next("session-found");
    carries_a_line(&system);
    system.well(&["flow", "delete", "f"]);
    system.down();
}

#[test]
fn a_switch_killed_under_load_loses_nothing() {
    let system = System::up(HOSTS);
    let mut events = system.events();
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h3", "--item-size", "4KiB"]);
    let (mut consumer, mut lines) = system.start(&["consume", "f"]);
    let path = system.folder.path().join("in");
    let input: String = (0..3_000_000).map(|n| format!("{n}\n")).collect();
    std::fs::write(&path, &input).expect("written");
    let mut command = system.command(&["produce", "f"]);
    let input_file = std::fs::File::open(&path).expect("there");
    let mut producer =
        command.stdin(input_file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    let mut got = line(&mut lines) + "\n";
    signal(system.pid("switch"), "-KILL");
    events.next("switch-lost");
    system.well(&["switch", system.path(), "--daemon"]);
    lines.read_to_string(&mut got).expect("text");
    assert!(producer.wait().expect("it ends").success() && consumer.wait().expect("it ends").success());
    assert!(got == input, "all of it, in order, once: {} of {} bytes", got.len(), input.len());
    system.down();
}

#[test]
fn a_command_that_is_killed_has_happened_or_not() {
    let system = System::up(HOSTS);
    let count = || (system.json(&["flow", "list"]).len() as u64, system.switch());
    for n in 0..24 {
        let args = ["flow", "create", "f", "-p", "h1", "-p", "h3", "-c", "h2", "-c", "x@h3"];
        let mut command = system.command(&args);
        let mut create = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(600 * n) {
            std::hint::spin_loop();
        }
        create.kill().expect("it ended, or is there");
        create.wait().expect("it ends");
        // Behind whatever is under way.
        system.well(&["flow", "create", "behind", "-p", "h1", "-c", "h2"]);
        let (flows, switch) = count();
        assert_eq!(switch["workers"], 1 + 2 * (flows - 1), "all of it or nothing");
        system.well(&["flow", "delete", "behind"]);
        if flows == 2 {
            system.well(&["flow", "delete", "f"]);
        }
        let (flows, switch) = count();
        assert_eq!((flows, &switch["workers"], &switch["queue_pairs"]), (0, &0.into(), &0.into()));
    }
    system.down();
}

/// Programs of flow `f` find each other, and see the end of the stream.
pub fn carries_a_line(system: &System) {
    let (mut producer, _) = system.start(&["produce", "f"]);
    let (mut consumer, mut lines) = system.start(&["consume", "f"]);
    say(&mut producer, "as before\n");
    drop(producer.stdin.take());
    assert_eq!(line(&mut lines), "as before");
    assert!(producer.wait().expect("it ends").success() && consumer.wait().expect("it ends").success());
}

/// A new flow does what flows do, and goes without a trace.
fn moves(system: &System) {
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2"]);
    carries_a_line(system);
    system.well(&["flow", "delete", "f"]);
    assert_eq!(system.switch()["queue_pairs"], 0);
}

#[test]
fn programs_learn_that_their_agent_has_died() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "--item-size", "64"]);
    let mut waiting = system.command(&["consume", "f"]);
    let waiting = waiting.stderr(std::process::Stdio::piped()).spawn().expect("it runs");
    let mut events = system.events();
    events.next("program-attached");
    signal(system.pid("agent.h2"), "-KILL");
    let done = done(waiting.wait_with_output().expect("it ends"));
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("flow `f`") && done.err.contains("agent"), "{}", done.err);
    system.well(&["flow", "delete", "f", "--force"]);
    system.down_after_deaths();
}
