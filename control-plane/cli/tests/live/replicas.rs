//! A replicated log, whose replicas are processes that are killed: its clients' calls are linearizable by a checker of others, and
//! all replicas end in the same state.

use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use todc_utils::specifications::register::{RegisterOperation, RegisterSpecification};
use todc_utils::{Action, History, WGLChecker};
use zsr::{Cancel, Place};
use zsr_replicated_log::{Log, LogError, Party, StateMachine};

use super::library::example;
use super::system::{System, line, signal};

const FOUR: &str = "name: s\nhosts: [h1, h2, h3, h4]\nflows: []\n";
const KEYS: [&str; 3] = ["x", "y", "z"];
const PATIENCE: Duration = Duration::from_secs(60);

/// What clients did, in the order of calls and answers: of each, the key, the client, and what it was.
type Did = Vec<(usize, usize, Action<RegisterOperation<u32>>)>;

fn at<'n>(name: &'n str, host: &'n str) -> Party<'n> {
    Party { name, host }
}

struct Replicas<'s> {
    system: &'s System,
    program: PathBuf,
}

impl Replicas<'_> {
    fn start(&self, args: &[&str]) -> (Child, BufReader<ChildStdout>) {
        let mut command = Command::new(&self.program);
        command.args(args).env("XDG_RUNTIME_DIR", self.system.folder.path()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        assert_eq!(line(&mut out), "here", "{args:?}");
        (child, out)
    }
}

/// Sets and gets by turns, until it is told to stop.
fn client(log: &Log, number: usize, did: &Mutex<Did>, calls: &AtomicUsize, stop: &AtomicBool) {
    let mut client = log.client(Some(&format!("c{number}")), Cancel::new()).expect("a client");
    let mut turn = 0_u32;
    while !stop.load(Ordering::Relaxed) {
        turn += 1;
        let key = (turn as usize / 2 + number) % KEYS.len();
        let value = turn * 10 + number as u32;
        let (command, called) = if (turn as usize + number).is_multiple_of(2) {
            (format!("set {} {value}", KEYS[key]), RegisterOperation::Write(value))
        } else {
            (format!("get {}", KEYS[key]), RegisterOperation::Read(None))
        };
        did.lock().expect("whole").push((key, number, Action::Call(called)));
        let answer = client.call(command.as_bytes(), PATIENCE).expect("an answer");
        let answer = String::from_utf8(answer).expect("text");
        let answered = match called {
            RegisterOperation::Write(_) => {
                assert_eq!(answer, "ok");
                called
            }
            // What was never set is 0 in the specification.
            RegisterOperation::Read(_) => RegisterOperation::Read(Some(answer.parse().unwrap_or(0))),
        };
        did.lock().expect("whole").push((key, number, Action::Response(answered)));
        calls.fetch_add(1, Ordering::Relaxed);
    }
    client.close().expect("closed");
}

