//! Updates that are right or wrong in one place, by the names of tables and fields: what a driver says to each is in answers.json.

use super::check::{Table, Tables};
use super::held::entity;
use bf::data_field::Value;
use bf::entity::Entity;
use bf::update::Type;
use zsr_switch::bfrt::proto as bf;
use zsr_topology::Chip;

/// What is tried, and the updates of it, one Write each.
pub type Case = (&'static str, Vec<bf::Update>);

/// Entries of one table, its fields by name.
struct Rows<'a>(u32, &'a Table);

impl Rows<'_> {
    fn of<'a>(tables: &'a Tables, name: &str) -> Rows<'a> {
        let (id, table) = tables.named(name).unwrap_or_else(|| panic!("no table {name}"));
        Rows(id, table)
    }

    fn key(&self, fields: &[(&str, &[u8])]) -> bf::TableKey {
        let lacks = |name: &str| panic!("{}: no key {name}", self.1.name);
        let field = |(name, value): &(&str, &[u8])| {
            self.1.key_field(name, value.to_vec()).unwrap_or_else(|| lacks(name))
        };
        bf::TableKey { fields: fields.iter().map(field).collect() }
    }

    fn data(&self, action: &str, data: &[(&str, Value)]) -> bf::TableData {
        let action_id = self.1.action_number(action);
        let field = |(name, value): &(&str, Value)| bf::DataField {
            field_id: self.1.datum_number(action, name),
            value: Some(value.clone()),
        };
        bf::TableData { action_id, fields: data.iter().map(field).collect() }
    }

    fn update(&self, kind: Type, key: bf::TableKey, data: Option<bf::TableData>) -> bf::Update {
        let entry = bf::TableEntry {
            table_id: self.0,
            value: Some(bf::table_entry::Value::Key(key)),
            data,
            ..Default::default()
        };
        bf::Update { r#type: kind.into(), entity: Some(entity(entry)) }
    }
}

fn bytes(value: &[u8]) -> Value {
    Value::Stream(value.to_vec())
}

fn ints(all: &[u32]) -> Value {
    Value::IntArrVal(bf::data_field::IntArray { val: all.to_vec() })
}

fn word(text: &str) -> Value {
    Value::StrVal(text.into())
}

/// Of the program's tables.
fn of_program(tables: &Tables) -> Vec<Case> {
    let routes = Rows::of(tables, ".routes");
    let qp = "m.b.qp";
    let key = || routes.key(&[(qp, &[0, 7])]);
    let other = || routes.key(&[(qp, &[0, 8])]);
    let port = |value: &[u8]| Some(routes.data("route", &[("port", bytes(value))]));
    let insert = |key, data| vec![routes.update(Type::Insert, key, data)];
    let twice = {
        let mut key = other();
        key.fields.extend(other().fields);
        key
    };
    let renumbered = |field| {
        let mut key = other();
        key.fields[0].field_id = field;
        key
    };
    let data = |action_id, field| {
        let field = bf::DataField { field_id: field, value: Some(bytes(&[1, 3])) };
        Some(bf::TableData { action_id, fields: vec![field] })
    };
    let action = routes.1.action_number("route");
    let elsewhere = Rows(5, routes.1);
    vec![
        ("a new entry", insert(key(), port(&[1, 3]))),
        ("an entry that is there", insert(key(), port(&[1, 3]))),
        ("a new value", vec![routes.update(Type::Modify, key(), port(&[1, 4]))]),
        ("a new value of no entry", vec![routes.update(Type::Modify, other(), port(&[1, 4]))]),
        ("the end of no entry", vec![routes.update(Type::Delete, other(), None)]),
        ("the end of an entry", vec![routes.update(Type::Delete, key(), None)]),
        ("a table that is not there", vec![elsewhere.update(Type::Insert, other(), port(&[1, 3]))]),
        ("a key that is too short", insert(routes.key(&[(qp, &[8])]), port(&[1, 3]))),
        ("a key that is too long", insert(routes.key(&[(qp, &[0, 0, 8])]), port(&[1, 3]))),
        ("a key of another number", insert(renumbered(9), port(&[1, 3]))),
        (
            "a key twice",
            vec![
                routes.update(Type::Insert, twice, port(&[1, 3])),
                routes.update(Type::Delete, other(), None),
            ],
        ),
        ("an action that is not there", insert(other(), data(99, 1))),
        (
            "a datum too few",
            vec![
                routes.update(Type::Insert, other(), Some(routes.data("route", &[]))),
                routes.update(Type::Delete, other(), None),
            ],
        ),
        ("a datum that is too wide", insert(other(), port(&[2, 0]))),
        ("a datum that is too short", insert(other(), port(&[3]))),
        ("a datum of another number", insert(other(), data(action, 9))),
        (
            "an entry without data",
            vec![routes.update(Type::Insert, other(), None), routes.update(Type::Delete, other(), None)],
        ),
    ]
}

