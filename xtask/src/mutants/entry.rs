//! A mutant's file:
//!
//! ```text
//! why: Two workers drain one producer at the same time.
//! seeds: 200
//! file: p4/arch/v1model/state.p4
//! --- old
//! if (holder == 0)
//! +++ new
//! if (holder != 1)
//! --- end
//! ```
//! `seeds` is the number of seeds that may be needed to catch the mutant. A mutant that schedules do not reach has a
//! test that catches it instead: `test: ARGUMENTS` of `cargo test`. The old text must stand exactly once in the file.
//! Both texts are an expression, or whole statements that bind no name, so that many mutants can be in one program.
//! `alone: yes` marks a mutant of the P4 program with other texts. More of `file`, old and new may follow.

use std::path::Path;

/// A place of a file that is changed.
#[derive(Debug)]
pub struct Change {
    pub file: String,
    pub old: String,
    pub new: String,
}

#[derive(Debug)]
pub struct Mutant {
    pub name: String,
    /// The guarantee that the mutant breaks.
    pub why: String,
    /// The number of seeds that may be needed to catch it, and the first of them.
    pub seeds: u64,
    pub from: u64,
    /// The test that catches it in place of the simulator: arguments of `cargo test`.
    pub test: Option<String>,
    /// For the P4 program: the mutant needs a program of its own, since its texts are neither statements nor an
    /// expression.
    pub alone: bool,
    /// The mutant is not caught.
    pub is_open: bool,
    pub changes: Vec<Change>,
}

impl Mutant {
    /// Reads a mutant's file, whose name is the mutant's.
    pub fn read(path: &Path) -> Result<Mutant, String> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        Self::parse(name, &text).map_err(|e| format!("{}: {e}", path.display()))
    }

    fn parse(name: String, text: &str) -> Result<Mutant, String> {
        let mut mutant = Mutant {
            name,
            why: String::new(),
            seeds: 0,
            from: 1,
            test: None,
            alone: false,
            is_open: false,
            changes: Vec::new(),
        };
        let (mut file, mut lines) = (String::new(), text.lines());
        while let Some(line) = lines.next() {
            if line == "--- old" {
                let mut until = |end: &str| -> Result<String, String> {
                    let mut part = Vec::new();
                    loop {
                        match lines.next() {
                            Some(line) if line == end => return Ok(part.join("\n")),
                            Some(line) => part.push(line),
                            None => return Err(format!("`{end}` is missing")),
                        }
                    }
                };
                let (old, new) = (until("+++ new")?, until("--- end")?);
                if old.trim().is_empty() || file.is_empty() {
                    return Err("a change needs `file:` and an old text".into());
                }
                mutant.changes.push(Change { file: file.clone(), old, new });
                continue;
            }
            let number = |value: &str| value.parse().map_err(|_| format!("`{value}` is no number"));
            match line.split_once(": ") {
                Some(("why", value)) => mutant.why = value.to_owned(),
                Some(("seeds", value)) => mutant.seeds = number(value)?,
                Some(("from", value)) => mutant.from = number(value)?,
                Some(("test", value)) => mutant.test = Some(value.to_owned()),
                Some(("alone", "yes")) => mutant.alone = true,
                Some(("file", value)) => file = value.to_owned(),
                _ if line.trim().is_empty() => {}
                _ => {
                    return Err(format!(
                        "`{line}`: expected why, seeds, from, test, alone, file or `--- old`"
                    ));
                }
            }
        }
        let is_judged = (mutant.seeds > 0) != mutant.test.is_some();
        if mutant.why.is_empty() || !is_judged || mutant.changes.is_empty() {
            return Err("it has to say why, seeds or a test, and a change".into());
        }
        // Each text stands between braces of its own, where many mutants are in one program.
        let texts = mutant
            .changes
            .iter()
            .flat_map(|change| [(&change.file, &change.old), (&change.file, &change.new)]);
        for (file, text) in texts.filter(|_| !mutant.alone) {
            let keys = text.trim_start().split(')').next().unwrap_or_default();
            if file.ends_with(".p4") && keys.starts_with('(') && keys.contains(',') {
                return Err(format!("`{text}` is a row of a table: it needs `alone: yes`"));
            }
            if !has_its_pairs(text) {
                return Err(format!("`{text}` opens or closes a bracket of the text around it"));
            }
            if text.trim_end().ends_with(',') {
                return Err(format!("`{text}` ends with a comma of the text around it"));
            }
            if text.trim_end().ends_with("=>") {
                return Err(format!(
                    "`{text}` begins with a pattern: take what stands behind `if`, or behind `=>`"
                ));
            }
        }
        Ok(mutant)
    }

    /// The seeds or the test that have to catch the mutant.
    pub fn limit(&self) -> String {
        self.test
            .as_ref()
            .map_or_else(|| format!("{} seeds", self.seeds), |test| format!("cargo test {test}"))
    }

    /// Whether the mutant changes the P4 program.
    pub fn is_p4(&self) -> bool {
        self.changes.iter().any(|change| change.file.starts_with("p4/"))
    }

    /// Whether the mutant's old texts stand once each in the files below `root`.
    pub fn check(&self, root: &Path) -> Result<(), String> {
        for Change { file, old, .. } in &self.changes {
            let text = std::fs::read_to_string(root.join(file))
                .map_err(|e| format!("{}: {file}: {e}", self.name))?;
            let found = text.matches(old.as_str()).count();
            if found != 1 {
                return Err(format!("{}: its old text stands {found} times in {file}, not once", self.name));
            }
        }
        Ok(())
    }
}

