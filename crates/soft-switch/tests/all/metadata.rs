//! Metadata as p4c makes it: varbits that a hash reads, headers of the user's; and other constructs that no committed
//! program has. Each test edits `headers.json` in the form that p4c-bm2-ss writes.

use crate::support::Bench;
use serde_json::{Value, json};
use zsr_link::Node;
use zsr_soft_switch::*;
use zsr_wire::frame::{Frame, FramePool};

const RESULT: usize = 16 + 16 + 4 + 2 + 2 + 1 + 8 + 4;

/// `headers.json` after `edit`.
fn edited(edit: impl FnOnce(&mut Value)) -> Result<Program, LoadError> {
    Program::from_json(&text_edited(edit))
}

fn text_edited(edit: impl FnOnce(&mut Value)) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/headers.json");
    let mut program = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    edit(&mut program);
    program.to_string()
}

/// The frames that leave, the same from machine code and interpreted.
fn send(program: &Program, bytes: &[u8]) -> Vec<u8> {
    let run = |interpret| {
        let config = SwitchConfig { interpret, ..SwitchConfig::default() };
        let mut bench = Bench::of(program, config);
        let mut out = bench.send(1, bytes);
        assert_eq!(out.len(), 1);
        out.remove(0).1
    };
    let out = run(false);
    assert_eq!(out, run(true), "interpreted");
    out
}

fn list<'v>(value: &'v mut Value, key: &str) -> &'v mut Vec<Value> {
    value[key].as_array_mut().unwrap()
}

/// The primitives of the action that every packet runs first.
fn first_action(program: &mut Value) -> &mut Vec<Value> {
    let action = list(program, "actions").iter_mut().find(|a| a["name"] == "headers44");
    list(action.unwrap(), "primitives")
}

fn header(name: &str) -> Value {
    json!({"type": "header", "value": name})
}

fn field(header: &str, field: &str) -> Value {
    json!({"type": "field", "value": [header, field]})
}

fn primitive(op: &str, parameters: impl Into<Vec<Value>>) -> Value {
    json!({"op": op, "parameters": parameters.into()})
}

/// A label in metadata.
fn add_aside(program: &mut Value) {
    list(program, "headers").push(
        json!({"name": "aside", "id": 20, "header_type": "label_t", "metadata": true, "pi_omit": true}),
    );
}

#[test]
fn a_hash_over_a_varbit_takes_its_bytes() {
    let targets = [
        ("crc32", "slice"),
        ("crc32_custom", "err"),
        ("crc16", "cmp"),
        ("csum16", "sub"),
        ("xor16", "shifted"),
        ("identity", "mul"),
    ];
    let program = edited(|p| {
        let copy = json!({"name": "$varbit320", "id": 20, "fields": [["field", "*"]], "max_length": 40});
        list(p, "header_types").push(copy);
        list(p, "headers").push(
            json!({"name": "tmp_4", "id": 20, "header_type": "$varbit320", "metadata": true, "pi_omit": true}),
        );
        first_action(p).extend([
            primitive("add_header", [header("r")]),
            primitive("assign_VL", [field("tmp_4", "field"), field("opt", "data")]),
        ]);
        for (n, (algo, target)) in targets.into_iter().enumerate() {
            let name = format!("calc_of_{algo}");
            let input = [field("tmp_4", "field")];
            list(p, "calculations").push(json!({"name": name, "id": 10 + n, "algo": algo, "input": input}));
            let zero = json!({"type": "hexstr", "value": "0x00"});
            let calculation = json!({"type": "calculation", "value": name});
            let all = json!({"type": "hexstr", "value": "0x8000000000000000"});
            first_action(p).push(primitive(
                "modify_field_with_hash_based_offset",
                [field("r", target), zero, calculation, all],
            ));
        }
    });
    let program = program.unwrap();
    // CRC-32 as bmv2 gives it. The others by hand: CRC-16/ARC, RFC 1071, the XOR of the words, the bytes themselves.
    for (data, crc32, crc16, csum, xor, identity) in [
        (&[1, 2, 3, 4][..], 0xb63c_fbcd_u32, 0x0fa1_u16, 0xfbf9_u16, 0x0206_u16, 0x0102_0304_u64),
        (&[], 0, 0, 0xffff, 0, 0),
        (b"123456789", 0xcbf4_3926, 0xbb3d, 0xf62a, 0x3908, 0x3132_3334_3536_3738),
    ] {
        let packet = [&[2, 0, 0, 0, data.len() as u8], data, b"rest"].concat();
        let out = send(&program, &packet);
        let r = &out[5 + data.len()..][..RESULT];
        let at = |at: usize, n: usize| r[at..at + n].iter().fold(0u64, |v, b| v << 8 | u64::from(*b));
        let got = [at(32, 4), at(49, 4), at(36, 2), at(38, 2), at(8, 8), at(41, 8)];
        let [crc16, csum, xor] = [crc16, csum, xor].map(u64::from);
        assert_eq!(got, [crc32.into(), crc32.into(), crc16, csum, xor, identity], "{data:x?}: {got:x?}");
    }
}

