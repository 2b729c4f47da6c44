//! `cargo xtask tofino`: do the two architectures of the P4 program belong together, and does the Tofino compiler take it?

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const ARCHES: [&str; 2] = ["v1model", "tna"];
/// Files of an architecture whose controls the shared pipeline calls by name.
const SHARED_NAMES: [&str; 5] = ["state.p4", "ops.p4", "icrc.p4", "counters.p4", "internal.p4"];
const TARGETS: [(&str, &str); 2] = [("tofino", "tna"), ("tofino2", "t2na")];

/// Checks the architecture folders against each other, then compiles for Tofino 1 and 2 if `p4c-barefoot` and `bfas`
/// (p4lang/p4c, backends/tofino) are on PATH; says aloud when they are not. `check`: only the comparison, since the program
/// does not fit a Tofino yet (docs/tofino.md).
pub fn run(root: &Path, check: bool) -> Result<(), String> {
    compare(root)?;
    println!("p4/arch: both architectures include one pipeline and bring the same controls");
    if check {
        return Ok(());
    }
    let missing: Vec<_> = ["p4c-barefoot", "bfas"].into_iter().filter(|tool| find(tool).is_none()).collect();
    if !missing.is_empty() {
        println!("SKIPPED: compiling for Tofino: {} not on PATH", missing.join(" and "));
        return Ok(());
    }
    for (target, arch) in TARGETS {
        compile(root, target, arch)?;
    }
    Ok(())
}

/// What the shared pipeline relies on: one include list, and controls of the same names and signatures.
pub fn compare(root: &Path) -> Result<(), String> {
    let folder = |arch: &str| root.join("p4/arch").join(arch);
    let mut controls = Vec::new();
    for arch in ARCHES {
        let main = read(&folder(arch).join("main.p4"))?;
        let pipeline: Vec<_> =
            main.lines().filter(|l| l.starts_with("#include") && l.contains("pipeline/")).collect();
        if pipeline != ["#include \"../../pipeline/pipeline.p4\""] {
            return Err(format!(
                "p4/arch/{arch}/main.p4 includes {pipeline:?}, not the shared pipeline alone"
            ));
        }
        let mut found = BTreeMap::new();
        for file in SHARED_NAMES {
            let path = folder(arch).join(file);
            if path.exists() {
                found.extend(signatures(&read(&path)?));
            }
        }
        controls.push(found);
    }
    for (name, signature) in &controls[0] {
        match controls[1].get(name) {
            None => return Err(format!("p4/arch/tna has no control {name}, which p4/arch/v1model has")),
            Some(other) if other != signature => {
                return Err(format!("control {name} takes ({signature}) in v1model and ({other}) in tna"));
            }
            Some(_) => {}
        }
    }
    if let Some(name) = controls[1].keys().find(|name| !controls[0].contains_key(*name)) {
        return Err(format!("p4/arch/v1model has no control {name}, which p4/arch/tna has"));
    }
    Ok(())
}

/// Name and parameters of every control in a P4 text.
fn signatures(text: &str) -> BTreeMap<String, String> {
    text.split("\ncontrol ")
        .skip(1)
        .filter_map(|rest| {
            let (name, rest) = rest.split_once('(')?;
            let (parameters, _) = rest.split_once(')')?;
            let words: Vec<_> = parameters.split_whitespace().collect();
            Some((name.to_owned(), words.join(" ")))
        })
        .collect()
}

/// A program fits only if both compiler and assembler say so: the compiler accepts one with too many stages.
fn compile(root: &Path, target: &str, arch: &str) -> Result<(), String> {
    let out = root.join("target/tofino").join(target);
    let _ = std::fs::remove_dir_all(&out);
    std::fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    let mut p4c = Command::new("p4c-barefoot");
    p4c.current_dir(root).args(["--target", target, "--arch", arch, "-Ttable_summary:1", "-o"]);
    execute(p4c.arg(&out).arg("p4/arch/tna/main.p4"))?;
    let pipe = out.join("pipe");
    let program = std::fs::read_dir(&pipe)
        .map_err(|e| format!("{}: {e}", pipe.display()))?
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .find(|path| path.extension().is_some_and(|e| e == "bfa"))
        .ok_or_else(|| format!("{}: the compiler wrote no assembly", pipe.display()))?;
    execute(
        Command::new("bfas").current_dir(root).args(["--target", target, "-o"]).arg(&pipe).arg(&program),
    )?;
    println!("{target}: fits; stages and resources are in {}", pipe.join("logs").display());
    Ok(())
}

fn execute(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|e| format!("{name}: cannot run: {e}"))?;
    if out.status.success() {
        return Ok(());
    }
    Err(format!("{name}: {}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr)))
}

fn find(tool: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(tool))
        .find(|path| path.is_file())
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_architectures_belong_together() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository");
        compare(root).unwrap();
    }

    #[test]
    fn signatures_ignore_how_lines_are_broken() {
        let found = signatures(
            "// A\ncontrol A(inout meta_t m) {}\n\ncontrol B(in bit<32> a,\n          out bit<8> b) {}\n",
        );
        assert_eq!(found["A"], "inout meta_t m");
        assert_eq!(found["B"], "in bit<32> a, out bit<8> b");
        assert_eq!(found.len(), 2);
    }
}
