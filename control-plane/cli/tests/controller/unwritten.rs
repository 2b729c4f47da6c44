//! A journal that can't be written: nothing happens that a controller to come would not know of.

use std::sync::{Arc, Mutex};

use zsr_api::controller::{self as proto, EventKind};
use zsr_controller::Controller;

use super::changes::{consumer, next, pop, producer, push, watch};
use super::rig::{Client, Failing, Rig, shuffle};
use super::starts::end;

type Refuses = Arc<Mutex<Option<&'static str>>>;

fn control(rig: &Rig) -> (Controller, Client, Refuses) {
    let store = Failing::new(&rig.journal());
    let refuses = store.refuses.clone();
    let (controller, client) = rig.control_on(Box::new(store));
    (controller, client, refuses)
}

fn refuse(refuses: &Refuses, what: Option<&'static str>) {
    *refuses.lock().expect("nobody panics") = what;
}

fn trouble(rig: &Rig, client: &mut Client) -> String {
    let system = rig.runtime.block_on(client.get_system(proto::GetSystemRequest {}));
    system.expect("a controller").into_inner().journal_trouble
}

#[test]
fn a_change_that_cannot_be_written_does_not_happen() {
    let rig = Rig::new(3, "");
    let (controller, mut client, refuses) = control(&rig);
    let mut events = watch(&rig, &mut client);
    rig.runtime.block_on(client.create_flow(shuffle("f", &["h1"], &["h2"]))).expect("created");
    let (mut tx, mut rx) = (producer(&rig, 1, "f.h1.h2"), consumer(&rig, 2, "f.h2"));
    let (flow, held, rings) = (controller.get_flow("f").expect("there"), rig.held(), rig.rings());
    let member = proto::Member { host: "h3".into(), ..Default::default() };
    let add = proto::AddMemberRequest { flow: "f".into(), member: Some(member) };
    let settings = proto::Settings { weight: Some(9), ..Default::default() };
    let set = proto::SetFlowRequest { name: "f".into(), settings: Some(settings) };
    let delete = proto::DeleteFlowRequest { name: "f".into(), force: true };
    // Before anything has happened, and when everything has but for its end.
    for (what, change) in [("{", 0), ("{", 1), ("{", 2), ("{", 3), ("End", 0), ("End", 1), ("End", 2)] {
        refuse(&refuses, Some(what));
        let refused = rig.runtime.block_on(async {
            match change {
                0 => client.create_flow(shuffle("g", &["h1"], &["h2"])).await.map(drop),
                1 => client.add_consumer(add.clone()).await.map(drop),
                2 => client.set_flow(set.clone()).await.map(drop),
                _ => client.delete_flow(delete.clone()).await.map(drop),
            }
        });
        let refused = refused.expect_err("refused").message().to_owned();
        assert!(refused.contains("journal") && refused.contains("No space left"), "{refused}");
        let now = (controller.list_flows(), rig.held(), rig.rings());
        assert_eq!(now, (vec![flow.clone()], held, rings), "{what} {change}");
        push(&mut tx, 0..10);
        assert!((0..10).all(|n| pop(&mut rx) == n));
        assert!(trouble(&rig, &mut client).contains("No space left"));
        rig.runtime.block_on(next(&mut events, EventKind::JournalFailed));
        refuse(&refuses, None);
        rig.runtime.block_on(next(&mut events, EventKind::JournalWorks));
        assert_eq!(trouble(&rig, &mut client), "");
    }
    rig.runtime.block_on(client.create_flow(shuffle("g", &["h1"], &["h2"]))).expect("created");
    tx.detach();
    rx.detach();

    // What was refused is unknown to the next controller, too; what was not is known.
    let flows = controller.list_flows();
    end(&rig, controller, client);
    let (controller, _client) = rig.control();
    assert_eq!(controller.list_flows(), flows);
}

#[test]
fn a_consumer_of_a_load_balance_whose_joining_is_not_written_has_got_nothing() {
    let rig = Rig::new(3, "");
    let (_controller, mut client, refuses) = control(&rig);
    let flow = proto::CreateFlowRequest {
        kind: proto::FlowKind::LoadBalance.into(),
        ..shuffle("f", &["h1"], &["h2"])
    };
    rig.runtime.block_on(client.create_flow(flow)).expect("created");
    let (mut tx, mut rx) = (producer(&rig, 1, "f.h1"), consumer(&rig, 2, "f.h2"));
    // More than one consumer's ring holds: who joins gets the others at once.
    push(&mut tx, 0..100);
    refuse(&refuses, Some("End"));
    let member = Some(proto::Member { host: "h3".into(), ..Default::default() });
    let add = proto::AddMemberRequest { flow: "f".into(), member };
    let refused = rig.runtime.block_on(client.add_consumer(add)).expect_err("refused");
    assert!(refused.message().contains("No space left"), "{refused}");
    let mut next = 0_u64;
    while next < 100 {
        let items = rx.wait_timeout(std::time::Duration::from_secs(20)).expect("an item");
        for item in items.iter() {
            assert_eq!(item[..8], next.to_le_bytes());
            next += 1;
        }
    }
}

#[test]
fn a_consumer_of_a_group_whose_joining_is_not_written_is_no_part_of_it() {
    let rig = Rig::new(3, "");
    let (_controller, mut client, refuses) = control(&rig);
    let flow = proto::CreateFlowRequest {
        kind: proto::FlowKind::Replicate.into(),
        ..shuffle("f", &["h1"], &["h2"])
    };
    rig.runtime.block_on(client.create_flow(flow)).expect("created");
    let (held, rings) = (rig.held(), rig.rings());
    refuse(&refuses, Some("End"));
    let member = Some(proto::Member { host: "h3".into(), ..Default::default() });
    let add = proto::AddMemberRequest { flow: "f".into(), member };
    let refused = rig.runtime.block_on(client.add_consumer(add)).expect_err("refused");
    assert!(refused.message().contains("No space left"), "{refused}");
    assert_eq!((rig.held(), rig.rings()), (held, rings));
    // Nobody waits for it.
    let (mut tx, mut rx) = (producer(&rig, 1, "f.h1"), consumer(&rig, 2, "f.h2"));
    push(&mut tx, 0..10);
    assert!((0..10).all(|n| pop(&mut rx) == n));
    tx.detach();
    rx.detach();
}

#[test]
fn what_was_taken_away_stays_away_though_its_end_was_never_written() {
    let rig = Rig::new(3, "");
    let (controller, mut client, refuses) = control(&rig);
    for name in ["f", "g"] {
        rig.runtime.block_on(client.create_flow(shuffle(name, &["h1"], &["h2", "h3"]))).expect("created");
    }
    refuse(&refuses, Some("End"));
    let remove = proto::RemoveMemberRequest {
        flow: "f".into(),
        member: "h3".into(),
        force: false,
        ..Default::default()
    };
    rig.runtime.block_on(client.remove_member(remove)).expect("removed");
    assert!(trouble(&rig, &mut client).contains("No space left"));
    let flows = controller.list_flows();
    end(&rig, controller, client);
    let (controller, _client) = rig.control();
    let members = |flows: Vec<zsr_plan::dataplane::model::Flow>| {
        let names = |f: &zsr_plan::dataplane::model::Flow| {
            (f.name.clone(), f.members().map(|m| m.name.clone()).collect::<Vec<_>>())
        };
        flows.iter().map(names).collect::<Vec<_>>()
    };
    assert_eq!(members(controller.list_flows()), members(flows));
    assert_eq!(rig.rings(), 2 + 4);
}
