//! What an operator is told: who is waited for, who has a ring, what survives a restart.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use super::system::{HOSTS, System, done, line, say, signal};

/// A command that goes on, all of whose output is kept.
fn spawn(system: &System, args: &[&str]) -> Child {
    let mut command = system.command(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("it runs")
}

#[test]
fn a_controller_that_is_stopped_is_named_and_questions_end() {
    let system = System::up(HOSTS);
    let controller = system.pid("controller");
    signal(controller, "-STOP");
    let questions: [&[&str]; 4] = [
        &["status"],
        &["flow", "list"],
        &["top", "-n", "1"],
        &["flow", "create", "f", "-p", "h1", "-c", "h2"],
    ];
    let asked: Vec<Child> = questions.iter().map(|args| spawn(&system, args)).collect();
    for (args, child) in questions.iter().zip(asked) {
        let done = done(child.wait_with_output().expect("it ends"));
        assert_eq!(done.code, Some(1), "{args:?}: {}{}", done.out, done.err);
        let who = format!("waiting for the controller of system `s`, process {controller}");
        let why = format!("controller is stopped: kill -CONT {controller}");
        assert!(done.err.contains(&who) && done.err.contains(&why), "{args:?}: {}", done.err);
        assert!(done.err.contains("error: no answer within 1"), "{args:?}: {}", done.err);
        if args[0] == "status" {
            assert!(done.out.contains("is stopped"), "{}", done.out);
        }
    }
    signal(controller, "-CONT");
    system.well(&["flow", "list"]);
    // It is ended all the same.
    signal(controller, "-STOP");
    let down = system.zsr(&["down"]);
    assert!(down.code == Some(0) && down.err.contains("the controller is stopped"), "{}", down.err);
}

#[test]
fn a_change_that_waits_for_an_agent_says_so_and_goes_on() {
    let system = System::up(HOSTS);
    let agent = system.pid("agent.h2");
    signal(agent, "-STOP");
    let mut create = spawn(&system, &["flow", "create", "f", "-p", "h1", "-c", "h2"]);
    let mut said = BufReader::new(create.stderr.take().expect("piped"));
    let mut first = String::new();
    said.read_line(&mut first).expect("text");
    let part = "waiting for the agent of host `h2` at unix://";
    assert!(first.contains(part) && first.contains("to say that it is there (creating flow `f`)"), "{first}");
    assert!(first.contains(&format!("agent.h2 is stopped: kill -CONT {agent}")), "{first}");
    let listed = system.json(&["flow", "list"]).remove(0);
    assert_eq!((&listed["name"], &listed["state"]), (&"f".into(), &"creating".into()));
    assert!(listed["pending"].as_str().expect("a change").contains("host `h2`"), "{listed}");
    assert!(system.well(&["flow", "list"]).contains("creating flow `f`: waits for the agent of host `h2`"));
    signal(agent, "-CONT");
    assert!(create.wait().expect("it ends").success());
    assert_eq!(system.json(&["flow", "list"])[0]["pending"], serde_json::Value::Null);
    system.down();
}

#[test]
fn who_has_a_ring_is_named() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2"]);
    let mut events = system.events();
    let (mut producer, _) = system.start(&["produce", "f"]);
    let (mut consumer, _) = system.start(&["consume", "f"]);
    events.next("program-attached");
    events.next("program-attached");
    for (command, ring, role, holder) in
        [("consume", "f.h2", "consumer", &consumer), ("produce", "f.h1.h2", "producer", &producer)]
    {
        let second = system.zsr(&[command, "f"]);
        assert_eq!(second.code, Some(1));
        let who = format!("ring `{ring}` has its {role} already, process {} (zsr {command} f)", holder.id());
        assert!(second.err.contains(&who) && !second.err.contains("detach"), "{}", second.err);
    }
    drop(producer.stdin.take());
    assert!(producer.wait().expect("it ends").success() && consumer.wait().expect("it ends").success());
    system.down();
}

