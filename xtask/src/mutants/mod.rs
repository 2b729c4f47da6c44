//! `cargo xtask mutants`: breaks the product in one place at a time and lets the simulator detect it.
//!
//! A mutant is a file of `tests/mutants` ([`entry`]). All mutants of Rust sources are built into one simulator, where
//! `ZSR_MUTANT` picks one. A mutant of the P4 program is compiled, and `ZSR_ARTIFACTS` gives it to the simulator
//! ([`program`]). Tests catch mutants that schedules do not reach, under the same variables. The tree of the user is
//! never touched ([`tree`]).

mod entry;
mod judge;
mod program;
mod tree;

pub use tree::files_of;

use std::path::Path;
use std::sync::mpsc;

use crate::cargo::cargo;
use entry::Mutant;
use judge::{Judge, PROFILE, Verdict};
use program::Programs;

/// The folder of the mutants, and the folder of everything that is made of them.
const MUTANTS: &str = "tests/mutants";
const SCRATCH: &str = "target/mutants";
/// Seeds that the product itself has to pass before a mutant is judged.
const SOUND: u64 = 20;

/// Mutants in this folder beside the others are not caught: they are judged when they are named.
const OPEN: &str = "open";

/// All mutants, in order of name.
fn all(root: &Path) -> Result<Vec<Mutant>, String> {
    let folder = root.join(MUTANTS);
    let mut mutants = Vec::new();
    for (folder, is_open) in [(folder.clone(), false), (folder.join(OPEN), true)] {
        if is_open && !folder.exists() {
            continue;
        }
        for file in std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))? {
            let path = file.map_err(|e| format!("{MUTANTS}: {e}"))?.path();
            if path.extension().is_some_and(|e| e == "mutant") {
                mutants.push(Mutant { is_open, ..Mutant::read(&path)? });
            }
        }
    }
    mutants.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(mutants)
}

/// Names all mutants with what each breaks.
pub fn list(root: &Path) -> Result<(), String> {
    for mutant in all(root)? {
        let open = if mutant.is_open { " (not caught)" } else { "" };
        println!("{:<32} {}{open} ({})", mutant.name, mutant.why, mutant.limit());
    }
    Ok(())
}

/// Reports mutants that no longer fit the sources. Builds nothing.
///
/// # Errors
/// The mutants that do not fit.
pub fn check(root: &Path) -> Result<(), String> {
    let mutants = all(root)?;
    let faults: Vec<String> = mutants.iter().filter_map(|mutant| mutant.check(root).err()).collect();
    if !faults.is_empty() {
        return Err(format!("mutants that do not fit the sources:\n{}", faults.join("\n")));
    }
    tree::rust_files(root, &mutants)?;
    println!("{MUTANTS}: {} mutants fit the sources", mutants.len());
    Ok(())
}

/// Judges the mutants of these names, or all but those that are known not to be caught.
///
/// # Errors
/// When one survives, does not fit, or nothing can be judged.
pub fn run(root: &Path, names: &[&str]) -> Result<(), String> {
    check(root)?;
    let mutants = all(root)?;
    if let Some(name) = names.iter().find(|name| mutants.iter().all(|m| m.name != **name)) {
        return Err(format!("no mutant is called `{name}`: `cargo xtask mutants --list` names them"));
    }
    let scratch = root.join(SCRATCH);
    let is_chosen =
        |m: &&Mutant| if names.is_empty() { !m.is_open } else { names.contains(&m.name.as_str()) };
    let chosen = mutants.iter().filter(is_chosen);
    let (in_p4, in_rust): (Vec<&Mutant>, Vec<&Mutant>) = chosen.partition(|m| m.is_p4());
    let mut tally = Tally::default();
    let compiler = crate::p4::compiler();
    std::thread::scope(|scope| {
        // Programs are compiled while the simulator is built and other mutants are judged.
        let (compiled, programs) = mpsc::channel();
        if compiler.is_ok() {
            let (in_p4, programs) = (&in_p4, Programs::new(root, &scratch, &mutants));
            scope.spawn(move || {
                let _ = in_p4.iter().all(|m| compiled.send(programs.with(m)).is_ok());
            });
        } else {
            drop(compiled);
        }
        let judge = build(root, &scratch, &mutants)?;
        if let Verdict::Caught { by, why } = judge.product(SOUND)? {
            return Err(format!("the product itself fails with {by}, so no mutant can be judged: {why}"));
        }
        for mutant in in_rust {
            tally.note(mutant, judge.mutant(mutant, ("ZSR_MUTANT", mutant.name.as_ref()))?);
        }
        for (mutant, program) in in_p4.iter().zip(programs) {
            tally.note(mutant, judge.mutant(mutant, ("ZSR_ARTIFACTS", program?.as_os_str()))?);
        }
        Ok::<_, String>(())
    })?;
    if let (Err(why), false) = (&compiler, in_p4.is_empty()) {
        let names: Vec<&str> = in_p4.iter().map(|m| m.name.as_str()).collect();
        println!("SKIPPED {} mutants of the P4 program ({}): {why}", names.len(), names.join(", "));
    }
    println!("{} caught, {} survived", tally.caught, tally.survived.len());
    match tally.survived.is_empty() {
        true => Ok(()),
        false => Err(format!("these mutants survived: {}", tally.survived.join(", "))),
    }
}

/// Counts of verdicts.
#[derive(Default)]
struct Tally {
    caught: usize,
    survived: Vec<String>,
}

impl Tally {
    fn note(&mut self, mutant: &Mutant, verdict: Verdict) {
        match verdict {
            Verdict::Caught { by, why } => {
                self.caught += 1;
                println!("{:<32} caught by {by}: {why}", mutant.name);
            }
            Verdict::Survived => {
                println!("{:<32} SURVIVED {}: {}", mutant.name, mutant.limit(), mutant.why);
                self.survived.push(mutant.name.clone());
            }
        }
    }
}

/// The simulator with all Rust mutants in it, none of them at work.
fn build(root: &Path, scratch: &Path, mutants: &[Mutant]) -> Result<Judge, String> {
    let (copy, target) = (scratch.join("tree"), scratch.join("build"));
    tree::copy(root, &copy, &tree::rust_files(root, mutants)?)?;
    println!("building the simulator with all mutants in {SCRATCH}");
    let simulator = target.join("mutants/zsr-sim");
    let cargo = move || {
        let mut cargo = cargo();
        cargo.current_dir(&copy).env("CARGO_TARGET_DIR", &target);
        // Code that a mutant takes away is code that nobody uses.
        cargo.env("RUSTFLAGS", "--cap-lints=allow").env_remove("ZSR_MUTANT").env_remove("ZSR_ARTIFACTS");
        cargo
    };
    let built = cargo().args(["build", "--quiet", "--locked", "--package", "zsr-sim"]).args(PROFILE).status();
    match built {
        Ok(status) if status.success() => Ok(Judge { simulator, cargo: Box::new(cargo) }),
        Ok(status) => Err(format!("the simulator with mutants does not build: {status}")),
        Err(e) => Err(format!("cargo: {e}")),
    }
}
