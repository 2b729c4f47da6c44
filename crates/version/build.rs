//! Asks git which commit this is, or the file that cargo puts into a package. Other sources say it by ZSR_COMMIT, or not at all.

use std::path::Path;
use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let said = Command::new("git").args(args).output().ok().filter(|said| said.status.success())?;
    Some(String::from_utf8(said.stdout).ok()?.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The commit of a package that cargo made.
fn packaged() -> Option<String> {
    let info = std::fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let hash = info.split("\"sha1\": \"").nth(1)?.get(..12)?;
    Some(hash.to_owned()).filter(|hash| hash.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn main() {
    println!("cargo:rerun-if-env-changed=ZSR_COMMIT");
    let said = std::env::var("ZSR_COMMIT").ok().filter(|commit| !commit.is_empty());
    // Packages of crates lie in other people's repositories.
    let own = || Path::new("../../control-plane/cli/Cargo.toml").exists();
    let asked = || own().then(|| git(&["rev-parse", "--short=12", "HEAD"])).flatten();
    let commit = said.or_else(packaged).or_else(asked);
    // It changes whenever HEAD does.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
    let commit = commit.map(|commit| format!("commit {commit}, ")).unwrap_or_default();
    let variable = |name| std::env::var(name).unwrap_or_default();
    println!(
        "cargo:rustc-env=ZSR_VERSION={} ({commit}{}, {})",
        variable("CARGO_PKG_VERSION"),
        variable("TARGET"),
        variable("PROFILE")
    );
}
