//! A standby switch takes over when the active one dies, hangs, or is restarted, also in the middle of it; nothing is lost, doubled, or
//! misordered.

use std::io::Read;
use std::process::{Child, Stdio};

use super::system::{Events, System, line, lives, say, signal};

const TOPOLOGY: &str = "name: s\nswitches:\n  - {name: s1, p4runtime: {dead_after: 500ms}}\n  - {name: s2, standby: true}\n\
                        hosts: [h1, h2, {name: h3, byte_order: big}]\nflows: []\n";
const RECORDS: u32 = 1_500_000;

/// The process of the switch that moves flows, and that of the other one.
fn processes(system: &System) -> (&'static str, &'static str) {
    let switch = system.switch();
    // Its ports, not those of the other one.
    let end = format!("-{}-1", switch["name"].as_str().unwrap_or_default());
    assert!(switch["ports"][0]["link"].as_str().is_some_and(|link| link.ends_with(&end)), "{switch}");
    match switch["name"].as_str() {
        Some("s1") => ("switch", "switch.s2"),
        Some("s2") => ("switch.s2", "switch"),
        other => panic!("the active switch is {other:?}"),
    }
}

/// Kills a process, and waits until it is gone.
fn kill(system: &System, process: &str) {
    let pid = system.pid(process);
    signal(pid, "-KILL");
    while lives(pid) {
        std::thread::yield_now();
    }
}

/// Starts a switch that was killed.
fn start(system: &System, process: &str) {
    let standby = process.strip_prefix("switch.");
    let args = ["switch", system.path()].into_iter().chain(standby).chain(["--daemon"]);
    system.well(&args.collect::<Vec<_>>());
}

/// A flow of one kind under load, with what its consumers write.
struct Load {
    producer: Child,
    consumers: Vec<(Child, std::thread::JoinHandle<String>)>,
    kind: &'static str,
}

impl Load {
    fn start(system: &System, kind: &'static str) -> Self {
        let path = system.folder.path().join("in");
        if !path.exists() {
            let input: String = (0..RECORDS).map(|n| format!("{n}\n")).collect();
            std::fs::write(&path, input).expect("written");
        }
        let create = [
            "flow",
            "create",
            kind,
            "-p",
            "h1",
            "-c",
            "h2",
            "-c",
            "h3",
            "--kind",
            kind,
            "--item-size",
            "1KiB",
        ];
        system.well(&create);
        let consumer = |host: &str| {
            let (child, mut out) = system.start(&["consume", kind, "--member", host]);
            let reading = std::thread::spawn(move || {
                let mut text = String::new();
                out.read_to_string(&mut text).expect("text");
                text
            });
            (child, reading)
        };
        let consumers = vec![consumer("h2"), consumer("h3")];
        let input = std::fs::File::open(&path).expect("there");
        let mut producer = system.command(&["produce", kind]);
        let producer =
            producer.stdin(input).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
        Load { producer, consumers, kind }
    }

