//! Flows that come, change and go, while items move.

use std::collections::BTreeSet;

use zsr::pu;
use zsr_api::controller::{self as proto, EventKind};
use zsr_ring::{Cancel, Consumer, PopError, Producer};

use super::rig::{Client, Rig, shuffle, with};

/// Where numbers of guests' items begin.
const GUESTS: u64 = 1 << 62;

pub fn producer(rig: &Rig, host: usize, ring: &str) -> Producer {
    pu::attach_producer(&rig.programs(host), ring, Cancel::new()).expect("attached")
}

pub fn consumer(rig: &Rig, host: usize, ring: &str) -> Consumer {
    pu::attach_consumer(&rig.programs(host), ring, Cancel::new()).expect("attached")
}

pub fn push(ring: &mut Producer, items: std::ops::Range<u64>) {
    for n in items {
        let mut item = [0; 64];
        item[..8].copy_from_slice(&n.to_le_bytes());
        ring.push(&item).expect("room in the end");
    }
}

pub fn pop(ring: &mut Consumer) -> u64 {
    let mut item = [0; 64];
    ring.pop(&mut item).expect("an item");
    u64::from_le_bytes(item[..8].try_into().expect("8 bytes"))
}

/// Ends flow `f`, whose items were all popped.
pub fn delete(client: &mut Client, rig: &Rig) {
    let delete = proto::DeleteFlowRequest { name: "f".into(), force: false };
    rig.runtime.block_on(client.delete_flow(delete)).expect("deleted");
}

/// The next event of this kind, from a stream opened before.
pub async fn next(events: &mut tonic::Streaming<proto::Event>, kind: EventKind) -> proto::Event {
    loop {
        let event = events.message().await.expect("a stream").expect("no end");
        if event.kind() == kind {
            return event;
        }
    }
}

pub fn watch(rig: &Rig, client: &mut Client) -> tonic::Streaming<proto::Event> {
    let all = proto::WatchEventsRequest { after: Some(0), ..Default::default() };
    rig.runtime.block_on(client.watch_events(all)).expect("events").into_inner()
}

#[test]
fn a_flow_moves_items_of_programs_and_leaves_nothing_behind() {
    let rig = Rig::new(2, "");
    let (_controller, mut client) = rig.control();
    assert!(rig.is_clean());
    let flow = rig.runtime.block_on(client.create_flow(shuffle("f", &["h1"], &["h2"]))).expect("created");
    let flow = flow.into_inner();
    assert_eq!((flow.state(), flow.version, flow.mtu), (proto::FlowState::Running, 1, 1024));
    assert_eq!(flow.producers[0].rings[0].name, "f.h1.h2");
    assert_eq!(rig.held(), (2 * 6 + 2 + 1 + 2 + 1, 1));
    let mut events = watch(&rig, &mut client);
    let mut tx = producer(&rig, 1, "f.h1.h2");
    let mut rx = consumer(&rig, 2, "f.h2");
    std::thread::scope(|s| {
        s.spawn(|| push(&mut tx, 0..1000));
        assert!((0..1000).all(|n| pop(&mut rx) == n));
    });
    // Items that nobody has popped are not thrown away unasked.
    push(&mut tx, 0..1);
    rx.wait_some().expect("it arrives");
    let delete = |force| proto::DeleteFlowRequest { name: "f".into(), force };
    let refused = rig.runtime.block_on(client.delete_flow(delete(false))).expect_err("undelivered");
    assert!(refused.message().contains("`f.h2`") && refused.message().contains("--force"), "{refused}");
    assert_eq!(pop(&mut rx), 0);
    tx.close();
    assert_eq!(rx.pop(&mut [0; 64]), Err(PopError::Closed));
    drop(rx);
    rig.runtime.block_on(async {
        for _ in 0..2 {
            next(&mut events, EventKind::ProgramLeft).await;
        }
        let stats = client.get_stats(proto::GetStatsRequest { flow: "f".into() }).await.expect("stats");
        let stats = stats.into_inner().flows.remove(0);
        assert_eq!((stats.items, stats.bytes), (1001, 64 * 1001));
        assert!(stats.transfers > 0 && stats.transfers <= 1001);
        client.delete_flow(delete(false)).await.expect("drained");
        assert_eq!(next(&mut events, EventKind::FlowDeleted).await.flow, "f");
    });
    assert!(rig.is_clean());
}

