//! `zsr produce` follows its flow: consumers that join get their share, consumers that leave are left in good order, the dead are
//! done without.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};

use super::system::{HOSTS, System, signal};

const KEYS: u64 = 97;

/// Lines `key,number`, numbered from 0.
struct Source {
    child: Child,
    next: u64,
}

impl Source {
    fn write(&mut self, lines: u64) {
        let text: String = (self.next..self.next + lines).map(|n| format!("{},{n}\n", n % KEYS)).collect();
        self.next += lines;
        self.child.stdin.as_mut().expect("piped").write_all(text.as_bytes()).expect("taken");
    }

    fn end(mut self) -> u64 {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("it ends").success());
        self.next
    }
}

/// Numbers of lines as they come: somebody always reads, so that nobody waits for that.
struct Sink {
    child: Child,
    numbers: Receiver<u64>,
}

impl Sink {
    fn start(system: &System, member: &str) -> Self {
        let (child, out) = system.start(&["consume", "f", "--member", member]);
        let (tell, numbers) = channel();
        std::thread::spawn(move || {
            for line in out.lines() {
                let line = line.expect("text");
                let number = line.split(',').nth(1).expect("a number").parse().expect("a number");
                if tell.send(number).is_err() {
                    return;
                }
            }
        });
        Sink { child, numbers }
    }

    /// The numbers until this one, with it.
    fn until(&self, wanted: u64) -> Vec<u64> {
        let mut got = Vec::new();
        while got.last() != Some(&wanted) {
            got.push(self.numbers.recv().expect("the stream goes on"));
        }
        got
    }

    /// Has `source` write until a line comes here; its number.
    fn first(&self, source: &mut Source) -> u64 {
        loop {
            source.write(1);
            if let Ok(number) = self.numbers.try_recv() {
                return number;
            }
        }
    }

    /// The rest of the stream, which ends well.
    fn rest(mut self) -> Vec<u64> {
        let rest = self.numbers.iter().collect();
        assert!(self.child.wait().expect("it ends").success());
        rest
    }
}

fn shuffle(policy: &str) -> (System, Source, Sink) {
    let system = System::up(HOSTS);
    let create = ["flow", "create", "f", "-p", "h1", "-c", "h2", "--item-size", "256", "--ring-size", "4KiB"];
    system.well(&[&create[..], &["--routing", "hash(1)", "--policy", policy]].concat());
    let (child, _) = system.start(&["produce", "f"]);
    let first = Sink::start(&system, "h2");
    (system, Source { child, next: 0 }, first)
}

#[test]
fn producers_follow_consumers_that_join_and_leave() {
    let (system, mut source, first) = shuffle("wait");
    source.write(500);
    let mut got = first.until(499);
    assert_eq!(got, (0..500).collect::<Vec<_>>());
    for round in 0..3 {
        system.well(&["flow", "add-consumer", "f", "h3"]);
        let second = Sink::start(&system, "h3");
        // Until the producer knows, which is soon.
        let begin = source.next;
        let mut other = vec![second.first(&mut source)];
        let joined = source.next;
        source.write(1000);
        // What is written waits in the producer's input, too: until it has come so far.
        while *other.last().expect("some") < joined + 800 {
            other.push(second.numbers.recv().expect("its share"));
        }
        system.well(&["flow", "remove-member", "f", "h3"]);
        let left = source.next;
        // The one who has left has taken all that it was given, and seen its end.
        other.extend(second.rest());
        source.write(KEYS);
        // A line for the only consumer there is.
        let last = source.next - 1;
        got.extend(first.until(last));
        assert!(
            other.is_sorted() && other[0] >= begin && *other.last().expect("some") < left,
            "round {round}"
        );
        // Keys were dealt while both were there.
        let mut places: BTreeMap<u64, [bool; 2]> = BTreeMap::new();
        for (place, list) in [&got, &other].into_iter().enumerate() {
            for n in list.iter().filter(|n| (joined..joined + 800).contains(n)) {
                places.entry(*n % KEYS).or_default()[place] = true;
            }
        }
        assert!(places.values().all(|at| at[0] != at[1]), "each key at one consumer");
        assert!(places.values().filter(|at| at[1]).count() > 20, "a fair share");
        got.extend(other);
        got.sort_unstable();
        assert_eq!(got, (0..source.next).collect::<Vec<_>>(), "every line once");
    }
    let all = source.end();
    got.extend(first.rest());
    assert_eq!(got.len() as u64, all);
    system.well(&["flow", "delete", "f"]);
    system.down();
}

#[test]
fn producers_do_without_a_consumer_that_died() {
    let (system, mut source, first) = shuffle("drop-member");
    system.well(&["flow", "add-consumer", "f", "h3"]);
    let mut events = system.events();
    let mut second = Sink::start(&system, "h3");
    second.first(&mut source);
    signal(second.child.id().into(), "-KILL");
    let died = events.next("program-died");
    assert_eq!(died["member"], "h3");
    assert_eq!(events.next("member-removed")["member"], "h3");
    second.child.wait().expect("it died");
    let begin = source.next;
    source.write(1000);
    let end = source.end();
    let got = first.rest();
    assert!(got.is_sorted());
    // From some line on, before or behind the flow's change, all lines are the survivor's.
    let missing: Vec<u64> = (begin..end).filter(|n| got.binary_search(n).is_err()).collect();
    assert!(missing.len() < 200, "the producer knows soon: {missing:?}");
    let last = missing.last().map_or(begin, |n| n + 1);
    assert!(got.ends_with(&(last..end).collect::<Vec<_>>()));
    system.well(&["flow", "delete", "f"]);
    system.down();
}

#[test]
fn a_consumer_that_comes_when_all_was_said_sees_the_end() {
    let (system, mut source, first) = shuffle("wait");
    // Another producer keeps the flow open.
    system.well(&["flow", "add-producer", "f", "h3"]);
    let (mut late, _) = system.start(&["produce", "f", "--member", "h3"]);
    source.write(10);
    source.end();
    system.well(&["flow", "add-consumer", "f", "more@h3"]);
    let second = Sink::start(&system, "more");
    drop(late.stdin.take());
    assert!(late.wait().expect("it ends").success());
    assert_eq!((first.rest().len(), second.rest().len()), (10, 0));
    // Nobody can join what has ended.
    let refused = system.zsr(&["flow", "add-producer", "f", "again@h1"]);
    assert!(refused.code == Some(1) && refused.err.contains("has ended"), "{}", refused.err);
    system.well(&["flow", "delete", "f"]);
    system.down();
}

#[test]
fn producers_go_on_without_a_controller_and_follow_its_successor() {
    let (system, mut source, first) = shuffle("wait");
    source.write(1);
    let mut got = first.until(0);
    let mut events = system.events();
    // Something to look at when there is nobody who could be asked.
    system.well(&["flow", "set", "f", "--weight", "2"]);
    events.next("flow-changed");
    signal(system.pid("controller"), "-KILL");
    while system.processes().iter().any(|(name, pid)| name == "controller" && pid.is_some()) {
        std::thread::yield_now();
    }
    source.write(100);
    got.extend(first.until(100));
    system.well(&["controller", system.path(), "--daemon"]);
    system.well(&["flow", "add-consumer", "f", "h3"]);
    let second = Sink::start(&system, "h3");
    got.push(second.first(&mut source));
    let all = source.end();
    got.extend(first.rest());
    got.extend(second.rest());
    got.sort_unstable();
    assert_eq!(got, (0..all).collect::<Vec<_>>(), "every line once");
    system.well(&["flow", "delete", "f"]);
    system.down();
}
