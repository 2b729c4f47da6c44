//! Flows that come and go while others have their turn.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

use tokio::task::JoinHandle;
use tonic::{Code, Status};
use zsr_api::controller as proto;
use zsr_controller::store::{FileStore, Store};

use super::changes::{consumer, pop, producer, push};
use super::rig::{Client, Rig, shuffle};
use super::starts::end;

/// A disk that writes beginnings of changes when it is told to.
#[derive(Debug, Default)]
struct Disk {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stands: bool,
    /// The power fails when a line with this in it is written.
    last: Option<&'static str>,
    /// Somebody waits for it.
    waits: bool,
    /// The texts that the journal was written in, in order.
    written: Vec<String>,
}

#[derive(Debug)]
struct OnDisk(FileStore, Arc<Disk>);

impl Disk {
    fn store(self: &Arc<Self>, path: PathBuf) -> Box<OnDisk> {
        Box::new(OnDisk(FileStore::new(&path), self.clone()))
    }

    fn stand(&self) {
        self.state.lock().expect("no panic").stands = true;
    }

    /// Waits until somebody waits for it.
    fn await_writer(&self) {
        drop(self.changed.wait_while(self.state.lock().expect("no panic"), |s| !s.waits).expect("no panic"));
    }

    fn go_on(&self) {
        let mut state = self.state.lock().expect("no panic");
        (state.stands, state.waits) = (false, false);
        state.written.clear();
        self.changed.notify_all();
    }

    /// How many changes began with each write, and how many ended with one.
    fn written(&self) -> (Vec<usize>, Vec<usize>) {
        let state = self.state.lock().expect("no panic");
        let count = |what: &str| {
            let counts = state.written.iter().map(|text| text.matches(what).count());
            counts.filter(|count| *count > 0).collect()
        };
        (count("\"Begin\""), count("\"End\""))
    }
}

impl Store for OnDisk {
    fn path(&self) -> &Path {
        self.0.path()
    }

    fn read(&mut self) -> std::io::Result<Vec<u8>> {
        self.0.read()
    }

    fn replace(&mut self, text: &[u8]) -> std::io::Result<()> {
        self.0.replace(text)
    }

    fn append(&mut self, line: &[u8]) -> std::io::Result<()> {
        let text = String::from_utf8(line.to_vec()).expect("a text");
        let mut state = self.1.state.lock().expect("no panic");
        while state.stands && text.contains("\"Begin\"") {
            state.waits = true;
            self.1.changed.notify_all();
            state = self.1.changed.wait(state).expect("no panic");
        }
        let last = state.last.is_some_and(|what| text.contains(what));
        state.written.push(text);
        drop(state);
        self.0.append(line)?;
        assert!(!last, "the power fails");
        Ok(())
    }

    fn add(&mut self, line: &[u8]) -> std::io::Result<()> {
        self.0.add(line)
    }
}

fn create(rig: &Rig, client: &Client, request: proto::CreateFlowRequest) -> JoinHandle<Result<(), Status>> {
    let mut client = client.clone();
    rig.runtime.spawn(async move { client.create_flow(request).await.map(drop) })
}

fn delete(rig: &Rig, client: &Client, name: &str) -> JoinHandle<Result<(), Status>> {
    let (mut client, name) = (client.clone(), name.to_owned());
    let request = proto::DeleteFlowRequest { name, force: true };
    rig.runtime.spawn(async move { client.delete_flow(request).await.map(drop) })
}

/// Waits until so many changes wait for one before them.
fn await_waiting(rig: &Rig, client: &mut Client, count: usize) {
    loop {
        let system = rig.runtime.block_on(client.get_system(proto::GetSystemRequest {}));
        let pending = system.expect("a controller").into_inner().pending;
        if pending.iter().filter(|change| change.waits_for == "changes before it").count() == count {
            return;
        }
        std::thread::yield_now();
    }
}

fn moves(rig: &Rig, flow: &str) {
    let mut tx = producer(rig, 1, &format!("{flow}.h1.h2"));
    let mut rx = consumer(rig, 2, &format!("{flow}.h2"));
    push(&mut tx, 0..10);
    assert!((0..10).all(|n| pop(&mut rx) == n), "{flow}");
    tx.detach();
    rx.detach();
}

fn names(controller: &zsr_controller::Controller) -> Vec<String> {
    controller.list_flows().into_iter().map(|flow| flow.name).collect()
}

