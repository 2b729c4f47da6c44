//! Members, hosts and controllers that come, go and are away for a moment, in virtual time.

use std::time::Duration;

use tokio::sync::broadcast;
use zsr_api::controller::controller_server::Controller as Service;
use zsr_api::controller::{self as proto, EventKind, FlowKind, Policy};
use zsr_controller::Controller;
use zsr_plan::state::NewMember;
use zsr_ring::{Consumer, Producer};
use zsr_simnet::LinkConfig;
use zsr_tests::controlled::{Controlled, MemoryStore};
use zsr_topology::RingRole;

const HOSTS: &str = "hosts: [h1, h2, h3, h4]\nflows: []\n";
const MS: Duration = Duration::from_millis(1);
/// Virtual time in which everything here has to come to pass.
const PATIENCE: Duration = Duration::from_secs(20);

type Events = broadcast::Receiver<proto::Event>;

fn request(kind: FlowKind, policy: Policy, consumers: &[&str]) -> proto::CreateFlowRequest {
    let member = |host: &str| proto::Member { host: host.into(), ..Default::default() };
    proto::CreateFlowRequest {
        name: "f".into(),
        kind: kind.into(),
        producers: vec![member("h1")],
        consumers: consumers.iter().map(|host| member(host)).collect(),
        item_size: 64,
        ring_size: 4096,
        settings: Some(proto::Settings { policy: Some(policy.into()), ..Default::default() }),
        ..Default::default()
    }
}

/// Lets time pass until an event of this kind.
fn until(sim: &mut Controlled, events: &mut Events, kind: EventKind) -> proto::Event {
    let end = sim.net.now() + PATIENCE.as_nanos() as u64;
    loop {
        while let Ok(event) = events.try_recv() {
            if event.kind() == kind {
                return event;
            }
        }
        sim.run_for(MS);
        assert!(sim.net.now() < end, "no {kind:?} in {PATIENCE:?}");
    }
}

/// The flow as the controller shows it.
fn shown(sim: &mut Controlled, controller: &Controller) -> proto::Flow {
    let controller = controller.clone();
    let request = tonic::Request::new(proto::GetFlowRequest { name: "f".into() });
    sim.drive(async move { Service::get_flow(&controller, request).await }).expect("a flow").into_inner()
}

#[test]
fn the_next_controller_says_why_a_flow_has_failed() {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 13);
    let store = MemoryStore::default();
    let first = sim.controller(Some(Box::new(store.clone()))).expect("a controller");
    let mut events = first.events(None).1;
    sim.create(&first, request(FlowKind::Shuffle, Policy::Abort, &["h2"]));
    sim.kill_host(0);
    let failed = until(&mut sim, &mut events, EventKind::FlowFailed);
    drop((first, events));
    sim.kill_controller();
    let second = sim.controller(Some(Box::new(store))).expect("the next controller");
    let flow = shown(&mut sim, &second);
    assert_eq!((flow.state(), flow.reason), (proto::FlowState::Failed, failed.text));
}

/// The agent's network breaks connections twice in a moment, so that the first new connection breaks, too.
#[test]
fn an_agent_whose_connections_break_is_not_lost() {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 14);
    let controller = sim.controller(None).expect("a controller");
    let mut events = controller.events(None).1;
    sim.create(&controller, request(FlowKind::Shuffle, Policy::Abort, &["h2"]));
    sim.run_for(MS * 100);
    sim.set_reachable(0, false);
    for _ in 0..2 {
        sim.break_agent(0);
        sim.run_for(MS * 10);
    }
    sim.set_reachable(0, true);
    sim.run_for(MS * 1000);
    while let Ok(event) = events.try_recv() {
        assert_ne!(event.kind(), EventKind::AgentLost, "{event:?}");
    }
    assert_eq!(shown(&mut sim, &controller).state(), proto::FlowState::Running);
}

/// Pushes numbered items for as long as there is room.
fn push(tx: &mut Producer, next: &mut u64) {
    let mut item = [0; 64];
    loop {
        item[..8].copy_from_slice(&next.to_le_bytes());
        if tx.try_push(&item).is_err() {
            return;
        }
        *next += 1;
    }
}

/// Pops what there is: item by item, from any first one on.
fn pop(rx: &mut Consumer, next: &mut Option<u64>) {
    let mut item = [0; 64];
    while rx.try_pop(&mut item).is_ok() {
        let number = u64::from_le_bytes(item[..8].try_into().expect("8 bytes"));
        assert!(next.is_none_or(|next| next == number), "{number} in place of {next:?}");
        *next = Some(number + 1);
    }
}

#[test]
fn who_joins_a_group_under_load_has_what_all_have_from_then_on() {
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST, 15);
    let controller = sim.controller(None).expect("a controller");
    let flow = sim.create(&controller, request(FlowKind::Replicate, Policy::Wait, &["h2", "h3"]));
    let (mut tx, mut pushed) = (sim.producer(&flow, 0), 0);
    let mut consumers: Vec<(Consumer, Option<u64>)> =
        (1..=2).map(|at| (sim.consumer(&flow, at), Some(0))).collect();
    for round in 0..10 {
        let name = format!("late{round}");
        let member = NewMember { name: name.clone(), host: "h4".into(), ..NewMember::default() };
        let adding = controller.clone();
        let asked = sim.begin(async move { adding.add_member("f", RingRole::Consumer, &member).await });
        let asked = asked.expect("a controller");
        let mut pump = |sim: &mut Controlled, consumers: &mut Vec<(Consumer, Option<u64>)>| {
            push(&mut tx, &mut pushed);
            consumers.iter_mut().for_each(|(rx, next)| pop(rx, next));
            sim.run_for(MS / 50);
        };
        while !asked.is_finished() {
            pump(&mut sim, &mut consumers);
        }
        let flow = sim.result(asked).expect("an answer").expect("it joins");
        consumers.push((sim.consumer(&flow, flow.rings().count() - 1), None));
        let (goal, end) = (consumers[0].1.map(|n| n + 500), sim.net.now() + PATIENCE.as_nanos() as u64);
        while consumers.iter().any(|(_, next)| *next < goal) {
            pump(&mut sim, &mut consumers);
            assert!(sim.net.now() < end, "{goal:?} in round {round}: {:?}", consumers.last().map(|c| c.1));
        }
    }
}
