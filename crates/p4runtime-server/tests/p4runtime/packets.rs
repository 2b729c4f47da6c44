//! Messages on the stream: packets both ways, digests, idle entries, errors.

use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::p4_data::Data;
use p4runtime_proto::p4::v1::stream_error::Details;
use p4runtime_proto::p4::v1::stream_message_request::Update as Request;
use p4runtime_proto::p4::v1::stream_message_response::Update as Response;
use tonic::Code;

use super::rig::*;

pub async fn packet_in(controller: &mut Controller) -> pb::PacketIn {
    match controller.receive().await.expect("the stream is open") {
        Response::Packet(packet) => packet,
        other => panic!("expected a packet, got {other:?}"),
    }
}

async fn error(controller: &mut Controller) -> pb::StreamError {
    match controller.receive().await.expect("the stream is open") {
        Response::Error(error) => error,
        other => panic!("expected an error, got {other:?}"),
    }
}

fn metadata(metadata_id: u32, value: &[u8]) -> pb::PacketMetadata {
    pb::PacketMetadata { metadata_id, value: value.to_vec() }
}

fn out(metadata: Vec<pb::PacketMetadata>) -> Request {
    Request::Packet(pb::PacketOut { payload: ethernet(1, 2, 3), metadata })
}

#[tokio::test]
async fn packets_in_and_out() {
    let (rig, mut c) = Rig::new().await;
    let punt = pb::TableEntry {
        table_id: rig.ids.table("l2"),
        r#match: vec![exact(1, &[1])],
        action: direct(action(rig.ids.action("punt"), &[])),
        ..Default::default()
    };
    c.insert(table_entry(punt)).await.unwrap();
    let mut backup = rig.controller().await;
    assert_eq!(backup.bid("", None).await, Code::AlreadyExists);
    assert!(rig.owner.inject(1, 300, ethernet(1, 2, 3)).await.is_empty(), "the CPU port is no wire");
    let packet = packet_in(&mut c).await;
    assert_eq!(packet.payload, ethernet(1, 2, 3));
    assert_eq!(packet.metadata, [metadata(1, &[1, 0x2c]), metadata(2, &[7])]);

    c.send(out(vec![metadata(2, &[0]), metadata(1, &[0, 9])])).await;
    // An answer to something sent behind it shows that the packet-out has been queued.
    assert_eq!(c.bid("", Some(1)).await, Code::Ok);
    assert_eq!(status_of(&backup.arbitration().await), Code::AlreadyExists, "the backup got no packet");
    assert_eq!(rig.owner.run_pending().await, [(9, ethernet(1, 2, 3))]);

    backup.send(out(vec![metadata(1, &[9]), metadata(2, &[0])])).await;
    let refused = error(&mut backup).await;
    assert_eq!(refused.canonical_code, Code::PermissionDenied as i32);
    assert!(matches!(refused.details, Some(Details::PacketOut(_))));
    assert!(rig.owner.run_pending().await.is_empty());
    rig.shut_down().await;
}

