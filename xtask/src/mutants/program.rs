//! Mutants of the P4 program. A compilation takes a minute, so all but a few mutants are in one program. A table
//! without a key has a number in its default action, `m.zsr_mutant`, by which each change is chosen. A mutant is that
//! program with another number there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::entry::Mutant;
use super::tree::{files_of, mixed, write};
use crate::p4;

const METADATA: &str = "p4/common/metadata.p4";
const MAIN: &str = "p4/arch/v1model/main.p4";
/// Controls that see each packet first.
const SHELLS: [&str; 2] = ["control IngressShell(", "control EgressShell("];
const TABLE: &str = "zsr_mutants";

/// Compiled programs with mutants.
pub struct Programs<'a> {
    root: &'a Path,
    scratch: PathBuf,
    /// The mutants that are in one program; their places count from 1.
    mixed: Vec<&'a Mutant>,
}

impl<'a> Programs<'a> {
    /// The programs of those `mutants` that change the P4 program of `root`.
    pub fn new(root: &'a Path, scratch: &Path, mutants: &'a [Mutant]) -> Programs<'a> {
        let mixed = mutants.iter().filter(|m| m.is_p4() && !m.alone).collect();
        Programs { root, scratch: scratch.join("p4"), mixed }
    }

    /// The folder of the compiled program with `mutant`.
    ///
    /// # Errors
    /// The compiler's error.
    pub fn with(&self, mutant: &Mutant) -> Result<PathBuf, String> {
        let name = |m: &&&Mutant| m.name == mutant.name;
        let Some(number) = self.mixed.iter().position(|m| name(&m)).map(|at| at + 1) else {
            let changed = mixed(self.root, std::iter::once(mutant), |_, new, _| new.to_owned())?;
            return self.compiled(&mutant.name, changed);
        };
        let all = self.compiled("all", self.all()?)?;
        let to = self.scratch.join(&mutant.name);
        numbered(&all, number, &to)?;
        Ok(to)
    }

    /// Sources with all mutants that can be in one program.
    fn all(&self) -> Result<BTreeMap<String, String>, String> {
        let number = |mutant: &Mutant| 1 + self.mixed.iter().position(|m| m.name == mutant.name).unwrap_or(0);
        let either = |m: &Mutant, new: &str, old: &str| either(number(m), new, old);
        let mut files = mixed(self.root, self.mixed.iter().copied(), either)?;
        for name in [METADATA, MAIN] {
            if !files.contains_key(name) {
                let text =
                    std::fs::read_to_string(self.root.join(name)).map_err(|e| format!("{name}: {e}"))?;
                files.insert(name.to_owned(), text);
            }
        }
        let metadata = files.get_mut(METADATA).ok_or(METADATA)?;
        insert(metadata, &["struct meta_t {"], "\n    bit<8> zsr_mutant;")?;
        let main = files.get_mut(MAIN).ok_or(MAIN)?;
        for shell in SHELLS {
            let table = format!(
                "\n    action zsr_choose(bit<8> n) {{ m.zsr_mutant = n; }}\n    table {TABLE} {{ actions = {{ zsr_choose; }} \
                 const default_action = zsr_choose(0); }}"
            );
            insert(main, &[shell, "{"], &table)?;
            insert(main, &[shell, "    apply {"], &format!("\n        {TABLE}.apply();"))?;
        }
        Ok(files)
    }

    /// Compiles sources with these in place of their own, unless they have been before.
    fn compiled(&self, name: &str, changed: BTreeMap<String, String>) -> Result<PathBuf, String> {
        let top = self.scratch.join(name);
        for file in files_of(self.root)?.iter().filter(|f| f.starts_with("p4/") && f.ends_with(".p4")) {
            let text = match changed.get(file) {
                Some(text) => text.clone(),
                None => std::fs::read_to_string(self.root.join(file)).map_err(|e| format!("{file}: {e}"))?,
            };
            write(&top.join(file), text.as_bytes())?;
        }
        let artifacts = top.join("p4/artifacts");
        std::fs::create_dir_all(&artifacts).map_err(|e| format!("{}: {e}", artifacts.display()))?;
        if !p4::is_fresh(&top) {
            println!("compiling the P4 program ({name})");
            p4::compile(&top).map_err(|e| format!("{name}: {e}"))?;
        }
        Ok(artifacts)
    }
}

/// `new` if the mutant of this number is at work, else `old`: statements, or an expression.
fn either(number: usize, new: &str, old: &str) -> String {
    match old.trim_end().ends_with([';', '}']) {
        true => format!("if (m.zsr_mutant == {number}) {{ {new} }} else {{ {old} }}"),
        false => format!("(m.zsr_mutant == {number} ? ({new}) : ({old}))"),
    }
}

/// Puts `what` behind the last of `marks`, each of which is looked for behind the one before.
fn insert(text: &mut String, marks: &[&str], what: &str) -> Result<(), String> {
    let mut at = 0;
    for mark in marks {
        let found = text[at..].find(mark).ok_or_else(|| format!("`{mark}` is not where it was"))?;
        at += found + mark.len();
    }
    text.insert_str(at, what);
    Ok(())
}

/// The program of folder `all` as that of one of its mutants, in folder `to`.
fn numbered(all: &Path, number: usize, to: &Path) -> Result<(), String> {
    let read = |name: &str| std::fs::read(all.join(name)).map_err(|e| format!("{name}: {e}"));
    let parsed = |name: &str| -> Result<serde_json::Value, String> {
        serde_json::from_slice(&read(name)?).map_err(|e| format!("{name}: {e}"))
    };
    let [json, info, manifest] = p4::FILES;
    let mut program = parsed(json)?;
    let mut chosen = 0;
    for table in program["pipelines"].as_array_mut().into_iter().flatten() {
        for table in table["tables"].as_array_mut().into_iter().flatten() {
            if table["name"].as_str().is_some_and(|name| name.ends_with(TABLE)) {
                table["default_entry"]["action_data"] = serde_json::json!([format!("{number:#x}")]);
                chosen += 1;
            }
        }
    }
    if chosen != SHELLS.len() {
        return Err(format!("{json}: {chosen} tables choose a mutant, not {}", SHELLS.len()));
    }
    let text = serde_json::to_vec(&program).map_err(|e| format!("{json}: {e}"))?;
    let mut sums = parsed(manifest)?;
    sums["json_sha256"] = zsr_p4::sources::hash_of(&text).into();
    write(&to.join(json), &text)?;
    write(&to.join(info), &read(info)?)?;
    write(&to.join(manifest), sums.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_chooses_between_statements_and_between_expressions() {
        assert_eq!(either(7, "b();", "a();"), "if (m.zsr_mutant == 7) { b(); } else { a(); }");
        assert_eq!(either(7, "b", "a + 1"), "(m.zsr_mutant == 7 ? (b) : (a + 1))");
    }

    #[test]
    fn a_text_goes_behind_marks_that_follow_each_other() {
        let mut text = String::from("control A { } control B { apply { x; } }");
        insert(&mut text, &["control B", "apply {"], " y;").unwrap();
        assert_eq!(text, "control A { } control B { apply { y; x; } }");
        assert!(insert(&mut text, &["control C", "{"], "").unwrap_err().contains("control C"));
    }
}