/// Whether brackets are balanced.
fn has_its_pairs(text: &str) -> bool {
    let mut open = Vec::new();
    text.chars().all(|c| match c {
        '(' | '[' | '{' => {
            open.push(c);
            true
        }
        ')' => open.pop() == Some('('),
        ']' => open.pop() == Some('['),
        '}' => open.pop() == Some('{'),
        _ => true,
    }) && open.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "why: All is lost.\nseeds: 7\nfile: a.rs\n--- old\nlet a;\nb\n+++ new\nc\n--- end\n";

    #[test]
    fn a_file_says_what_is_changed_where() {
        let mutant = Mutant::parse("m".into(), TEXT).unwrap();
        assert_eq!((mutant.why.as_str(), mutant.seeds, mutant.from), ("All is lost.", 7, 1));
        let [Change { file, old, new }] = &mutant.changes[..] else { panic!("{mutant:?}") };
        assert_eq!((file.as_str(), old.as_str(), new.as_str()), ("a.rs", "let a;\nb", "c"));
    }

    #[test]
    fn a_test_stands_in_place_of_seeds() {
        let text = |with: &str| TEXT.replace("seeds: 7\n", with);
        let mutant = Mutant::parse("m".into(), &text("test: -p a --lib -- b\n")).unwrap();
        assert_eq!(mutant.limit(), "cargo test -p a --lib -- b");
        let both = Mutant::parse("m".into(), &text("seeds: 7\ntest: -p a\n")).unwrap_err();
        assert!(both.contains("seeds or a test"), "{both}");
    }

    #[test]
    fn what_is_missing_or_unknown_is_named() {
        for (from, to, said) in [
            ("--- end", "", "`--- end` is missing"),
            ("why: All is lost.\n", "", "has to say why"),
            ("seeds: 7", "seeds: many", "`many` is no number"),
            ("file: a.rs\n", "", "needs `file:`"),
            ("why:", "because:", "`because: All is lost.`"),
            ("let a;", "for a in b {", "opens or closes a bracket"),
            ("a;\nb\n", "a,\n", "ends with a comma"),
            ("let a;\nb\n", "Some(a) if a > 1 =>\n", "begins with a pattern"),
            ("a.rs\n--- old\nlet a;\nb\n", "a.p4\n--- old\n(EV_A, 0, _)\n", "is a row of a table"),
        ] {
            let wrong = Mutant::parse("m".into(), &TEXT.replace(from, to)).unwrap_err();
            assert!(wrong.contains(said), "{wrong}");
        }
    }

    #[test]
    fn an_old_text_stands_once() {
        let folder = std::env::temp_dir().join(format!("zsr-mutant-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mutant = Mutant::parse("m".into(), TEXT).unwrap();
        for (text, fits) in [("x\nlet a;\nb\n", true), ("let a;\n", false), ("let a;\nb\nlet a;\nb\n", false)]
        {
            std::fs::write(folder.join("a.rs"), text).unwrap();
            assert_eq!(mutant.check(&folder).is_ok(), fits, "{text:?}");
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
