//! Hosts on VLANs, and hosts that are not on the VLAN, or not at the addresses, that the topology says.

use zsr_api::controller::{self as proto, EventKind};
use zsr_soft_nic::NicConfig;
use zsr_system::parts::nic_config;
use zsr_wire::{Mac, vlan};

use super::changes::{consumer, next, pop, producer, push};
use super::rig::{Rig, shuffle};

const HOSTS: &str = "hosts: [{name: h1, vlan: 100}, h2]\nflows: []\n";

fn rings() -> proto::CreateFlowRequest {
    let settings = proto::Settings { doorbell: Some(true), ..Default::default() };
    proto::CreateFlowRequest { settings: Some(settings), ..shuffle("f", &["h1"], &["h2"]) }
}

#[test]
fn a_host_on_a_vlan_feeds_one_that_is_on_none() {
    let rig = Rig::of(HOSTS);
    let (_controller, mut client) = rig.control();
    let flow = rig.runtime.block_on(client.create_flow(rings())).expect("created").into_inner();
    let (mut tx, mut rx) = (producer(&rig, 1, "f.h1.h2"), consumer(&rig, 2, "f.h2"));
    for n in 0..100 {
        push(&mut tx, n..n + 1);
        assert_eq!(pop(&mut rx), n);
    }
    let ring = rig.agents[0].ring(&flow.producers[0].rings[0].name).expect("a ring");
    // DSCP 26; data may be marked, polls need not.
    let class = |qp: &zsr_host_agent::agent::QueuePair| qp.remote.expect("connected").traffic_class;
    assert_eq!((class(&ring.data), class(&ring.poll)), (106, 104));
}

#[test]
fn frames_on_another_vlan_are_told_with_port_host_and_vlan() {
    let rig = Rig::with_nics(HOSTS, |topology, number| {
        let config = nic_config(topology, number);
        NicConfig { tci: if config.tci == 0 { 0 } else { vlan::tci(200, 0) }, ..config }
    });
    let (_controller, mut client) = rig.control();
    let events = client.watch_events(proto::WatchEventsRequest::default());
    let mut events = rig.runtime.block_on(events).expect("events").into_inner();
    rig.runtime.block_on(client.create_flow(rings())).expect("created");
    // The first item rings.
    let mut tx = producer(&rig, 1, "f.h1.h2");
    push(&mut tx, 0..1);
    let told = rig.runtime.block_on(next(&mut events, EventKind::WrongVlan));
    assert_eq!((told.host.as_str(), told.port), ("h1", 1));
    assert!(told.text.contains("host `h1`") && told.text.contains("VLAN 100"), "{}", told.text);
}

#[test]
fn frames_from_other_source_addresses_are_told_with_port_and_host() {
    let rig = Rig::with_nics(HOSTS, |topology, number| {
        let config = nic_config(topology, number);
        NicConfig { mac: if config.tci == 0 { config.mac } else { Mac([2, 0, 0, 9, 9, 9]) }, ..config }
    });
    let (_controller, mut client) = rig.control();
    let events = client.watch_events(proto::WatchEventsRequest::default());
    let mut events = rig.runtime.block_on(events).expect("events").into_inner();
    rig.runtime.block_on(client.create_flow(rings())).expect("created");
    // The first item rings.
    let mut tx = producer(&rig, 1, "f.h1.h2");
    push(&mut tx, 0..1);
    let told = rig.runtime.block_on(next(&mut events, EventKind::WrongSource));
    assert_eq!((told.host.as_str(), told.port), ("h1", 1));
    assert!(told.text.contains("host `h1`") && told.text.contains("10.0.1.1"), "{}", told.text);
    let stats = rig
        .runtime
        .block_on(client.get_stats(proto::GetStatsRequest::default()))
        .expect("stats")
        .into_inner();
    let counted = stats.drops.iter().find(|d| d.cause == "wrong-source").expect("a cause");
    assert!(counted.packets > 0);
}
