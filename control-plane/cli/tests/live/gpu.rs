//! Rings in the own memory of GPUs that a stand-in for the CUDA driver has: agents reach it by copies, programs map it for kernels. A
//! kernel is a thread here that has what is behind the GPU's addresses.

use std::path::Path;
use std::sync::Arc;

use zsr::{Cancel, FlowRings, Options, Place, Role, pu};
use zsr_api::controller as proto;
use zsr_ring::{PopError, Ring};

use super::standin::{Standin, for_kernels};
use super::system::{System, done};

const HOSTS: &str = "name: s
hosts:
  - {name: h1, memory: 'gpu:0'}
  - {name: h2, memory: 'gpu:1'}
  - h3
flows: []
";
const ITEM: usize = 256;
/// Several times round a ring, whose size is no multiple of a batch.
const ITEMS: u64 = 1500;

/// A system whose agents have the stand-in's GPUs, and so has this process.
fn up(standin: &Standin) -> System {
    standin.load();
    let system = System::new(HOSTS);
    let mut up = system.command(&["up", system.path()]);
    let up = done(up.env("LD_LIBRARY_PATH", standin.folder()).output().expect("it runs"));
    assert_eq!(up.code, Some(0), "{}{}", up.out, up.err);
    system
}

fn create(system: &System, name: &str, from: &str, to: &str, more: &[&str]) {
    let flow = ["flow", "create", name, "-p", from, "-c", to, "--item-size", "256", "--ring-size", "16KiB"];
    system.well(&[&flow, &["--doorbell", "false"][..], more].concat());
}

fn item(number: u64) -> [u8; ITEM] {
    let mut item = [number as u8; ITEM];
    item[..8].copy_from_slice(&number.to_le_bytes());
    item[ITEM - 8..].copy_from_slice(&number.to_le_bytes());
    item
}

/// A ring's lease, and the ring as what pushes or pops there has it.
struct End {
    held: Arc<Ring>,
    ring: Arc<Ring>,
    cancel: Cancel,
    _flow: FlowRings,
}

/// Whoever waits at these ends waits no longer when a test has failed.
struct Stop<'e>(Vec<&'e End>);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|end| end.cancel.cancel());
    }
}

fn end(system: &System, flow: &str, role: Role) -> End {
    let place = Place::at(system.root().join("s"));
    let flow = FlowRings::attach(&place, flow, role, &Options::default()).expect("attached");
    let held = Arc::clone(&flow.rings()[0].ring);
    let ring = if held.memory().gpu().is_some() { for_kernels(&held) } else { Arc::clone(&held) };
    End { held, ring, cancel: Cancel::new(), _flow: flow }
}

/// Pushes the items from `first` on, and leaves the rest to a successor.
fn push(end: &End, first: u64, count: u64) {
    let mut producer = end.ring.attach_producer(end.cancel.clone()).expect("a handle");
    (first..first + count).for_each(|number| producer.push(&item(number)).expect("room"));
    producer.detach();
}

/// Pops to the end, and says how many items came, each of them whole and in order, and what the end was.
fn pop(end: &End) -> (u64, PopError) {
    let mut consumer = end.ring.attach_consumer(end.cancel.clone()).expect("a handle");
    let (mut popped, mut got) = (0, [0; ITEM]);
    loop {
        match consumer.pop(&mut got) {
            Ok(()) => assert!(got == item(popped), "item {popped} is {got:?}"),
            Err(end) => return (popped, end),
        }
        popped += 1;
    }
}

#[test]
fn items_move_from_kernels_to_programs_to_kernels_and_between_them() {
    let standin = Standin::new();
    let system = up(&standin);
    for (name, from, to) in [("from", "h1", "h3"), ("to", "h3", "h2"), ("both", "h1", "h2")] {
        create(&system, name, from, to, &[]);
        let (tx, rx) = (end(&system, name, Role::Producer), end(&system, name, Role::Consumer));
        let gpu = |end: &End| end.held.memory().gpu().map(|gpu| gpu.number);
        assert_eq!(gpu(&tx), (from == "h1").then_some(0), "{name}");
        assert_eq!(gpu(&rx), (to == "h2").then_some(1), "{name}");
        std::thread::scope(|scope| {
            let _stop = Stop(vec![&tx, &rx]);
            scope.spawn(|| {
                // A kernel per batch; the library ends the stream, as zsr_rings_close() does.
                (0..3).for_each(|batch| push(&tx, batch * ITEMS / 3, ITEMS / 3));
                tx.held.finish();
            });
            assert_eq!(pop(&rx), (ITEMS, PopError::Closed), "{name}");
        });
        drop((tx, rx));
        let rings = system.json(&["ring", "list"]);
        let ours = rings.iter().filter(|r| r["memory"].as_str().expect("text").starts_with("gpu:")).count();
        assert_eq!(ours, [from, to].iter().filter(|host| **host != "h3").count(), "{rings:?}");
        system.well(&["flow", "delete", name]);
    }
    system.down();
}