#[test]
fn a_varbit_of_the_users_metadata_is_named_by_its_header() {
    let program = edited(|p| {
        let copy =
            json!({"name": "struct$varbit320", "id": 20, "fields": [["field", "*"]], "max_length": 40});
        list(p, "header_types").push(copy);
        list(p, "headers").push(
            json!({"name": "kept", "id": 20, "header_type": "struct$varbit320", "metadata": true, "pi_omit": true}),
        );
        let equal = json!({"type": "expression", "value": {"op": "==", "left": header("kept"), "right": field("opt", "data")}});
        let input = [header("kept")];
        list(p, "calculations").push(json!({"name": "of_kept", "id": 10, "algo": "crc32", "input": input}));
        let zero = json!({"type": "hexstr", "value": "0x00"});
        let calculation = json!({"type": "calculation", "value": "of_kept"});
        let all = json!({"type": "hexstr", "value": "0x100000000"});
        first_action(p).extend([
            primitive("add_header", [header("r")]),
            primitive("assign", [field("r", "cmp"), equal.clone()]),
            primitive("assign_VL", [header("kept"), field("opt", "data")]),
            primitive("assign", [field("r", "sat"), equal]),
            primitive("modify_field_with_hash_based_offset", [field("r", "slice"), zero, calculation, all]),
        ]);
    });
    let out = send(&program.unwrap(), &[2, 0, 0, 0, 4, 1, 2, 3, 4]);
    let r = &out[9..];
    assert_eq!((&r[36..38], r[40]), (&[0, 0][..], 1), "equal once it was copied");
    assert_eq!(r[32..36], 0xb63c_fbcd_u32.to_be_bytes());
}

#[test]
fn a_header_in_metadata_has_its_validity() {
    let labels = [1, 0, 0, 0, 0, 0, 0x10, 9, 0, 0, 0x21, 8, b'x'];
    let [a, b] = [[0, 0, 0x10, 9], [0, 0, 0x21, 8]];
    let run = |primitives: Vec<Value>| {
        let program = edited(|p| {
            add_aside(p);
            first_action(p).extend(primitives);
        });
        send(&program.unwrap(), &labels)
    };
    let copy = |to, from| primitive("assign_header", [header(to), header(from)]);
    let bytes = |list: &[[u8; 4]]| [&labels[..4], &list.concat(), b"x"].concat();
    assert_eq!(run(vec![copy("labels[0]", "aside")]), bytes(&[b]), "it was never made valid");
    let there_and_back = vec![copy("aside", "labels[1]"), copy("labels[0]", "aside")];
    assert_eq!(run(there_and_back), bytes(&[b, b]));
    let gone = vec![
        copy("aside", "labels[0]"),
        primitive("remove_header", [header("aside")]),
        copy("labels[1]", "aside"),
    ];
    assert_eq!(run(gone), bytes(&[a]));
    let fresh = vec![primitive("add_header", [header("aside")]), copy("labels[0]", "aside")];
    assert_eq!(run(fresh), bytes(&[[0; 4], b]));
}

#[test]
fn a_header_in_metadata_is_no_part_of_the_packets_length() {
    let length = |primitives: Vec<Value>| {
        let program = edited(|p| {
            add_aside(p);
            first_action(p).push(primitive("add_header", [header("r")]));
            first_action(p).extend(primitives);
            let tell = [field("r", "err"), field("standard_metadata", "packet_length")];
            list(p, "actions").push(json!({"name": "tell", "id": 90, "runtime_data": [],
                "primitives": [primitive("assign", tell)]}));
            let mut table = p["pipelines"][0]["tables"][0].clone();
            table["name"] = json!("tbl_tell");
            table["id"] = json!(90);
            (table["action_ids"], table["actions"]) = (json!([90]), json!(["tell"]));
            (table["next_tables"], table["base_default_next"]) = (json!({"tell": null}), Value::Null);
            table["default_entry"]["action_id"] = json!(90);
            p["pipelines"][1]["init_table"] = json!("tbl_tell");
            p["pipelines"][1]["tables"] = json!([table]);
        });
        let out = send(&program.unwrap(), &[5, 0, 0, 0, 1, 2, 3, 4]);
        u32::from_be_bytes(out[out.len() - 4..].try_into().unwrap())
    };
    let plain = length(vec![]);
    assert_eq!(plain as usize, 8 + RESULT);
    let add = primitive("add_header", [header("aside")]);
    assert_eq!(length(vec![add.clone()]), plain);
    assert_eq!(length(vec![add, primitive("remove_header", [header("aside")])]), plain);
    let real = |op| primitive(op, [header("u.a")]);
    assert_eq!(length(vec![real("add_header")]), plain + 3, "one of the packet's is");
}

