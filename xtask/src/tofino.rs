//! `cargo xtask tofino`: do the two architectures of the P4 program belong together, and does the Tofino compiler take
//! it?

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const ARCHES: [&str; 2] = ["v1model", "tna"];
/// Files of an architecture whose controls the shared pipeline calls by name.
const SHARED_NAMES: [&str; 5] = ["state.p4", "ops.p4", "icrc.p4", "counters.p4", "internal.p4"];
const CHIPS: [Chip; 2] = [
    Chip { name: "tofino", arch: "tna", options: &[] },
    // Stages first, then containers: so a field's container is free as soon as the last stage has read it. Without
    // CLOTs (headers that bypass the containers): docs/tofino.md says why.
    Chip { name: "tofino2", arch: "t2na", options: &["--alt-phv-alloc", "--no-clot"] },
];

/// The compiler's arguments for a chip.
struct Chip {
    name: &'static str,
    arch: &'static str,
    options: &'static [&'static str],
}

/// The chips to compile for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Compile<'a> {
    /// None: only compare the architecture folders.
    Nothing,
    /// Tofino 1 and 2.
    All,
    /// The chip with this name at the compiler.
    One(&'a str),
}

/// Checks the architecture folders against each other, then compiles if `p4c-barefoot` and `bfas` (p4lang/p4c,
/// backends/tofino) are on PATH; says aloud when they are not. An error names every chip that the program does not fit.
pub fn run(root: &Path, wanted: Compile<'_>) -> Result<(), String> {
    let chips: Vec<&Chip> = match wanted {
        Compile::Nothing => Vec::new(),
        Compile::All => CHIPS.iter().collect(),
        Compile::One(name) => {
            let chip = CHIPS.iter().find(|chip| chip.name == name);
            vec![chip.ok_or_else(|| format!("no chip `{name}`; there are `tofino` and `tofino2`"))?]
        }
    };
    compare(root)?;
    println!("p4/arch: both architectures include one pipeline and bring the same controls");
    if chips.is_empty() {
        return Ok(());
    }
    let missing: Vec<_> = ["p4c-barefoot", "bfas"].into_iter().filter(|tool| find(tool).is_none()).collect();
    if !missing.is_empty() {
        println!("SKIPPED: compiling for Tofino: {} not on PATH", missing.join(" and "));
        return Ok(());
    }
    let mut errors = Vec::new();
    for chip in chips {
        match compile(root, chip) {
            Ok(logs) => println!("{}: fits; what it takes is in {}", chip.name, logs.display()),
            Err(e) => errors.push(format!("{}: {e}", chip.name)),
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
}

/// The shared pipeline relies on one include list, and on controls of the same names and signatures.
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
    let whole = applied(&read(&root.join("p4/pipeline/ingress.p4"))?, "control ZsrIngress");
    let halves = applied(&read(&folder("tna").join("folded.p4"))?, "");
    if !halves.iter().filter(|name| whole.contains(name)).eq(&whole) {
        return Err(format!(
            "p4/arch/tna/folded.p4 applies {halves:?}, where p4/pipeline/ingress.p4 has {whole:?}"
        ));
    }
    if let Some(name) = controls[1].keys().find(|name| !controls[0].contains_key(*name)) {
        return Err(format!("p4/arch/v1model has no control {name}, which p4/arch/tna has"));
    }
    Ok(())
}

/// The controls that a P4 text applies behind `from`, in order.
fn applied(text: &str, from: &str) -> Vec<String> {
    let behind = text.split_once(from).map_or("", |(_, behind)| behind);
    let calls = behind
        .split(".apply(")
        .map(|before| before.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next());
    let mut names: Vec<String> = calls.flatten().map(str::to_owned).collect();
    names.pop();
    names
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

/// The folder of the compiler's logs. A program fits only if both compiler and assembler say so: the compiler accepts
/// one with too many stages.
fn compile(root: &Path, chip: &Chip) -> Result<PathBuf, String> {
    let out = root.join("target/tofino").join(chip.name);
    let _ = std::fs::remove_dir_all(&out);
    std::fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    let mut p4c = Command::new("p4c-barefoot");
    p4c.current_dir(root).args(["--target", chip.name, "--arch", chip.arch]);
    p4c.args(chip.options).args(["--verbose", "-g", "-Ttable_summary:1", "-o"]);
    // The program's tables for BF Runtime, for the controller and its tests (ZSR_BF_RT).
    p4c.arg(&out).arg("--bf-rt-schema").arg(out.join("bf-rt.json"));
    execute(p4c.arg("p4/arch/tna/main.p4"))?;
    let programs = assemblies(&out)?;
    if programs.is_empty() {
        return Err(format!("{}: the compiler wrote no assembly", out.display()));
    }
    for program in &programs {
        let mut bfas = Command::new("bfas");
        bfas.current_dir(root)
            .args(["--target", chip.name, "-o"])
            .arg(program.parent().unwrap_or(&out))
            .arg(program);
        execute(&mut bfas)?;
    }
    Ok(out)
}

/// The compiler's output for each of the program's pipes, in folders of their own.
fn assemblies(out: &Path) -> Result<Vec<PathBuf>, String> {
    let list = |folder: &Path| -> Result<Vec<PathBuf>, String> {
        let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(entries.filter_map(|entry| entry.ok().map(|e| e.path())).collect())
    };
    let mut found = Vec::new();
    for pipe in list(out)?.iter().filter(|path| path.is_dir()) {
        found.extend(list(pipe)?.into_iter().filter(|path| path.extension().is_some_and(|e| e == "bfa")));
    }
    Ok(found)
}

fn execute(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|e| format!("{name}: cannot run: {e}"))?;
    if out.status.success() {
        return Ok(());
    }
    let said = [String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr)].concat();
    // Thousands of lines are warnings; what it fails by stands among the last, or is an error.
    let lines: Vec<_> = said.lines().filter(|line| !line.contains("warning: ")).collect();
    let errors: Vec<_> = lines.iter().filter(|line| line.contains("rror")).copied().collect();
    let told = if errors.is_empty() { &lines } else { &errors };
    Err(format!("{name}: {}", told[told.len().saturating_sub(20)..].join("\n")))
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
    fn what_is_applied_is_read_in_order() {
        let text = "control A { apply { x.apply(m); } }\ncontrol B { apply { one.apply(m); if (m.f == 1) { two.apply(h, m); } } }";
        assert_eq!(applied(text, "control B"), ["one", "two"]);
        assert_eq!(applied(text, "control C"), [""; 0]);
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
