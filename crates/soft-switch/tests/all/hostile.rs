//! Random frames never stop the switch, damaged programs never panic the loader, and a damaged program that loads
//! nevertheless can be run.

use crate::support::Bench;
use serde_json::Value;
use zsr_random::XorShift64;
use zsr_soft_switch::*;
use zsr_wire::frame::{Frame, FramePool};

const PROGRAMS: [&str; 5] = ["copies", "tables", "headers", "transport", "p4runtime"];

/// Seeded, so that a failure can be repeated.
struct Random(XorShift64);

impl Random {
    fn new(seed: u64) -> Self {
        Random(XorShift64::new(seed))
    }

    fn next(&mut self, n: usize) -> usize {
        (self.0.bits() >> 11) as usize % n.max(1)
    }

    fn frame(&mut self) -> Vec<u8> {
        let len = match self.next(4) {
            0 => self.next(8),
            1 => self.next(64),
            2 => self.next(300),
            _ => self.next(2000),
        };
        // Small bytes hit operation codes and header kinds more often.
        let small = self.next(2) == 0;
        (0..len).map(|i| if small && i < 16 { self.next(20) } else { self.next(256) } as u8).collect()
    }
}

fn shower(switch: &mut Switch, random: &mut Random, frames: usize) {
    let mut pool = FramePool::with_frames(4);
    let mut out = Vec::new();
    for i in 0..frames {
        let bytes = random.frame();
        let Some(frame) = Frame::copy_from(&bytes) else { continue };
        switch.process(i as u64 * 1000, random.next(600) as u16, frame, &mut pool, &mut out);
        for (_, f) in out.drain(..) {
            pool.put(f);
        }
    }
}

#[test]
fn random_frames() {
    let mut random = Random::new(0x5eed);
    for name in PROGRAMS {
        let config = SwitchConfig {
            max_passes: 20,
            max_passes_of_all: 2000,
            priority_queues: 8,
            ..SwitchConfig::default()
        };
        let mut b = Bench::with(name, config);
        let replicas: Vec<Replica> = (1..4).map(|port| Replica { port, instance: port }).collect();
        for id in 1..20 {
            b.switch.multicast_group_insert(id, replicas.clone()).unwrap();
            let session =
                CloneSession { replicas: replicas.clone(), packet_length_bytes: id, class_of_service: 0 };
            b.switch.clone_session_insert(id, session).unwrap();
        }
        if name == "transport" {
            crate::support::transport::fill(&mut b.switch);
        }
        shower(&mut b.switch, &mut random, 3000);
        assert_eq!(b.switch.stats().packets_in, 3000, "{name}");
    }
}

fn text(name: &str) -> String {
    let path = format!("{}/tests/programs/{name}.json", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("committed")
}

/// Loads; a loader that panicked says that it failed, without a reason.
fn load(text: &str, what: &str) -> Option<Program> {
    match Program::from_json(text) {
        Ok(p) => Some(p),
        Err(LoadError::Malformed { reason, .. }) if reason == "the loader failed" => {
            panic!("panic in loader: {what}")
        }
        Err(e) => {
            assert!(!e.to_string().is_empty());
            None
        }
    }
}

/// A random node of the tree.
fn descend<'v>(v: &'v mut Value, random: &mut Random, path: &mut String) -> &'v mut Value {
    let len = match v {
        Value::Array(a) => a.len(),
        Value::Object(o) => o.len(),
        _ => 0,
    };
    if len == 0 || random.next(9) == 0 {
        return v;
    }
    let i = random.next(len);
    path.push_str(&format!("/{i}"));
    match v {
        Value::Array(a) => descend(&mut a[i], random, path),
        Value::Object(o) => match o.iter_mut().nth(i) {
            Some((k, child)) => {
                path.push_str(k);
                descend(child, random, path)
            }
            None => unreachable!("the index is below the length"),
        },
        _ => v,
    }
}

fn damage(root: &mut Value, random: &mut Random) -> String {
    let mut path = String::new();
    let copy = descend(root, random, &mut String::new()).clone();
    let victim = descend(root, random, &mut path);
    match (random.next(8), &mut *victim) {
        (0, _) => *victim = Value::Null,
        (1, v) => *v = Value::from(random.next(70_000) as i64 - 5),
        (2, v) => *v = copy,
        (3, Value::Array(a)) if !a.is_empty() => {
            a.remove(random.next(a.len()));
        }
        (4, Value::Object(o)) if !o.is_empty() => {
            let k = o.keys().nth(random.next(o.len())).cloned().expect("below the length");
            o.remove(&k);
        }
        (5, Value::Array(a)) if !a.is_empty() => {
            let again = a[random.next(a.len())].clone();
            a.push(again);
        }
        (6, v) => *v = Value::from("0xffffffffffffffffffffffffffffffffff"),
        (_, Value::Number(n)) => {
            let new = n.as_i64().unwrap_or(0) + [1, -1, 7, 1000][random.next(4)];
            *victim = Value::from(new);
        }
        (_, Value::Bool(x)) => *x = !*x,
        (_, v) => *v = Value::from(vec![1, 2]),
    }
    path
}

