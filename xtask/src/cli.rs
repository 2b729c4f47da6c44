//! `cargo xtask cli`: docs/reference.md, from the command line's own help.

use std::path::Path;
use std::process::Stdio;

use crate::cargo::cargo;

pub const REFERENCE: &str = "docs/reference.md";

/// Writes docs/reference.md; with `check`, only says whether it is what the command's help says.
pub fn run(root: &Path, check: bool) -> Result<(), String> {
    // A process of its own: a build of xtask need not build all of zsr. No package is named, so that the features are
    // the workspace's.
    let zsr = ["run", "--quiet", "--bin", "zsr", "--", "reference"];
    let printed = cargo().current_dir(root).args(zsr).stderr(Stdio::inherit()).output();
    let printed = printed.map_err(|e| format!("cargo: {e}"))?;
    if !printed.status.success() {
        return Err(format!("zsr reference: {}", printed.status));
    }
    let path = root.join(REFERENCE);
    if !check {
        return std::fs::write(path, printed.stdout).map_err(|e| format!("{REFERENCE}: {e}"));
    }
    let there = std::fs::read(path).map_err(|e| format!("{REFERENCE}: {e}"))?;
    if there != printed.stdout {
        return Err(format!("{REFERENCE} is not what `cargo xtask cli` writes. Run it."));
    }
    println!("{REFERENCE}: fits the commands");
    Ok(())
}
