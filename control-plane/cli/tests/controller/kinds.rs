//! Load balance and replicate, with members that come and go under load; numbers that are used again.

use std::collections::BTreeSet;

use zsr_api::controller::{self as proto, FlowKind};
use zsr_ring::PopError;

use super::changes::{consumer, delete, pop, producer, push};
use super::rig::{Client, Rig, shuffle};

fn of_kind(kind: FlowKind, producers: &[&str], consumers: &[&str]) -> proto::CreateFlowRequest {
    proto::CreateFlowRequest { kind: kind.into(), ..shuffle("f", producers, consumers) }
}

fn guest(host: &str) -> proto::AddMemberRequest {
    let member = proto::Member { name: "guest".into(), host: host.into(), ..Default::default() };
    proto::AddMemberRequest { flow: "f".into(), member: Some(member) }
}

fn leave(member: &str) -> proto::RemoveMemberRequest {
    proto::RemoveMemberRequest { flow: "f".into(), member: member.into(), force: false, ..Default::default() }
}

#[test]
fn a_load_balance_gives_each_item_to_one_consumer() {
    let rig = Rig::new(3, "");
    let (_controller, mut client) = rig.control();
    let new = of_kind(FlowKind::LoadBalance, &["h1"], &["h2", "h3"]);
    let flow = rig.runtime.block_on(client.create_flow(new)).expect("created").into_inner();
    assert_eq!(flow.producers[0].rings[0].name, "f.h1");
    let mut tx = producer(&rig, 1, "f.h1");
    let all = std::thread::scope(|s| {
        let take = |host: usize| {
            let mut rx = consumer(&rig, host, &format!("f.h{host}"));
            move || {
                let mut got = Vec::new();
                let mut item = [0; 64];
                while rx.pop(&mut item) != Err(PopError::Closed) {
                    got.push(u64::from_le_bytes(item[..8].try_into().expect("8 bytes")));
                }
                got
            }
        };
        let consumers = [s.spawn(take(2)), s.spawn(take(3))];
        push(&mut tx, 0..5000);
        tx.close();
        consumers.map(|c| c.join().expect("a consumer"))
    });
    let together: BTreeSet<u64> = all.iter().flatten().copied().collect();
    assert_eq!((together.len(), all[0].len() + all[1].len()), (5000, 5000), "each item once");
    assert!(all.iter().all(|got| got.is_sorted()), "in order at each consumer");
    delete(&mut client, &rig);
    assert!(rig.is_clean());
}

#[test]
fn a_replicate_gives_all_consumers_one_order() {
    let rig = Rig::new(4, "");
    let (_controller, mut client) = rig.control();
    let new = of_kind(FlowKind::Replicate, &["h1", "h2"], &["h3", "h4"]);
    rig.runtime.block_on(client.create_flow(new)).expect("created");
    let got = std::thread::scope(|s| {
        for (host, first) in [(1, 0), (2, 1 << 32)] {
            let mut tx = producer(&rig, host, &format!("f.h{host}"));
            s.spawn(move || {
                push(&mut tx, first..first + 2000);
                tx.close();
            });
        }
        let take = |host: usize| {
            let mut rx = consumer(&rig, host, &format!("f.h{host}"));
            move || {
                let got: Vec<u64> = (0..4000).map(|_| pop(&mut rx)).collect();
                assert_eq!(rx.pop(&mut [0; 64]), Err(PopError::Closed));
                got
            }
        };
        [s.spawn(take(3)), s.spawn(take(4))].map(|c| c.join().expect("a consumer"))
    });
    assert_eq!(got[0], got[1], "one order");
    assert!(got[0].iter().filter(|n| **n < 1 << 32).copied().eq(0..2000));
    delete(&mut client, &rig);
    assert!(rig.is_clean());
}

#[test]
fn consumers_join_and_leave_a_replicate_under_load() {
    let rig = Rig::new(3, "");
    let (_controller, mut client) = rig.control();
    rig.runtime
        .block_on(client.create_flow(of_kind(FlowKind::Replicate, &["h1"], &["h2"])))
        .expect("created");
    let held = rig.held();
    let mut tx = producer(&rig, 1, "f.h1");
    let mut rx = consumer(&rig, 2, "f.h2");
    const LAST: u64 = u64::MAX;
    let enough = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|s| {
        // Items come for as long as guests do, however long these take.
        s.spawn(|| {
            for n in 0.. {
                if enough.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
                push(&mut tx, n..n + 1);
            }
            push(&mut tx, LAST - 1..LAST);
        });
        let steady = s.spawn(|| {
            for n in 0.. {
                match pop(&mut rx) {
                    seen if seen == LAST - 1 => return,
                    seen => assert_eq!(seen, n),
                }
            }
        });
        for _ in 0..10 {
            rig.runtime.block_on(client.add_consumer(guest("h3"))).expect("joined");
            let mut seen = consumer(&rig, 3, "f.guest");
            // From the moment it joined on, everything in order.
            let first = pop(&mut seen);
            (first + 1..first + 50).for_each(|n| assert_eq!(pop(&mut seen), n));
            seen.detach();
            let force = proto::RemoveMemberRequest { force: true, ..leave("guest") };
            rig.runtime.block_on(client.remove_member(force)).expect("left");
        }
        enough.store(true, std::sync::atomic::Ordering::Relaxed);
        steady.join().expect("the steady consumer");
    });
    assert_eq!(rig.held(), held);
    tx.detach();
    rx.detach();
    delete(&mut client, &rig);
    assert!(rig.is_clean());
}