#[test]
fn replicas_are_killed_and_come_back_and_nobody_notices() {
    let system = System::up(FOUR);
    let mut events = system.events();
    let place = Place::at(system.root().join("s"));
    let clients = [at("c0", "h1"), at("c1", "h1"), at("c2", "h2")];
    let parties = [at("r1", "h2"), at("r2", "h3"), at("r3", "h4")];
    let log = Log::create(&place, "kv", &parties, &clients).expect("a log");
    let replicas = Replicas { system: &system, program: example("kv") };
    let mut running: Vec<_> = parties.iter().map(|party| replicas.start(&["begin", party.name])).collect();

    let (did, calls, stop) = (Mutex::new(Did::new()), AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|threads| {
        let all: Vec<_> = (0..clients.len())
            .map(|number| {
                threads.spawn({
                    let (log, did, calls, stop) = (&log, &did, &calls, &stop);
                    move || client(log, number, did, calls, stop)
                })
            })
            .collect();
        let goes_on = || {
            let before = calls.load(Ordering::Relaxed);
            while calls.load(Ordering::Relaxed) < before + 60 && !all.iter().any(|c| c.is_finished()) {
                std::thread::yield_now();
            }
        };
        goes_on();
        // Each in turn; the last one gets its state from replicas that have come back themselves.
        for (number, party) in parties.iter().enumerate() {
            signal(u64::from(running[number].0.id()), "-KILL");
            running[number].0.wait().expect("it has died");
            while events.next("member-removed")["member"] != party.name {}
            goes_on();
            running[number] = replicas.start(&["rejoin", party.name, party.host]);
            goes_on();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let states: Vec<String> = running
        .into_iter()
        .map(|(mut child, mut out)| {
            let mut state = String::new();
            out.read_to_string(&mut state).expect("text");
            assert!(child.wait().expect("it ends").success());
            state
        })
        .collect();
    assert_eq!(states[0].lines().count(), KEYS.len(), "{}", states[0]);
    assert!(states.iter().all(|state| *state == states[0]), "{states:?}");

    let did = did.into_inner().expect("whole");
    for (number, key) in KEYS.iter().enumerate() {
        let of_key = did.iter().filter(|(of, ..)| *of == number);
        let actions: Vec<_> = of_key.map(|(_, client, action)| (*client, action.clone())).collect();
        assert!(actions.len() > 100, "{}", actions.len());
        let history = History::from_actions(actions);
        assert!(WGLChecker::<RegisterSpecification<u32>>::is_linearizable(history), "key {key}");
    }
    log.delete().expect("deleted");
    system.down();
}

/// Says how many commands it has carried out.
#[derive(Default)]
struct Count(u64);

impl StateMachine for Count {
    fn apply(&mut self, command: &[u8]) -> Vec<u8> {
        self.0 += 1;
        if command == b"long" { vec![0; Log::MAX_MESSAGE + 1] } else { self.0.to_string().into_bytes() }
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.to_le_bytes().to_vec()
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<(), String> {
        self.0 = snapshot.try_into().map(u64::from_le_bytes).map_err(|_| "8 bytes are wanted")?;
        Ok(())
    }
}

#[test]
fn what_can_not_be_is_said() {
    let system = System::up(FOUR);
    let place = Place::at(system.root().join("s"));
    let log = Log::create(&place, "l", &[at("r1", "h2"), at("r2", "h3")], &[at("c0", "h1")]).expect("a log");
    let again = Log::create(&place, "l", &[at("r1", "h2")], &[at("c0", "h1")]);
    assert!(again.is_err_and(|e| e.to_string().contains("l-answers")));

    // Nobody answers yet, but the command is in the log.
    let mut client = log.client(None, Cancel::new()).expect("a client");
    let none = client.call(b"1", Duration::from_millis(10)).expect_err("nobody is there");
    assert!(matches!(none, LogError::NoAnswer { .. }), "{none}");
    let long = client.call(&[0; Log::MAX_MESSAGE + 1], PATIENCE).expect_err("too long");
    assert!(matches!(long, LogError::TooLong { what: "the command", .. }), "{long}");

    let replicas = ["r1", "r2"].map(|name| {
        let mut replica = log.begin(name, Count::default(), Cancel::new()).expect("a replica");
        std::thread::spawn(move || {
            while replica.state().0 < 3 {
                replica.step(PATIENCE).expect("carried out");
            }
            replica.leave().expect("left");
        })
    });
    assert_eq!(client.call(b"2", PATIENCE).expect("an answer"), b"2");
    let long = client.call(b"long", PATIENCE).expect_err("too long");
    assert!(matches!(long, LogError::TooLong { what: "the answer", .. }), "{long}");
    replicas.into_iter().for_each(|replica| replica.join().expect("a replica"));
    // Who begins where another was would lack what that one has popped.
    let second = log.begin("r1", Count::default(), Cancel::new()).err().expect("r1 has popped");
    assert!(matches!(second, LogError::NotTheFirst { .. }), "{second}");
    // With nobody left who carries anything out, there is no state to be had.
    let alone = log.rejoin(at("r1", "h2"), Count::default(), Cancel::new(), Duration::from_millis(200));
    let alone = alone.err().expect("nobody has the state");
    assert!(matches!(alone, LogError::NoState { .. }), "{alone}");
    client.close().expect("closed");
    log.delete().expect("deleted");
    system.down();
}

#[test]
fn a_replica_that_is_behind_ends_as_the_others_when_all_clients_have_closed() {
    let system = System::up(FOUR);
    let mut events = system.events();
    let place = Place::at(system.root().join("s"));
    let log = Log::create(&place, "l", &[at("r1", "h2"), at("r2", "h3")], &[at("c0", "h1")]).expect("a log");
    let mut client = log.client(None, Cancel::new()).expect("a client");
    let mut replicas = ["r1", "r2"].map(|name| log.begin(name, Count::default(), Cancel::new()).expect(name));
    std::thread::scope(|threads| {
        let [quick, late] = &mut replicas;
        let quick = threads.spawn(|| quick.run());
        for number in 1..=3 {
            assert_eq!(client.call(b"count", PATIENCE).expect("an answer"), number.to_string().as_bytes());
        }
        client.close().expect("closed");
        quick.join().expect("no panic").expect("the end");
        let ended = loop {
            let event = events.next_of(&["program-left", "program-died"]);
            if event["flow"] == "l-answers" && event["member"] == "c0" {
                break event;
            }
        };
        // Who dies is taken out, and the flow of answers fails behind its last consumer.
        assert_eq!(ended["kind"], "program-left");
        late.run().expect("the end");
    });
    assert_eq!(replicas.map(|replica| replica.state().0), [3, 3]);
    log.delete().expect("deleted");
    system.down();
}
