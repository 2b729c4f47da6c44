//! Instructions of parts of a program, counted by running it under callgrind.

use std::collections::HashMap;
use std::ffi::CString;
use std::path::Path;
use std::process::{Command, Stdio};

use super::valgrind;

/// Instructions by the name of what was counted.
#[derive(Debug, Default)]
pub struct Counts(HashMap<String, f64>);

impl Counts {
    /// The instructions that were [dumped](dump) under this name.
    ///
    /// # Panics
    /// If there are none.
    pub fn of(&self, name: &str) -> f64 {
        *self.0.get(name).unwrap_or_else(|| panic!("`{name}` was not counted"))
    }
}

/// In the program under callgrind: what was counted since the last call has this name.
pub fn dump(name: &str) {
    valgrind::dump(&CString::new(name).expect("no zero in it"));
}

/// Runs this very program with `arguments` under callgrind. `None`, and a line that says why, where there is no
/// valgrind.
///
/// # Panics
/// When the program fails.
pub fn run(arguments: &[&str]) -> Option<Counts> {
    let there = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        println!("\nSKIPPED instructions: valgrind is not installed");
        return None;
    }
    let folder = std::env::temp_dir().join(format!("zsr-callgrind-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let status = Command::new("valgrind")
        .args(["--quiet", "--tool=callgrind", "--collect-atstart=no"])
        .arg(format!("--callgrind-out-file={}", folder.join("out").display()))
        .arg(std::env::current_exe().expect("a path"))
        .args(arguments)
        // Callgrind counts a string instruction once for each byte, so that memcpy had better not use it.
        .env("GLIBC_TUNABLES", "glibc.cpu.x86_rep_movsb_threshold=1073741824")
        .stdout(Stdio::null())
        .status();
    assert!(status.expect("valgrind runs").success(), "the counted program has failed");
    let counts = read(&folder);
    let _ = std::fs::remove_dir_all(&folder);
    Some(counts)
}

/// Callgrind's files: one per dump, with the name that asked for it and a total.
fn read(folder: &Path) -> Counts {
    let mut counts = Counts::default();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let text = std::fs::read(entry.path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
        let Some(name) = line("desc: Trigger: Client Request: ") else { continue };
        let Some(total) = line("summary: ").or_else(|| line("totals: ")) else { continue };
        counts.0.insert(name.to_owned(), total.trim().parse().unwrap_or_default());
    }
    counts
}