#[tokio::test]
async fn stream_errors_leave_the_stream_open() {
    let (rig, mut c) = Rig::new().await;
    for bad in [
        vec![],
        vec![metadata(1, &[1])],
        vec![metadata(1, &[1]), metadata(2, &[1]), metadata(7, &[1])],
        vec![metadata(1, &[1]), metadata(1, &[1]), metadata(2, &[1])],
        vec![metadata(1, &[2, 0]), metadata(2, &[1])],
        vec![metadata(1, &[]), metadata(2, &[1])],
    ] {
        c.send(out(bad.clone())).await;
        let refused = error(&mut c).await;
        assert_eq!(refused.canonical_code, Code::InvalidArgument as i32, "{bad:?}");
        let Some(Details::PacketOut(pb::PacketOutError { packet_out: Some(packet) })) = refused.details
        else {
            panic!("no packet in the error")
        };
        assert_eq!(packet.metadata, bad);
    }
    c.send(Request::DigestAck(pb::DigestListAck { digest_id: 5, list_id: 1 })).await;
    let refused = error(&mut c).await;
    assert_eq!(refused.canonical_code, Code::InvalidArgument as i32);
    assert!(matches!(refused.details, Some(Details::DigestListAck(_))));
    c.send(Request::Other(prost_types::Any::default())).await;
    let refused = error(&mut c).await;
    assert_eq!(refused.canonical_code, Code::Unimplemented as i32);
    assert!(matches!(refused.details, Some(Details::Other(_))));
    c.requests.send(pb::StreamMessageRequest { update: None }).await.unwrap();
    assert_eq!(error(&mut c).await.canonical_code, Code::InvalidArgument as i32);
    let large =
        pb::PacketOut { payload: vec![0; 1 << 20], metadata: vec![metadata(1, &[1]), metadata(2, &[1])] };
    c.send(Request::Packet(large)).await;
    assert_eq!(error(&mut c).await.canonical_code, Code::InvalidArgument as i32);
    assert_eq!(c.bid("", Some(2)).await, Code::Ok, "the stream goes on");
    rig.shut_down().await;
}

#[tokio::test]
async fn a_packet_out_needs_a_pipeline() {
    let rig = Rig::empty().await;
    let mut c = rig.primary().await;
    c.send(out(vec![])).await;
    assert_eq!(error(&mut c).await.canonical_code, Code::FailedPrecondition as i32);
    rig.shut_down().await;
}

fn digest_entry(digest_id: u32, config: Option<pb::digest_entry::Config>) -> Entity {
    Entity::DigestEntry(pb::DigestEntry { digest_id, config })
}

async fn digest(controller: &mut Controller) -> pb::DigestList {
    match controller.receive().await.expect("the stream is open") {
        Response::Digest(list) => list,
        other => panic!("expected a digest, got {other:?}"),
    }
}

#[tokio::test]
async fn digests() {
    let (rig, mut c) = Rig::new().await;
    let id = rig.ids.digest("learn_t");
    let config = |max_timeout_ns, max_list_size, ack_timeout_ns| {
        Some(pb::digest_entry::Config { max_timeout_ns, max_list_size, ack_timeout_ns })
    };
    let learn = pb::TableEntry {
        table_id: rig.ids.table("smac"),
        is_default_action: true,
        action: direct(action(rig.ids.action("learn"), &[])),
        ..Default::default()
    };
    c.modify(table_entry(learn)).await.unwrap();
    assert!(c.read(digest_entry(0, None)).await.is_empty());
    assert_eq!(code(c.modify(digest_entry(id, config(0, 1, 0))).await), Code::NotFound);
    assert_eq!(code(c.insert(digest_entry(id, config(-1, 1, 0))).await), Code::InvalidArgument);
    assert_eq!(code(c.insert(digest_entry(5, config(0, 1, 0))).await), Code::InvalidArgument);
    c.insert(digest_entry(id, config(0, 1, 1_000_000))).await.unwrap();
    assert_eq!(code(c.insert(digest_entry(id, config(0, 1, 0))).await), Code::AlreadyExists);
    assert_eq!(c.read(digest_entry(0, None)).await, [digest_entry(id, config(0, 1, 1_000_000))]);

    rig.owner.inject(1, 4, ethernet(1, 0x0a0b, 3)).await;
    let first = digest(&mut c).await;
    let bits = |bits: &[u8]| pb::P4Data { data: Some(Data::Bitstring(bits.to_vec())) };
    let members = vec![bits(&[0x0a, 0x0b]), bits(&[4])];
    let expected = pb::P4Data { data: Some(Data::Struct(pb::P4StructLike { members })) };
    assert_eq!((first.digest_id, &first.data), (id, &vec![expected]));
    assert!(first.timestamp > 0);
    // The same again is not told before it is acknowledged; another one is.
    rig.owner.inject(2, 4, ethernet(1, 0x0a0b, 3)).await;
    rig.owner.inject(3, 4, ethernet(1, 0x0a0c, 3)).await;
    let second = digest(&mut c).await;
    assert_ne!(second.data, first.data);
    assert_ne!(second.list_id, first.list_id);
    c.send(Request::DigestAck(pb::DigestListAck { digest_id: id, list_id: first.list_id })).await;
    assert_eq!(c.bid("", Some(1)).await, Code::Ok);
    rig.owner.inject(4, 4, ethernet(1, 0x0a0b, 3)).await;
    assert_eq!(digest(&mut c).await.data, first.data);

    c.modify(digest_entry(id, config(0, 2, 0))).await.unwrap();
    c.delete(digest_entry(id, None)).await.unwrap();
    assert_eq!(code(c.delete(digest_entry(id, None)).await), Code::NotFound);
    rig.owner.inject(9, 4, ethernet(1, 0x0a0d, 3)).await;
    assert_eq!(c.bid("", Some(1)).await, Code::Ok, "nothing but the answer comes");
    rig.shut_down().await;
}

