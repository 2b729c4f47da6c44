//! A controller that ends, in whatever moment, and one that takes up its work.

use zsr_api::controller::{self as proto, EventKind};
use zsr_controller::journal::Journal;
use zsr_host_agent::agent;
use zsr_plan::dataplane::model::Flow;
use zsr_ring::{Consumer, PopError};

use super::changes::{consumer, next, pop, producer, push, watch};
use super::deaths::mortal;
use super::rig::{Rig, shuffle, with};

/// Ends a controller as a kill would: its session goes, nothing else is done.
pub fn end(rig: &Rig, controller: zsr_controller::Controller, client: super::rig::Client) {
    controller.stop();
    drop(client);
    // The switch notices the end of the session when its stream ends.
    let gone = controller.is_gone();
    drop(controller);
    rig.runtime.block_on(gone);
}

#[test]
fn flows_go_on_under_the_next_controller() {
    let rig = Rig::new(2, "");
    let (controller, mut client) = rig.control();
    for name in ["a", "b", "c"] {
        rig.runtime.block_on(client.create_flow(shuffle(name, &["h1"], &["h2"]))).expect("created");
    }
    let (flows, held) = (controller.list_flows(), rig.held());
    end(&rig, controller, client);

    let (controller, mut client) = rig.control();
    assert_eq!((controller.list_flows(), rig.held()), (flows, held));
    let delete = |name: &str| proto::DeleteFlowRequest { name: name.into(), force: false };
    rig.runtime.block_on(async {
        client.create_flow(shuffle("d", &["h1"], &["h2"])).await.expect("numbers of its own");
        for name in ["a", "b", "c", "d"] {
            client.delete_flow(delete(name)).await.expect("deleted");
        }
    });
    assert!(rig.is_clean());
}

#[test]
fn a_program_that_died_without_a_controller_is_held_to_the_policy_by_the_next() {
    for policy in [proto::Policy::Wait, proto::Policy::DropMember, proto::Policy::Abort] {
        let rig = Rig::new(3, "");
        let (controller, mut client) = rig.control();
        let new = with(policy, shuffle("f", &["h1"], &["h2", "h3"]));
        rig.runtime.block_on(client.create_flow(new)).expect("created");
        let (dies, stays) = (mortal(&rig, 2, "f.h2"), consumer(&rig, 3, "f.h3"));
        end(&rig, controller, client);
        let mut at_agent = rig.agents[1].events();
        drop(dies);
        rig.runtime.block_on(async {
            while at_agent.recv().await.expect("an agent").kind != agent::EventKind::Died {}
        });

        let (controller, mut client) = rig.control();
        let mut events = watch(&rig, &mut client);
        rig.runtime.block_on(async {
            let died = next(&mut events, EventKind::ProgramDied).await;
            assert_eq!((died.flow.as_str(), died.member.as_str()), ("f", "h2"));
            match policy {
                proto::Policy::DropMember => {
                    assert_eq!(next(&mut events, EventKind::MemberRemoved).await.member, "h2");
                }
                proto::Policy::Abort => assert_eq!(next(&mut events, EventKind::FlowFailed).await.flow, "f"),
                _ => {}
            }
        });
        end(&rig, controller, client);
        stays.detach();

        // Another has come since: nobody died.
        if policy == proto::Policy::Wait {
            consumer(&rig, 2, "f.h2").detach();
            let (_controller, mut client) = rig.control();
            let mut events = watch(&rig, &mut client);
            rig.meet(&mut client, 3);
            consumer(&rig, 3, "f.h3").detach();
            rig.runtime.block_on(async {
                loop {
                    let event = events.message().await.expect("a controller").expect("an event");
                    assert_ne!(event.kind(), EventKind::ProgramDied, "{event:?}");
                    if event.kind() == EventKind::ProgramLeft {
                        break;
                    }
                }
            });
        }
    }
}

