//! `cargo xtask proto`: the code of .proto files, made by a package of its own (`xtask/proto`). Only that package needs
//! its dependencies.

use std::path::Path;

use crate::cargo::cargo;

/// Writes the code anew; with `check`, only says whether it is what the .proto files say.
pub fn run(root: &Path, check: bool) -> Result<(), String> {
    let mut command = cargo();
    command.current_dir(root).args(["run", "--quiet", "--bin", "xtask-proto", "--"]);
    if check {
        command.arg("--check");
    }
    let status = command.status().map_err(|e| format!("cargo: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("xtask-proto: {status}")) }
}
