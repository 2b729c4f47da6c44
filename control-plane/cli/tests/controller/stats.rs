//! Counters of rings whose agent does not answer.

use zsr_api::controller::{self as proto, EventKind};
use zsr_ring::segment::{SegmentConfig, SegmentReader, SegmentWriter};

use super::changes::{consumer, next, pop, producer, push, watch};
use super::rig::{Client, Rig, shuffle};

fn stats(rig: &Rig, client: &mut Client) -> proto::FlowStats {
    let stats = rig.runtime.block_on(client.get_stats(proto::GetStatsRequest::default()));
    stats.expect("a controller").into_inner().flows.remove(0)
}

fn hosts_of(rig: &Rig, client: &mut Client) -> Vec<proto::HostStats> {
    let stats = rig.runtime.block_on(client.get_stats(proto::GetStatsRequest::default()));
    stats.expect("a controller").into_inner().hosts
}

#[test]
fn of_an_agent_that_does_not_answer_what_was_last_known_is_told_and_marked() {
    let mut rig = Rig::new(2, "");
    let (_controller, mut client) = rig.control();
    let mut events = watch(&rig, &mut client);
    rig.runtime.block_on(client.create_flow(shuffle("f", &["h1"], &["h2"]))).expect("created");
    let (mut tx, mut rx) = (producer(&rig, 1, "f.h1.h2"), consumer(&rig, 2, "f.h2"));
    push(&mut tx, 0..10);
    assert!((0..10).all(|n| pop(&mut rx) == n));
    rig.runtime.block_on(async {
        for _ in 0..2 {
            next(&mut events, EventKind::AgentFound).await;
        }
    });
    let before = stats(&rig, &mut client);
    let hosts = hosts_of(&rig, &mut client);
    for host in &hosts {
        let nic = host.nic.expect("a soft NIC counts");
        // The items leave h1 and come to h2; the other way go requests, few for a large batch.
        let of_items = if host.name == "h1" { nic.sent_bytes } else { nic.received_bytes };
        assert!(of_items > before.bytes && nic.sent_frames > 0 && nic.received_frames > 0, "{host:?}");
        assert_eq!(host.old_ms, 0);
    }
    assert_eq!(hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>(), ["h1", "h2"]);
    let ring = |stats: &proto::FlowStats, name: &str| {
        stats.rings.iter().find(|r| r.name == name).cloned().expect("a ring")
    };
    assert_eq!((before.items, before.old_ms), (10, 0));
    rig.kill_agent(1);
    rig.runtime.block_on(next(&mut events, EventKind::AgentLost));
    let now = stats(&rig, &mut client);
    assert_eq!((now.bytes, now.items), (before.bytes, 10));
    let (old, fresh) = (ring(&now, "f.h2"), ring(&now, "f.h1.h2"));
    assert_eq!(proto::RingStats { old_ms: 0, ..old.clone() }, ring(&before, "f.h2"));
    assert!(old.old_ms > 0 && now.old_ms == old.old_ms && fresh.old_ms == 0, "{now:?}");
    let known = hosts_of(&rig, &mut client);
    assert!(known[0].old_ms == 0 && known[1].old_ms > 0, "{known:?}");
    assert!(known[1].nic.expect("known").received_bytes >= hosts[1].nic.expect("known").received_bytes);
    rig.serve_agent(1);
    rig.runtime.block_on(next(&mut events, EventKind::AgentFound));
    assert_eq!(stats(&rig, &mut client).old_ms, 0);
    assert_eq!(hosts_of(&rig, &mut client)[1].old_ms, 0);
    let of_one = rig.runtime.block_on(client.get_stats(proto::GetStatsRequest { flow: "f".into() }));
    assert_eq!(of_one.expect("a controller").into_inner().hosts, [], "who asks for a flow hears of it only");
}

#[test]
fn times_of_stamped_segments_are_those_of_the_consumer_that_popped_them() {
    let rig = Rig::new(2, "");
    let (_controller, mut client) = rig.control();
    rig.runtime.block_on(client.create_flow(shuffle("f", &["h1"], &["h2"]))).expect("created");
    let (tx, rx) = (producer(&rig, 1, "f.h1.h2"), consumer(&rig, 2, "f.h2"));
    for ring in stats(&rig, &mut client).rings {
        assert!(ring.attached && !ring.closed && ring.latency.is_none(), "{ring:?}");
    }
    let stamping = SegmentConfig { stamp_every: 1, ..SegmentConfig::default() };
    let mut writer = SegmentWriter::records(tx, stamping).expect("large enough");
    let mut reader = SegmentReader::new(rx);
    for n in 0..3 {
        writer.push(&[n]).and_then(|()| writer.flush()).expect("room");
        assert_eq!(reader.next_segment().expect("it comes").len(), 1);
    }
    writer.close().expect("it closes");
    for ring in stats(&rig, &mut client).rings {
        let timed = ring.latency.map(|latency| (latency.segments.iter().sum::<u64>(), latency.sum_us > 0));
        assert_eq!(timed, (ring.name == "f.h2").then_some((3, true)), "{}", ring.name);
        assert!(ring.closed || ring.name == "f.h2", "{}", ring.name);
    }
}
