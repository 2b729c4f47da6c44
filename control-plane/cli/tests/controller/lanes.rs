//! Consumers with several rings, each filled from some of the producers.

use std::time::Duration;

use zsr_api::controller as proto;
use zsr_ring::PopError;

use super::changes::{consumer, delete, pop, producer, push};
use super::rig::{Client, Rig, shuffle};

fn create(client: &mut Client, rig: &Rig, producers: &[&str], lanes: u32) -> proto::Flow {
    let new = proto::CreateFlowRequest { lanes, ..shuffle("f", producers, &["h3"]) };
    rig.runtime.block_on(client.create_flow(new)).expect("created").into_inner()
}

fn joins(host: &str, name: &str) -> proto::AddMemberRequest {
    let member = proto::Member { name: name.into(), host: host.into(), ..Default::default() };
    proto::AddMemberRequest { flow: "f".into(), member: Some(member) }
}

fn leaves(member: &str) -> proto::RemoveMemberRequest {
    proto::RemoveMemberRequest { flow: "f".into(), member: member.into(), force: false, ..Default::default() }
}

/// Items that come by a ring until its stream ends.
fn rest(rig: &Rig, ring: &str) -> Vec<u64> {
    let mut rx = consumer(rig, 3, ring);
    let mut got = Vec::new();
    let mut item = [0; 64];
    loop {
        match rx.pop_timeout(&mut item, Duration::from_secs(30)) {
            Ok(()) => got.push(u64::from_le_bytes(item[..8].try_into().expect("8 bytes"))),
            Err(PopError::Closed) => return got,
            Err(e) => panic!("the lane of `{ring}` does not end: {e}"),
        }
    }
}

#[test]
fn producers_are_dealt_to_lanes_and_each_lane_ends_by_itself() {
    let rig = Rig::new(3, "");
    let (_controller, mut client) = rig.control();
    let flow = create(&mut client, &rig, &["h1", "h2"], 2);
    let names: Vec<&str> = flow.consumers[0].rings.iter().map(|ring| ring.name.as_str()).collect();
    assert_eq!((flow.lanes, names), (2, vec!["f.h3", "f.h3~lane2"]));
    assert_eq!(flow.producers.iter().map(|m| m.rings.len()).collect::<Vec<_>>(), [1, 1]);
    let (mut first, mut second) = (producer(&rig, 1, "f.h1.h3"), producer(&rig, 2, "f.h2.h3"));
    push(&mut first, 0..100);
    push(&mut second, 1000..1100);
    first.close();
    // The second lane goes on when the first has ended.
    assert_eq!(rest(&rig, "f.h3"), (0..100).collect::<Vec<_>>());
    let mut rx = consumer(&rig, 3, "f.h3~lane2");
    assert_eq!(pop(&mut rx), 1000);
    // Whoever joins now is read by the lane that goes on.
    let flow = rig.runtime.block_on(client.add_producer(joins("h1", "late"))).expect("joined").into_inner();
    assert_eq!((flow.producers.len(), flow.consumers[0].rings.len()), (3, 2));
    let mut late = producer(&rig, 1, "f.late.h3");
    push(&mut late, 5000..5010);
    late.close();
    second.close();
    let mut got: Vec<u64> = (0..109).map(|_| pop(&mut rx)).collect();
    got.sort_unstable();
    assert_eq!(got, (1001..1100).chain(5000..5010).collect::<Vec<_>>());
    assert_eq!(rx.pop(&mut [0; 64]), Err(PopError::Closed));
    drop(rx);
    delete(&mut client, &rig);
    assert!(rig.is_clean());
}

