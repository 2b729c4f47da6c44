//! Table entries: keys, priorities, defaults, const and initial entries, direct resources, idle timeouts.

use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::entity::Entity;
use tonic::Code;

use super::rig::*;

fn l2(ids: &Ids, mac: &[u8]) -> pb::TableEntry {
    pb::TableEntry {
        table_id: ids.table("l2"),
        r#match: vec![exact(1, mac)],
        action: direct(action(ids.action("forward"), &[&[3]])),
        ..Default::default()
    }
}

fn all(table_id: u32) -> Entity {
    table_entry(pb::TableEntry { table_id, ..Default::default() })
}

#[tokio::test]
async fn insert_modify_delete() {
    let (rig, mut c) = Rig::new().await;
    let ids = &rig.ids;
    #[allow(deprecated)]
    let mut entry =
        pb::TableEntry { controller_metadata: 77, metadata: b"a tag".to_vec(), ..l2(ids, &[1, 0]) };
    assert_eq!(code(c.modify(table_entry(entry.clone())).await), Code::NotFound);
    assert_eq!(code(c.delete(table_entry(entry.clone())).await), Code::NotFound);
    c.insert(table_entry(entry.clone())).await.unwrap();
    assert_eq!(code(c.insert(table_entry(entry.clone())).await), Code::AlreadyExists);
    assert_eq!(c.read(all(entry.table_id)).await, [table_entry(entry.clone())]);
    assert_eq!(rig.owner.inject(1, 1, ethernet(0x100, 1, 1)).await[0].0, 3);

    // Not setting the action leaves it; everything else is assigned.
    let kept = entry.action.take();
    entry.metadata = Vec::new();
    c.modify(table_entry(entry.clone())).await.unwrap();
    entry.action = kept;
    assert_eq!(c.read(all(entry.table_id)).await, [table_entry(entry.clone())]);
    entry.action = direct(action(ids.action("drop"), &[]));
    c.modify(table_entry(entry.clone())).await.unwrap();
    assert!(rig.owner.inject(1, 1, ethernet(0x100, 1, 1)).await.is_empty());

    // DELETE looks at nothing but the key.
    entry.action = direct(action(99, &[&[]]));
    entry.idle_timeout_ns = -1;
    c.delete(table_entry(entry.clone())).await.unwrap();
    assert!(c.read(all(entry.table_id)).await.is_empty());
    rig.shut_down().await;
}

#[tokio::test]
async fn reads_give_canonical_strings() {
    let (rig, mut c) = Rig::new().await;
    let ids = &rig.ids;
    let mut entry = l2(ids, &[0, 0, 0, 0, 0, 0, 0, 5]);
    entry.action = direct(action(ids.action("forward"), &[&[0, 0, 3]]));
    c.insert(table_entry(entry)).await.unwrap();
    assert_eq!(c.read(all(ids.table("l2"))).await, [table_entry(l2(ids, &[5]))]);
    assert_eq!(code(c.insert(table_entry(l2(ids, &[0, 5]))).await), Code::AlreadyExists, "the same value");

    for (name, value, port) in [("forward_named", &b"17"[..], 17), ("forward_wide", &[0x11][..], 17)] {
        let mut entry = l2(ids, &[6]);
        entry.action = direct(action(ids.action(name), &[value]));
        c.insert(table_entry(entry.clone())).await.unwrap();
        let mut filter = entry.clone();
        filter.action = None;
        assert_eq!(c.read(table_entry(filter)).await, [table_entry(entry.clone())]);
        assert_eq!(rig.owner.inject(1, 1, ethernet(6, 1, 1)).await[0].0, port);
        c.delete(table_entry(entry)).await.unwrap();
    }
    rig.shut_down().await;
}

