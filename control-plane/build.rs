//! Notes the hash of the P4 sources, so that a stale built-in program is noticed at start.

#[path = "../xtask/src/sources.rs"]
mod sources;

fn main() {
    println!("cargo::rerun-if-changed=../p4");
    let hash = sources::hash_of_sources(std::path::Path::new("../p4")).expect("p4/ is readable");
    println!("cargo::rustc-env=ZSR_P4_SOURCES_SHA256={hash}");
}