#[test]
fn a_lane_whose_producers_were_taken_out_ends() {
    let rig = Rig::new(3, "");
    let (_controller, mut client) = rig.control();
    create(&mut client, &rig, &["h1", "h2"], 2);
    let flow = rig.runtime.block_on(client.remove_member(leaves("h2"))).expect("taken out").into_inner();
    assert_eq!(flow.consumers[0].rings.len(), 2);
    assert_eq!(rest(&rig, "f.h3~lane2"), [0; 0]);
    // The lane that has ended gets no producer more.
    rig.runtime.block_on(client.add_producer(joins("h2", "late"))).expect("joined");
    let (mut first, mut late) = (producer(&rig, 1, "f.h1.h3"), producer(&rig, 2, "f.late.h3"));
    push(&mut first, 0..3);
    first.close();
    push(&mut late, 10..13);
    late.close();
    let mut got = rest(&rig, "f.h3");
    got.sort_unstable();
    assert_eq!(got, [0, 1, 2, 10, 11, 12]);
    // All have ended.
    let refused = rig.runtime.block_on(client.add_producer(joins("h2", "later"))).expect_err("ended");
    assert!(refused.message().contains("has ended"), "{refused}");
    delete(&mut client, &rig);
    assert!(rig.is_clean());
}

#[test]
fn a_lane_without_producers_ends_though_frames_are_lost() {
    let rig = Rig::new(3, "");
    let (_controller, mut client) = rig.control();
    create(&mut client, &rig, &["h1", "h2"], 2);
    rig.losses[2].set(true);
    let mut leaving = client.clone();
    let removed = rig.runtime.spawn(async move { leaving.remove_member(leaves("h2")).await });
    // The last commit record, and the same again.
    rig.losses[2].wait_for(2);
    rig.losses[2].set(false);
    rig.runtime.block_on(removed).expect("no panic").expect("taken out");
    assert_eq!(rest(&rig, "f.h3~lane2"), [0; 0]);
    let mut first = producer(&rig, 1, "f.h1.h3");
    push(&mut first, 0..3);
    first.close();
    assert_eq!(rest(&rig, "f.h3"), [0, 1, 2]);
    delete(&mut client, &rig);
    assert!(rig.is_clean());
}

#[test]
fn a_consumer_without_a_link_holds_up_no_removal() {
    let rig = Rig::new(3, "");
    let (_controller, mut client) = rig.control();
    create(&mut client, &rig, &["h1", "h2"], 2);
    rig.losses[2].set(true);
    let flow = rig.runtime.block_on(client.remove_member(leaves("h2"))).expect("taken out").into_inner();
    assert_eq!(flow.producers.len(), 1);
    let delete = proto::DeleteFlowRequest { name: "f".into(), force: true };
    rig.runtime.block_on(client.delete_flow(delete)).expect("deleted");
    assert!(rig.is_clean());
}

#[test]
fn a_consumer_that_joins_has_no_lane_without_a_producer() {
    let rig = Rig::new(4, "");
    let (_controller, mut client) = rig.control();
    create(&mut client, &rig, &["h1", "h2"], 2);
    rig.runtime.block_on(client.remove_member(leaves("h2"))).expect("taken out");
    let flow = rig.runtime.block_on(client.add_consumer(joins("h4", ""))).expect("joined").into_inner();
    assert_eq!(flow.consumers.iter().map(|m| m.rings.len()).collect::<Vec<_>>(), [2, 1]);
    let delete = proto::DeleteFlowRequest { name: "f".into(), force: true };
    rig.runtime.block_on(client.delete_flow(delete)).expect("deleted");
    assert!(rig.is_clean());
}

#[test]
fn lanes_that_do_not_fit_are_refused() {
    let rig = Rig::new(3, "");
    let (_controller, mut client) = rig.control();
    let mut refused =
        |new| rig.runtime.block_on(client.create_flow(new)).expect_err("refused").message().to_owned();
    let few = proto::CreateFlowRequest { lanes: 3, ..shuffle("f", &["h1", "h2"], &["h3"]) };
    assert!(refused(few).contains("flow 'f' has 3 lanes for 2 producers: expected 1 to 2 lanes"), "few");
    let kind = proto::FlowKind::Replicate.into();
    let other = proto::CreateFlowRequest { lanes: 2, kind, ..shuffle("f", &["h1", "h2"], &["h3"]) };
    assert!(refused(other).contains("flow 'f' is a replicate with 2 lanes"), "other");
    assert!(rig.is_clean());
}
