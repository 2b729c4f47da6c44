//! Programs that die, and who is held to it.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use prost::Message;
use zsr_api::{
    agent::{Attach, Role},
    controller::{self as proto, EventKind},
};
use zsr_host_agent::agent;

use super::changes::{consumer, next, pop, producer, push, watch};
use super::rig::{Client, Rig, shuffle, with};

fn get(rig: &Rig, client: &mut Client, name: &str) -> proto::Flow {
    let get = proto::GetFlowRequest { name: name.into() };
    rig.runtime.block_on(client.get_flow(get)).expect("there").into_inner()
}

/// A program at a consumer ring that dies when this is dropped: nobody says removal.
pub fn mortal(rig: &Rig, host: usize, ring: &str) -> UnixStream {
    let mut agent = UnixStream::connect(rig.programs(host)).expect("an agent");
    let attach = Attach { version: 1, ring: ring.into(), role: Role::Consumer.into(), ..Default::default() };
    let attach = attach.encode_to_vec();
    agent.write_all(&(attach.len() as u32).to_le_bytes()).expect("sent");
    agent.write_all(&attach).expect("sent");
    agent.read_exact(&mut [0]).expect("an answer");
    agent
}

#[test]
fn who_dies_at_a_ring_of_a_former_member_is_not_the_new_one_of_that_name() {
    let rig = Rig::new(3, "");
    let (_controller, mut client) = rig.control();
    let mut events = watch(&rig, &mut client);
    rig.runtime.block_on(client.create_flow(shuffle("beside", &["h1"], &["h2"]))).expect("created");
    for policy in [proto::Policy::Wait, proto::Policy::DropMember, proto::Policy::Abort] {
        let new = with(policy, shuffle("f", &["h1"], &["h2", "h3"]));
        rig.runtime.block_on(client.create_flow(new)).expect("created");
        let mut tx = producer(&rig, 1, "f.h1.h2");
        let former = mortal(&rig, 2, "f.h2");
        push(&mut tx, 0..1);
        tx.wait_drained().expect("taken");
        tx.detach();
        rig.runtime.block_on(async {
            let remove = proto::RemoveMemberRequest {
                flow: "f".into(),
                member: "h2".into(),
                force: false,
                ..Default::default()
            };
            client.remove_member(remove).await.expect("removed");
            let member = Some(proto::Member { host: "h2".into(), ..Default::default() });
            client.add_consumer(proto::AddMemberRequest { flow: "f".into(), member }).await.expect("added");
        });
        let (mut tx, mut rx) = (producer(&rig, 1, "f.h1.h2"), consumer(&rig, 2, "f.h2"));

        let mut at_agent = rig.agents[1].events();
        drop(former);
        rig.runtime.block_on(async {
            while at_agent.recv().await.expect("an agent").kind != agent::EventKind::Died {}
        });
        // The controller hears of this one behind the other.
        consumer(&rig, 2, "beside.h2").detach();
        rig.runtime
            .block_on(async { while next(&mut events, EventKind::ProgramLeft).await.flow != "beside" {} });
        let flow = get(&rig, &mut client, "f");
        assert_eq!((flow.state(), flow.consumers.len()), (proto::FlowState::Running, 2), "{policy:?}");
        push(&mut tx, 0..10);
        assert!((0..10).all(|n| pop(&mut rx) == n));

        // Its own death is.
        drop(rx);
        let kind = match policy {
            proto::Policy::DropMember => EventKind::MemberRemoved,
            proto::Policy::Abort => EventKind::FlowFailed,
            _ => EventKind::ProgramDied,
        };
        rig.runtime.block_on(async {
            let died = next(&mut events, EventKind::ProgramDied).await;
            assert_eq!((died.flow.as_str(), died.member.as_str()), ("f", "h2"));
            if kind != EventKind::ProgramDied {
                assert_eq!(next(&mut events, kind).await.flow, "f");
            }
        });
        drop(tx);
        let delete = proto::DeleteFlowRequest { name: "f".into(), force: true };
        rig.runtime.block_on(client.delete_flow(delete)).expect("deleted");
    }
}

