//! Repairs by a system in virtual time: NICs refuse requests, agents hang, members die together, and switches die again
//! while they are taken over, and with them hosts and controllers.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::broadcast;
use zsr_api::controller::controller_server::Controller as Service;
use zsr_api::controller::{self as proto, EventKind, FlowKind, Policy};
use zsr_controller::Controller;
use zsr_plan::dataplane::model::Flow;
use zsr_plan::error::ErrorKind;
use zsr_plan::state::NewMember;
use zsr_ring::{Consumer, PopError, Producer};
use zsr_simnet::LinkConfig;
use zsr_soft_nic::Modify;
use zsr_tests::controlled::{Controlled, MemoryStore};
use zsr_topology::RingRole;
use zsr_wire::roce::{BTH_AT, EXT_AT, IP_AT};
use zsr_wire::{Qpn, icrc};

const HOSTS: &str = "hosts: [h1, h2, h3, h4]\nflows: []\n";
const MS: Duration = Duration::from_millis(1);
const KINDS: [FlowKind; 3] = [FlowKind::Shuffle, FlowKind::LoadBalance, FlowKind::Replicate];
/// Virtual time in which everything here has to come to pass.
const PATIENCE: Duration = Duration::from_secs(15);
const ACK: u8 = 0x11;
const REMOTE_ACCESS_ERROR: u8 = 0x62;

type Events = broadcast::Receiver<proto::Event>;

fn request(name: &str, kind: FlowKind, producers: &[&str], consumers: &[&str]) -> proto::CreateFlowRequest {
    let members = |hosts: &[&str]| {
        hosts.iter().map(|h| proto::Member { host: (*h).into(), ..Default::default() }).collect()
    };
    proto::CreateFlowRequest {
        name: name.into(),
        kind: kind.into(),
        producers: members(producers),
        consumers: members(consumers),
        item_size: 64,
        ring_size: 4096,
        ..Default::default()
    }
}

fn with(settings: proto::Settings, flow: proto::CreateFlowRequest) -> proto::CreateFlowRequest {
    proto::CreateFlowRequest { settings: Some(settings), ..flow }
}

fn policy(policy: Policy) -> proto::Settings {
    proto::Settings { policy: Some(policy.into()), dead_after_us: Some(1_000_000), ..Default::default() }
}

/// Items, as (producer ring, number).
type Log = Vec<(u32, u32)>;

/// A program that pushes into a producer ring.
struct Pusher {
    /// The ring's place among the flow's.
    lane: u32,
    tx: Producer,
    pushed: u32,
    host: String,
}

impl Pusher {
    /// Pushes items up to number `end`, as far as there is room.
    fn push(&mut self, end: u32) {
        let mut item = [0; 64];
        item[..4].copy_from_slice(&self.lane.to_le_bytes());
        item[4..8].copy_from_slice(&self.pushed.to_le_bytes());
        while self.pushed < end && self.tx.try_push(&item).is_ok() {
            self.pushed += 1;
            item[4..8].copy_from_slice(&self.pushed.to_le_bytes());
        }
    }
}

/// The programs of a flow: producers push numbered items, consumers note what they pop.
struct Programs {
    kind: FlowKind,
    producers: Vec<Pusher>,
    /// By ring: the program, its host, and what it has popped.
    consumers: Vec<(Consumer, String, Log)>,
}

impl Programs {
    fn of(sim: &Controlled, flow: &Flow, kind: FlowKind) -> Programs {
        let rings: Vec<_> = flow.rings().cloned().collect();
        let mut out = Programs { kind, producers: Vec::new(), consumers: Vec::new() };
        for (at, ring) in rings.into_iter().enumerate() {
            match ring.ids.is_producer {
                true => {
                    let (lane, tx) = (at as u32, sim.producer(flow, at));
                    out.producers.push(Pusher { lane, tx, pushed: 0, host: ring.host });
                }
                false => out.consumers.push((sim.consumer(flow, at), ring.host, Vec::new())),
            }
        }
        out
    }

    fn push(&mut self, end: u32) {
        self.producers.iter_mut().for_each(|p| p.push(end));
    }