#[test]
fn a_flow_with_the_numbers_of_another_begins_to_count_at_zero() {
    let rig = Rig::new(2, "");
    let (_controller, mut client) = rig.control();
    let numbers = |flow: &proto::Flow| -> BTreeSet<u32> {
        let rings = flow.producers.iter().chain(&flow.consumers).flat_map(|m| &m.rings);
        rings.map(|r| r.data_qp & 0xffff).collect()
    };
    let mut used = BTreeSet::new();
    // Numbers rest until the switch has forgotten them.
    loop {
        let create = client.create_flow(shuffle("f", &["h1"], &["h2"]));
        let flow = rig.runtime.block_on(create).expect("created").into_inner();
        let again = !used.is_disjoint(&numbers(&flow));
        let stats = client.get_stats(proto::GetStatsRequest { flow: "f".into() });
        let stats = rig.runtime.block_on(stats).expect("stats").into_inner().flows.remove(0);
        assert_eq!((stats.transfers, stats.items), (0, 0));
        let mut tx = producer(&rig, 1, "f.h1.h2");
        let mut rx = consumer(&rig, 2, "f.h2");
        push(&mut tx, 0..10);
        assert!((0..10).all(|n| pop(&mut rx) == n));
        tx.close();
        assert_eq!(rx.pop(&mut [0; 64]), Err(PopError::Closed));
        drop(rx);
        used.extend(numbers(&flow));
        let delete = proto::DeleteFlowRequest { name: "f".into(), force: true };
        rig.runtime.block_on(client.delete_flow(delete)).expect("deleted");
        if again {
            break;
        }
    }
}

#[test]
fn members_come_and_go_while_the_others_move_items() {
    let rig = Rig::new(4, "");
    let (_controller, mut client) = rig.control();
    rig.runtime.block_on(client.create_flow(shuffle("f", &["h1"], &["h2"]))).expect("created");
    let held = rig.held();
    let mut tx = producer(&rig, 1, "f.h1.h2");
    let mut rx = consumer(&rig, 2, "f.h2");
    let rounds = 40u64;
    std::thread::scope(|s| {
        s.spawn(|| push(&mut tx, 0..rounds * 500));
        let (rig, mut client) = (&rig, client.clone());
        let joins = s.spawn(move || {
            let member = |host: &str| {
                Some(proto::Member { name: "guest".into(), host: host.into(), ..Default::default() })
            };
            let remove = || proto::RemoveMemberRequest {
                flow: "f".into(),
                member: "guest".into(),
                force: false,
                ..Default::default()
            };
            for round in 0..rounds {
                let add = proto::AddMemberRequest { flow: "f".into(), member: member("h3") };
                rig.runtime.block_on(client.add_producer(add)).expect("added");
                let mut guest = producer(rig, 3, "f.guest.h2");
                push(&mut guest, GUESTS + round..GUESTS + round + 1);
                guest.wait_drained().expect("taken");
                guest.detach();
                // Its item may still be in the consumer's ring, which is not the guest's.
                rig.runtime.block_on(client.remove_member(remove())).expect("removed");
                let add = proto::AddMemberRequest { flow: "f".into(), member: member("h4") };
                let flow = rig.runtime.block_on(client.add_consumer(add)).expect("added").into_inner();
                assert_eq!((flow.producers[0].rings.len(), flow.consumers.len()), (2, 2));
                rig.runtime.block_on(client.remove_member(remove())).expect("removed");
            }
        });
        let (mut own, mut guests) = (0, 0);
        while own < rounds * 500 || guests < rounds {
            let item = pop(&mut rx);
            if item >= GUESTS {
                assert_eq!(item, GUESTS + guests, "guests' items, once and in order");
                guests += 1;
            } else {
                assert_eq!(item, own, "the host's own items, once and in order");
                own += 1;
            }
        }
        joins.join().expect("all rounds");
    });
    assert_eq!(rig.held(), held);
    tx.close();
    assert_eq!(rx.pop(&mut [0; 64]), Err(PopError::Closed));
    let delete = proto::DeleteFlowRequest { name: "f".into(), force: false };
    rig.runtime.block_on(client.delete_flow(delete)).expect("deleted");
    assert!(rig.is_clean());
}