#[test]
fn lists_have_states_times_and_rates_without_a_terminal() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "--item-size", "256"]);
    let (mut producer, _) = system.start(&["produce", "f"]);
    let (consumer, mut lines) = system.start(&["consume", "f"]);
    say(&mut producer, "one\n");
    assert_eq!(line(&mut lines), "one");
    let top = system.well(&["top", "-n", "1", "--interval", "50ms"]);
    assert!(top.starts_with("FLOW / RING") && top.contains("f.h1.h2") && top.contains("attached"), "{top}");
    drop(producer.stdin.take());
    assert!(producer.wait().expect("it ends").success());
    assert!(consumer.wait_with_output().expect("it ends").status.success());
    while system.json(&["flow", "list"])[0]["state"] != "ended" {}
    let events = system.well(&["events"]);
    let created = events.lines().find(|l| l.contains("flow-created")).expect("it was");
    let time = created.split_whitespace().nth(1).expect("a time");
    let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000Z", "{created}");
    let both = system.zsr(&["down", "s", "--system", "other"]);
    assert!(both.code == Some(2) && both.err.contains("which system"), "{}", both.err);
    system.well(&["down", "--system", "s"]);
    assert_eq!(system.zsr(&["flow", "list"]).code, Some(1));
}

#[test]
fn a_restart_says_what_survives() {
    let system = System::up(
        "name: s\nhosts: [h1, h2, h3]\nflows:\n  - {name: own, producers: [h1], consumers: [h2], item_size: 256}\n",
    );
    system.well(&["flow", "create", "mine", "-p", "h1", "-c", "h2"]);
    let mut events = system.events();
    let says = |args: &[&str], parts: &[&str]| {
        let done = system.zsr(args);
        assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
        for part in parts {
            assert!(done.err.contains(part), "{part:?} is missing in\n{}", done.err);
        }
    };
    let before = system.pid("controller");
    says(&["restart", "controller"], &["survives: all flows", "controller runs again"]);
    assert_ne!(system.pid("controller"), before);
    assert_eq!(system.json(&["flow", "list"]).len(), 2);

    let switch = system.pid("switch");
    let parts = ["survives: all flows with what is in them", "stand still until the switch is there again"];
    says(&["restart", "switch", "--dry-run"], &parts);
    assert_eq!(system.pid("switch"), switch);
    drop(std::mem::replace(&mut events, system.events()));
    says(&["restart", "switch"], &parts);
    assert_ne!(system.pid("switch"), switch);
    while events.next("flow-resumed")["flow"] != "own" {}
    assert_eq!(system.json(&["flow", "list"]).len(), 2);
    system.well(&["flow", "delete", "mine"]);
    let (mut producer, _) = system.start(&["produce", "own"]);
    let (mut consumer, mut lines) = system.start(&["consume", "own"]);
    say(&mut producer, "one\n");
    assert_eq!(line(&mut lines), "one");
    drop(producer.stdin.take());
    assert!(producer.wait().expect("it ends").success() && consumer.wait().expect("it ends").success());

    says(&["restart", "agent.h3"], &["no flow has a member on host h3", "agent.h3 runs again"]);
    says(&["restart", "agent.h1"], &["wait until its members there", ": own\n"]);
    // Its last producer can't be taken out, so nobody is told to do that.
    let own = loop {
        let own = system.json(&["flow", "show", "own"]).remove(0);
        if own["state"] == "impaired"
            && own["reason"].as_str().is_some_and(|why| why.contains("lost its rings"))
        {
            break own;
        }
    };
    let why = own["reason"].as_str().expect("why");
    assert!(why.contains("delete the flow and create it again") && !why.contains("--force"), "{why}");
    system.well(&["flow", "delete", "own"]);
    let unknown = system.zsr(&["restart", "agent.h9"]);
    assert!(unknown.code == Some(2) && unknown.err.contains("agent.h1"), "{}", unknown.err);
    system.down();
}

#[test]
fn events_end_with_their_reader() {
    let system = System::up(HOSTS);
    let (mut events, mut lines) = system.start(&["events", "--follow"]);
    assert!(line(&mut lines).contains("controller-started"));
    // Nothing happens that it could notice it by.
    drop(lines);
    assert_eq!(events.wait().expect("it ends").code(), Some(0));
    system.down();
}

#[test]
fn sockets_for_programs_have_the_documented_names() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2"]);
    for ring in system.json(&["ring", "list"]) {
        let number = if ring["host"] == "h1" { 0 } else { 1 };
        let socket = system.root().join(format!("s/programs-{number}"));
        assert_eq!(ring["programs"].as_str().map(std::path::Path::new), Some(socket.as_path()));
        assert!(std::os::unix::net::UnixStream::connect(&socket).is_ok(), "{ring}");
    }
    for (file, text) in [
        ("docs/reference.md", include_str!("../../../../docs/reference.md")),
        ("crates/client/src/pu/mod.rs", include_str!("../../../../crates/client/src/pu/mod.rs")),
    ] {
        assert!(text.contains("programs-"), "{file}");
    }
    system.down();
}