    fn pop(&mut self) {
        let mut item = [0; 64];
        let word =
            |item: &[u8; 64], at: usize| u32::from_le_bytes(item[at..at + 4].try_into().expect("4 bytes"));
        for (rx, host, log) in &mut self.consumers {
            loop {
                match rx.try_pop(&mut item) {
                    Ok(()) => log.push((word(&item, 0), word(&item, 4))),
                    Err(PopError::Empty | PopError::Closed | PopError::Aborted(_)) => break,
                    Err(e) => panic!("at {host}: {e}"),
                }
            }
        }
    }

    /// A host has died, and its programs.
    fn bury(&mut self, host: &str) {
        self.producers.retain(|p| p.host != host);
        self.consumers.retain(|(_, at, _)| at != host);
    }

    /// Items that the consumer has got that has the fewest; of a load balance, all.
    fn arrived(&self) -> usize {
        let counts = self.consumers.iter().map(|c| c.2.len());
        match self.kind {
            FlowKind::LoadBalance => counts.sum(),
            _ => counts.min().unwrap_or(0),
        }
    }

    /// In order, once, and of a group in one order.
    fn check(&self) {
        let mut seen = BTreeSet::new();
        for (_, host, log) in &self.consumers {
            let mut last = BTreeMap::new();
            for &(lane, number) in log {
                let before = last.insert(lane, number);
                let next = before.map_or(0, |n| n + 1);
                match self.kind {
                    FlowKind::LoadBalance => {
                        assert!(
                            before.is_none_or(|n| n < number),
                            "{host}: {number} behind {before:?} of {lane}"
                        );
                        assert!(seen.insert((lane, number)), "{host}: item {number} of {lane} twice");
                    }
                    _ => assert_eq!(number, next, "{host}: of {lane}"),
                }
            }
        }
        if self.kind == FlowKind::Replicate {
            let orders: Vec<&Vec<_>> = self.consumers.iter().map(|c| &c.2).collect();
            let all = orders.iter().map(|o| o.len()).min().unwrap_or(0);
            assert!(orders.windows(2).all(|o| o[0][..all] == o[1][..all]), "two orders");
        }
    }

    /// Everything that was pushed by those who live has come to those who live.
    fn is_drained(&self) -> bool {
        let of = |lane: u32| {
            let logs = self.consumers.iter().map(|c| c.2.iter().filter(|i| i.0 == lane).count());
            match self.kind {
                FlowKind::Replicate => logs.min().unwrap_or(0),
                _ => logs.sum(),
            }
        };
        self.producers.iter().all(|p| of(p.lane) == p.pushed as usize)
    }
}

/// Programs work while `time` passes.
fn pump(sim: &mut Controlled, programs: &mut [Programs], end: u32, time: Duration) {
    let until = sim.net.now() + time.as_nanos() as u64;
    while sim.net.now() < until {
        programs.iter_mut().for_each(|p| p.push(end));
        sim.run_for(MS / 10);
        programs.iter_mut().for_each(Programs::pop);
    }
    programs.iter().for_each(Programs::check);
}

/// Programs work until `done`.
fn pump_until(
    sim: &mut Controlled,
    programs: &mut [Programs],
    end: u32,
    mut done: impl FnMut(&[Programs]) -> bool,
) {
    let begun = sim.net.now();
    while !done(programs) {
        pump(sim, programs, end, MS);
        let counts: Vec<usize> = programs.iter().map(Programs::arrived).collect();
        assert!(
            sim.net.now() - begun < PATIENCE.as_nanos() as u64,
            "it does not come to pass: {counts:?} arrived"
        );
    }
}

/// All flows move another 100 items, and then everything arrives that was pushed.
fn all_goes_on(sim: &mut Controlled, programs: &mut [Programs]) {
    let before: Vec<usize> = programs.iter().map(Programs::arrived).collect();
    pump_until(sim, programs, u32::MAX, |now| now.iter().zip(&before).all(|(p, b)| p.arrived() >= b + 100));
    pump_until(sim, programs, 0, |now| now.iter().all(Programs::is_drained));
}

fn has(events: &mut Events, kind: EventKind) -> Option<proto::Event> {
    std::iter::from_fn(|| events.try_recv().ok()).find(|event| event.kind() == kind)
}

