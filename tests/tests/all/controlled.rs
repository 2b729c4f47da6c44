//! The controller that users run, in virtual time: what it does about faults, and that a seed says everything.

use std::path::Path;
use std::time::Duration;

use tokio::sync::broadcast;
use zsr_api::controller as proto;
use zsr_api::controller::controller_server::Controller as Service;
use zsr_controller::Controller;
use zsr_plan::state::NewMember;
use zsr_ring::{Consumer, PopError, Producer};
use zsr_simnet::{FaultRates, LinkConfig};
use zsr_tests::controlled::{Controlled, MemoryStore, load};
use zsr_topology::RingRole;

const HOSTS: &str = "hosts: [h1, h2, h3, h4]\nflows: []\n";
const MS: Duration = Duration::from_millis(1);

fn shuffle(name: &str, producers: &[&str], consumers: &[&str]) -> proto::CreateFlowRequest {
    let members = |hosts: &[&str]| {
        hosts.iter().map(|h| proto::Member { host: (*h).into(), ..Default::default() }).collect()
    };
    proto::CreateFlowRequest {
        name: name.into(),
        producers: members(producers),
        consumers: members(consumers),
        item_size: 64,
        ring_size: 4096,
        ..Default::default()
    }
}

/// Four hosts, each at a pipe of its own.
const AT_PIPES: &str = "\
switches: [{name: s1, pipes: 4}]
hosts: [h1, h2, h3, h4]
links: ['h1 -> s1:1', 'h2 -> s1:129', 'h3 -> s1:257', 'h4 -> s1:385']
flows: []
";

/// Moves 1,000 items through a flow that a controller has created over links that lose packets; returns what the
/// network saw.
fn moved(seed: u64) -> (u64, u64) {
    moved_between(HOSTS, seed)
}

fn moved_between(hosts: &str, seed: u64) -> (u64, u64) {
    let faults = FaultRates { loss: 0.02, duplicate: 0.01, reorder: 0.01, ..FaultRates::NONE };
    let mut sim = Controlled::new(hosts, LinkConfig::FAST.with_faults(faults), seed);
    let controller = sim.controller(None).expect("a controller");
    let flow = sim.create(&controller, shuffle("f", &["h1"], &["h2"]));
    let (mut tx, mut rx) = (sim.producer(&flow, 0), sim.consumer(&flow, 1));
    let (mut pushed, mut popped) = (0u64, 0u64);
    while popped < 1000 {
        push_all(&mut tx, &mut pushed, 1000);
        pop_all(&mut rx, &mut popped);
        sim.run_for(MS / 10);
        assert!(sim.net.now() < 20_000_000_000, "{popped} of 1000 items in 20 s");
    }
    tx.detach();
    rx.detach();
    let deleting = controller.clone();
    sim.drive(async move { deleting.delete_flow("f", false).await }).expect("deleted");
    assert!(sim.agents.iter().all(|a| a.rings().expect("rings").is_empty()), "rings are left");
    (sim.net.now(), sim.net.trace_hash())
}

#[test]
fn a_seed_says_everything() {
    let first = moved(1);
    assert_eq!(moved(1), first);
    assert_ne!(moved(2).1, first.1);
}

#[test]
fn a_flow_between_pipes() {
    moved_between(AT_PIPES, 3);
}

/// Pushes numbered items below `end` as long as there is room.
fn push_all(tx: &mut Producer, next: &mut u64, end: u64) {
    let mut item = [0; 64];
    item[..8].copy_from_slice(&next.to_le_bytes());
    while *next < end && tx.try_push(&item).is_ok() {
        *next += 1;
        item[..8].copy_from_slice(&next.to_le_bytes());
    }
}

/// Pops all there is, which has to be what comes next.
fn pop_all(rx: &mut Consumer, next: &mut u64) {
    let mut item = [0; 64];
    loop {
        match rx.try_pop(&mut item) {
            Ok(()) => assert_eq!(u64::from_le_bytes(item[..8].try_into().expect("8 bytes")), *next),
            Err(PopError::Empty) => return,
            Err(e) => panic!("{e}"),
        }
        *next += 1;
    }
}

#[test]
fn every_item_arrives_over_bad_links_whatever_the_seed() {
    for seed in 10..20 {
        moved(seed);
    }
}