#[test]
fn a_producer_that_dies_in_the_middle_of_a_transfer_is_dropped() {
    let rig = Rig::new(3, "");
    let (_controller, mut client) = rig.control();
    let settings = proto::Settings { rto_us: Some(2000), ..Default::default() };
    let new = proto::CreateFlowRequest { settings: Some(settings), ..shuffle("f", &["h1", "h2"], &["h3"]) };
    rig.runtime.block_on(client.create_flow(new)).expect("created");
    let mut rx = consumer(&rig, 3, "f.h3");
    let mut dying = producer(&rig, 1, "f.h1.h3");
    push(&mut dying, 0..10);
    assert!((0..10).all(|n| pop(&mut rx) == n));
    // The host's NIC knows the ring no more: READs of it are not answered, as if the host had gone.
    rig.agents[0].disconnect_ring("f.h1.h3").expect("connected");
    push(&mut dying, 10..20);
    let mut tx = producer(&rig, 2, "f.h2.h3");
    let removed =
        rig.runtime.block_on(client.remove_member(proto::RemoveMemberRequest { force: true, ..leave("h1") }));
    removed.expect("it is gone");
    push(&mut tx, 100..200);
    assert!((100..200).all(|n| pop(&mut rx) == n));
    tx.close();
    assert_eq!(rx.pop(&mut [0; 64]), Err(PopError::Closed));
}

#[test]
fn numbers_are_used_again_and_again() {
    let rig = Rig::new(2, "");
    let (_controller, mut client) = rig.control();
    let used = |client: &mut Client| {
        let system = rig.runtime.block_on(client.get_system(proto::GetSystemRequest {})).expect("there");
        system.into_inner().switch.expect("there").queue_pairs
    };
    let mut highest = 0;
    for round in 0..200 {
        let flow = rig.runtime.block_on(client.create_flow(shuffle("f", &["h1"], &["h2"]))).expect("created");
        highest = highest.max(flow.into_inner().producers[0].rings[0].data_qp);
        let mut tx = producer(&rig, 1, "f.h1.h2");
        let mut rx = consumer(&rig, 2, "f.h2");
        push(&mut tx, round..round + 3);
        assert!((round..round + 3).all(|n| pop(&mut rx) == n));
        tx.close();
        assert_eq!(rx.pop(&mut [0; 64]), Err(PopError::Closed));
        delete(&mut client, &rig);
    }
    assert!(rig.is_clean());
    assert_eq!(used(&mut client), 0);
    assert!(highest < 100, "connection numbers up to {highest} for one flow at a time");
}

#[test]
fn rates_and_weights_change_while_items_move() {
    let rig = Rig::new(2, "");
    let (_controller, mut client) = rig.control();
    for name in ["f", "g"] {
        rig.runtime.block_on(client.create_flow(shuffle(name, &["h1"], &["h2"]))).expect("created");
    }
    let mut tx = producer(&rig, 1, "f.h1.h2");
    let mut rx = consumer(&rig, 2, "f.h2");
    for (weight, cap) in [(1, 0), (3, 0), (1000, 8_000_000), (1, 80_000_000), (7, 0)] {
        let settings =
            proto::Settings { weight: Some(weight), rate_cap_bps: Some(cap), ..Default::default() };
        let set = proto::SetFlowRequest { name: "g".into(), settings: Some(settings) };
        rig.runtime.block_on(client.set_flow(set)).expect("set");
        push(&mut tx, 0..50);
        assert!((0..50).all(|n| pop(&mut rx) == n));
    }
    for name in ["f", "g"] {
        let delete = proto::DeleteFlowRequest { name: name.into(), force: false };
        rig.runtime.block_on(client.delete_flow(delete)).expect("deleted");
    }
    assert!(rig.is_clean());
}

#[test]
fn packet_numbers_begin_anywhere_and_wrap_in_every_kind() {
    let rig = Rig::new(4, "defaults: {first_psn: 0xfffffd}\n");
    let (_controller, mut client) = rig.control();
    for kind in [FlowKind::Shuffle, FlowKind::LoadBalance, FlowKind::Replicate] {
        let new = of_kind(kind, &["h1"], &["h2"]);
        rig.runtime.block_on(client.create_flow(new)).expect("created");
        let mut tx = producer(&rig, 1, if kind == FlowKind::Shuffle { "f.h1.h2" } else { "f.h1" });
        let mut rx = consumer(&rig, 2, "f.h2");
        let mut go = |range: std::ops::Range<u64>| {
            for n in range {
                push(&mut tx, n..n + 1);
                assert_eq!(pop(&mut rx), n, "{kind:?}");
            }
        };
        go(0..100);
        if kind == FlowKind::Replicate {
            // Who joins begins where the group is, and with polls of its own.
            rig.runtime.block_on(client.add_consumer(guest("h3"))).expect("joined");
            let mut joined = consumer(&rig, 3, "f.guest");
            for n in 100..200 {
                go(n..n + 1);
                assert_eq!(pop(&mut joined), n);
            }
        }
        drop((tx, rx));
        let delete = proto::DeleteFlowRequest { name: "f".into(), force: true };
        rig.runtime.block_on(client.delete_flow(delete)).expect("deleted");
    }
}

#[test]
fn first_packet_numbers_are_random_unless_the_topology_says_them() {
    let rig = Rig::new(2, "");
    let (_controller, mut client) = rig.control();
    let flow = rig.runtime.block_on(client.create_flow(shuffle("f", &["h1"], &["h2"]))).expect("created");
    let flow = flow.into_inner();
    let (tx, rx) = (&flow.producers[0].rings[0], &flow.consumers[0].rings[0]);
    // Once in 2^24 runs they are the same.
    assert_ne!(tx.first_psn, rx.first_psn);
    let of_nic = rig.agents[0].ring(&tx.name).expect("a ring").data.remote.expect("connected");
    assert_eq!((of_nic.rq_psn.get(), of_nic.sq_psn.get()), (tx.first_psn, tx.first_psn));
}