/// Lets time pass until an event of this kind.
fn until(
    sim: &mut Controlled,
    programs: &mut [Programs],
    events: &mut Events,
    kind: EventKind,
) -> proto::Event {
    let mut found = None;
    pump_until(sim, programs, u32::MAX, |_| {
        found = has(events, kind);
        found.is_some()
    });
    found.expect("an event")
}

/// The newest acknowledgement that each host's NIC has sent, by port.
type Acks = Rc<RefCell<BTreeMap<u8, Vec<u8>>>>;

fn watch_acks(sim: &mut Controlled) -> Acks {
    let acks = Acks::default();
    let sink = acks.clone();
    sim.net.observe(move |_, _, bytes| {
        // The switch acknowledges nothing. Addresses end in the number of the host.
        if bytes.get(BTH_AT) == Some(&ACK) {
            sink.borrow_mut().insert(bytes[IP_AT + 15], bytes.to_vec());
        }
    });
    acks
}

/// A queue pair of ring number `at` is in error, and its NIC says so to the switch.
fn refuse(sim: &mut Controlled, acks: &Acks, flow: &Flow, at: usize, poll: bool) -> String {
    let ring = flow.rings().nth(at).expect("a ring");
    let host: usize = ring.host[1..].parse().expect("a number");
    let info = sim.agents[host - 1].ring(&ring.name).expect("it is there");
    let (nic_qpn, switch_qpn): (Qpn, u32) = match poll {
        true => (info.poll.qpn, ring.ids.poll.qpn),
        false => (info.data.qpn, ring.ids.data.qpn),
    };
    let nic = sim.nic(host - 1).expect("it lives");
    nic.lock().expect("nobody panics").modify_qp(nic_qpn, Modify::Error).expect("a queue pair");
    let ip = info.data.remote.map(|_| sim.agents[host - 1].nic().ip).expect("connected");
    let mut frame = acks.borrow()[&ip.octets()[3]].clone();
    frame[BTH_AT + 5..BTH_AT + 8].copy_from_slice(&switch_qpn.to_be_bytes()[1..]);
    frame[EXT_AT] = REMOTE_ACCESS_ERROR;
    assert!(icrc::write(&mut frame[IP_AT..]));
    let now = sim.net.now();
    sim.switch().inject(now, host as u16, &frame);
    ring.name.clone()
}

#[test]
fn a_flow_goes_on_after_a_request_was_refused() {
    for kind in KINDS {
        for (at, poll) in [(0, false), (1, true), (5, false), (4, true)] {
            let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 11);
            let acks = watch_acks(&mut sim);
            let controller = sim.controller(None).expect("a controller");
            let mut events = controller.events(None).1;
            let flow = sim.create(&controller, request("f", kind, &["h1", "h2"], &["h3", "h4"]));
            // Rings of a shuffle: two of each producer, then the consumers'.
            let at = at.min(flow.rings().count() - 1);
            let mut programs = [Programs::of(&sim, &flow, kind)];
            pump(&mut sim, &mut programs, u32::MAX, MS * 5);
            let ring = refuse(&mut sim, &acks, &flow, at, poll);
            let resumed = until(&mut sim, &mut programs, &mut events, EventKind::FlowResumed);
            assert_eq!((&resumed.flow, &resumed.ring), (&"f".to_owned(), &ring), "{resumed:?}");
            assert!(
                resumed.text.contains("refused a request") && resumed.text.contains("made anew"),
                "{resumed:?}"
            );
            all_goes_on(&mut sim, &mut programs);
            let now = controller.get_flow("f").expect("it runs");
            assert!(now.failed.is_none() && !now.is_adrift());
            for (was, is) in flow.rings().zip(now.rings()) {
                let of_it = flow.rings().any(|r| r.name == ring && r.ids.worker == was.ids.worker);
                let is_made_anew = kind != FlowKind::Shuffle || of_it;
                assert_eq!(was.ids.data.psn != is.ids.data.psn, is_made_anew, "{}", was.name);
            }
        }
    }
}