#[test]
fn a_flow_goes_on_without_its_controller_and_with_the_next_one() {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 3);
    let store = MemoryStore::default();
    let first = sim.controller(Some(Box::new(store.clone()))).expect("a controller");
    let flow = sim.create(&first, shuffle("f", &["h1"], &["h2"]));
    let (mut tx, mut rx) = (sim.producer(&flow, 0), sim.consumer(&flow, 1));
    let (mut pushed, mut popped) = (0, 0);
    let mut pump = |sim: &mut Controlled, times: u32| {
        let before = popped;
        for _ in 0..times {
            push_all(&mut tx, &mut pushed, u64::MAX);
            sim.run_for(MS / 10);
            pop_all(&mut rx, &mut popped);
        }
        popped - before
    };
    assert!(pump(&mut sim, 20) > 0);
    first.stop();
    let gone = first.is_gone();
    drop(first);
    sim.drive(gone);
    assert!(pump(&mut sim, 20) > 0, "nothing moves without a controller");
    let second = sim.controller(Some(Box::new(store))).expect("the next controller");
    assert_eq!(second.get_flow("f").expect("taken up").rings().count(), 2);
    assert!(pump(&mut sim, 20) > 0, "nothing moves with the next controller");
}

#[test]
fn a_successor_finds_workers_of_idle_flows_where_they_are() {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 6);
    let store = MemoryStore::default();
    let first = sim.controller(Some(Box::new(store.clone()))).expect("a controller");
    sim.create(&first, shuffle("f", &["h1"], &["h2"]));
    sim.run_for(MS * 2000);
    first.stop();
    let gone = first.is_gone();
    drop(first);
    sim.drive(gone);
    let second = sim.controller(Some(Box::new(store))).expect("the next controller");
    let (events, _) = second.events(Some(0));
    let text = &events.first().expect("an event").text;
    assert!(
        text.contains("flows that were taken up: 1,") && text.ends_with("0 entries set right, 0 taken away"),
        "{text}"
    );
}

#[test]
fn a_host_whose_packets_vanish_is_silent_after_dead_after_and_dropped() {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 4);
    let controller = sim.controller(None).expect("a controller");
    let settings = proto::Settings {
        policy: Some(proto::Policy::DropMember.into()),
        dead_after_us: Some(500_000),
        ..Default::default()
    };
    let request = proto::CreateFlowRequest {
        kind: proto::FlowKind::Replicate.into(),
        settings: Some(settings),
        ..shuffle("f", &["h1"], &["h2", "h3"])
    };
    let flow = sim.create(&controller, request);
    let (mut tx, mut rx) = (sim.producer(&flow, 0), sim.consumer(&flow, 1));
    let (mut pushed, mut popped) = (0, 0);
    let (_, mut events) = controller.events(None);
    // From now on nothing reaches h3, and nothing comes from there.
    sim.switch().cut(Some(3));
    let cut = sim.net.now();
    let removed = loop {
        push_all(&mut tx, &mut pushed, u64::MAX);
        sim.run_for(MS);
        pop_all(&mut rx, &mut popped);
        match events.try_recv() {
            Ok(event) if event.kind() == proto::EventKind::MemberRemoved => break event,
            _ => assert!(sim.net.now() - cut < 5_000_000_000, "nobody was dropped in 5 s"),
        }
    };
    assert_eq!(removed.member, "h3");
    assert!(sim.net.now() - cut >= 500_000_000, "it was dropped before it was silent for long");
    let before = popped;
    for _ in 0..20 {
        push_all(&mut tx, &mut pushed, u64::MAX);
        sim.run_for(MS / 10);
        pop_all(&mut rx, &mut popped);
    }
    assert!(popped > before, "the others do not go on");
}

/// The flow with this policy.
fn with(policy: proto::Policy, flow: proto::CreateFlowRequest) -> proto::CreateFlowRequest {
    let settings = proto::Settings { policy: Some(policy.into()), ..Default::default() };
    proto::CreateFlowRequest { settings: Some(settings), ..flow }
}

/// A flow whose members count as dead after a second without an answer.
fn impatient(
    name: &str,
    producers: &[&str],
    consumers: &[&str],
    policy: proto::Policy,
) -> proto::CreateFlowRequest {
    let settings =
        proto::Settings { policy: Some(policy.into()), dead_after_us: Some(1_000_000), ..Default::default() };
    proto::CreateFlowRequest { settings: Some(settings), ..shuffle(name, producers, consumers) }
}

