//! Sources with mutants in them, beside the user's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use super::entry::{Change, Mutant};

/// Whether the mutant of this name is at work. Both arms stay on the lines on which they were.
fn switched(name: &str, new: &str, old: &str) -> String {
    let on = format!("|| ::std::env::var_os(\"ZSR_MUTANT\").is_some_and(|m| m == \"{name}\")");
    let cell = "static ON: ::std::sync::OnceLock<bool> = ::std::sync::OnceLock::new();";
    format!("{{ if {{ {cell} *ON.get_or_init({on}) }} {{ {new} }} else {{ {old} }} }}")
}

/// Contents of the Rust files that mutants change, with all of these mutants in them.
///
/// # Errors
/// When two mutants change overlapping texts that are not the same.
pub fn rust_files(root: &Path, mutants: &[Mutant]) -> Result<BTreeMap<String, String>, String> {
    mixed(root, mutants.iter().filter(|m| !m.is_p4()), |m, new, old| switched(&m.name, new, old))
}

/// Contents of the files that mutants change, where `either` says how a new and an old text stand in one place.
///
/// # Errors
/// When two mutants change overlapping texts that are not the same.
pub fn mixed<'m>(
    root: &Path,
    mutants: impl Iterator<Item = &'m Mutant>,
    either: impl Fn(&Mutant, &str, &str) -> String,
) -> Result<BTreeMap<String, String>, String> {
    // By file, and place in it: the old text's end, and what is in its place.
    let mut places: BTreeMap<&str, BTreeMap<usize, (usize, String)>> = BTreeMap::new();
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    for mutant in mutants {
        for Change { file, old, new } in &mutant.changes {
            if !texts.contains_key(file.as_str()) {
                let text = std::fs::read_to_string(root.join(file)).map_err(|e| format!("{file}: {e}"))?;
                texts.insert(file, text);
            }
            let at = texts[file.as_str()].find(old.as_str());
            let at = at.ok_or_else(|| format!("{}: does not fit {file}", mutant.name))?;
            let here = places.entry(file).or_default();
            let content = here.remove(&at).filter(|(end, _)| *end == at + old.len());
            let content = content.map_or_else(|| old.clone(), |(_, content)| content);
            here.insert(at, (at + old.len(), either(mutant, new, &content)));
            let mut next = here.iter().zip(here.keys().skip(1));
            if next.any(|((_, (end, _)), next)| end > next) {
                return Err(format!("{}: its text in {file} overlaps another's", mutant.name));
            }
        }
    }
    let mut out = BTreeMap::new();
    for (file, places) in places {
        let mut text = texts[file].clone();
        for (at, (end, content)) in places.into_iter().rev() {
            text.replace_range(at..end, &content);
        }
        out.insert(file.to_owned(), text);
    }
    Ok(out)
}

/// Brings `to` to what `root` holds (but for what git ignores), with `changed` files in place of their own. Files that
/// stay the same are not written, so that cargo does not build them again.
pub fn copy(root: &Path, to: &Path, changed: &BTreeMap<String, String>) -> Result<(), String> {
    let names = files_of(root)?;
    for name in &names {
        let content = match changed.get(name) {
            Some(text) => text.clone().into_bytes(),
            None => match std::fs::read(root.join(name)) {
                Ok(content) => content,
                // Deleted, and git does not know yet.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => return Err(format!("{name}: {e}")),
            },
        };
        write(&to.join(name), &content)?;
    }
    let mut there = BTreeSet::new();
    collect(to, to, &mut there);
    for name in there.difference(&names) {
        std::fs::remove_file(to.join(name)).map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(())
}

/// Files of the repository, and those that may become some.
pub fn files_of(root: &Path) -> Result<BTreeSet<String>, String> {
    let listed = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .map_err(|e| format!("git: {e}"))?;
    if !listed.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&listed.stderr).trim()));
    }
    let text = String::from_utf8(listed.stdout).map_err(|e| format!("git ls-files: {e}"))?;
    Ok(text.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

fn collect(top: &Path, folder: &Path, out: &mut BTreeSet<String>) {
    for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() && !path.is_symlink() {
            collect(top, &path, out);
        } else if let Ok(name) = path.strip_prefix(top) {
            out.insert(name.to_string_lossy().into_owned());
        }
    }
}

pub fn write(path: &Path, content: &[u8]) -> Result<(), String> {
    if std::fs::read(path).is_ok_and(|there| there == content) {
        return Ok(());
    }
    let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
    made.and_then(|()| std::fs::write(path, content)).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(name: &str, old: &str) -> Mutant {
        let change = Change { file: "a.rs".into(), old: old.into(), new: format!("{name}()") };
        Mutant {
            name: name.into(),
            why: "w".into(),
            seeds: 1,
            from: 1,
            test: None,
            alone: false,
            is_open: false,
            changes: vec![change],
        }
    }

    #[test]
    fn all_mutants_are_in_one_text_and_those_of_one_place_in_each_other() {
        let root = std::env::temp_dir().join(format!("zsr-tree-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        std::fs::write(root.join("a.rs"), "one(); two(); three();").unwrap();
        let text =
            |mutants: &[Mutant]| rust_files(&root, mutants).map(|mut files| files.remove("a.rs").unwrap());
        let mixed = text(&[mutant("a", "two()"), mutant("b", "one()"), mutant("c", "two()")]).unwrap();
        assert!(mixed.starts_with(&format!("{}; ", switched("b", "b()", "one()"))), "{mixed}");
        let both = switched("c", "c()", &switched("a", "a()", "two()"));
        assert!(mixed.ends_with(&format!("{both}; three();")), "{mixed}");
        let wrong = text(&[mutant("a", "one(); two()"), mutant("b", "two(); three()")]).unwrap_err();
        assert!(wrong.contains("overlaps"), "{wrong}");
        std::fs::remove_dir_all(&root).unwrap();
    }
}
