//! Sessions: who is primary, and what ends a stream.

use tonic::Code;

use super::rig::*;
use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::stream_message_request::Update as Request;

#[tokio::test]
async fn a_higher_bid_takes_over_and_everybody_hears_of_it() {
    let rig = Rig::empty().await;
    let mut first = rig.controller().await;
    let mut second = rig.controller().await;
    assert_eq!(first.bid("", Some(5)).await, Code::Ok);
    assert_eq!(second.bid("", Some(4)).await, Code::AlreadyExists);
    assert_eq!(second.bid("", Some(6)).await, Code::Ok);
    let told = first.arbitration().await;
    assert_eq!(status_of(&told), Code::AlreadyExists);
    assert_eq!(told.election_id, Some(pb::Uint128 { high: 0, low: 6 }));
    assert_eq!((told.device_id, told.role), (DEVICE, None));

    // A primary whose stream ends leaves nobody in charge, until somebody bids as high.
    drop(second);
    assert_eq!(status_of(&first.arbitration().await), Code::NotFound);
    assert_eq!(first.bid("", Some(5)).await, Code::NotFound);
    assert_eq!(first.bid("", Some(6)).await, Code::Ok);
    rig.shut_down().await;
}

#[tokio::test]
async fn named_roles_are_arbitrated_apart() {
    let rig = Rig::empty().await;
    let mut default = rig.primary().await;
    let mut named = rig.controller().await;
    assert_eq!(named.bid("monitor", Some(1)).await, Code::Ok);
    assert!(default.commit(config()).await.is_ok());
    let entry = pb::MulticastGroupEntry { multicast_group_id: 1, ..Default::default() };
    let group = super::replication::multicast(entry);
    assert!(named.insert(group).await.is_ok(), "every role has full access");
    named.role = "unknown".into();
    let status = named.write_batch(Vec::new(), Default::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    rig.shut_down().await;
}

#[tokio::test]
async fn bad_bids_end_the_stream() {
    let rig = Rig::empty().await;
    let bid = |device_id, election: Option<u64>| {
        let election_id = election.map(|low| pb::Uint128 { high: 0, low });
        Request::Arbitration(pb::MasterArbitrationUpdate { device_id, election_id, ..Default::default() })
    };
    let mut wrong_device = rig.controller().await;
    wrong_device.send(bid(DEVICE + 1, Some(1))).await;
    assert_eq!(wrong_device.receive().await.unwrap_err().code(), Code::NotFound);

    let mut first = rig.primary().await;
    let mut same = rig.controller().await;
    same.send(bid(DEVICE, Some(1))).await;
    assert_eq!(same.receive().await.unwrap_err().code(), Code::InvalidArgument);

    let mut backup = rig.controller().await;
    assert_eq!(backup.bid("", None).await, Code::AlreadyExists);
    backup.offer("other", Some(9)).await;
    assert_eq!(backup.receive().await.unwrap_err().code(), Code::FailedPrecondition);

    let config = Some(prost_types::Any::default());
    let role = Some(pb::Role { config, ..Default::default() });
    let configured = pb::MasterArbitrationUpdate { device_id: DEVICE, role, ..Default::default() };
    let mut with_config = rig.controller().await;
    with_config.send(Request::Arbitration(configured)).await;
    assert_eq!(with_config.receive().await.unwrap_err().code(), Code::InvalidArgument);

    first.send(bid(DEVICE + 1, Some(1))).await;
    assert_eq!(first.receive().await.unwrap_err().code(), Code::FailedPrecondition);
    rig.shut_down().await;
}

#[tokio::test]
async fn only_the_primary_writes() {
    let (rig, mut primary) = Rig::new().await;
    let mut backup = rig.controller().await;
    assert_eq!(backup.bid("", Some(0)).await, Code::AlreadyExists);
    let write = |mut controller: Controller| async move {
        let status = controller.write_batch(Vec::new(), Default::default()).await;
        (controller, status.map_err(|status| status.code()))
    };
    let (mut backup, status) = write(backup).await;
    assert_eq!(status, Err(Code::PermissionDenied));
    assert_eq!(backup.commit(config()).await.unwrap_err().code(), Code::PermissionDenied);
    backup.election = None;
    let (backup, status) = write(backup).await;
    assert_eq!(status, Err(Code::PermissionDenied), "no election id");
    assert!(primary.write_batch(Vec::new(), Default::default()).await.is_ok());
    // The id alone is what counts, whoever sends it; a backup that bids higher gets it.
    let mut backup = backup;
    assert_eq!(backup.bid("", Some(2)).await, Code::Ok);
    let (primary, status) = write(primary).await;
    assert_eq!(status, Err(Code::PermissionDenied));
    drop(primary);
    rig.shut_down().await;
}

fn entry(rig: &Rig, mac: u8) -> pb::entity::Entity {
    table_entry(pb::TableEntry {
        table_id: rig.ids.table("l2"),
        r#match: vec![exact(1, &[mac])],
        action: direct(action(rig.ids.action("drop"), &[])),
        ..Default::default()
    })
}

#[tokio::test]
async fn a_take_over_waits_for_the_writes_under_way() {
    let (rig, mut old) = Rig::new().await;
    let mut new = rig.controller().await;
    let release = rig.owner.hold().await;
    let request = pb::WriteRequest {
        device_id: DEVICE,
        election_id: old.election,
        updates: vec![update(pb::update::Type::Insert, entry(&rig, 1))],
        ..Default::default()
    };
    let (mut client, first) = (old.client.clone(), request.clone());
    let under_way = tokio::spawn(async move { client.write(first).await });
    rig.owner.called.notified().await;
    new.offer("", Some(2)).await;
    assert_eq!(status_of(&old.arbitration().await), Code::AlreadyExists, "told at once");
    let late = old.client.write(request).await.unwrap_err();
    assert_eq!(late.code(), Code::PermissionDenied);
    // The switch is still held, so the write is under way, and the new one is not primary yet.
    assert!(!under_way.is_finished());
    drop(release);
    assert!(under_way.await.unwrap().is_ok(), "finished as usual");
    assert_eq!(status_of(&new.arbitration().await), Code::Ok);
    assert!(new.insert(entry(&rig, 2)).await.is_ok());
    rig.shut_down().await;
}

#[tokio::test]
async fn a_call_that_has_begun_is_finished_without_its_client() {
    let (rig, mut controller) = Rig::new().await;
    let release = rig.owner.hold().await;
    let request = pb::WriteRequest {
        device_id: DEVICE,
        election_id: controller.election,
        updates: vec![update(pb::update::Type::Insert, entry(&rig, 1))],
        ..Default::default()
    };
    let mut client = controller.client.clone();
    let under_way = tokio::spawn(async move { client.write(request).await });
    rig.owner.called.notified().await;
    under_way.abort();
    assert!(under_way.await.unwrap_err().is_cancelled());
    drop(release);
    let all = table_entry(pb::TableEntry { table_id: rig.ids.table("l2"), ..Default::default() });
    assert_eq!(controller.read(all).await, [entry(&rig, 1)]);
    rig.shut_down().await;
}