#[test]
fn no_program_takes_a_ring_whose_consumer_is_about_to_leave() {
    let rig = Rig::new(4, "");
    let (_controller, mut client) = rig.control();
    rig.runtime.block_on(client.create_flow(shuffle("f", &["h1", "h2"], &["h3", "h4"]))).expect("created");
    let mut events = watch(&rig, &mut client);
    // The program stays as long as it may, and its item keeps the consumer in the flow.
    let mut stays = producer(&rig, 1, "f.h1.h3");
    push(&mut stays, 0..1);
    stays.wait_drained().expect("taken");
    let remove = proto::RemoveMemberRequest { flow: "f".into(), member: "h3".into(), ..Default::default() };
    let mut own = client.clone();
    let removal = rig.runtime.spawn(async move { own.remove_member(remove).await });
    assert_eq!(rig.runtime.block_on(next(&mut events, EventKind::MemberLeaving)).member, "h3");
    let refusal = loop {
        assert!(!removal.is_finished(), "its program is still there");
        match rig.agents[1].attach_producer("f.h2.h3", Cancel::new()) {
            Ok(ring) => ring.detach(),
            Err(refusal) => break refusal.to_string(),
        }
    };
    assert!(refusal.contains("`f.h2.h3` takes no program now"), "{refusal}");
    // The member of another host is not held.
    producer(&rig, 2, "f.h2.h4").detach();
    // A program in another process waits until the ring has gone, or stays.
    let programs = rig.programs(2);
    let waits = std::thread::spawn(move || {
        let ring = pu::attach_producer(&programs, "f.h2.h3", Cancel::new());
        ring.map(Producer::detach)
    });
    stays.detach();
    let refusal = rig.runtime.block_on(removal).expect("no panic").expect_err("refused");
    assert!(refusal.message().contains("ring `f.h3` still holds 64 B"), "{}", refusal.message());
    waits.join().expect("no panic").expect("the consumer stays");
    assert_eq!(pop(&mut consumer(&rig, 3, "f.h3")), 0);
    delete(&mut client, &rig);
    assert!(rig.is_clean());
}

#[test]
fn a_removal_waits_for_programs_that_push_to_the_consumer() {
    let rig = Rig::new(3, "");
    let (_controller, mut client) = rig.control();
    rig.runtime.block_on(client.create_flow(shuffle("f", &["h1"], &["h2", "h3"]))).expect("created");
    let mut events = watch(&rig, &mut client);
    let (mut stays, mut rx) = (producer(&rig, 1, "f.h1.h3"), consumer(&rig, 3, "f.h3"));
    let remove = proto::RemoveMemberRequest { flow: "f".into(), member: "h3".into(), ..Default::default() };
    let mut own = client.clone();
    let removal = rig.runtime.spawn(async move { own.remove_member(remove).await });
    rig.runtime.block_on(next(&mut events, EventKind::MemberLeaving));
    // Long enough for a removal that waits for nobody.
    for _ in 0..50 {
        let asked = proto::GetFlowRequest { name: "f".into() };
        rig.runtime.block_on(client.get_flow(asked)).expect("there");
        assert!(!removal.is_finished(), "a program may still push");
    }
    push(&mut stays, 0..1);
    stays.detach();
    assert_eq!(pop(&mut rx), 0);
    rig.runtime.block_on(removal).expect("no panic").expect("taken out");
    delete(&mut client, &rig);
    assert!(rig.is_clean());
}

#[test]
fn settings_change_while_items_move() {
    let rig = Rig::new(2, "");
    let (_controller, mut client) = rig.control();
    rig.runtime.block_on(client.create_flow(shuffle("f", &["h1"], &["h2"]))).expect("created");
    let mut tx = producer(&rig, 1, "f.h1.h2");
    let mut rx = consumer(&rig, 2, "f.h2");
    for round in 0..10 {
        // Rarely polled workers tick in other groups.
        let poll = if round % 3 == 2 { 20_000 } else { 100 };
        let settings = proto::Settings {
            max_batch: Some(64 << (round % 4)),
            poll_interval_us: Some(poll),
            ..Default::default()
        };
        let set = proto::SetFlowRequest { name: "f".into(), settings: Some(settings) };
        let flow = rig.runtime.block_on(client.set_flow(set)).expect("set").into_inner();
        assert_eq!(flow.version, round + 2);
        assert_eq!(flow.settings.expect("all of them").rto_us, Some(20_000));
        assert_eq!(rig.held().1, 1, "one worker ticks");
        push(&mut tx, 0..20);
        assert!((0..20).all(|n| pop(&mut rx) == n));
    }
    tx.detach();
    rx.detach();
}