#[test]
fn flows_that_wait_for_their_turn_come_and_go_together() {
    let (rig, disk) = (Rig::new(2, ""), Arc::<Disk>::default());
    let (controller, mut client) = rig.control_on(disk.store(rig.journal()));
    disk.stand();
    let first = create(&rig, &client, shuffle("first", &["h1"], &["h2"]));
    disk.await_writer();
    let others = ["a", "b", "c"].map(|name| create(&rig, &client, shuffle(name, &["h1"], &["h2"])));
    await_waiting(&rig, &mut client, 3);
    disk.go_on();
    for made in [first].into_iter().chain(others) {
        rig.runtime.block_on(made).expect("no panic").expect("created");
    }
    assert_eq!(disk.written(), (vec![1, 3], vec![1, 3]));
    ["first", "a", "b", "c"].iter().for_each(|flow| moves(&rig, flow));
    let (four, rings) = (rig.held(), rig.rings());

    disk.stand();
    let first = delete(&rig, &client, "first");
    disk.await_writer();
    // Nobody can say which of two that delete one flow is the first.
    let twins = [(); 2].map(|()| delete(&rig, &client, "a"));
    let others = [
        create(&rig, &client, shuffle("d", &["h1"], &["h2"])),
        delete(&rig, &client, "b"),
        create(&rig, &client, shuffle("e", &["h1"], &["h2"])),
    ];
    await_waiting(&rig, &mut client, 5);
    disk.go_on();
    for done in [first].into_iter().chain(others) {
        rig.runtime.block_on(done).expect("no panic").expect("done");
    }
    let mut twins = twins.map(|twin| rig.runtime.block_on(twin).expect("no panic").map_err(|s| s.code()));
    twins.sort_by_key(Result::is_err);
    assert_eq!(twins, [Ok(()), Err(Code::NotFound)]);
    assert_eq!(disk.written(), (vec![1, 4], vec![2]));
    assert_eq!(names(&controller), ["c", "d", "e"]);
    assert_eq!((rig.held().1, rig.rings()), (four.1 - 1, rings - 2));
    ["c", "d", "e"].iter().for_each(|flow| moves(&rig, flow));
    for flow in ["c", "d", "e"] {
        rig.runtime.block_on(delete(&rig, &client, flow)).expect("no panic").expect("deleted");
    }
    assert!(rig.is_clean());
}

#[test]
fn one_that_is_refused_keeps_no_other_from_it() {
    let (rig, disk) = (Rig::new(2, ""), Arc::<Disk>::default());
    let (controller, mut client) = rig.control_on(disk.store(rig.journal()));
    disk.stand();
    let first = create(&rig, &client, shuffle("first", &["h1"], &["h2"]));
    disk.await_writer();
    let mut no_memory = shuffle("g", &["h1"], &["h2"]);
    no_memory.consumers[0].memory = "gpu:0".into();
    let requests = [shuffle("a", &["h1"], &["h2"]), no_memory, shuffle("b", &["h1"], &["h2"])];
    let others = requests.map(|request| create(&rig, &client, request));
    await_waiting(&rig, &mut client, 3);
    // Nobody can say which of two of one name is the first.
    let twins = [(); 2].map(|()| create(&rig, &client, shuffle("twin", &["h1"], &["h2"])));
    await_waiting(&rig, &mut client, 5);
    disk.go_on();
    let mut answers = Vec::new();
    for done in [first].into_iter().chain(others).chain(twins) {
        answers.push(rig.runtime.block_on(done).expect("no panic").map_err(|status| status.code()));
    }
    let refused = answers.iter().map(Result::is_err).collect::<Vec<_>>();
    assert_eq!(refused[..4], [false, false, true, false], "{answers:?}");
    answers[4..].sort_by_key(Result::is_err);
    assert_eq!(answers[4..], [Ok(()), Err(Code::AlreadyExists)]);
    assert_eq!(names(&controller), ["a", "b", "first", "twin"]);
    assert_eq!((rig.held().1, rig.rings()), (4, 8));
    ["first", "a", "b", "twin"].iter().for_each(|flow| moves(&rig, flow));
}

#[test]
fn flows_that_are_written_are_there_though_the_controller_dies_before_the_switch_has_them() {
    let (rig, disk) = (Rig::new(2, ""), Arc::<Disk>::default());
    let (controller, mut client) = rig.control_on(disk.store(rig.journal()));
    rig.runtime
        .block_on(create(&rig, &client, shuffle("old", &["h1"], &["h2"])))
        .expect("no panic")
        .expect("created");
    disk.stand();
    let first = create(&rig, &client, shuffle("first", &["h1"], &["h2"]));
    disk.await_writer();
    let others = ["a", "b"].map(|name| create(&rig, &client, shuffle(name, &["h1"], &["h2"])));
    let gone = delete(&rig, &client, "old");
    await_waiting(&rig, &mut client, 3);
    disk.state.lock().expect("no panic").last = Some("\"End\":{\"name\":\"a\"");
    disk.go_on();
    rig.runtime.block_on(first).expect("no panic").expect("created");
    for broken_off in others.into_iter().chain([gone]) {
        rig.runtime.block_on(broken_off).expect("no panic").expect_err("nobody has done it");
    }
    assert_eq!(rig.held().1, 2, "`old` and `first`");
    end(&rig, controller, client);

    let (controller, _client) = rig.control();
    // What was to come is there, and what was to go has gone.
    assert_eq!(names(&controller), ["a", "b", "first"]);
    assert_eq!((rig.held().1, rig.rings()), (3, 6));
    ["first", "a", "b"].iter().for_each(|flow| moves(&rig, flow));
}
