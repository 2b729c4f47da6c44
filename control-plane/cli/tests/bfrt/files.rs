//! The files that a server answers with: ours, written from p4/arch/tna by the rules of the format, or the compiler's.

use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use zsr_topology::Chip;

fn here(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/bfrt").join(name)
}

/// What only folded.p4 has.
const WAYS: &str = r#"{"name": "pipe.IngressShell.ways", "id": 33570001, "table_type": "MatchAction_Direct", "size": 32,
"annotations": [], "depends_on": [], "has_const_default_action": true, "key": [{"id": 1, "name": "half", "repeated": false,
"annotations": [], "mandatory": false, "match_type": "Exact", "type": {"type": "bytes", "width": 1}}, {"id": 2, "name": "worker",
"repeated": false, "annotations": [], "mandatory": false, "match_type": "Exact", "type": {"type": "bytes", "width": 4}}], "action_specs": [{"id":
25240001, "name": "IngressShell.way", "action_scope": "TableAndDefault", "annotations": [], "data": [{"id": 1, "name": "port",
"repeated": false, "mandatory": true, "read_only": false, "annotations": [], "type": {"type": "bytes", "width": 9}}]}], "data": [],
"supported_operations": [], "attributes": ["EntryScope"]}"#;
const LOOPS: &str = r#"{"name": "fold.FoldParser.loops", "id": 50331649, "table_type": "ParserValueSet", "size": 16, "annotations": [],
"depends_on": [], "has_const_default_action": false, "key": [{"id": 1, "name": "f1", "repeated": false, "annotations": [], "mandatory": false,
"match_type": "Ternary", "type": {"type": "bytes", "width": 9}}], "data": [], "supported_operations": [], "attributes": ["EntryScope"]}"#;

/// The program's tables: on a Tofino 1 the second half of ingress is in a pipe of its own, which has an egress like that of the first
/// (p4/arch/tna/folded.p4).
pub fn program(chip: Chip) -> String {
    let one_pipe = std::fs::read_to_string(here("bf-rt.json")).expect("our bf-rt.json");
    match chip {
        Chip::Tofino2 => one_pipe,
        Chip::Tofino => with_twins(&one_pipe)
            .replace("pipe.IngressShell.zsr.departure.", "fold.FoldIngressShell.departure.")
            .replace("pipe.IngressShell.count_departure.", "fold.FoldIngressShell.count_departure.")
            .replace("pipe.IngressDeparser.", "fold.FoldDeparser.")
            .replace(".IngressShell.zsr.arrival.", ".IngressShell.arrival.")
            .replacen("\"tables\":[", &format!("\"tables\":[\n{WAYS},{LOOPS},"), 1),
    }
}

/// With the tables of egress in a second program, too, under other numbers, but for those of what it does not make.
fn with_twins(program: &str) -> String {
    let mut program: Json = serde_json::from_str(program).expect("JSON");
    let tables = program["tables"].as_array_mut().expect("tables");
    let (first, second) = ("pipe.EgressShell.", "fold.FoldEgressShell.");
    let is_egress = |t: &&Json| {
        t["name"].as_str().is_some_and(|name| name.starts_with(first) && !name.contains(".look_params."))
    };
    let mut twins: Vec<Json> = tables.iter().filter(is_egress).cloned().collect();
    let other = |number: &mut Json| *number = (number.as_u64().expect("a number") + 7).into();
    for twin in &mut twins {
        twin["name"] = twin["name"].as_str().expect("a name").replacen(first, second, 1).into();
        other(&mut twin["id"]);
        let actions = twin.get_mut("action_specs").and_then(Json::as_array_mut);
        for action in actions.into_iter().flatten() {
            let name = action["name"].as_str().expect("a name");
            action["name"] = name.replacen("EgressShell.", "FoldEgressShell.", 1).into();
            other(&mut action["id"]);
        }
    }
    assert!(!twins.is_empty(), "no table of egress");
    tables.extend(twins);
    program.to_string()
}

/// The tables of a chip's driver, as far as the controller uses them.
pub fn driver(chip: Chip) -> String {
    std::fs::read_to_string(here(&format!("driver-{}.json", chip.name()))).expect("the driver's tables")
}

/// The folder with what the compiler made, `tofino/bf-rt.json` and `tofino2/bf-rt.json`: `ZSR_BF_RT` names it.
pub fn compiled() -> PathBuf {
    let named = std::env::var_os("ZSR_BF_RT").filter(|folder| !folder.is_empty());
    named.expect("ZSR_BF_RT names no folder with the Tofino compilers' output (docs/tofino.md)").into()
}

/// What the compiler made for a chip.
pub fn compiled_for(chip: Chip, folder: &Path) -> String {
    let path = folder.join(chip.name()).join("bf-rt.json");
    std::fs::read_to_string(&path).unwrap_or_else(|e| {
        panic!("ZSR_BF_RT={}: {}: {e}; name it by an absolute path", folder.display(), path.display())
    })
}