/// Lets time pass until an event of this kind.
fn until(
    sim: &mut Controlled,
    events: &mut broadcast::Receiver<proto::Event>,
    kind: proto::EventKind,
) -> proto::Event {
    until_in_steps(sim, events, kind, MS)
}

/// The same, looking for it so often.
fn until_in_steps(
    sim: &mut Controlled,
    events: &mut broadcast::Receiver<proto::Event>,
    kind: proto::EventKind,
    step: Duration,
) -> proto::Event {
    let begun = sim.net.now();
    loop {
        while let Ok(event) = events.try_recv() {
            if event.kind() == kind {
                return event;
            }
        }
        sim.run_for(step);
        assert!(sim.net.now() - begun < 20_000_000_000, "no {kind:?} in 20 s");
    }
}

/// A flow as the controller shows it.
fn shown(sim: &mut Controlled, controller: &Controller, name: &str) -> proto::Flow {
    let (controller, name) = (controller.clone(), name.to_owned());
    let request = tonic::Request::new(proto::GetFlowRequest { name });
    sim.drive(async move { Service::get_flow(&controller, request).await }).expect("a flow").into_inner()
}

/// Cuts h1's link in both directions. Its agent can be reached all the same.
fn deaf_h1(seed: u64) -> (Controlled, Controller, broadcast::Receiver<proto::Event>) {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, seed);
    sim.switch().cut(Some(1));
    let controller = sim.controller(None).expect("a controller");
    let events = controller.events(None).1;
    (sim, controller, events)
}

#[test]
fn a_producer_that_never_answers_is_silent_and_its_flow_waits() {
    let (mut sim, controller, mut events) = deaf_h1(6);
    sim.create(&controller, impatient("f", &["h1"], &["h2"], proto::Policy::Wait));
    sim.create(&controller, impatient("g", &["h3"], &["h2"], proto::Policy::Wait));
    let silent = until(&mut sim, &mut events, proto::EventKind::MemberSilent);
    assert_eq!((silent.flow.as_str(), silent.member.as_str()), ("f", "h1"));
    assert!(silent.text.starts_with("ring `f.h1.h2` has not answered for"), "{}", silent.text);
    let waits = shown(&mut sim, &controller, "f");
    assert_eq!(waits.state(), proto::FlowState::Impaired);
    assert!(waits.reason.contains("member `h1`: ring `f.h1.h2`"), "{}", waits.reason);
    assert_eq!(shown(&mut sim, &controller, "g").state(), proto::FlowState::Running);
}

#[test]
fn a_producer_that_never_answers_goes_where_the_policy_says_so() {
    let (mut sim, controller, mut events) = deaf_h1(7);
    sim.create(&controller, impatient("f", &["h1"], &["h2"], proto::Policy::Abort));
    assert_eq!(until(&mut sim, &mut events, proto::EventKind::MemberSilent).member, "h1");
    assert_eq!(until(&mut sim, &mut events, proto::EventKind::FlowFailed).flow, "f");

    sim.create(&controller, impatient("g", &["h1", "h3"], &["h2"], proto::Policy::DropMember));
    assert_eq!(until(&mut sim, &mut events, proto::EventKind::MemberRemoved).member, "h1");
    let flow = controller.get_flow("g").expect("it stays");
    let (mut tx, mut rx) = (sim.producer(&flow, 0), sim.consumer(&flow, 1));
    let (mut pushed, mut popped) = (0, 0);
    push_all(&mut tx, &mut pushed, 10);
    sim.run_for(MS * 10);
    pop_all(&mut rx, &mut popped);
    assert_eq!(popped, 10);
}

#[test]
fn a_host_that_dies_is_told_of_and_ends_the_flows_that_do_not_wait() {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 10);
    let controller = sim.controller(None).expect("a controller");
    let mut events = controller.events(None).1;
    sim.create(&controller, with(proto::Policy::Abort, shuffle("f", &["h1"], &["h2"])));
    sim.kill_host(0);
    assert_eq!(until(&mut sim, &mut events, proto::EventKind::AgentLost).host, "h1");
    let failed = until(&mut sim, &mut events, proto::EventKind::FlowFailed);
    assert!(failed.flow == "f" && failed.text.contains("agent does not answer"), "{failed:?}");
}