#[tokio::test]
async fn malformed_entries() {
    let (rig, mut c) = Rig::new().await;
    let ids = &rig.ids;
    let good = || l2(ids, &[1]);
    let forward = ids.action("forward");
    let cases: Vec<(&str, pb::TableEntry, Code)> = vec![
        ("no table", pb::TableEntry { table_id: 0, ..good() }, Code::InvalidArgument),
        ("unknown table", pb::TableEntry { table_id: 5, ..good() }, Code::InvalidArgument),
        ("no key", pb::TableEntry { r#match: vec![], ..good() }, Code::InvalidArgument),
        ("unknown field", pb::TableEntry { r#match: vec![exact(2, &[1])], ..good() }, Code::InvalidArgument),
        ("too wide", pb::TableEntry { r#match: vec![exact(1, &[1; 7])], ..good() }, Code::OutOfRange),
        ("empty", pb::TableEntry { r#match: vec![exact(1, &[])], ..good() }, Code::OutOfRange),
        ("wrong kind", pb::TableEntry { r#match: vec![lpm(1, &[1], 3)], ..good() }, Code::InvalidArgument),
        ("priority", pb::TableEntry { priority: 1, ..good() }, Code::InvalidArgument),
        ("no action", pb::TableEntry { action: None, ..good() }, Code::InvalidArgument),
        (
            "empty action",
            pb::TableEntry { action: Some(Default::default()), ..good() },
            Code::InvalidArgument,
        ),
        ("member", pb::TableEntry { action: as_member(1), ..good() }, Code::InvalidArgument),
        (
            "foreign action",
            pb::TableEntry { action: direct(action(ids.action("learn"), &[])), ..good() },
            Code::InvalidArgument,
        ),
        (
            "no parameter",
            pb::TableEntry { action: direct(action(forward, &[])), ..good() },
            Code::InvalidArgument,
        ),
        (
            "extra parameter",
            pb::TableEntry { action: direct(action(forward, &[&[1], &[1]])), ..good() },
            Code::InvalidArgument,
        ),
        (
            "wide parameter",
            pb::TableEntry { action: direct(action(forward, &[&[2, 0]])), ..good() },
            Code::OutOfRange,
        ),
        ("is_const", pb::TableEntry { is_const: true, ..good() }, Code::InvalidArgument),
        ("meter", pb::TableEntry { meter_config: Some(Default::default()), ..good() }, Code::InvalidArgument),
        ("negative idle", pb::TableEntry { idle_timeout_ns: -1, ..good() }, Code::InvalidArgument),
        (
            "written hit",
            pb::TableEntry { time_since_last_hit: Some(Default::default()), ..good() },
            Code::InvalidArgument,
        ),
        (
            "no idle",
            pb::TableEntry { idle_timeout_ns: 1, ..lpm_entry(ids, &[10, 0, 0, 0], 8) },
            Code::InvalidArgument,
        ),
        ("trailing bits", lpm_entry(ids, &[10, 0, 0, 1], 8), Code::InvalidArgument),
        ("prefix 0", lpm_entry(ids, &[0], 0), Code::InvalidArgument),
        (
            "keyless",
            pb::TableEntry { table_id: ids.table("keyless"), r#match: vec![], ..good() },
            Code::InvalidArgument,
        ),
    ];
    for (what, entry, expected) in cases {
        let error = c.insert(table_entry(entry)).await.expect_err(what);
        assert_eq!(Code::from_i32(error.canonical_code), expected, "{what}: {}", error.message);
        assert!(!error.message.is_empty());
    }
    assert!(c.read(all(0)).await.iter().all(|entity| match entity {
        Entity::TableEntry(entry) => [ids.table("fixed"), ids.table("initial")].contains(&entry.table_id),
        _ => false,
    }));
    rig.shut_down().await;
}

fn lpm_entry(ids: &Ids, value: &[u8], prefix: i32) -> pb::TableEntry {
    pb::TableEntry {
        table_id: ids.table("routes"),
        r#match: vec![lpm(1, value, prefix)],
        action: direct(action(ids.action("route"), &[&[4]])),
        ..Default::default()
    }
}

#[tokio::test]
async fn priorities_and_fields_that_match_anything() {
    let (rig, mut c) = Rig::new().await;
    let ids = &rig.ids;
    let acl = |priority, fields: Vec<pb::FieldMatch>, port: u8| pb::TableEntry {
        table_id: ids.table("acl"),
        r#match: fields,
        priority,
        action: direct(action(ids.action("hit"), &[&[port]])),
        ..Default::default()
    };
    let any = acl(1, vec![exact(4, &[0])], 10);
    let some = acl(2, vec![ternary(1, &[0x12, 0], &[0xff, 0]), exact(4, &[0])], 11);
    let port = acl(3, vec![optional(2, &[5]), range(3, &[0], &[9]), exact(4, &[0])], 12);
    assert_eq!(code(c.insert(table_entry(acl(0, vec![exact(4, &[0])], 1))).await), Code::InvalidArgument);
    assert_eq!(code(c.insert(table_entry(acl(-1, vec![exact(4, &[0])], 1))).await), Code::InvalidArgument);
    for entry in [&any, &some, &port] {
        c.insert(table_entry(entry.clone())).await.unwrap();
    }
    // The same key with another priority is another entry.
    let again = acl(7, vec![ternary(1, &[0x12, 0], &[0xff, 0]), exact(4, &[0])], 13);
    c.insert(table_entry(again.clone())).await.unwrap();
    assert_eq!(rig.owner.inject(1, 1, ethernet(1, 1, 0x3456)).await[0].0, 10);
    assert_eq!(rig.owner.inject(1, 5, ethernet(1, 1, 0x3456)).await[0].0, 12);
    assert_eq!(rig.owner.inject(1, 5, ethernet(1, 1, 0x1234)).await[0].0, 13);

    let read = c.read(all(ids.table("acl"))).await;
    for entry in [&any, &some, &port, &again] {
        assert!(read.contains(&table_entry(entry.clone())), "{entry:?} not in {read:?}");
    }
    let by_priority = pb::TableEntry { table_id: ids.table("acl"), priority: 3, ..Default::default() };
    assert_eq!(c.read(table_entry(by_priority)).await, [table_entry(port)]);
    let by_key = pb::TableEntry { action: None, priority: 0, ..again.clone() };
    assert_eq!(c.read(table_entry(by_key)).await.len(), 2);
    let by_both = pb::TableEntry { action: None, ..again.clone() };
    assert_eq!(c.read(table_entry(by_both)).await, [table_entry(again)]);
    rig.shut_down().await;
}

#[tokio::test]
async fn wildcard_reads_and_filters() {
    let (rig, mut c) = Rig::new().await;
    let ids = &rig.ids;
    let tagged = pb::TableEntry { metadata: b"x".to_vec(), ..l2(ids, &[1]) };
    let drop = pb::TableEntry { action: direct(action(ids.action("drop"), &[])), ..l2(ids, &[2]) };
    for entry in [&tagged, &drop, &lpm_entry(ids, &[10, 0, 0, 0], 8)] {
        c.insert(table_entry(entry.clone())).await.unwrap();
    }
    assert_eq!(c.read(all(0)).await.len(), 3 + 2 + 2, "const and initial entries too");
    let table_id = ids.table("l2");
    let by_metadata = pb::TableEntry { table_id, metadata: b"x".to_vec(), ..Default::default() };
    assert_eq!(c.read(table_entry(by_metadata)).await, [table_entry(tagged)]);
    let by_action = direct(pb::Action { action_id: ids.action("drop"), ..Default::default() });
    let by_action = pb::TableEntry { table_id, action: by_action, ..Default::default() };
    assert_eq!(c.read(table_entry(by_action)).await, [table_entry(drop)]);
    let absent = pb::TableEntry { table_id, r#match: vec![exact(1, &[9])], ..Default::default() };
    assert!(c.read(table_entry(absent)).await.is_empty());

    for (what, entry) in [
        ("unknown table", pb::TableEntry { table_id: 1, ..Default::default() }),
        ("filter on all", pb::TableEntry { priority: 1, ..Default::default() }),
        ("bad key", pb::TableEntry { table_id, r#match: vec![exact(7, &[1])], ..Default::default() }),
    ] {
        let error = c.read_error(table_entry(entry)).await;
        assert_eq!(Code::from_i32(error.canonical_code), Code::InvalidArgument, "{what}");
    }
    rig.shut_down().await;
}

#[tokio::test]
async fn default_entries() {
    let (rig, mut c) = Rig::new().await;
    let ids = &rig.ids;
    let of = |table: &str, action| pb::TableEntry {
        table_id: ids.table(table),
        is_default_action: true,
        action,
        ..Default::default()
    };
    let drop = direct(action(ids.action("drop"), &[]));
    let forward = direct(action(ids.action("forward"), &[&[8]]));
    assert_eq!(c.read(table_entry(of("l2", None))).await, [table_entry(of("l2", drop.clone()))]);
    let changed = pb::TableEntry { metadata: b"m".to_vec(), ..of("l2", forward.clone()) };
    c.modify(table_entry(changed.clone())).await.unwrap();
    assert_eq!(c.read(table_entry(of("l2", None))).await, [table_entry(changed)]);
    assert_eq!(rig.owner.inject(1, 1, ethernet(1, 1, 1)).await[0].0, 8);
    c.modify(table_entry(of("l2", None))).await.unwrap();
    assert_eq!(
        c.read(table_entry(of("l2", None))).await,
        [table_entry(of("l2", drop.clone()))],
        "as in the program"
    );

    let no_action = direct(action(ids.action("NoAction"), &[]));
    let read = c.read(table_entry(of("routes", None))).await;
    assert_eq!(read, [table_entry(pb::TableEntry { is_const: true, ..of("routes", no_action.clone()) })]);
    assert_eq!(
        c.read(table_entry(pb::TableEntry { is_default_action: true, ..Default::default() })).await.len(),
        10
    );

    let cases = [
        ("insert", c.insert(table_entry(of("l2", forward.clone()))).await, Code::InvalidArgument),
        ("delete", c.delete(table_entry(of("l2", None))).await, Code::InvalidArgument),
        ("const", c.modify(table_entry(of("routes", no_action.clone()))).await, Code::PermissionDenied),
        ("indirect", c.modify(table_entry(of("indirect", no_action))).await, Code::PermissionDenied),
        (
            "match",
            c.modify(table_entry(pb::TableEntry { r#match: vec![exact(1, &[1])], ..of("l2", drop.clone()) }))
                .await,
            Code::InvalidArgument,
        ),
        (
            "priority",
            c.modify(table_entry(pb::TableEntry { priority: 1, ..of("l2", drop.clone()) })).await,
            Code::InvalidArgument,
        ),
        (
            "idle",
            c.modify(table_entry(pb::TableEntry { idle_timeout_ns: 5, ..of("l2", drop) })).await,
            Code::InvalidArgument,
        ),
    ];
    for (what, outcome, expected) in cases {
        assert_eq!(code(outcome), expected, "{what}");
    }

    // Scopes: hit is for entries only, miss for the default only.
    let hit = direct(action(ids.action("hit"), &[&[1]]));
    assert_eq!(code(c.modify(table_entry(of("acl", hit))).await), Code::PermissionDenied);
    let miss = pb::TableEntry {
        table_id: ids.table("acl"),
        r#match: vec![exact(4, &[1])],
        priority: 1,
        action: direct(action(ids.action("miss"), &[])),
        ..Default::default()
    };
    assert_eq!(code(c.insert(table_entry(miss)).await), Code::PermissionDenied);
    rig.shut_down().await;
}

#[tokio::test]
async fn const_and_initial_entries() {
    let (rig, mut c) = Rig::new().await;
    let ids = &rig.ids;
    let fixed = ids.table("fixed");
    let first = pb::TableEntry {
        table_id: fixed,
        r#match: vec![ternary(1, &[0x88, 0xb5], &[0xff, 0xff])],
        priority: 2,
        action: direct(action(ids.action("forward"), &[&[5]])),
        is_const: true,
        ..Default::default()
    };
    let second = pb::TableEntry {
        r#match: vec![ternary(1, &[0x88, 0], &[0xff, 0])],
        priority: 1,
        action: direct(action(ids.action("drop"), &[])),
        ..first.clone()
    };
    assert_eq!(c.read(all(fixed)).await, [table_entry(first.clone()), table_entry(second)]);
    let mut new = pb::TableEntry { is_const: false, ..first.clone() };
    assert_eq!(code(c.delete(table_entry(new.clone())).await), Code::PermissionDenied);
    assert_eq!(code(c.modify(table_entry(new.clone())).await), Code::PermissionDenied);
    let tagged = pb::TableEntry { action: None, metadata: vec![1], ..new.clone() };
    assert_eq!(code(c.modify(table_entry(tagged)).await), Code::PermissionDenied);
    let untouched = pb::TableEntry { action: None, ..new.clone() };
    assert_eq!(code(c.modify(table_entry(untouched)).await), Code::Ok, "changes nothing");
    new.r#match = vec![ternary(1, &[1], &[0xff])];
    assert_eq!(code(c.insert(table_entry(new)).await), Code::PermissionDenied);

    let initial = ids.table("initial");
    let entry = |kind: &[u8], port: &[u8]| pb::TableEntry {
        table_id: initial,
        r#match: vec![exact(1, kind)],
        action: direct(action(ids.action("forward"), &[port])),
        ..Default::default()
    };
    let (one, two) = (entry(&[0x11, 0x11], &[1]), entry(&[0x22, 0x22], &[2]));
    assert_eq!(c.read(all(initial)).await, [table_entry(one.clone()), table_entry(two.clone())]);
    let changed = entry(&[0x22, 0x22], &[9]);
    c.modify(table_entry(changed.clone())).await.unwrap();
    c.delete(table_entry(one)).await.unwrap();
    assert_eq!(c.read(all(initial)).await, [table_entry(changed)]);
    c.insert(table_entry(entry(&[0x33], &[3]))).await.unwrap();
    rig.shut_down().await;
}

#[tokio::test]
async fn direct_counters_and_meters() {
    let (rig, mut c) = Rig::new().await;
    let ids = &rig.ids;
    let data = |packet_count, byte_count| Some(pb::CounterData { packet_count, byte_count });
    let entry = pb::TableEntry { counter_data: data(5, 500), ..l2(ids, &[1]) };
    c.insert(table_entry(entry)).await.unwrap();
    let plain = l2(ids, &[1]);
    rig.owner.inject(1, 1, ethernet(1, 1, 1)).await;
    let counted = pb::TableEntry { counter_data: data(6, 560), ..plain.clone() };
    let with_counter = pb::TableEntry { action: None, counter_data: data(0, 0), ..plain.clone() };
    assert_eq!(c.read(table_entry(with_counter.clone())).await, [table_entry(counted)]);
    assert_eq!(c.read(all(plain.table_id)).await, [table_entry(plain.clone())], "only where it is asked for");

    let key =
        pb::TableEntry { table_id: plain.table_id, r#match: plain.r#match.clone(), ..Default::default() };
    let direct_counter =
        |table_entry, data| Entity::DirectCounterEntry(pb::DirectCounterEntry { table_entry, data });
    let expected = direct_counter(Some(key.clone()), data(6, 560));
    for wanted in [
        Some(key.clone()),
        Some(pb::TableEntry { table_id: key.table_id, ..Default::default() }),
        Some(Default::default()),
        None,
    ] {
        assert_eq!(c.read(direct_counter(wanted, None)).await, std::slice::from_ref(&expected));
    }
    c.modify(direct_counter(Some(key.clone()), data(1, 2))).await.unwrap();
    c.modify(direct_counter(Some(key.clone()), None)).await.unwrap();
    assert_eq!(
        c.read(direct_counter(Some(key.clone()), None)).await,
        [direct_counter(Some(key.clone()), data(1, 2))]
    );
    // MODIFY of the entry leaves a counter that it does not name.
    c.modify(table_entry(plain.clone())).await.unwrap();
    assert_eq!(
        c.read(direct_counter(Some(key.clone()), None)).await,
        [direct_counter(Some(key.clone()), data(1, 2))]
    );

    let absent = pb::TableEntry { r#match: vec![exact(1, &[9])], ..key.clone() };
    assert_eq!(
        c.read_error(direct_counter(Some(absent.clone()), None)).await.canonical_code,
        Code::NotFound as i32
    );
    assert_eq!(code(c.modify(direct_counter(Some(absent), data(1, 1))).await), Code::NotFound);
    assert_eq!(code(c.insert(direct_counter(Some(key.clone()), data(1, 1))).await), Code::InvalidArgument);
    assert_eq!(code(c.delete(direct_counter(Some(key.clone()), None)).await), Code::InvalidArgument);
    assert_eq!(code(c.modify(direct_counter(Some(key.clone()), data(-1, 0))).await), Code::InvalidArgument);
    assert_eq!(code(c.modify(direct_counter(None, data(1, 0))).await), Code::InvalidArgument);
    let none = pb::TableEntry { table_id: ids.table("smac"), ..Default::default() };
    assert_eq!(
        c.read_error(direct_counter(Some(none), None)).await.canonical_code,
        Code::InvalidArgument as i32
    );

    // The meter: one packet per second is green, the next one is not.
    let config = Some(pb::MeterConfig { cir: 1, cburst: 1, pir: 1, pburst: 1, eburst: 0 });
    let route = lpm_entry(ids, &[10, 0, 0, 0], 8);
    c.insert(table_entry(pb::TableEntry { meter_config: config, ..route.clone() })).await.unwrap();
    let key =
        pb::TableEntry { table_id: route.table_id, r#match: route.r#match.clone(), ..Default::default() };
    let direct_meter = |table_entry, config| {
        Entity::DirectMeterEntry(pb::DirectMeterEntry { table_entry, config, counter_data: None })
    };
    assert_eq!(
        c.read(direct_meter(Some(key.clone()), None)).await,
        [direct_meter(Some(key.clone()), config)]
    );
    let with_meter = pb::TableEntry { action: None, meter_config: Some(Default::default()), ..route.clone() };
    let expected = pb::TableEntry { meter_config: config, ..route.clone() };
    assert_eq!(c.read(table_entry(with_meter.clone())).await, [table_entry(expected)]);
    // MODIFY without a configuration resets it, and the default is not shown.
    c.modify(table_entry(route.clone())).await.unwrap();
    assert_eq!(c.read(table_entry(with_meter)).await, [table_entry(route)]);
    c.modify(direct_meter(Some(key.clone()), config)).await.unwrap();
    c.modify(direct_meter(Some(key.clone()), None)).await.unwrap();
    assert_eq!(c.read(direct_meter(Some(key.clone()), None)).await, [direct_meter(Some(key.clone()), None)]);
    for bad in [
        pb::MeterConfig { cir: -1, ..Default::default() },
        pb::MeterConfig { cir: 5, pir: 1, ..Default::default() },
        pb::MeterConfig { eburst: 1, ..Default::default() },
    ] {
        assert_eq!(code(c.modify(direct_meter(Some(key.clone()), Some(bad))).await), Code::InvalidArgument);
    }
    let colors = Entity::DirectMeterEntry(pb::DirectMeterEntry {
        table_entry: Some(key),
        config: None,
        counter_data: Some(Default::default()),
    });
    assert_eq!(code(c.modify(colors).await), Code::Unimplemented);
    rig.shut_down().await;
}

#[tokio::test]
async fn full_tables() {
    let (rig, mut c) = Rig::new().await;
    for n in 0..16 {
        c.insert(table_entry(l2(&rig.ids, &[n]))).await.unwrap();
    }
    assert_eq!(code(c.insert(table_entry(l2(&rig.ids, &[16]))).await), Code::ResourceExhausted);
    rig.shut_down().await;
}

#[tokio::test]
async fn time_since_last_hit() {
    let (rig, mut c) = Rig::new().await;
    let ids = &rig.ids;
    c.insert(table_entry(l2(ids, &[1]))).await.unwrap();
    rig.owner.inject(1_000, 1, ethernet(1, 1, 1)).await;
    rig.owner.inject(5_000, 1, ethernet(2, 1, 1)).await;
    let filter = pb::TableEntry {
        table_id: ids.table("l2"),
        time_since_last_hit: Some(Default::default()),
        ..Default::default()
    };
    let read = c.read(table_entry(filter.clone())).await;
    let Entity::TableEntry(entry) = &read[0] else { panic!("{read:?}") };
    assert_eq!(entry.time_since_last_hit, Some(pb::table_entry::IdleTimeout { elapsed_ns: 4_000 }));
    let none = pb::TableEntry { table_id: ids.table("routes"), ..filter.clone() };
    assert_eq!(c.read_error(table_entry(none)).await.canonical_code, Code::InvalidArgument as i32);
    assert_eq!(c.read(table_entry(pb::TableEntry { table_id: 0, ..filter })).await.len(), 5);
    rig.shut_down().await;
}
