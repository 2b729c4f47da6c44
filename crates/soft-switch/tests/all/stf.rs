//! p4c's own packet tests for v1model, compiled to JSON, with an `.stf` file beside each program. They are not part
//! of this repository: `ZSR_STF_CORPUS` names the directory, and `tests/stf/run` runs them.

use std::path::Path;

use zsr_soft_switch::{LoadError, Program};

/// Programs that this switch refuses, and what it says.
const REFUSED: &[(&str, &str)] = &[
    // Calls a function that the test's authors meant to add to bmv2 itself.
    ("extern-funcs-bmv2", "primitive 'extern_func'"),
];

#[test]
#[ignore = "needs ZSR_STF_CORPUS, a directory of NAME.json and NAME.stf files: tests/stf/run"]
fn p4c_corpus() {
    let dir = std::env::var_os("ZSR_STF_CORPUS").filter(|dir| !dir.is_empty());
    let dir = dir.expect("ZSR_STF_CORPUS names no directory of NAME.json and NAME.stf files");
    let mut names: Vec<String> = std::fs::read_dir(&dir)
        .unwrap_or_else(|e| panic!("ZSR_STF_CORPUS={}: {e}; name it by an absolute path", dir.display()))
        .filter_map(|e| e.ok()?.file_name().into_string().ok()?.strip_suffix(".stf").map(str::to_string))
        .collect();
    names.sort();
    assert!(!names.is_empty(), "no .stf files in {dir:?}");
    let read = |name: &str, ext: &str| std::fs::read_to_string(Path::new(&dir).join(format!("{name}.{ext}")));
    let mut failed = Vec::new();
    for name in &names {
        let json = read(name, "json").expect("every .stf has its .json");
        let stf = read(name, "stf").expect("readable");
        let known = REFUSED.iter().find(|(n, _)| n == name);
        match (Program::from_json(&json), known) {
            (Err(LoadError::Unsupported { what, .. }), Some((_, said))) if what.contains(said) => {}
            (Err(e), _) => failed.push(format!("{name}: not loaded: {e}")),
            (Ok(_), Some(_)) => failed.push(format!("{name}: loaded, though it is listed as refused")),
            (Ok(p), None) => {
                if let Err(e) = crate::support::stf::run(&p, &stf) {
                    failed.push(format!("{name}: {e}"));
                }
            }
        }
    }
    assert!(failed.is_empty(), "{} of {} failed:\n{}", failed.len(), names.len(), failed.join("\n"));
    let refused = names.iter().filter(|name| REFUSED.iter().any(|(n, _)| n == name)).count();
    println!("{} programs passed, {refused} refused by name", names.len() - refused);
}