#[test]
fn a_select_by_the_index_of_the_last_element() {
    let key = |op: &str| {
        json!([field("first", "count"), {"type": "expression", "value": {"op": op, "left": null,
            "right": {"type": "header_stack", "value": "labels"}}}])
    };
    // With count 3 the parser stops behind the second label, else behind the third.
    let program = |op: &str| {
        edited(|p| {
            let states = list(&mut p["parsers"][0], "parse_states");
            let state = states.iter_mut().find(|s| s["name"] == "labels").unwrap();
            state["transition_key"] = key(op);
            let case = |value: &str, mask: Value, to: Value| json!({"type": "hexstr", "value": value, "mask": mask, "next_state": to});
            state["transitions"] = json!([
                case("0x0300000001", Value::Null, Value::Null),
                case("0x0000000002", json!("0x00ffffffff"), Value::Null),
                {"type": "default", "value": null, "mask": null, "next_state": "labels"},
            ]);
        })
    };
    let (a, b, c) = ([0, 0, 0, 1], [0, 0, 0, 2], [0, 0, 0, 3]);
    let packet = |head: [u8; 4], labels: &[[u8; 4]]| [&head[..], &labels.concat(), b"rest"].concat();
    let p = program("last_stack_index").unwrap();
    // The program changes labels[2].
    let two = packet([1, 3, 0, 2], &[a, b, c]);
    assert_eq!(send(&p, &two), two, "the third was not parsed, so it is no element of the stack");
    // The program takes away two labels, and adds a header where the parser had an error.
    assert_eq!(
        send(&p, &packet([1, 2, 0, 0], &[a, b, c])),
        packet([1, 2, 0, 0], &[c]),
        "it stops at index 2"
    );
    let Err(LoadError::Unsupported { what, .. }) = program("size_stack") else { panic!("refused") };
    assert!(what.contains("lastIndex"), "{what}");
}

/// An assertion that holds unless the packet's second byte is 7, in the form that p4c writes.
fn assertion() -> Value {
    let seven = json!({"type": "hexstr", "value": "0x07"});
    let test = json!({"op": "!=", "left": field("first", "count"), "right": seven});
    let mut assert = primitive("assert", [json!({"type": "expression", "value": test})]);
    assert["source_info"] =
        json!({"filename": "x.p4", "line": 7, "column": 4, "source_fragment": "assert(h.first.count != 7)"});
    assert
}

/// Each part of a program that can have one.
fn with_assertion(part: &str) -> Program {
    edited(|p| match part {
        "parser" => {
            let states = list(&mut p["parsers"][0], "parse_states");
            let state = states.iter_mut().find(|s| s["name"] == "start").unwrap();
            list(state, "parser_ops").push(json!({"op": "primitive", "parameters": [assertion()]}));
        }
        "ingress" => first_action(p).push(assertion()),
        "egress" => {
            list(p, "actions")
                .push(json!({"name": "tell", "id": 90, "runtime_data": [], "primitives": [assertion()]}));
            let mut table = p["pipelines"][0]["tables"][0].clone();
            (table["name"], table["id"]) = (json!("tbl_tell"), json!(90));
            (table["action_ids"], table["actions"]) = (json!([90]), json!(["tell"]));
            (table["next_tables"], table["base_default_next"]) = (json!({"tell": null}), Value::Null);
            table["default_entry"]["action_id"] = json!(90);
            p["pipelines"][1]["init_table"] = json!("tbl_tell");
            p["pipelines"][1]["tables"] = json!([table]);
        }
        _ => p["deparsers"][0]["primitives"] = json!([assertion()]),
    })
    .unwrap()
}

