//! Batches: one error per update, and the three kinds of atomicity.

use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::update::Type;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use tonic::Code;

use super::rig::*;

fn l2(ids: &Ids, mac: u8, port: u8) -> Entity {
    table_entry(pb::TableEntry {
        table_id: ids.table("l2"),
        r#match: vec![exact(1, &[mac])],
        action: direct(action(ids.action("forward"), &[&[port]])),
        ..Default::default()
    })
}

fn all(ids: &Ids) -> Entity {
    table_entry(pb::TableEntry { table_id: ids.table("l2"), ..Default::default() })
}

#[tokio::test]
async fn every_update_has_its_outcome() {
    let (rig, mut c) = Rig::new().await;
    let ids = &rig.ids;
    let batch = vec![
        update(Type::Insert, l2(ids, 1, 1)),
        update(Type::Insert, l2(ids, 1, 2)),
        update(Type::Unspecified, l2(ids, 2, 1)),
        pb::Update { r#type: Type::Insert as i32, entity: None },
        update(Type::Modify, l2(ids, 3, 1)),
        update(Type::Insert, l2(ids, 4, 1)),
        update(Type::Insert, Entity::ExternEntry(Default::default())),
    ];
    let status = c.write_batch(batch, Atomicity::ContinueOnError).await.unwrap_err();
    let codes: Vec<_> = errors(&status).iter().map(|error| Code::from_i32(error.canonical_code)).collect();
    let expected = [
        Code::Ok,
        Code::AlreadyExists,
        Code::InvalidArgument,
        Code::InvalidArgument,
        Code::NotFound,
        Code::Ok,
        Code::Unimplemented,
    ];
    assert_eq!(codes, expected);
    assert!(status.message().contains("5 of 7"), "{status}");
    assert_eq!(errors(&status)[0], pb::Error::default(), "nothing but OK");
    assert_eq!(c.read(all(ids)).await, [l2(ids, 1, 1), l2(ids, 4, 1)]);
    rig.shut_down().await;
}

#[tokio::test]
async fn all_or_nothing() {
    let (rig, mut c) = Rig::new().await;
    let ids = &rig.ids;
    let (register, index) = (ids.register("seen"), Some(pb::Index { index: 1 }));
    let data = |bits: u8| Some(pb::P4Data { data: Some(pb::p4_data::Data::Bitstring(vec![bits])) });
    let cell =
        |bits| Entity::RegisterEntry(pb::RegisterEntry { register_id: register, index, data: data(bits) });
    let group = |port: u8| {
        let port_kind = Some(pb::replica::PortKind::Port(vec![port]));
        let replicas = vec![pb::Replica { port_kind, ..Default::default() }];
        super::replication::multicast(pb::MulticastGroupEntry {
            multicast_group_id: 1,
            replicas,
            ..Default::default()
        })
    };
    let default = |port: u8| {
        table_entry(pb::TableEntry {
            table_id: ids.table("keyless"),
            is_default_action: true,
            action: direct(action(ids.action("forward"), &[&[port]])),
            ..Default::default()
        })
    };
    let member = |port: u8| {
        Entity::ActionProfileMember(pb::ActionProfileMember {
            action_profile_id: ids.profile("next_hops"),
            member_id: 1,
            action: Some(action(ids.action("forward"), &[&[port]])),
        })
    };
    let batch = |bad: bool| {
        let mut batch = vec![
            update(Type::Modify, l2(ids, 1, 9)),
            update(Type::Delete, l2(ids, 2, 0)),
            update(Type::Insert, l2(ids, 3, 3)),
            update(Type::Modify, cell(9)),
            update(Type::Modify, group(9)),
            update(Type::Modify, default(9)),
            update(Type::Delete, member(0)),
        ];
        if bad {
            batch.push(update(Type::Insert, l2(ids, 3, 3)));
        }
        batch
    };
    for entity in [l2(ids, 1, 1), l2(ids, 2, 2), group(1), member(1)] {
        c.insert(entity).await.unwrap();
    }
    for entity in [cell(1), default(1)] {
        c.modify(entity).await.unwrap();
    }
    for atomicity in [Atomicity::RollbackOnError, Atomicity::DataplaneAtomic] {
        let status = c.write_batch(batch(true), atomicity).await.unwrap_err();
        let codes: Vec<_> =
            errors(&status).iter().map(|error| Code::from_i32(error.canonical_code)).collect();
        let mut expected = vec![Code::Aborted; 7];
        expected.push(Code::AlreadyExists);
        assert_eq!(codes, expected);
        assert!(status.message().contains("number 8"), "the one at fault: {status}");
        assert_eq!(c.read(all(ids)).await, [l2(ids, 1, 1), l2(ids, 2, 2)]);
        assert_eq!(c.read(cell(0)).await, [cell(1)]);
        assert_eq!(c.read(group(0)).await, [group(1)]);
        assert_eq!(c.read(member(0)).await, [member(1)]);
        let of =
            pb::TableEntry { table_id: ids.table("keyless"), is_default_action: true, ..Default::default() };
        assert_eq!(c.read(table_entry(of)).await, [default(1)]);
    }
    // One that can't even be read keeps the others from being tried.
    let unreadable = vec![update(Type::Modify, cell(5)), pb::Update::default()];
    let status = c.write_batch(unreadable, Atomicity::DataplaneAtomic).await.unwrap_err();
    assert_eq!(errors(&status)[0].canonical_code, Code::Aborted as i32);
    assert_eq!(c.read(cell(0)).await, [cell(1)]);
    c.write_batch(batch(false), Atomicity::DataplaneAtomic).await.unwrap();
    assert_eq!(c.read(all(ids)).await, [l2(ids, 1, 9), l2(ids, 3, 3)]);
    assert_eq!(c.read(group(0)).await, [group(9)]);
    rig.shut_down().await;
}

#[tokio::test]
async fn errors_before_the_batch_have_no_details() {
    let (rig, mut c) = Rig::new().await;
    let request = |device_id, election, atomicity| pb::WriteRequest {
        device_id,
        election_id: Some(pb::Uint128 { high: 0, low: election }),
        updates: vec![pb::Update::default()],
        atomicity,
        ..Default::default()
    };
    for (request, expected) in [
        (request(DEVICE + 1, 1, 0), Code::NotFound),
        (request(DEVICE, 2, 0), Code::PermissionDenied),
        (request(DEVICE, 1, 9), Code::InvalidArgument),
    ] {
        let status = c.client.write(request).await.unwrap_err();
        assert_eq!((status.code(), status.details().len()), (expected, 0));
    }
    rig.shut_down().await;
}

#[tokio::test]
async fn a_read_gives_what_it_can() {
    let (rig, mut c) = Rig::new().await;
    let ids = &rig.ids;
    c.insert(l2(ids, 1, 1)).await.unwrap();
    let entity = |entity| pb::Entity { entity };
    let request = pb::ReadRequest {
        device_id: DEVICE,
        entities: vec![
            entity(Some(all(ids))),
            entity(None),
            entity(Some(Entity::ExternEntry(Default::default()))),
            entity(Some(Entity::CounterEntry(pb::CounterEntry { counter_id: 1, ..Default::default() }))),
            entity(Some(all(ids))),
        ],
        ..Default::default()
    };
    let mut responses = c.client.read(request).await.unwrap().into_inner();
    let mut read = Vec::new();
    let status = loop {
        match responses.message().await {
            Ok(Some(response)) => read.extend(response.entities),
            Ok(None) => panic!("the read must fail in the end"),
            Err(status) => break status,
        }
    };
    assert_eq!(read, [entity(Some(l2(ids, 1, 1))), entity(Some(l2(ids, 1, 1)))]);
    let codes: Vec<_> = errors(&status).iter().map(|error| Code::from_i32(error.canonical_code)).collect();
    assert_eq!(codes, [Code::Ok, Code::InvalidArgument, Code::Ok, Code::InvalidArgument, Code::Ok]);
    let request = pb::ReadRequest { device_id: 1, ..Default::default() };
    let mut responses = c.client.read(request).await.unwrap().into_inner();
    assert_eq!(responses.message().await.unwrap_err().code(), Code::NotFound);
    rig.shut_down().await;
}

#[tokio::test]
async fn a_big_read_comes_in_pieces() {
    let (rig, mut c) = Rig::new().await;
    // 15 entries with 100 kB of metadata: more than one response, and none too large for a client.
    for mac in 0..15 {
        let Entity::TableEntry(entry) = l2(&rig.ids, mac, 1) else { unreachable!() };
        let entry = pb::TableEntry { metadata: vec![mac; 100_000], ..entry };
        c.insert(table_entry(entry)).await.unwrap();
    }
    let request = pb::ReadRequest {
        device_id: DEVICE,
        entities: vec![pb::Entity { entity: Some(all(&rig.ids)) }],
        ..Default::default()
    };
    let mut responses = c.client.read(request).await.unwrap().into_inner();
    let mut sizes = Vec::new();
    while let Some(response) = responses.message().await.unwrap() {
        sizes.push(response.entities.len());
    }
    assert_eq!(sizes, [11, 4]);
    rig.shut_down().await;
}

/// A refused update's message.
async fn why(c: &mut Controller, kind: Type, entity: Entity) -> String {
    c.write(kind, entity).await.expect_err("it is wrong").message
}

#[tokio::test]
async fn messages_say_once_what_they_are_about() {
    let (rig, mut c) = Rig::new().await;
    let ids = &rig.ids;
    let with = |act| pb::TableEntry {
        table_id: ids.table("l2"),
        r#match: vec![exact(1, &[1])],
        action: direct(act),
        ..Default::default()
    };
    let good = with(action(ids.action("forward"), &[&[1]]));
    let foreign = table_entry(with(action(ids.action("learn"), &[])));
    let unknown = table_entry(with(action(33_522_068, &[])));
    let keyless = table_entry(pb::TableEntry { r#match: vec![], ..good.clone() });
    let wrong_key = table_entry(pb::TableEntry { r#match: vec![lpm(1, &[1], 8)], ..good.clone() });
    let no_parameter = table_entry(with(action(ids.action("forward"), &[])));
    let ranked = table_entry(pb::TableEntry { priority: 1, ..good.clone() });
    let member = |profile, id, act| {
        Entity::ActionProfileMember(pb::ActionProfileMember {
            action_profile_id: profile,
            member_id: id,
            action: Some(action(act, &[])),
        })
    };
    let selector = ids.profile("balance");
    let group = Entity::ActionProfileGroup(pb::ActionProfileGroup {
        action_profile_id: selector,
        group_id: 9,
        ..Default::default()
    });
    let index = Some(pb::Index { index: 1 << 20 });
    let data = Some(pb::CounterData::default());
    let cell = Entity::CounterEntry(pb::CounterEntry { counter_id: ids.counter("ports"), index, data });
    let data = Some(pb::P4Data { data: Some(pb::p4_data::Data::Bitstring(vec![1])) });
    let seen = Entity::RegisterEntry(pb::RegisterEntry { register_id: ids.register("seen"), index, data });
    let digest = Entity::DigestEntry(pb::DigestEntry { digest_id: ids.digest("learn_t"), config: None });
    let direct_counter = |key: &[u8], table| {
        let table_entry =
            Some(pb::TableEntry { table_id: table, r#match: vec![exact(1, key)], ..Default::default() });
        Entity::DirectCounterEntry(pb::DirectCounterEntry {
            table_entry,
            data: Some(pb::CounterData::default()),
        })
    };
    for (name, kind, entity) in [
        ("In.l2", Type::Insert, foreign),
        ("In.l2", Type::Insert, unknown),
        ("In.l2", Type::Insert, keyless),
        ("In.l2", Type::Insert, wrong_key),
        ("In.l2", Type::Insert, no_parameter),
        ("In.l2", Type::Insert, ranked),
        ("In.l2", Type::Modify, table_entry(good.clone())),
        ("In.l2", Type::Delete, table_entry(good.clone())),
        ("In.l2", Type::Modify, direct_counter(&[1], ids.table("l2"))),
        ("In.balance", Type::Insert, member(selector, 1, 33_522_068)),
        ("In.balance", Type::Delete, member(selector, 77, ids.action("drop"))),
        ("In.balance", Type::Modify, group),
        ("In.ports", Type::Modify, cell),
        ("In.seen", Type::Modify, seen),
        ("learn_t", Type::Delete, digest),
    ] {
        let message = why(&mut c, kind, entity).await;
        assert_eq!(message.matches(name).count(), 1, "{name}: {message}");
    }
    let foreign = table_entry(with(action(ids.action("learn"), &[])));
    assert_eq!(
        why(&mut c, Type::Insert, foreign).await,
        "table 'In.l2': action 'In.learn' is none that it can have"
    );
    let gone = why(&mut c, Type::Delete, table_entry(good.clone())).await;
    assert_eq!(gone, "table 'In.l2': there is no entry with this key");
    let unknown = pb::TableEntry { table_id: 0x0200_0000, ..good };
    assert_eq!(
        why(&mut c, Type::Delete, table_entry(unknown)).await,
        "there is no table 33554432 (0x02000000) in P4Info"
    );
    let cell = Entity::CounterEntry(pb::CounterEntry { counter_id: ids.counter("ports"), index, data: None });
    assert_eq!(c.read_error(cell).await.message.matches("In.ports").count(), 1);
    rig.shut_down().await;
}