#[test]
fn a_host_that_was_started_anew_is_known_to_have_lost_its_rings() {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 9);
    let controller = sim.controller(None).expect("a controller");
    let mut events = controller.events(None).1;
    for (name, policy) in [("waits", proto::Policy::Wait), ("ends", proto::Policy::Abort)] {
        sim.create(&controller, with(policy, shuffle(name, &["h1"], &["h2"])));
    }
    // The host is back before anybody has missed it.
    sim.kill_host(0);
    sim.return_host(0);
    let failed = until(&mut sim, &mut events, proto::EventKind::FlowFailed);
    assert!(failed.flow == "ends" && failed.text.contains("has lost its rings"), "{failed:?}");
    let waits = shown(&mut sim, &controller, "waits");
    assert!(waits.reason.contains("has lost its rings"), "{}", waits.reason);
}

/// A full consumer ring is polled for room, and nothing else happens to it.
#[test]
fn a_consumer_that_is_only_polled_is_silent_while_it_can_not_be_reached() {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 8);
    let controller = sim.controller(None).expect("a controller");
    let mut events = controller.events(None).1;
    let flow = sim.create(&controller, impatient("f", &["h1"], &["h2"], proto::Policy::Wait));
    let (mut tx, mut rx) = (sim.producer(&flow, 0), sim.consumer(&flow, 1));
    let (mut pushed, mut popped) = (0, 0);
    // Until both rings are full.
    while pushed < 128 {
        push_all(&mut tx, &mut pushed, 128);
        sim.run_for(MS);
    }
    let stalled = until(&mut sim, &mut events, proto::EventKind::FlowStalled);
    assert_eq!(stalled.text, "nothing has moved for 3 s: waits for the program at ring `f.h2` to take 4 KiB");
    sim.switch().cut(Some(2));
    let silent = until(&mut sim, &mut events, proto::EventKind::MemberSilent);
    assert_eq!((silent.flow.as_str(), silent.member.as_str()), ("f", "h2"));
    sim.switch().cut(None);
    while popped < 128 {
        pop_all(&mut rx, &mut popped);
        sim.run_for(MS);
    }
    until(&mut sim, &mut events, proto::EventKind::FlowMoves);
    assert_eq!(shown(&mut sim, &controller, "f").state(), proto::FlowState::Running);
}

#[test]
fn flows_share_a_link_by_weight() {
    const LINK: LinkConfig = LinkConfig { bandwidth_bps: Some(1_000_000_000), ..LinkConfig::FAST };
    let mut sim = Controlled::new(HOSTS, LINK, 5);
    let controller = sim.controller(None).expect("a controller");
    let mut pairs = Vec::new();
    for (name, host, weight) in [("a", "h1", 1), ("b", "h2", 2), ("c", "h3", 4)] {
        let settings = proto::Settings { weight: Some(weight), ..Default::default() };
        let request = proto::CreateFlowRequest {
            settings: Some(settings),
            item_size: 4096,
            ring_size: 1 << 18,
            ..shuffle(name, &[host], &["h4"])
        };
        let flow = sim.create(&controller, request);
        pairs.push((sim.producer(&flow, 0), sim.consumer(&flow, 1), 0u64));
    }
    let mut item = vec![0; 4096];
    let mut run = |sim: &mut Controlled, time: Duration| {
        let before: Vec<u64> = pairs.iter().map(|p| p.2).collect();
        let end = sim.net.now() + time.as_nanos() as u64;
        while sim.net.now() < end {
            for (tx, rx, popped) in &mut pairs {
                while tx.try_push(&item).is_ok() {}
                while rx.try_pop(&mut item).is_ok() {
                    *popped += 1;
                }
            }
            sim.run_for(MS / 10);
        }
        pairs.iter().zip(before).map(|(p, b)| p.2 - b).collect::<Vec<u64>>()
    };
    // The law learns what there is first.
    run(&mut sim, MS * 2000);
    let shares = run(&mut sim, MS * 1000);
    let unit = shares.iter().sum::<u64>() as f64 / 7.0;
    for (share, weight) in shares.iter().zip([1.0, 2.0, 4.0]) {
        let off = *share as f64 / (weight * unit) - 1.0;
        assert!(off.abs() < 0.05, "{shares:?}");
    }
}

/// Rust files below `path`, with their text.
fn sources(path: &Path, out: &mut Vec<(String, String)>) {
    if path.is_dir() {
        std::fs::read_dir(path).expect("ours").for_each(|e| sources(&e.expect("ours").path(), out));
    } else if path.extension().is_some_and(|e| e == "rs") {
        out.push((path.display().to_string(), std::fs::read_to_string(path).expect("text")));
    }
}

