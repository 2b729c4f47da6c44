//! The P4 texts, and what they mean for one architecture.

use std::collections::BTreeMap;
use std::path::Path;

use crate::ast::Program;
use crate::link::Linked;
use crate::pipeline::TYPES;
use crate::preprocess::{Macros, preprocess};

/// The macro that the preprocessor knows before `main.p4`; only of tna's text it decides anything.
const CHIP: &str = "#define __TARGET_TOFINO__ 2\n";

/// All P4 texts, by path from the repository's root.
#[derive(Clone, Debug)]
pub struct Sources(pub(crate) BTreeMap<String, String>);

impl Sources {
    /// Reads the texts below `p4` of the repository at `root`.
    pub fn read(root: &Path) -> Result<Sources, String> {
        let mut texts = BTreeMap::new();
        let mut folders = vec!["p4".to_owned()];
        while let Some(folder) = folders.pop() {
            let fail = |e: std::io::Error| format!("{folder}: {e}");
            for entry in std::fs::read_dir(root.join(&folder)).map_err(fail)? {
                let entry = entry.map_err(fail)?;
                let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
                if entry.path().is_dir() {
                    folders.push(path);
                } else if path.ends_with(".p4") {
                    texts.insert(path, std::fs::read_to_string(entry.path()).map_err(fail)?);
                }
            }
        }
        Ok(Sources(texts))
    }

    /// The text at `path`.
    pub fn text(&self, path: &str) -> Result<&str, String> {
        self.0.get(path).map(String::as_str).ok_or_else(|| format!("no {path}"))
    }

    /// The same texts but for the one at `path`.
    pub fn with(&self, path: &str, text: String) -> Sources {
        let mut changed = self.clone();
        changed.0.insert(path.to_owned(), text);
        changed
    }

    /// Types and metadata as `arch` has them, its own widths included.
    pub(crate) fn common(&self, arch: &str) -> Result<Common, String> {
        let mut common = Common::default();
        preprocess("", CHIP, &mut common.macros)?;
        let main = format!("p4/arch/{arch}/main.p4");
        preprocess(&main, self.text(&main)?, &mut common.macros)?;
        for path in [TYPES, "p4/common/metadata.p4"] {
            common.add(path, self.text(path)?)?;
        }
        // Names of sizes stay what they are: both sides of a pair must have the same.
        common.macros.retain(|name, _| !name.starts_with("ZSR_MAX_"));
        Ok(common)
    }
}

/// The declarations of texts so far.
#[derive(Clone, Debug, Default)]
pub struct Common {
    program: Program,
    macros: Macros,
}

impl Common {
    fn add(&mut self, path: &str, text: &str) -> Result<(), String> {
        let read = preprocess(path, text, &mut self.macros)?;
        if !read.includes.is_empty() {
            return Err(format!("{path} includes texts, which is not understood"));
        }
        self.program.add(&read.tokens)
    }

    /// With state controls.
    pub fn with_state(&self, path: &str, text: &str) -> Result<Linked, String> {
        let mut all = self.clone();
        all.add(path, text)?;
        Linked::new(all.program)
    }
}