#[test]
fn damaged_programs() {
    let mut random = Random::new(0xdada);
    let (mut loaded, mut refused) = (0, 0);
    for name in PROGRAMS {
        let whole: Value = serde_json::from_str(&text(name)).expect("JSON");
        for round in 0..150 {
            let mut v = whole.clone();
            let mut paths = String::new();
            for _ in 0..=random.next(3) {
                paths.push_str(&damage(&mut v, &mut random));
                paths.push(' ');
            }
            let what = format!("{name}, round {round}: {paths}");
            let Some(p) = load(&v.to_string(), &what) else {
                refused += 1;
                continue;
            };
            loaded += 1;
            let config = SwitchConfig {
                max_passes: 4,
                max_passes_of_all: 400,
                loop_limit: 100,
                ..SwitchConfig::default()
            };
            let ran = std::panic::catch_unwind(|| {
                let mut s = Switch::new(&p, config);
                shower(&mut s, &mut Random::new(7), 30);
            });
            assert!(ran.is_ok(), "panic in a packet: {what}");
        }
    }
    assert!(loaded > 50 && refused > 50, "{loaded} loaded, {refused} refused: the test tests nothing");
}

#[test]
fn text_that_is_no_program() {
    let whole = text("copies");
    let cases = ["", "{}", "[]", "null", "{", "\"x\"", "{\"header_types\": 1}", &whole[..whole.len() / 2]];
    for c in cases {
        assert!(load(c, c).is_none(), "{c:?}");
    }
    let deep = "[".repeat(1_000_000);
    let Err(e) = Program::from_json(&deep) else { panic!("loaded") };
    assert!(e.to_string().contains("nested"), "{e}");
    let Err(e) = Program::from_json(&whole[..whole.len() - 3]) else { panic!("loaded") };
    assert!(e.to_string().contains("line "), "{e}");
}

#[test]
fn unknown_constructs_are_refused_by_name_and_place() {
    let refused = |edit: &dyn Fn(&mut Value)| {
        let mut v: Value = serde_json::from_str(&text("copies")).expect("JSON");
        edit(&mut v);
        match Program::from_json(&v.to_string()) {
            Err(e) => e.to_string(),
            Ok(_) => panic!("loaded"),
        }
    };
    let e = refused(&|v| {
        v["actions"][0]["primitives"] = serde_json::json!([{"op": "teleport", "parameters": []}])
    });
    assert!(e.contains("'teleport'") && e.contains("actions[0]"), "{e}");
    let e = refused(&|v| v["pipelines"][0]["tables"][0]["match_type_2"] = Value::from(1));
    assert!(e.contains("'match_type_2'") && e.contains("pipelines[0].tables[0]"), "{e}");
    let e =
        refused(&|v| v["parsers"][0]["parse_states"][0]["parser_ops"][0]["op"] = Value::from("extract_all"));
    assert!(e.contains("'extract_all'") && e.contains("parse_states[0]"), "{e}");
    let e =
        refused(&|v| v["extern_instances"] = serde_json::json!([{"name": "x", "id": 0, "type": "blackbox"}]));
    assert!(e.contains("'blackbox'"), "{e}");
    let e = refused(&|v| v["__meta__"]["version"][0] = Value::from(3));
    assert!(e.contains("version 3"), "{e}");
    let e = refused(&|v| v["pipelines"][0]["init_table"] = Value::from("nowhere"));
    assert!(e.contains("'nowhere'"), "{e}");
}

#[test]
fn a_parameter_that_an_action_has_not_is_named() {
    let text = text("tables");
    let begin = text.find(r#""type" : "runtime_data""#).expect("an action takes a parameter");
    let (before, rest) = text.split_at(begin);
    let wrong = format!("{before}{}", rest.replacen(r#""value" : 0"#, r#""value" : 7"#, 1));
    let e = Program::from_json(&wrong).expect_err("it has one").to_string();
    assert!(e.contains("parameter 7") && e.contains("in action '"), "{e}");
}