/// Among branches that are ready at once, `select!` chooses by a number that no seed reaches.
#[test]
fn nothing_in_a_simulated_system_is_chosen_by_chance() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
    let mut found = Vec::new();
    for folder in [
        "control-plane/controller/src",
        "control-plane/switch/src",
        "host-agent/src",
        "crates/p4runtime-server/src",
    ] {
        sources(&root.join(folder), &mut found);
    }
    let mut selects = 0;
    for (file, text) in &found {
        for select in text.split("select! {").skip(1) {
            assert!(
                select.trim_start().starts_with("biased;"),
                "{file}: {}",
                select.lines().nth(1).unwrap_or_default()
            );
            selects += 1;
        }
    }
    assert!(selects > 10, "only {selects} found");
}

#[test]
fn a_flow_goes_on_with_a_switch_that_knows_nothing() {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 6);
    let controller = sim.controller(None).expect("a controller");
    let replicate = proto::CreateFlowRequest {
        kind: proto::FlowKind::Replicate.into(),
        ..shuffle("r", &["h1"], &["h2", "h3", "h4"])
    };
    let flows = [sim.create(&controller, shuffle("s", &["h1"], &["h2"])), sim.create(&controller, replicate)];
    let mut ends: Vec<_> = flows
        .iter()
        .map(|flow| {
            let consumers =
                (1..flow.rings().count()).map(|at| (sim.consumer(flow, at), 0)).collect::<Vec<_>>();
            (sim.producer(flow, 0), 0, consumers)
        })
        .collect();
    let mut pump = |sim: &mut Controlled, end: u64| {
        for _ in 0..20 {
            for (tx, pushed, consumers) in &mut ends {
                push_all(tx, pushed, end);
                consumers.iter_mut().for_each(|(rx, popped)| pop_all(rx, popped));
            }
            sim.run_for(MS / 10);
        }
        ends.iter().flat_map(|(_, _, consumers)| consumers.iter().map(|c| c.1)).min().expect("consumers")
    };
    for _ in 0..3 {
        let before = pump(&mut sim, u64::MAX);
        sim.kill_switch(0);
        pump(&mut sim, u64::MAX);
        sim.return_switch(0);
        let (mut tries, mut after) = (0, 0);
        while after < before + 200 {
            after = pump(&mut sim, u64::MAX);
            tries += 1;
            assert!(tries < 1000, "{after} of {before} items and more in 2 s");
        }
    }
}

/// A replicate flow from h1 to h2 and h3, with its programs.
fn group(sim: &mut Controlled) -> (Producer, [Consumer; 2]) {
    let controller = sim.controller(None).expect("a controller");
    let request = proto::CreateFlowRequest {
        kind: proto::FlowKind::Replicate.into(),
        ..shuffle("r", &["h1"], &["h2", "h3"])
    };
    let flow = sim.create(&controller, request);
    (sim.producer(&flow, 0), [sim.consumer(&flow, 1), sim.consumer(&flow, 2)])
}

#[test]
fn a_member_gets_from_the_others_what_a_dead_switch_had_not_given_it() {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 11);
    let (mut tx, mut rx) = group(&mut sim);
    let (mut pushed, mut popped, mut behind) = (0, [0; 2], 0);
    for round in 0..30 {
        // Commit records to h3 are lost, and it lacks what h2 has.
        sim.set_faults(2, FaultRates { loss: 0.5, ..FaultRates::NONE });
        for _ in 0..100 + round {
            push_all(&mut tx, &mut pushed, u64::MAX);
            rx.iter_mut().zip(&mut popped).for_each(|(rx, popped)| pop_all(rx, popped));
            sim.run_for(MS / 100);
        }
        sim.kill_switch(0);
        rx.iter_mut().zip(&mut popped).for_each(|(rx, popped)| pop_all(rx, popped));
        behind += u32::from(popped[1] < popped[0]);
        sim.set_faults(2, FaultRates::NONE);
        sim.return_switch(0);
        let begun = sim.net.now();
        while popped.iter().any(|popped| *popped < pushed) {
            rx.iter_mut().zip(&mut popped).for_each(|(rx, popped)| pop_all(rx, popped));
            sim.run_for(MS / 10);
            assert!(sim.net.now() - begun < 2_000_000_000, "round {round}: {popped:?} of {pushed} in 2 s");
        }
    }
    assert!(behind > 0, "h3 was never behind h2");
}