#[test]
fn what_an_agent_was_not_there_to_close_goes_when_it_is_met_again() {
    let mut rig = Rig::new(3, "");
    let (_controller, mut client) = rig.control();
    let mut events = watch(&rig, &mut client);
    rig.runtime.block_on(client.create_flow(shuffle("f", &["h1", "h2"], &["h3"]))).expect("created");
    rig.runtime.block_on(async {
        for _ in 0..3 {
            next(&mut events, EventKind::AgentFound).await;
        }
    });
    rig.kill_agent(0);
    rig.runtime.block_on(async {
        next(&mut events, EventKind::AgentLost).await;
        let remove = proto::RemoveMemberRequest {
            flow: "f".into(),
            member: "h1".into(),
            force: true,
            ..Default::default()
        };
        client.remove_member(remove).await.expect("removed");
    });
    assert_eq!(rig.agents[0].rings().expect("an agent").len(), 1);
    let mut at_agent = rig.agents[0].events();
    rig.serve_agent(0);
    let destroyed =
        async { while at_agent.recv().await.expect("an agent").kind != agent::EventKind::Destroyed {} };
    let time = std::time::Duration::from_secs(20);
    rig.runtime.block_on(async { tokio::time::timeout(time, destroyed).await }).expect("it is told");
    let member = Some(proto::Member { host: "h1".into(), ..Default::default() });
    let add = proto::AddMemberRequest { flow: "f".into(), member };
    rig.runtime.block_on(client.add_producer(add)).expect("its name is free");
    let (mut tx, mut rx) = (producer(&rig, 1, "f.h1.h3"), consumer(&rig, 3, "f.h3"));
    push(&mut tx, 0..10);
    assert!((0..10).all(|n| pop(&mut rx) == n));
    tx.detach();
    rx.detach();
}

#[test]
fn a_flow_whose_nic_is_of_no_use_is_impaired_and_says_why() {
    let rig = Rig::new(2, "");
    let (_controller, mut client) = rig.control();
    let mut events = watch(&rig, &mut client);
    rig.runtime.block_on(client.create_flow(shuffle("f", &["h1"], &["h2"]))).expect("created");
    let why = "its address is gone: give it back";
    rig.agents[0].set_link("eth0", Some(why.into()));
    let down = rig.runtime.block_on(next(&mut events, EventKind::LinkDown));
    assert_eq!((&*down.host, &*down.text), ("h1", why));
    let flow = get(&rig, &mut client, "f");
    assert_eq!(flow.state(), proto::FlowState::Impaired);
    assert!(flow.reason.contains("`h1`") && flow.reason.contains(why), "{}", flow.reason);
    rig.agents[0].set_link("eth0", None);
    rig.runtime.block_on(next(&mut events, EventKind::LinkUp));
    assert_eq!(get(&rig, &mut client, "f").state(), proto::FlowState::Running);
}

#[test]
fn a_program_that_died_at_a_ring_that_is_only_polled_is_told_of_until_another_comes() {
    let rig = Rig::new(2, "");
    let (controller, mut client) = rig.control();
    let mut events = watch(&rig, &mut client);
    let settings = proto::Settings { doorbell: Some(false), ..Default::default() };
    let new = proto::CreateFlowRequest { settings: Some(settings), ..shuffle("f", &["h1"], &["h2"]) };
    rig.runtime.block_on(client.create_flow(new)).expect("created");
    drop(mortal(&rig, 2, "f.h2"));
    let told = rig.runtime.block_on(next(&mut events, EventKind::ProgramDied));
    assert_eq!((&*told.member, &*told.ring), ("h2", "f.h2"));
    let died = || {
        let stats = rig.runtime.block_on(controller.stats("f")).expect("counters");
        stats.flows[0].rings.iter().map(|r| r.died).collect::<Vec<_>>()
    };
    assert_eq!(died(), [false, true]);
    assert_eq!(get(&rig, &mut client, "f").state(), proto::FlowState::Impaired);
    let rx = consumer(&rig, 2, "f.h2");
    rig.runtime.block_on(next(&mut events, EventKind::ProgramAttached));
    assert_eq!(died(), [false, false]);
    rx.detach();
}