#[test]
fn a_request_that_is_refused_again_and_again_at_one_place_fails_its_flow() {
    for kind in KINDS {
        for at in [0, usize::MAX] {
            let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 12);
            let controller = sim.controller(None).expect("a controller");
            let mut events = controller.events(None).1;
            let flow = sim.create(&controller, request("f", kind, &["h1"], &["h3", "h4"]));
            let mut programs = [Programs::of(&sim, &flow, kind)];
            pump(&mut sim, &mut programs, u32::MAX, MS * 5);
            let ring = flow.rings().nth(at.min(flow.rings().count() - 1)).expect("a ring");
            let host: usize = ring.host[1..].parse().expect("a number");
            let info = sim.agents[host - 1].ring(&ring.name).expect("it is there");
            // The ring's key is gone, whatever queue pair asks.
            let nic = sim.nic(host - 1).expect("it lives");
            nic.lock().expect("nobody panics").deregister_mr(info.rkey).expect("a key");
            let failed = until(&mut sim, &mut programs, &mut events, EventKind::FlowFailed);
            // A member of a group gets from the other what it lacks.
            let often = match kind == FlowKind::Replicate && !ring.ids.is_producer {
                true => "10 times in a row",
                false => "3 times at byte",
            };
            let parts = [&*format!("ring `{}` refused a request", ring.name), "key", often];
            assert!(parts.iter().all(|part| failed.text.contains(part)), "{}", failed.text);
        }
    }
}

/// Calls of the operator, one after the other, for a flow on h3 and h4.
async fn operate(controller: Controller) {
    controller.create(request("g", FlowKind::Shuffle, &["h3"], &["h4"])).await.expect("created");
    let changes = proto::Settings { weight: Some(3), ..Default::default() };
    controller.set_flow("g", &changes).await.expect("changed");
    let guest = NewMember { name: "guest".into(), host: "h3".into(), ..NewMember::default() };
    controller.add_member("g", RingRole::Producer, &guest).await.expect("added");
    controller.remove_member("g", "guest", false).await.expect("removed");
    controller.delete_flow("g", false).await.expect("deleted");
}

#[test]
fn an_agent_that_hangs_holds_nobody_up_who_does_not_need_it() {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 13);
    let controller = sim.controller(None).expect("a controller");
    for name in ["a", "b", "c"] {
        sim.create(&controller, request(name, FlowKind::Shuffle, &["h1"], &["h2"]));
    }
    sim.run_for(MS * 300);
    sim.stall_host(0, true);
    // All of these need the agent that hangs.
    let (one, two, three, four) =
        (controller.clone(), controller.clone(), controller.clone(), controller.clone());
    let deleting = sim.begin(async move { one.delete_flow("a", true).await }).expect("a controller");
    let creating = request("d", FlowKind::Shuffle, &["h1"], &["h2"]);
    let creating = sim.begin(async move { two.create(creating).await.map(drop) }).expect("a controller");
    let guest = NewMember { name: "guest".into(), host: "h1".into(), ..NewMember::default() };
    let adding = async move { three.add_member("b", RingRole::Producer, &guest).await.map(drop) };
    let adding = sim.begin(adding).expect("a controller");
    let asked = [deleting, creating, adding];
    sim.run_for(MS * 10);
    sim.drive(operate(controller.clone()));
    assert!(asked.iter().all(|task| !task.is_finished()), "they do not need the agent");
    // A flow that has ended is over: its name is free, but for the rings that the agent still has.
    assert!(four.get_flow("a").is_err());
    sim.stall_host(0, false);
    for task in asked {
        while !task.is_finished() {
            sim.run_for(MS);
        }
        sim.result(task).expect("an answer").expect("done");
    }
    let rings: Vec<String> = sim.agents[0].rings().expect("rings").into_iter().map(|r| r.name).collect();
    assert_eq!(rings, ["b.guest.h2", "b.h1.h2", "c.h1.h2", "d.h1.h2"]);
}