#[tokio::test]
async fn idle_entries_are_told_again_and_again() {
    let (rig, mut c) = Rig::new().await;
    let entry = pb::TableEntry {
        table_id: rig.ids.table("l2"),
        r#match: vec![exact(1, &[1])],
        action: direct(action(rig.ids.action("drop"), &[])),
        idle_timeout_ns: 1_000_000_000,
        metadata: b"mine".to_vec(),
        ..Default::default()
    };
    c.insert(table_entry(entry.clone())).await.unwrap();
    assert_eq!(
        c.read(table_entry(pb::TableEntry {
            action: None,
            idle_timeout_ns: 0,
            metadata: vec![],
            ..entry.clone()
        }))
        .await,
        [table_entry(entry.clone())]
    );
    let told = pb::TableEntry { action: None, ..entry };
    for now in [2_000_000_000, 4_000_000_000] {
        rig.owner.inject(now, 1, ethernet(2, 1, 1)).await;
        rig.owner.advance(now).await;
        match c.receive().await.expect("the stream is open") {
            Response::IdleTimeoutNotification(idle) => {
                assert_eq!(idle.table_entry, std::slice::from_ref(&told));
                assert!(idle.timestamp > 0);
            }
            other => panic!("expected an idle entry, got {other:?}"),
        }
    }
    rig.shut_down().await;
}

#[tokio::test]
async fn idle_times_count_on_a_switch_without_packets() {
    const MS: u64 = 1_000_000;
    let (rig, mut c) = Rig::new().await;
    let entry = pb::TableEntry {
        table_id: rig.ids.table("l2"),
        r#match: vec![exact(1, &[1])],
        action: direct(action(rig.ids.action("drop"), &[])),
        idle_timeout_ns: 1_500_000_000,
        ..Default::default()
    };
    rig.owner.set_clock(60_000 * MS);
    c.insert(table_entry(entry.clone())).await.unwrap();
    let asked = pb::TableEntry {
        time_since_last_hit: Some(pb::table_entry::IdleTimeout::default()),
        action: None,
        idle_timeout_ns: 0,
        ..entry.clone()
    };
    for later in [0, 1, 1499] {
        rig.owner.advance((60_000 + later) * MS).await;
        let since = pb::table_entry::IdleTimeout { elapsed_ns: (later * MS) as i64 };
        let whole = pb::TableEntry { time_since_last_hit: Some(since), ..entry.clone() };
        assert_eq!(c.read(table_entry(asked.clone())).await, [table_entry(whole)]);
        assert_eq!(c.bid("", Some(1)).await, Code::Ok, "nothing but the answer comes");
    }
    rig.owner.advance(61_599 * MS).await;
    let told = c.receive().await.expect("the stream is open");
    assert!(matches!(told, Response::IdleTimeoutNotification(_)), "{told:?}");
    rig.shut_down().await;
}
