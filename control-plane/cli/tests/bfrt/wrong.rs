//! The recorder notices what it is there for.

use super::files::{driver, program};
use super::server::Recorder;
use bf::update::Type;
use zsr_switch::bfrt::proto as bf;
use zsr_topology::Chip;

/// An entry of `routes`: its numbers are taken from the file by hand.
fn route(key: &[(u32, &[u8])], action: u32, data: &[(u32, &[u8])]) -> bf::TableEntry {
    let json: serde_json::Value = serde_json::from_str(&program(Chip::Tofino2)).unwrap();
    let table =
        json["tables"].as_array().unwrap().iter().find(|t| t["name"].as_str().unwrap().ends_with(".routes"));
    let table = table.unwrap();
    let own = table["action_specs"]
        .as_array()
        .unwrap()
        .iter()
        .find(|a| a["name"].as_str().unwrap().ends_with(".route"));
    let action_id = if action == 0 { own.unwrap()["id"].as_u64().unwrap() as u32 } else { action };
    let key = key.iter().map(|(field_id, value)| bf::KeyField {
        field_id: *field_id,
        match_type: Some(bf::key_field::MatchType::Exact(bf::key_field::Exact { value: value.to_vec() })),
    });
    let fields = data.iter().map(|(field_id, value)| bf::DataField {
        field_id: *field_id,
        value: Some(bf::data_field::Value::Stream(value.to_vec())),
    });
    bf::TableEntry {
        table_id: table["id"].as_u64().unwrap() as u32,
        value: Some(bf::table_entry::Value::Key(bf::TableKey { fields: key.collect() })),
        data: Some(bf::TableData { action_id, fields: fields.collect() }),
        ..Default::default()
    }
}

fn update(kind: Type, entry: bf::TableEntry) -> bf::Update {
    let entity = Some(bf::Entity { entity: Some(bf::entity::Entity::TableEntry(entry)) });
    bf::Update { r#type: kind.into(), entity }
}

#[test]
fn every_kind_of_fault_is_noticed() {
    let recorder = Recorder::new(&program(Chip::Tofino2), &driver(Chip::Tofino2));
    let right = || route(&[(1, &[0, 7])], 0, &[(1, &[1, 3])]);
    let mut state = recorder.state();
    assert_eq!(state.update(&update(Type::Insert, right())), Ok(()));
    for (kind, entry, part) in [
        (Type::Insert, right(), "is there already"),
        (Type::Insert, bf::TableEntry { table_id: 5, ..right() }, "no table has number 5"),
        (Type::Insert, route(&[(1, &[8])], 0, &[(1, &[1, 3])]), "has 16 bits"),
        (Type::Insert, route(&[], 0, &[(1, &[1, 3])]), "no key"),
        (Type::Insert, route(&[(1, &[0, 8]), (1, &[0, 9])], 0, &[(1, &[1, 3])]), "twice"),
        (Type::Insert, route(&[(1, &[0, 8]), (2, &[0, 9])], 0, &[(1, &[1, 3])]), "no key has number 2"),
        (Type::Insert, route(&[(1, &[0, 8])], 99, &[(1, &[1, 3])]), "no action has number 99"),
        (Type::Insert, route(&[(1, &[0, 8])], 0, &[]), "no datum `port`"),
        (Type::Insert, route(&[(1, &[0, 8])], 0, &[(1, &[2, 0])]), "has 9 bits"),
        (Type::Insert, route(&[(1, &[0, 8])], 0, &[(1, &[1, 3]), (2, &[1])]), "no datum number 2"),
        (Type::Modify, route(&[(1, &[0, 8])], 0, &[(1, &[1, 3])]), "is not there"),
        (Type::Delete, bf::TableEntry { data: None, ..route(&[(1, &[0, 8])], 0, &[]) }, "is not there"),
    ] {
        let found = state.update(&update(kind, entry)).expect_err(part);
        assert!(found.contains(part), "{found:?} lacks {part:?}");
    }
}
