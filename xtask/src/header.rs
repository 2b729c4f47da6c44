//! `cargo xtask header`: crates/capi/include/zsr.h, made by a package of its own (`xtask/header`). Only that package
//! needs its dependencies.

use std::path::Path;

use crate::cargo::cargo;

/// Writes the header anew; with `check`, only says whether it is what the crate says.
pub fn run(root: &Path, check: bool) -> Result<(), String> {
    let mut command = cargo();
    command.current_dir(root).args(["run", "--quiet", "--bin", "xtask-header", "--"]);
    if check {
        command.arg("--check");
    }
    let status = command.status().map_err(|e| format!("cargo: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("xtask-header: {status}")) }
}