#[test]
fn a_change_that_was_broken_off_is_taken_back_or_completed() {
    let rig = Rig::new(2, "");
    let (controller, mut client) = rig.control();
    for name in ["stays", "half"] {
        rig.runtime.block_on(client.create_flow(shuffle(name, &["h1"], &["h2"]))).expect("created");
    }
    let half = controller.get_flow("half").expect("there");
    end(&rig, controller, client);
    let journal = rig.folder.path().join("journal");
    let open = || Journal::open(&journal).expect("sound").0;

    // As if the controller had died while it made flow `half`: everything is there, but nobody had been told.
    open().begin("half", None).expect("written");
    let (controller, client) = rig.control();
    assert_eq!(controller.list_flows().len(), 1);
    assert_eq!((rig.held(), rig.rings()), ((18, 1), 2));
    end(&rig, controller, client);

    // As if it had died while it deleted it, entries gone already.
    open().end("half", Some(&half)).expect("written");
    open().begin("half", None).expect("written");
    let (controller, client) = rig.control();
    assert_eq!((controller.list_flows().len(), rig.held(), rig.rings()), (1, (18, 1), 2));
    end(&rig, controller, client);

    // As if a line had been cut off in the middle.
    let mut text = std::fs::read(&journal).expect("there");
    text.extend(br#"{"Begin":{"name":"st"#);
    std::fs::write(&journal, text).expect("written");
    let (controller, _client) = rig.control();
    assert_eq!(controller.list_flows().len(), 1);
}

/// A flow without its consumer on h2, as its controller would have noted it.
fn without_h2(flow: &Flow) -> Flow {
    let mut flow = Flow { version: flow.version + 1, ..flow.clone() };
    flow.consumers.retain(|m| m.name != "h2");
    if flow.producers[0].rings.len() > 1 {
        flow.producers.iter_mut().for_each(|m| m.rings.retain(|r| !r.name.ends_with(".h2")));
    }
    flow
}

fn sees_the_rest_and_the_end(mut rx: Consumer) {
    assert!((0..5).all(|n| pop(&mut rx) == n));
    assert_eq!(rx.pop(&mut [0; 64]), Err(PopError::Closed));
}

#[test]
fn who_was_being_taken_out_in_good_order_is_taken_out_in_good_order() {
    let rig = Rig::new(3, "");
    let journal = rig.folder.path().join("journal");
    for (kind, closed) in [
        (proto::FlowKind::Shuffle, &[][..]),
        // As if only the producers' agent had been told.
        (proto::FlowKind::Shuffle, &["f.h1.h2".to_owned()]),
        (proto::FlowKind::LoadBalance, &[]),
        (proto::FlowKind::Replicate, &[]),
    ] {
        let (controller, mut client) = rig.control();
        let create = |consumers: &[&str]| proto::CreateFlowRequest {
            kind: kind.into(),
            ..shuffle("f", &["h1"], consumers)
        };
        rig.runtime.block_on(client.create_flow(create(&["h2"]))).expect("created");
        let ring = if kind == proto::FlowKind::Shuffle { "f.h1.h2" } else { "f.h1" };
        let held = rig.held();
        let add = || proto::AddMemberRequest {
            flow: "f".into(),
            member: Some(proto::Member { host: "h2".into(), ..Default::default() }),
        };
        let join = proto::AddMemberRequest {
            flow: "f".into(),
            member: Some(proto::Member { host: "h3".into(), ..Default::default() }),
        };
        let mut tx = producer(&rig, 1, ring);
        push(&mut tx, 0..5);
        tx.wait_drained().expect("taken");
        tx.detach();
        let rx = consumer(&rig, 2, "f.h2");
        rig.runtime.block_on(client.add_consumer(join)).expect("added");
        let flow = controller.get_flow("f").expect("there");
        end(&rig, controller, client);

        Journal::open(&journal).expect("sound").0.begin("f", Some(&without_h2(&flow))).expect("written");
        rig.agents[0].close_rings(closed, "member `h2` was taken out", true).expect("closed");
        let (controller, mut client) = rig.control();
        let names: Vec<String> =
            controller.get_flow("f").expect("there").consumers.into_iter().map(|m| m.name).collect();
        assert_eq!((names, rig.held(), rig.rings()), (vec!["h3".to_owned()], held, 2), "{kind:?}");
        sees_the_rest_and_the_end(rx);

        // The next of that name has numbers that are as fresh, and the others go on.
        rig.runtime.block_on(client.add_consumer(add())).expect("added");
        let mut rx = consumer(
            &rig,
            if kind == proto::FlowKind::Shuffle { 2 } else { 3 },
            match kind {
                proto::FlowKind::Shuffle => "f.h2",
                _ => "f.h3",
            },
        );
        if kind == proto::FlowKind::LoadBalance {
            let remove = proto::RemoveMemberRequest {
                flow: "f".into(),
                member: "h2".into(),
                force: true,
                ..Default::default()
            };
            rig.runtime.block_on(client.remove_member(remove)).expect("removed");
        }
        let mut tx = producer(&rig, 1, ring);
        push(&mut tx, 0..20);
        assert!((0..20).all(|n| pop(&mut rx) == n));
        tx.detach();
        rx.detach();
        let delete = proto::DeleteFlowRequest { name: "f".into(), force: true };
        rig.runtime.block_on(client.delete_flow(delete)).expect("deleted");
        assert!(rig.is_clean());
        end(&rig, controller, client);
    }
}

#[test]
fn who_was_being_taken_out_stays_where_items_would_be_lost_unless_the_flow_does_without_the_dead() {
    for policy in [proto::Policy::Wait, proto::Policy::DropMember] {
        let rig = Rig::new(3, "");
        let (controller, mut client) = rig.control();
        let new = with(policy, shuffle("f", &["h1"], &["h2", "h3"]));
        rig.runtime.block_on(client.create_flow(new)).expect("created");
        let mut tx = producer(&rig, 1, "f.h1.h2");
        push(&mut tx, 0..5);
        tx.wait_drained().expect("taken");
        tx.detach();
        let flow = controller.get_flow("f").expect("there");
        end(&rig, controller, client);

        let journal = rig.folder.path().join("journal");
        Journal::open(&journal).expect("sound").0.begin("f", Some(&without_h2(&flow))).expect("written");
        let (controller, mut client) = rig.control();
        let mut events = watch(&rig, &mut client);
        if policy == proto::Policy::DropMember {
            rig.runtime.block_on(next(&mut events, EventKind::MemberRemoved));
            assert_eq!(controller.get_flow("f").expect("there").consumers.len(), 1);
            continue;
        }
        let stays = rig.runtime.block_on(next(&mut events, EventKind::FlowChanged));
        assert!(stays.text.contains("`h2` stays") && stays.text.contains("`f.h2` still holds"), "{stays:?}");
        assert_eq!(controller.get_flow("f").expect("there"), flow);
        let mut tx = producer(&rig, 1, "f.h1.h2");
        push(&mut tx, 5..20);
        let mut rx = consumer(&rig, 2, "f.h2");
        assert!((0..20).all(|n| pop(&mut rx) == n));
        tx.detach();
        rx.detach();
    }
}

#[test]
fn numbers_of_a_change_that_was_broken_off_are_as_fresh() {
    let rig = Rig::new(2, "");
    let journal = rig.folder.path().join("journal");
    // As if the controller had died when it made the flow; when it deleted it, entries there and gone; when it deleted the only one.
    for broken in 0..4 {
        let names = if broken == 3 { &["f"][..] } else { &["first", "f"] };
        let (controller, mut client) = rig.control();
        for name in names {
            rig.runtime.block_on(client.create_flow(shuffle(name, &["h1"], &["h2"]))).expect("created");
        }
        let moves = || {
            let (mut tx, mut rx) = (producer(&rig, 1, "f.h1.h2"), consumer(&rig, 2, "f.h2"));
            std::thread::scope(|s| {
                s.spawn(|| push(&mut tx, 0..100));
                for n in 0..100 {
                    let mut item = [0; 64];
                    let popped = rx.pop_timeout(&mut item, std::time::Duration::from_secs(10));
                    assert_eq!((popped, item[..8] == u64::to_le_bytes(n)), (Ok(()), true), "{broken}");
                }
            });
            tx.detach();
            rx.detach();
        };
        moves();
        let flow = controller.get_flow("f").expect("there");
        end(&rig, controller, client);
        let (mut open, _) = Journal::open(&journal).expect("sound");
        if broken == 0 {
            open.end("f", None).expect("written");
        }
        open.begin("f", None).expect("written");
        if broken == 2 {
            // The entries go, the journal is as before.
            let (controller, client) = rig.control();
            end(&rig, controller, client);
            let (mut open, _) = Journal::open(&journal).expect("sound");
            open.end("f", Some(&flow)).expect("written");
            open.begin("f", None).expect("written");
        }
        drop(open);
        let (controller, mut client) = rig.control();
        rig.runtime.block_on(client.create_flow(shuffle("f", &["h1"], &["h2"]))).expect("created");
        moves();
        for name in names {
            let delete = proto::DeleteFlowRequest { name: (*name).into(), force: true };
            rig.runtime.block_on(client.delete_flow(delete)).expect("deleted");
        }
        end(&rig, controller, client);
    }
}

#[test]
fn a_damaged_journal_is_named() {
    let rig = Rig::new(2, "");
    let journal = rig.folder.path().join("journal");
    std::fs::write(&journal, "nonsense\n{}\n").expect("written");
    let refused = rig.try_start().map(|_| ()).expect_err("damaged").to_string();
    assert!(refused.contains("journal") && refused.contains("line 1"), "{refused}");
}
