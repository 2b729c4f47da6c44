//! Programs of the workspace, built by a program that lies in its target folder.

use std::path::{Path, PathBuf};

use super::cargo;

/// Builds program `name` of a `kind`, `bin` or `example`, with the profile of this program and into the same folder.
/// Blocks until it is built. On a machine without cargo, `ZSR_BUILT` names the folder of the program.
///
/// # Panics
/// When the program does not build.
pub fn beside(kind: &str, name: &str) -> PathBuf {
    if let Some(built) = std::env::var_os("ZSR_BUILT") {
        return Path::new(&built).join(name);
    }
    let own = std::env::current_exe().expect("this program's own path");
    let folder = own.parent().and_then(Path::parent).expect("TARGET/PROFILE/deps/PROGRAM");
    let mut build = cargo();
    // With the features that the workspace's tests have.
    build.args(["build", "-q", "--locked", "--workspace", &format!("--{kind}"), name]).arg("--target-dir");
    build.arg(folder.parent().expect("TARGET/PROFILE"));
    if folder.ends_with("release") {
        build.arg("--release");
    }
    let status = build.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo runs");
    assert!(status.success(), "{name} does not build");
    match kind {
        "example" => folder.join("examples").join(name),
        _ => folder.join(name),
    }
}