#[test]
fn the_next_switch_leaves_alone_what_the_slowest_member_of_a_group_has_not_popped() {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 12);
    let (mut tx, [mut quick, mut slow]) = group(&mut sim);
    let (mut pushed, mut popped) = (0, [0; 2]);
    for round in 1..4 {
        let full = popped[1] + 2 * 64;
        for step in 0..6000 {
            if step == 1000 {
                sim.kill_switch(0);
                sim.return_switch(0);
            }
            // Programs ring whenever there is a switch again.
            push_all(&mut tx, &mut pushed, full - 60 + step / 100);
            pop_all(&mut quick, &mut popped[0]);
            sim.run_for(MS / 10);
        }
        pop_all(&mut slow, &mut popped[1]);
        assert_eq!(popped[1], popped[0], "round {round}: all that there is room for has come to both");
    }
    assert!(popped[1] > 100, "{popped:?}");
}

#[test]
fn a_flow_that_has_ended_has_ended_for_the_next_switch_too() {
    // Far away, so that the next switch does not learn it from the producer first.
    let mut sim = Controlled::new(HOSTS, LinkConfig { latency_ns: 300_000, ..LinkConfig::FAST }, 7);
    let controller = sim.controller(None).expect("a controller");
    let request = proto::CreateFlowRequest {
        kind: proto::FlowKind::LoadBalance.into(),
        ..shuffle("f", &["h1"], &["h2"])
    };
    let flow = sim.create(&controller, request);
    let (mut tx, mut rx) = (sim.producer(&flow, 0), sim.consumer(&flow, 1));
    push_all(&mut tx, &mut 0, 10);
    tx.close();
    let (mut item, mut popped) = ([0; 64], 0);
    loop {
        match rx.try_pop(&mut item) {
            Ok(()) => popped += 1,
            Err(PopError::Closed) => break,
            Err(PopError::Empty) => sim.run_for(MS),
            Err(e) => panic!("{e}"),
        }
    }
    assert_eq!(popped, 10);
    sim.kill_switch(0);
    sim.run_for(MS * 10);
    let member = NewMember { name: "late".into(), host: "h3".into(), ..NewMember::default() };
    let adding = controller.clone();
    // The member comes first, as soon as there is a switch again.
    let asked = sim.begin(async move { adding.add_member("f", RingRole::Producer, &member).await });
    sim.return_switch(0);
    let asked = asked.expect("a controller");
    while !asked.is_finished() {
        sim.run_for(MS / 10);
    }
    let refused = sim.result(asked).expect("an answer");
    let why = refused.expect_err("it has ended").to_string();
    assert!(why.contains("has ended"), "{why}");
}

/// A switch that only hung comes back with all its state, and its controller has died while the standby took over.
/// Whenever that happens, the next controller does not take it for the switch that has the flows.
#[test]
fn a_switch_that_was_given_up_stays_given_up_whenever_its_controller_dies() {
    const SWITCHES: &str =
        "switches: [{name: s1, p4runtime: {dead_after: 500ms}}, {name: s2, standby: true}]\n";
    let _loaded = load();
    for moment in 0..12 {
        let mut sim = Controlled::new(&format!("{SWITCHES}{HOSTS}"), LinkConfig::FAST, 12);
        let store = MemoryStore::default();
        let first = sim.controller(Some(Box::new(store.clone()))).expect("a controller");
        let mut events = first.events(None).1;
        let flow = sim.create(&first, shuffle("f", &["h1"], &["h2"]));
        let (mut tx, mut rx) = (sim.producer(&flow, 0), sim.consumer(&flow, 1));
        until(&mut sim, &mut events, proto::EventKind::StandbyFound);
        sim.hang_switch(0, true);
        until_in_steps(&mut sim, &mut events, proto::EventKind::SwitchFound, MS / 50);
        sim.run_for(moment * MS / 20);
        drop((first, events));
        sim.kill_controller();
        sim.hang_switch(0, false);
        let _second = sim.controller(Some(Box::new(store))).expect("the next controller");
        let (mut pushed, mut popped, begun) = (0, 0, sim.net.now());
        while popped < 200 {
            push_all(&mut tx, &mut pushed, 200);
            sim.run_for(MS);
            pop_all(&mut rx, &mut popped);
            assert!(sim.net.now() - begun < 20_000_000_000, "{popped} of 200 items in 20 s, moment {moment}");
        }
    }
}