#[test]
fn a_gpu_that_is_lost_ends_its_flows_by_their_policy_and_no_others() {
    let standin = Standin::new();
    let system = up(&standin);
    let mut events = system.events();
    for (name, from, to) in [("lost", "h1", "h3"), ("into", "h3", "h1"), ("other", "h3", "h2")] {
        create(&system, name, from, to, &["--policy", "abort"]);
    }
    let ends: Vec<_> = ["lost", "into", "other"]
        .map(|flow| (end(&system, flow, Role::Producer), end(&system, flow, Role::Consumer)))
        .into();
    std::thread::scope(|scope| {
        let _stop = Stop(ends.iter().flat_map(|(tx, rx)| [tx, rx]).collect());
        let popping: Vec<_> = ends.iter().map(|(_, rx)| scope.spawn(|| pop(rx))).collect();
        let pushing: Vec<_> = ends
            .iter()
            .map(|(tx, _)| {
                scope.spawn(|| {
                    let mut producer = tx.ring.attach_producer(tx.cancel.clone()).expect("a handle");
                    let pushed = (0..ITEMS).take_while(|n| producer.push(&item(*n)).is_ok()).count();
                    producer.close();
                    pushed as u64
                })
            })
            .collect();
        standin.lose(0, 40);
        let mut told = std::collections::BTreeSet::new();
        while told.len() < 4 {
            let event = events.next_of(&["program-died", "flow-failed"]);
            let (flow, text) = (event["flow"].as_str().expect("a name"), event.to_string());
            assert!(flow != "other" && text.contains(&format!("{flow}.h1")), "{text}");
            if event["kind"] == "program-died" {
                assert!(text.contains("GPU 0 (stand-in 0") && text.contains("nvidia-smi"), "{text}");
            }
            told.insert(format!("{flow} {}", event["kind"]));
        }
        let mut popping = popping.into_iter().map(|thread| thread.join().expect("whole items, in order"));
        let (popped, end) = popping.next().expect("lost");
        assert!(popped < ITEMS && matches!(end, PopError::Aborted(_)), "{popped} {end:?}");
        // The kernel of a GPU that is gone hears nothing; here it has the memory still. Others give it up.
        for (_, rx) in &ends[1..2] {
            rx.ring.abort("the GPU is gone");
        }
        let (popped, _) = popping.next().expect("into");
        assert!(popped < ITEMS, "{popped}");
        assert_eq!(popping.next(), Some((ITEMS, PopError::Closed)));
        for (tx, _) in &ends[..1] {
            tx.ring.abort("the GPU is gone");
        }
        pushing.into_iter().for_each(|thread| assert!(thread.join().expect("no panic") <= ITEMS));
    });
    drop(ends);
    let again = ["flow", "create", "again", "-p", "h1", "-c", "h2", "--item-size", "256"];
    let refused = system.zsr(&again);
    let text = refused.err.replace('\n', " ");
    assert!(refused.code == Some(1) && text.contains("again.h1") && text.contains("GPU 0"), "{text}");
    ["lost", "into", "other"].iter().for_each(|flow| drop(system.well(&["flow", "delete", flow])));
    system.down();
}

#[test]
fn programs_that_can_not_be_at_a_gpus_ring_are_told_which_one_and_what_to_do() {
    let standin = Standin::new();
    let system = up(&standin);
    create(&system, "f", "h1", "h2", &[]);
    let mut client = system.client();
    let flow = client.call(async |c| c.get_flow(proto::GetFlowRequest { name: "f".into() }).await);
    let ring = &flow.producers[0].rings[0];
    let says = |text: &str, words: &[&str]| {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        words.iter().for_each(|word| assert!(text.contains(word), "`{text}` lacks `{word}`"));
    };
    // Handles of processors, though the driver is there.
    let refused = pu::attach_producer(Path::new(&ring.programs), &ring.name, Cancel::new());
    says(&refused.expect_err("no processor").to_string(), &["`f.h1", "GPU 0", "zsr_rings", "gpu:0:host"]);
    // Without a driver.
    let none = system.zsr(&["produce", "f"]);
    assert_ne!(none.code, Some(0));
    says(&none.err, &["f.h1", "GPU", "libcuda.so.1", "install"]);
    // With a driver that has another GPU.
    let one = Standin::with(&[("GPUS", 1)]);
    let mut consume = system.command(&["consume", "f"]);
    let other = done(consume.env("LD_LIBRARY_PATH", one.folder()).output().expect("it runs"));
    assert_ne!(other.code, Some(0));
    says(
        &other.err,
        &["f.h2", "does not see GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a001", "CUDA_VISIBLE_DEVICES"],
    );
    // Nobody holds them, and the kernels that come have them.
    let (tx, rx) = (end(&system, "f", Role::Producer), end(&system, "f", Role::Consumer));
    push(&tx, 0, 10);
    tx.held.finish();
    assert_eq!(pop(&rx), (10, PopError::Closed));
    drop((tx, rx));
    // A kernel that waits when its agent dies hears of it from the library.
    create(&system, "g", "h3", "h2", &[]);
    let rx = end(&system, "g", Role::Consumer);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| pop(&rx));
        super::system::signal(system.pid("agent.h2"), "-KILL");
        let (popped, end) = waits.join().expect("no panic");
        assert!(popped == 0 && matches!(end, PopError::Aborted(_)), "{end:?}");
    });
}