/// Of the ports that the parser of a Tofino 1 takes for loops.
fn of_parser(tables: &Tables) -> Vec<Case> {
    let loops = Rows::of(tables, "FoldParser.loops");
    let port = |masked: &[u8]| loops.key(&[("f1", masked)]);
    let update = |kind, key| vec![loops.update(kind, key, None)];
    let wide = || port(&[2, 8, 3, 255]);
    vec![
        ("a loop", update(Type::Insert, port(&[0, 152, 1, 255]))),
        ("a loop that is known", update(Type::Insert, port(&[0, 152, 1, 255]))),
        ("a loop of ten bits", [update(Type::Insert, wide()), update(Type::Delete, wide())].concat()),
        ("the end of a loop", update(Type::Delete, port(&[0, 152, 1, 255]))),
        ("the end of no loop", update(Type::Delete, port(&[0, 152, 1, 255]))),
    ]
}

/// Of the chip's own tables.
fn of_chip(tables: &Tables, chip: Chip) -> Vec<Case> {
    let prune = Rows::of(tables, "$pre.prune");
    let excluded = |id: u16| {
        let data = prune.data("", &[("$DEV_PORT", ints(&[8]))]);
        vec![prune.update(Type::Insert, prune.key(&[("$MULTICAST_L2_XID", &id.to_be_bytes())]), Some(data))]
    };
    let group = Rows::of(tables, "$pre.mgid");
    let node = Rows::of(tables, "$pre.node");
    let node_key = |id: u32| node.key(&[("$MULTICAST_NODE_ID", &id.to_be_bytes())]);
    let node_of = |port: u32| {
        let rid = ("$MULTICAST_RID", bytes(&[0, 1]));
        Some(node.data("", &[rid, ("$MULTICAST_LAG_ID", ints(&[])), ("$DEV_PORT", ints(&[port]))]))
    };
    let lists = |nodes: &[u32]| {
        let valid = Value::BoolArrVal(bf::data_field::BoolArray { val: vec![false; nodes.len()] });
        let zeros = ints(&vec![0; nodes.len()]);
        group.data(
            "",
            &[
                ("$MULTICAST_NODE_ID", ints(nodes)),
                ("$MULTICAST_NODE_L1_XID_VALID", valid),
                ("$MULTICAST_NODE_L1_XID", zeros),
            ],
        )
    };
    let group_key = || group.key(&[("$MGID", &[0x7f, 0])]);
    let gets = |nodes: &[u32]| group.update(Type::ModifyInc, group_key(), Some(lists(nodes)));
    let loses = |nodes: &[u32]| {
        let mut update = gets(nodes);
        if let Some(Entity::TableEntry(entry)) = update.entity.as_mut().and_then(|e| e.entity.as_mut()) {
            entry.table_flags = Some(bf::TableFlags { mod_del: true, ..Default::default() });
        }
        update
    };
    let session = Rows::of(tables, "$mirror.cfg");
    let mirror = |id: u16| {
        let data = session.data(
            "$normal",
            &[
                ("$session_enable", Value::BoolVal(true)),
                ("$direction", word("EGRESS")),
                ("$ucast_egress_port", bytes(&8u32.to_be_bytes())),
                ("$ucast_egress_port_valid", Value::BoolVal(true)),
                ("$max_pkt_len", bytes(&[0, 54])),
            ],
        );
        let key = || session.key(&[("$sid", &id.to_be_bytes())]);
        vec![session.update(Type::Insert, key(), Some(data)), session.update(Type::Delete, key(), None)]
    };
    let last = if chip == Chip::Tofino { 1015 } else { 255 };
    let port = Rows::of(tables, "$PORT");
    let made = |number: u32, speed: &str, lanes: u32, fec: &str| {
        let data = port.data(
            "",
            &[("$SPEED", word(speed)), ("$FEC", word(fec)), ("$N_LANES", bytes(&lanes.to_be_bytes()))],
        );
        let key = || port.key(&[("$DEV_PORT", &number.to_be_bytes())]);
        vec![port.update(Type::Insert, key(), Some(data)), port.update(Type::Delete, key(), None)]
    };
    let (none, rs, fc) = ("BF_FEC_TYP_NONE", "BF_FEC_TYP_REED_SOLOMON", "BF_FEC_TYP_FIRECODE");
    vec![
        ("the last exclusion id", excluded(287)),
        ("an exclusion id that the chip has not", excluded(288)),
        (
            "a group of a node that is not there",
            vec![group.update(Type::Insert, group_key(), Some(lists(&[9])))],
        ),
        ("a node", vec![node.update(Type::Insert, node_key(0x7f0_0001), node_of(8))]),
        ("a node that is there", vec![node.update(Type::Insert, node_key(0x7f0_0001), node_of(8))]),
        (
            "a node at a port that the chip has not",
            vec![node.update(Type::Insert, node_key(0x7f0_0002), node_of(600))],
        ),
        ("a group", vec![group.update(Type::Insert, group_key(), Some(lists(&[0x7f0_0001])))]),
        (
            "a group that gets a node",
            vec![node.update(Type::Insert, node_key(0x7f0_0003), node_of(9)), gets(&[0x7f0_0003])],
        ),
        ("a group that gets a node that it has", vec![gets(&[0x7f0_0003])]),
        ("a group that gets a node that is not there", vec![gets(&[9])]),
        (
            "a group that loses a node",
            vec![loses(&[0x7f0_0003]), node.update(Type::Delete, node_key(0x7f0_0003), None)],
        ),
        ("a group that loses a node that it has not", vec![loses(&[9])]),
        ("the end of a group", vec![group.update(Type::Delete, group_key(), None)]),
        ("the end of a node", vec![node.update(Type::Delete, node_key(0x7f0_0001), None)]),
        ("the last mirror session", mirror(last)),
        ("a mirror session that the chip has not", mirror(last + 1)),
        ("a port", made(60, "BF_SPEED_100G", 4, rs)),
        ("a port that begins in the middle of another", made(57, "BF_SPEED_100G", 4, rs)),
        ("a port with an error correction that it can't have", made(60, "BF_SPEED_100G", 4, fc)),
        ("a port with too few lanes", made(60, "BF_SPEED_100G", 1, rs)),
        ("a port of two lanes", made(58, "BF_SPEED_50G", 2, none)),
        ("a port of 200 Gbit/s", made(60, "BF_SPEED_200G", 4, rs)),
        ("a port of 200 Gbit/s without error correction", made(60, "BF_SPEED_200G", 4, none)),
        ("a port of a speed that nothing has", made(60, "BF_SPEED_7G", 4, rs)),
    ]
}

/// All of them, in order: some need what earlier ones have made.
pub fn all(tables: &Tables, chip: Chip) -> Vec<Case> {
    let of_parser = if chip == Chip::Tofino { of_parser(tables) } else { Vec::new() };
    of_program(tables).into_iter().chain(of_parser).chain(of_chip(tables, chip)).collect()
}