/// A change waits for a switch that hangs, and another one for its turn.
#[test]
fn who_keeps_others_from_their_turn_is_told_of() {
    const SWITCH: &str = "switches: [{name: s1, p4runtime: {dead_after: 60s}}]\n";
    let mut sim = Controlled::new(&format!("{SWITCH}{HOSTS}"), LinkConfig::FAST, 24);
    let controller = sim.controller(None).expect("a controller");
    let mut events = controller.events(None).1;
    let watched = controller.clone();
    let _watch = sim.begin(async move { watched.watch_turn().await });
    for name in ["f", "g"] {
        sim.create(&controller, shuffle(name, &["h1"], &["h2"]));
    }
    sim.run_for(MS * 30_000);
    while let Ok(event) = events.try_recv() {
        assert_ne!(event.kind(), proto::EventKind::ProcessLate, "nobody waits: {event:?}");
    }
    sim.hang_switch(0, true);
    let changes = ["f", "g"].map(|name| {
        let controller = controller.clone();
        // Not the weight, which is no entry's before flows compete.
        let changes = proto::Settings { max_batch: Some(1024), ..Default::default() };
        sim.begin(async move { controller.set_flow(name, &changes).await }).expect("a controller")
    });
    let told = until(&mut sim, &mut events, proto::EventKind::ProcessLate);
    for part in ["has had the turn", "for 10 s", ".rs:", "waits for the turn"] {
        assert!(told.text.contains(part), "{part}: {}", told.text);
    }
    // Whichever comes first.
    let tells = ["writes entries into the switch", "asks a worker at the switch"];
    assert!(tells.iter().any(|part| told.text.contains(part)), "{}", told.text);
    sim.hang_switch(0, false);
    let told = until(&mut sim, &mut events, proto::EventKind::ProcessLate);
    assert!(told.text.contains("is over now"), "{}", told.text);
    for change in changes {
        while !change.is_finished() {
            sim.run_for(MS);
        }
        sim.result(change).expect("an answer").expect("changed");
    }
}

/// Pops all there is of items that come in any order.
fn pop_numbers(rx: &mut Consumer, numbers: &mut Vec<u64>) {
    let mut item = [0; 64];
    while rx.try_pop(&mut item).is_ok() {
        numbers.push(u64::from_le_bytes(item[..8].try_into().expect("8 bytes")));
    }
}

/// A load balance from h1 to h2 and h3, with its programs.
fn balance(sim: &mut Controlled, controller: &Controller) -> (Producer, [Consumer; 2]) {
    let request = proto::CreateFlowRequest {
        kind: proto::FlowKind::LoadBalance.into(),
        ..shuffle("b", &["h1"], &["h2", "h3"])
    };
    let flow = sim.create(controller, request);
    (sim.producer(&flow, 0), [sim.consumer(&flow, 1), sim.consumer(&flow, 2)])
}

/// Items are in a transfer to a member that is taken out. Their producer still has them.
#[test]
fn what_a_consumer_was_to_get_goes_to_others_when_it_is_taken_out() {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 21);
    let controller = sim.controller(None).expect("a controller");
    let (mut tx, mut rx) = balance(&mut sim, &controller);
    let (mut pushed, mut popped) = (0, Vec::new());
    // h2 is not reached, and has its turn when there is no room at h3.
    sim.set_faults(1, FaultRates { loss: 1.0, ..FaultRates::NONE });
    let begun = sim.net.now();
    while pushed < 128 {
        push_all(&mut tx, &mut pushed, 128);
        sim.run_for(MS);
        assert!(sim.net.now() - begun < 2_000_000_000, "{pushed} of 128 in 2 s");
    }
    sim.run_for(MS * 10);
    let mut pump = |sim: &mut Controlled| {
        for _ in 0..200 {
            push_all(&mut tx, &mut pushed, 300);
            sim.run_for(MS / 10);
            rx.iter_mut().for_each(|rx| pop_numbers(rx, &mut popped));
        }
        popped.clone()
    };
    let before = pump(&mut sim);
    assert_eq!(before, (0..64).collect::<Vec<_>>(), "what there was room for at h3");
    assert_eq!(pump(&mut sim), before, "nothing is under way to h2");

    let removing = controller.clone();
    sim.drive(async move { removing.remove_members("b", &["h2".into()], true).await }).expect("it goes");
    let mut popped = pump(&mut sim);
    popped.sort_unstable();
    assert_eq!(popped, (0..300).collect::<Vec<_>>());
}