    /// Flows of these kinds, whose programs have begun.
    fn of(system: &System, events: &mut Events, kinds: &[&'static str]) -> Vec<Self> {
        let loads: Vec<Self> = kinds.iter().map(|kind| Load::start(system, kind)).collect();
        for _ in 0..3 * kinds.len() {
            events.next("program-attached");
        }
        loads
    }

    /// Every record came to whom it was for, once and in order.
    fn end(mut self) {
        assert!(self.producer.wait().expect("it ends").success(), "{}", self.kind);
        let mut all = Vec::new();
        for (mut child, reading) in self.consumers {
            assert!(child.wait().expect("it ends").success(), "{}", self.kind);
            let text = reading.join().expect("read");
            let records: Vec<u32> = text.lines().map(|l| l.parse().expect("a record")).collect();
            assert!(records.is_sorted_by(|a, b| a < b), "{}: out of order, or twice", self.kind);
            all.push(records);
        }
        let whole: Vec<u32> = (0..RECORDS).collect();
        if self.kind == "replicate" {
            assert!(all.iter().all(|one| *one == whole), "{}", self.kind);
        } else {
            let mut all = all.concat();
            all.sort_unstable();
            assert!(all == whole, "{}: {} of {RECORDS}", self.kind, all.len());
        }
    }
}

#[test]
fn a_standby_takes_over_under_load_also_while_it_takes_over() {
    let system = System::up(TOPOLOGY);
    let mut events = system.events();
    let loads = Load::of(&system, &mut events, &["shuffle", "load-balance", "replicate"]);
    // The active one dies.
    assert_eq!(processes(&system), ("switch", "switch.s2"));
    kill(&system, "switch");
    let found = events.next("switch-found")["text"].to_string();
    assert!(found.contains("`s2` takes over"), "{found}");
    assert_eq!(processes(&system).0, "switch.s2");
    start(&system, "switch");
    // Its successor dies while it takes over: nothing has been resumed by then, or something.
    kill(&system, "switch.s2");
    start(&system, "switch.s2");
    events.next("switch-found");
    for load in loads {
        load.end();
    }
    system.down();
}

#[test]
fn a_switch_that_hung_and_goes_on_harms_nothing() {
    let system = System::up(TOPOLOGY);
    let mut events = system.events();
    let loads = Load::of(&system, &mut events, &["shuffle", "replicate"]);
    let first = system.pid("switch");
    signal(first, "-STOP");
    events.next("switch-lost");
    let found = events.next("switch-found")["text"].to_string();
    assert!(found.contains("`s2` takes over"), "{found}");
    // It still has all of its entries, and uses them.
    signal(first, "-CONT");
    for load in loads {
        load.end();
    }
    // It is the standby now.
    system.well(&["restart", "switch.s2"]);
    assert_eq!(processes(&system), ("switch", "switch.s2"));
    system.down();
}

#[test]
fn flows_come_and_go_though_the_switch_hangs_meanwhile() {
    let system = System::up(TOPOLOGY);
    system.well(&["flow", "create", "goes", "-p", "h1", "-c", "h2"]);
    let first = system.pid("switch");
    signal(first, "-STOP");
    let (mut goes, _) = system.start(&["flow", "delete", "goes"]);
    system.well(&["flow", "create", "comes", "-p", "h1", "-c", "h2"]);
    assert!(goes.wait().expect("it ends").success());
    assert_eq!(processes(&system).0, "switch.s2");
    signal(first, "-CONT");
    let (mut consumer, mut lines) = system.start(&["consume", "comes"]);
    let (mut producer, _) = system.start(&["produce", "comes"]);
    say(&mut producer, "x\n");
    assert_eq!(line(&mut lines), "x");
    drop(producer.stdin.take());
    assert!(producer.wait().expect("it ends").success() && consumer.wait().expect("it ends").success());
    system.down();
}

#[test]
fn a_controller_that_starts_anew_finds_the_switch_that_moves_the_flows() {
    let system = System::up(TOPOLOGY);
    let mut events = system.events();
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2"]);
    let (mut consumer, mut lines) = system.start(&["consume", "f"]);
    let (mut producer, _) = system.start(&["produce", "f"]);
    system.well(&["restart", "switch"]);
    events.next("flow-resumed");
    assert_eq!(processes(&system), ("switch.s2", "switch"));
    system.well(&["restart", "controller"]);
    // The first one is there, too, and has no flows.
    assert_eq!(processes(&system), ("switch.s2", "switch"));
    say(&mut producer, "x\n");
    assert_eq!(line(&mut lines), "x");
    // Killed with its controller: the standby is found.
    kill(&system, "controller");
    kill(&system, "switch.s2");
    system.well(&["controller", system.path(), "--daemon"]);
    assert_eq!(processes(&system).0, "switch");
    say(&mut producer, "y\n");
    assert_eq!(line(&mut lines), "y");
    drop(producer.stdin.take());
    assert!(producer.wait().expect("it ends").success() && consumer.wait().expect("it ends").success());
    system.down();
}
