//! Multicast groups and clone sessions.

use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::packet_replication_engine_entry::Type;
use tonic::Code;

use super::rig::*;

pub fn multicast(group: pb::MulticastGroupEntry) -> Entity {
    Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry {
        r#type: Some(Type::MulticastGroupEntry(group)),
    })
}

pub fn session(session: pb::CloneSessionEntry) -> Entity {
    Entity::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry {
        r#type: Some(Type::CloneSessionEntry(session)),
    })
}

fn replica(port: &[u8], instance: u32) -> pb::Replica {
    let port_kind = Some(pb::replica::PortKind::Port(port.to_vec()));
    pb::Replica { port_kind, instance, backup_replicas: Vec::new() }
}

#[tokio::test]
async fn multicast_groups() {
    let (rig, mut c) = Rig::new().await;
    let of = |multicast_group_id, replicas| pb::MulticastGroupEntry {
        multicast_group_id,
        replicas,
        metadata: b"tag".to_vec(),
    };
    let group = of(7, vec![replica(&[1], 1), replica(&[2], 2)]);
    assert_eq!(code(c.modify(multicast(group.clone())).await), Code::NotFound);
    c.insert(multicast(group.clone())).await.unwrap();
    assert_eq!(code(c.insert(multicast(group.clone())).await), Code::AlreadyExists);
    #[allow(deprecated)]
    let old = pb::Replica { port_kind: Some(pb::replica::PortKind::EgressPort(9)), ..Default::default() };
    c.insert(multicast(of(8, vec![old]))).await.unwrap();
    assert_eq!(c.read(multicast(of(7, vec![]))).await, [multicast(group)]);
    assert_eq!(c.read(multicast(of(0, vec![]))).await.len(), 2);
    assert!(c.read(multicast(of(9, vec![]))).await.is_empty());

    let flood = pb::TableEntry {
        table_id: rig.ids.table("l2"),
        r#match: vec![exact(1, &[1])],
        action: direct(action(rig.ids.action("flood"), &[&[7]])),
        ..Default::default()
    };
    c.insert(table_entry(flood)).await.unwrap();
    let ports = |frames: Vec<(u16, Vec<u8>)>| frames.into_iter().map(|(port, _)| port).collect::<Vec<_>>();
    assert_eq!(ports(rig.owner.inject(1, 5, ethernet(1, 1, 1)).await), [1, 2]);
    c.modify(multicast(of(7, vec![replica(&[3], 0)]))).await.unwrap();
    assert_eq!(ports(rig.owner.inject(1, 5, ethernet(1, 1, 1)).await), [3]);
    c.delete(multicast(of(7, vec![]))).await.unwrap();
    assert!(rig.owner.inject(1, 5, ethernet(1, 1, 1)).await.is_empty());
    assert_eq!(code(c.delete(multicast(of(7, vec![]))).await), Code::NotFound);

    let backup = pb::BackupReplica { port: vec![4], instance: 1 };
    for (what, bad, expected) in [
        ("id 0", of(0, vec![]), Code::InvalidArgument),
        ("wide id", of(1 << 16, vec![]), Code::InvalidArgument),
        ("twice", of(1, vec![replica(&[1], 1), replica(&[0, 1], 1)]), Code::InvalidArgument),
        ("no port", of(1, vec![pb::Replica::default()]), Code::InvalidArgument),
        ("far port", of(1, vec![replica(&[2, 0], 1)]), Code::InvalidArgument),
        ("wide instance", of(1, vec![replica(&[1], 1 << 16)]), Code::InvalidArgument),
        (
            "backup",
            of(1, vec![pb::Replica { backup_replicas: vec![backup], ..replica(&[1], 1) }]),
            Code::Unimplemented,
        ),
    ] {
        assert_eq!(code(c.insert(multicast(bad)).await), expected, "{what}");
    }
    let neither = Entity::PacketReplicationEngineEntry(Default::default());
    assert_eq!(code(c.insert(neither.clone()).await), Code::InvalidArgument);
    assert_eq!(c.read_error(neither).await.canonical_code, Code::InvalidArgument as i32);
    rig.shut_down().await;
}

#[tokio::test]
async fn clone_sessions() {
    let (rig, mut c) = Rig::new().await;
    let of = |session_id, replicas| pb::CloneSessionEntry { session_id, replicas, ..Default::default() };
    let to_cpu = pb::CloneSessionEntry {
        class_of_service: 3,
        packet_length_bytes: 20,
        ..of(5, vec![replica(&[0xff, 0xff, 0xff, 0xfd], 1)])
    };
    assert_eq!(code(c.delete(session(to_cpu.clone())).await), Code::NotFound);
    c.insert(session(to_cpu.clone())).await.unwrap();
    assert_eq!(code(c.insert(session(to_cpu.clone())).await), Code::AlreadyExists);
    assert_eq!(c.read(session(of(5, vec![]))).await, [session(to_cpu.clone())]);
    let mirror = pb::TableEntry {
        table_id: rig.ids.table("l2"),
        r#match: vec![exact(1, &[1])],
        action: direct(action(rig.ids.action("mirror"), &[&[5]])),
        ..Default::default()
    };
    c.insert(table_entry(mirror)).await.unwrap();
    rig.owner.inject(1, 5, ethernet(1, 1, 1)).await;
    let packet = super::packets::packet_in(&mut c).await;
    assert!(packet.payload.len() < 60, "cut");

    c.modify(session(of(5, vec![replica(&[9], 0)]))).await.unwrap();
    assert!(rig.owner.inject(1, 5, ethernet(1, 1, 1)).await.iter().any(|(port, _)| *port == 9));
    assert_eq!(c.read(session(of(0, vec![]))).await, [session(of(5, vec![replica(&[9], 0)]))]);
    c.delete(session(of(5, vec![]))).await.unwrap();
    assert!(c.read(session(of(0, vec![]))).await.is_empty());
    for (what, bad) in [
        ("id 0", of(0, vec![])),
        ("wide id", of(1 << 15, vec![])),
        ("negative length", pb::CloneSessionEntry { packet_length_bytes: -1, ..of(1, vec![]) }),
    ] {
        assert_eq!(code(c.insert(session(bad)).await), Code::InvalidArgument, "{what}");
    }
    rig.shut_down().await;
}