/// One consumer has the last transfer of a producer that is taken out, the other has not: neither can go on at the
/// other's place.
#[test]
fn a_producer_that_some_consumers_lack_items_of_is_not_taken_out() {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 22);
    let controller = sim.controller(None).expect("a controller");
    let request = proto::CreateFlowRequest {
        kind: proto::FlowKind::Replicate.into(),
        ..shuffle("r", &["h1", "h4"], &["h2", "h3"])
    };
    let flow = sim.create(&controller, request);
    let mut tx = sim.producer(&flow, 0);
    let (mut whole, mut lacks) = (sim.consumer(&flow, 2), sim.consumer(&flow, 3));
    let (mut pushed, mut popped) = (0, [0; 2]);
    let lost = FaultRates { loss: 1.0, ..FaultRates::NONE };
    sim.set_faults(2, lost);
    push_all(&mut tx, &mut pushed, 1);
    let begun = sim.net.now();
    while popped[0] < pushed {
        sim.run_for(MS / 100);
        pop_all(&mut whole, &mut popped[0]);
        assert!(sim.net.now() - begun < 2_000_000_000, "{popped:?} of {pushed} in 2 s");
    }
    // Items that h3 lacks could only come from h1. Packets that have left h1 already are over before h3 is reached
    // again.
    sim.set_faults(0, lost);
    sim.run_for(MS);
    sim.set_faults(2, FaultRates::NONE);
    sim.run_for(MS * 100);
    pop_all(&mut lacks, &mut popped[1]);
    assert_eq!(popped, [1, 0]);

    let removing = controller.clone();
    let refused = sim.drive(async move { removing.remove_members("r", &["h1".into()], true).await });
    let why = refused.expect_err("h3 lacks items").to_string();
    assert!(why.contains("reached some consumers and not others") && why.contains("`h1`"), "{why}");

    sim.set_faults(0, FaultRates::NONE);
    for _ in 0..1000 {
        push_all(&mut tx, &mut pushed, 100);
        sim.run_for(MS);
        pop_all(&mut whole, &mut popped[0]);
        pop_all(&mut lacks, &mut popped[1]);
    }
    assert_eq!(popped, [100, 100]);
}

/// The record of a consumer that got nothing since its producer's counter wrapped once, 4 GiB ago, looks like a record
/// of items that were delivered just now.
#[test]
fn a_record_that_is_a_wrap_old_says_nothing_of_the_items_that_are_there() {
    const PRODUCER_TAIL: usize = zsr_wire::ring::COMMIT_RECORD as usize + 12;
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 23);
    let controller = sim.controller(None).expect("a controller");
    let (mut tx, mut rx) = balance(&mut sim, &controller);
    let (mut pushed, mut popped) = (0, Vec::new());
    // Nobody pops before both are full: each has had its turn.
    for _ in 0..100 {
        push_all(&mut tx, &mut pushed, 128);
        sim.run_for(MS / 10);
    }
    for _ in 0..100 {
        rx.iter_mut().for_each(|rx| pop_numbers(rx, &mut popped));
        push_all(&mut tx, &mut pushed, 500);
        sim.run_for(MS / 10);
    }
    let words = [0, 1].map(|at: usize| rx[at].ring().snapshot());
    assert!(popped.len() == 500 && words.iter().all(|w| w.producer_id == words[0].producer_id), "{words:?}");

    sim.kill_switch(0);
    push_all(&mut tx, &mut pushed, 520);
    let old = tx.ring().snapshot().tail.counter.wrapping_add(10 * 64);
    // SAFETY: the word lies within the ring's memory, which the handle keeps; no other thread is there.
    unsafe {
        let base = rx[0].ring().memory().base();
        base.add(PRODUCER_TAIL).cast::<[u8; 4]>().write_volatile(old.to_le_bytes());
    }
    assert_eq!(rx[0].ring().snapshot().producer_tail, old);
    sim.return_switch(0);
    for _ in 0..1000 {
        sim.run_for(MS);
        rx.iter_mut().for_each(|rx| pop_numbers(rx, &mut popped));
    }
    popped.sort_unstable();
    assert_eq!(popped, (0..520).collect::<Vec<_>>());
}
