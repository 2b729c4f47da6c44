//! Notes the hash of the P4 sources, so that a compiled program that is not theirs is noticed at start.

use std::path::Path;

#[path = "src/sources.rs"]
mod sources;

fn main() {
    watch(Path::new("."));
    let hash = sources::hash_of_sources(Path::new(".")).expect("p4/ is readable");
    println!("cargo::rustc-env=ZSR_P4_SOURCES_SHA256={hash}");
}

/// Names every folder and file: a change inside a named folder alone did not make cargo run this again.
fn watch(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        watch(&entry.path());
    }
}