#[test]
fn flows_go_on_with_the_next_switch_without_an_agent_that_hangs() {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 14);
    let controller = sim.controller(None).expect("a controller");
    let mut events = controller.events(None).1;
    let flows = [("f", "h1", "h2"), ("g", "h3", "h4")];
    let mut programs = flows.map(|(name, from, to)| {
        let flow = sim.create(&controller, request(name, FlowKind::Shuffle, &[from], &[to]));
        Programs::of(&sim, &flow, FlowKind::Shuffle)
    });
    pump(&mut sim, &mut programs, u32::MAX, MS * 5);
    sim.stall_host(0, true);
    sim.kill_switch(0);
    pump(&mut sim, &mut programs, u32::MAX, MS * 5);
    sim.return_switch(0);
    let resumed = until(&mut sim, &mut programs, &mut events, EventKind::FlowResumed);
    assert_eq!(resumed.flow, "g");
    assert!(controller.get_flow("f").expect("it is there").is_adrift());
    all_goes_on(&mut sim, &mut programs[1..]);
    // And others can be created meanwhile.
    let other = controller.clone();
    let beside = sim.begin(async move { operate_beside(other).await }).expect("a controller");
    while !beside.is_finished() {
        sim.run_for(MS);
    }
    sim.result(beside).expect("done");
    assert!(controller.get_flow("f").expect("it is there").is_adrift(), "nobody has waited for the agent");
    sim.stall_host(0, false);
    assert_eq!(until(&mut sim, &mut programs, &mut events, EventKind::FlowResumed).flow, "f");
    all_goes_on(&mut sim, &mut programs);
}

async fn operate_beside(controller: Controller) {
    controller.create(request("h", FlowKind::Shuffle, &["h4"], &["h3"])).await.expect("created");
    controller.delete_flow("h", false).await.expect("deleted");
}

#[test]
fn members_that_died_in_one_transfer_with_each_other_go_by_one_command() {
    for kind in [FlowKind::LoadBalance, FlowKind::Replicate] {
        let mut sim = Controlled::new(HOSTS, LinkConfig { latency_ns: 200_000, ..LinkConfig::FAST }, 15);
        let controller = sim.controller(None).expect("a controller");
        let flow = with(policy(Policy::Wait), request("f", kind, &["h1", "h2"], &["h3", "h4"]));
        let flow = sim.create(&controller, flow);
        let mut programs = [Programs::of(&sim, &flow, kind)];
        pump(&mut sim, &mut programs, u32::MAX, MS * 20);
        // Now only h1 has something, so that every transfer is from there.
        pump_until(&mut sim, &mut programs, 0, |now| now[0].is_drained());
        sim.run_for(MS * 2);
        let [all] = &mut programs;
        all.producers[0].push(u32::MAX);
        sim.run_for(MS / 2);
        sim.kill_host(0);
        sim.kill_host(2);
        all.bury("h1");
        all.bury("h3");
        sim.run_for(MS * 4000);
        let (by_one, others) = (controller.clone(), controller.clone());
        if kind == FlowKind::Replicate {
            let refused = sim.drive(async move { by_one.remove_member("f", "h1", true).await });
            let refused = refused.expect_err("its consumer is gone, too");
            assert_eq!(refused.kind, ErrorKind::Stuck, "{refused}");
            assert!(refused.message.contains("from `h1` to `h3`, `h4`"), "{refused}");
            assert!(refused.message.contains("by one command"), "{refused}");
        }
        let (flow, member, others_go) = ("f".into(), "h1".into(), vec!["h3".into()]);
        let request = proto::RemoveMemberRequest { flow, member, force: true, others: others_go };
        let removed =
            sim.drive(async move { Service::remove_member(&others, tonic::Request::new(request)).await });
        let left = removed.expect("both go").into_inner();
        assert_eq!((left.producers.len(), left.consumers.len()), (1, 1));
        // Members that are left go on; items that the dead ones had pushed may be missing.
        let end = programs[0].producers[0].pushed + 500;
        let newest = |p: &Programs| p.consumers[0].2.iter().rfind(|i| i.0 == 1).map_or(0, |i| i.1 + 1);
        pump_until(&mut sim, &mut programs, end, |now| newest(&now[0]) == end);
    }
}

#[test]
fn who_is_only_polled_and_gone_is_told_of() {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 16);
    let controller = sim.controller(None).expect("a controller");
    let mut events = controller.events(None).1;
    let settings = proto::Settings { doorbell: Some(false), ..policy(Policy::Wait) };
    sim.create(&controller, with(settings, request("f", FlowKind::Shuffle, &["h1"], &["h2"])));
    sim.run_for(MS * 100);
    sim.switch().cut(Some(1));
    let silent = until(&mut sim, &mut [], &mut events, EventKind::MemberSilent);
    assert_eq!(silent.member, "h1");
    let counting = controller.clone();
    let stats = sim.drive(async move { counting.stats("f").await }).expect("counters");
    let rings: Vec<(&str, bool)> = stats.flows[0].rings.iter().map(|r| (r.name.as_str(), r.silent)).collect();
    assert_eq!(rings, [("f.h1.h2", true), ("f.h2", false)]);
}