#[test]
fn policies_say_what_follows_a_death() {
    let rig = Rig::new(3, "");
    let (_controller, mut client) = rig.control();
    let mut events = watch(&rig, &mut client);
    for (name, policy) in
        [("waits", proto::Policy::Wait), ("drops", proto::Policy::DropMember), ("ends", proto::Policy::Abort)]
    {
        let new = with(policy, shuffle(name, &["h1", "h2"], &["h3"]));
        rig.runtime.block_on(client.create_flow(new)).expect("created");
        // Dropped in the middle: as a program does that panics.
        drop(producer(&rig, 1, &format!("{name}.h1.h3")));
    }
    let get = |client: &mut Client, name: &str| {
        let name = name.to_owned();
        rig.runtime.block_on(client.get_flow(proto::GetFlowRequest { name })).expect("there").into_inner()
    };
    let event = rig.runtime.block_on(next(&mut events, EventKind::ProgramDied));
    assert_eq!((event.flow.as_str(), event.member.as_str(), event.host.as_str()), ("waits", "h1", "h1"));
    let event = rig.runtime.block_on(next(&mut events, EventKind::MemberRemoved));
    assert_eq!((event.flow.as_str(), event.member.as_str()), ("drops", "h1"));
    let event = rig.runtime.block_on(next(&mut events, EventKind::FlowFailed));
    assert_eq!(event.flow, "ends");
    let waits = get(&mut client, "waits");
    assert_eq!(waits.state(), proto::FlowState::Impaired);
    assert!(waits.reason.contains("`waits.h1.h3`"), "{}", waits.reason);
    assert_eq!(get(&mut client, "drops").producers.len(), 1);
    let ends = get(&mut client, "ends");
    assert_eq!((ends.state(), ends.producers.len()), (proto::FlowState::Failed, 2));
    // What is left of the others goes on.
    let mut tx = producer(&rig, 2, "drops.h2.h3");
    let mut rx = consumer(&rig, 3, "drops.h3");
    push(&mut tx, 0..10);
    assert!((0..10).all(|n| pop(&mut rx) == n));
    tx.detach();
    rx.detach();
    let refused =
        rig.runtime.block_on(client.set_flow(proto::SetFlowRequest {
            name: "ends".into(),
            settings: Some(proto::Settings::default()),
        }));
    assert!(refused.expect_err("it has failed").message().contains("only be deleted"));
    for name in ["waits", "drops", "ends"] {
        let delete = proto::DeleteFlowRequest { name: name.into(), force: false };
        rig.runtime.block_on(client.delete_flow(delete)).expect("deleted");
    }
    assert!(rig.is_clean());
}

#[test]
fn a_lost_agent_is_an_event_and_can_be_done_without() {
    let mut rig = Rig::new(3, "");
    let (_controller, mut client) = rig.control();
    let mut events = watch(&rig, &mut client);
    rig.runtime.block_on(async {
        for _ in 0..3 {
            next(&mut events, EventKind::AgentFound).await;
        }
    });
    let settings = proto::Settings { policy: Some(proto::Policy::DropMember.into()), ..Default::default() };
    let new = proto::CreateFlowRequest { settings: Some(settings), ..shuffle("f", &["h1", "h2"], &["h3"]) };
    rig.runtime.block_on(client.create_flow(new)).expect("created");
    rig.kill_agent(0);
    assert_eq!(rig.runtime.block_on(next(&mut events, EventKind::AgentLost)).host, "h1");
    let event = rig.runtime.block_on(next(&mut events, EventKind::MemberRemoved));
    assert_eq!((event.flow.as_str(), event.member.as_str()), ("f", "h1"));
    let refused = rig.runtime.block_on(client.create_flow(shuffle("g", &["h1"], &["h3"])));
    let refused = refused.expect_err("nobody answers");
    assert_eq!(refused.code(), tonic::Code::Unavailable);
    assert!(refused.message().contains("`h1`"), "{refused}");
    rig.serve_agent(0);
    assert_eq!(rig.runtime.block_on(next(&mut events, EventKind::AgentFound)).host, "h1");
    rig.runtime.block_on(client.create_flow(shuffle("g", &["h1"], &["h3"]))).expect("it is back");
}

#[test]
fn a_watcher_hears_of_one_flow_what_it_asked_for() {
    let rig = Rig::new(3, "");
    let (_controller, mut client) = rig.control();
    let of_g = proto::WatchEventsRequest {
        flow: "g".into(),
        kinds: vec![EventKind::FlowChanged.into(), EventKind::FlowDeleted.into()],
        ..Default::default()
    };
    rig.runtime.block_on(async {
        let mut events = client.watch_events(of_g.clone()).await.expect("events").into_inner();
        for (name, consumer) in [("f", "h2"), ("g", "h3")] {
            client.create_flow(shuffle(name, &["h1"], &[consumer])).await.expect("created");
            let settings = Some(proto::Settings { weight: Some(2), ..Default::default() });
            let set = proto::SetFlowRequest { name: name.into(), settings };
            client.set_flow(set).await.expect("changed");
            let delete = proto::DeleteFlowRequest { name: name.into(), force: false };
            client.delete_flow(delete).await.expect("deleted");
        }
        let past = proto::WatchEventsRequest { after: Some(0), past_only: true, ..of_g };
        let mut remembered = client.watch_events(past).await.expect("events").into_inner();
        for events in [&mut events, &mut remembered] {
            for kind in [EventKind::FlowChanged, EventKind::FlowDeleted] {
                let event = events.message().await.expect("a stream").expect("no end");
                assert_eq!((event.flow.as_str(), event.kind()), ("g", kind));
            }
        }
        assert_eq!(remembered.message().await.expect("a stream"), None);
    });
}