#[test]
fn a_failed_assertion_is_told_and_drops_the_packet_if_asked() {
    const SECOND: u64 = 1_000_000_000;
    let (good, bad) = ([0, 1, 0, 0, 9], [0, 7, 0, 0, 9]);
    for part in ["parser", "ingress", "egress", "deparser"] {
        let program = with_assertion(part);
        program.is_native();
        for interpret in [false, true] {
            for failed_assert in [FailedAssert::Count, FailedAssert::Drop] {
                let config = SwitchConfig { interpret, failed_assert, ..SwitchConfig::default() };
                let mut b = Bench::of(&program, config);
                let what = format!("{part}, {failed_assert:?}, interpreted: {interpret}");
                let leaves = |b: &mut Bench, bytes: &[u8]| {
                    let out = b.send(1, bytes);
                    assert!(out.iter().all(|(_, left)| left == bytes), "{what}");
                    out.len()
                };
                let gone = usize::from(failed_assert == FailedAssert::Count);
                assert_eq!((leaves(&mut b, &good), leaves(&mut b, &bad)), (1, gone), "{what}");
                assert_eq!((leaves(&mut b, &bad), leaves(&mut b, &good)), (gone, 1), "{what}");
                let told = b.switch.failed_asserts(SECOND);
                let words = "x.p4:7:4: assert(h.first.count != 7) does not hold (2 more, 2 in all)";
                assert_eq!(told.iter().map(ToString::to_string).collect::<Vec<_>>(), [words], "{what}");
                (0..1000).for_each(|_| {
                    let _ = leaves(&mut b, &bad);
                });
                assert!(b.switch.failed_asserts(2 * SECOND - 1).is_empty(), "{what}: once a second");
                assert_eq!(b.switch.next_assert_report(), Some(2 * SECOND));
                let told = b.switch.failed_asserts(2 * SECOND);
                assert_eq!((told.len(), told[0].times, told[0].total), (1, 1000, 1002), "{what}");
                assert_eq!(
                    (b.switch.next_assert_report(), b.switch.failed_asserts(9 * SECOND)),
                    (None, vec![])
                );
                let drops = 1002 * u64::from(failed_assert == FailedAssert::Drop);
                assert_eq!((b.switch.stats().assert_failures, b.switch.stats().assert_drops), (1002, drops));
            }
        }
    }
}

#[test]
fn a_trace_says_which_assertion_does_not_hold() {
    let text = text_edited(|p| first_action(p).push(assertion()));
    for failed_assert in [FailedAssert::Count, FailedAssert::Drop] {
        let config = SwitchConfig { failed_assert, ..SwitchConfig::default() };
        let mut b = Bench::of(&Program::traced(&text).unwrap(), config);
        for (count, holds) in [(1, true), (7, false)] {
            b.send(1, &[0, count, 0, 0, 9]);
            let trace = b.switch.take_trace().join("\n");
            let place = "    x.p4:7:4 assert(h.first.count != 7)\n";
            let says_no = trace.contains(&format!("{place}    it does not hold\n"));
            assert!(trace.contains(place) && says_no != holds, "{failed_assert:?}: {trace}");
        }
    }
}

#[test]
fn whoever_drives_the_switch_hears_of_failed_assertions() {
    let (told, hears) = std::sync::mpsc::channel();
    let (_, queue) = control_queue(|| ());
    let switch = Switch::new(&with_assertion("ingress"), SwitchConfig::default());
    let (mut node, mut pool, mut out) = (SwitchNode::new(switch, queue), FramePool::default(), Vec::new());
    node.on_failed_assert(move |failed| told.send((failed.place.clone(), failed.times)).unwrap());
    let mut fail = |node: &mut SwitchNode, now| {
        node.handle(now, 1, Frame::copy_from(&[0, 7, 0, 0]).unwrap(), &mut pool, &mut out);
        node.work(now, &mut pool, &mut out);
    };
    fail(&mut node, 1);
    fail(&mut node, 2);
    assert_eq!(hears.try_iter().collect::<Vec<_>>(), [("x.p4:7:4".to_string(), 1)]);
    assert_eq!(node.next_due(), Some(1_000_000_001), "the rest is not forgotten");
    fail(&mut node, 1_000_000_001);
    assert_eq!(hears.try_iter().collect::<Vec<_>>(), [("x.p4:7:4".to_string(), 2)]);
    assert_eq!(node.next_due(), None);
}

#[test]
fn what_bmv2_loads_and_crashes_at_is_refused() {
    let what = |refused: Result<Program, LoadError>| match refused {
        Err(LoadError::Unsupported { place, what }) => format!("{place}: {what}"),
        other => panic!("{other:?}"),
    };
    let said = what(edited(|p| {
        list(&mut p["calculations"][0], "input").push(json!({"type": "bool", "value": true}));
    }));
    assert!(said.starts_with("$.calculations[0].input") && said.contains("'bool'"), "{said}");
    let said = what(edited(|p| {
        let state = list(&mut p["parsers"][0], "parse_states").iter_mut().find(|s| s["name"] == "start");
        list(state.unwrap(), "transition_key").push(json!({"type": "hexstr", "value": "0x01"}));
    }));
    assert!(said.contains(".transition_key[1]") && said.contains("'hexstr'"), "{said}");
}

#[test]
fn json_of_the_old_compiler_is_refused_in_words() {
    let refused = edited(|p| {
        for pipeline in list(p, "pipelines") {
            for table in list(pipeline, "tables") {
                table.as_object_mut().unwrap().remove("action_ids");
                table["default_action"] = Value::Null;
            }
        }
    });
    let said = refused.unwrap_err().to_string();
    for part in ["'tbl_headers44'", "old compiler for P4_14", "p4c-bm2-ss --std p4-14"] {
        assert!(said.contains(part), "{said:?} lacks {part:?}");
    }
}