/// A flow of each kind, with its programs.
fn of_each_kind(sim: &mut Controlled, controller: &Controller, of: proto::Settings) -> Vec<Programs> {
    let make = |(kind, name): (FlowKind, &str)| {
        let request = with(of, request(name, kind, &["h1", "h2"], &["h3", "h4"]));
        let flow = sim.create(controller, request);
        Programs::of(sim, &flow, kind)
    };
    KINDS.into_iter().zip(["s", "l", "r"]).map(make).collect()
}

#[test]
fn the_next_switch_may_die_while_it_is_taken_over() {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 17);
    let controller = sim.controller(None).expect("a controller");
    let mut programs = of_each_kind(&mut sim, &controller, proto::Settings::default());
    for lives_us in [100, 2000, 20_000, 100_000] {
        pump(&mut sim, &mut programs, u32::MAX, MS * 3);
        sim.kill_switch(0);
        pump(&mut sim, &mut programs, u32::MAX, MS);
        sim.return_switch(0);
        pump(&mut sim, &mut programs, u32::MAX, Duration::from_micros(lives_us));
        sim.kill_switch(0);
        pump(&mut sim, &mut programs, u32::MAX, MS);
        sim.return_switch(0);
        all_goes_on(&mut sim, &mut programs);
    }
}

/// The part that dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Switch,
    Host,
    Controller,
}

#[test]
fn switch_host_and_controller_may_die_together_in_any_order() {
    use Who::{Controller as C, Host as H, Switch as S};
    let orders: [&[Who]; 8] =
        [&[S, H], &[H, S], &[S, C, H], &[C, S, H], &[H, S, C], &[S, H, C], &[C, H, S], &[H, C, S]];
    for (number, order) in orders.into_iter().enumerate() {
        let apart = [Duration::ZERO, MS / 2, MS * 30][number % 3];
        let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 20 + number as u64);
        let store = MemoryStore::default();
        let mut controller = sim.controller(Some(Box::new(store.clone()))).expect("a controller");
        let mut programs = of_each_kind(&mut sim, &controller, policy(Policy::DropMember));
        pump(&mut sim, &mut programs, u32::MAX, MS * 5);
        for who in order {
            match who {
                S => sim.kill_switch(0),
                H => {
                    sim.kill_host(0);
                    programs.iter_mut().for_each(|p| p.bury("h1"));
                }
                C => sim.kill_controller(),
            }
            pump(&mut sim, &mut programs, u32::MAX, apart);
        }
        for who in order {
            match who {
                S => sim.return_switch(0),
                H => {}
                C => {
                    // Without a switch none starts.
                    sim.return_switch(0);
                    controller = sim.controller(Some(Box::new(store.clone()))).expect("the next controller");
                }
            }
            pump(&mut sim, &mut programs, u32::MAX, apart);
        }
        survivors_go_on(&mut sim, &mut programs, &controller, &format!("{order:?}, {apart:?} apart"));
    }
}

/// Without h1, the items of h2 arrive.
fn survivors_go_on(sim: &mut Controlled, programs: &mut [Programs], controller: &Controller, what: &str) {
    let begun = sim.net.now();
    let more: Vec<usize> = programs.iter().map(|p| p.arrived() + 100).collect();
    while !programs.iter().zip(&more).all(|(p, more)| p.arrived() >= *more) {
        pump(sim, programs, u32::MAX, MS);
        let counts: Vec<usize> = programs.iter().map(Programs::arrived).collect();
        let late = sim.net.now() - begun > PATIENCE.as_nanos() as u64;
        assert!(!late, "{what}: {counts:?} of {more:?}: {:?}", controller.list_flows());
    }
    programs.iter().for_each(Programs::check);
    for flow in controller.list_flows() {
        assert!(flow.failed.is_none() && flow.producers.iter().all(|m| m.name == "h2"), "{what}: {flow:?}");
    }
}
