//! Notes the hash of the P4 sources, so that a stale built-in program is noticed at start; compiles
//! BF Runtime's service to Rust.

use std::path::Path;

#[path = "../xtask/src/sources.rs"]
mod sources;

fn main() {
    watch(Path::new("../p4"));
    let hash = sources::hash_of_sources(Path::new("../p4")).expect("p4/ is readable");
    println!("cargo::rustc-env=ZSR_P4_SOURCES_SHA256={hash}");

    watch(Path::new("proto"));
    let files = ["bfrt/bfruntime.proto"];
    let shared = "../crates/p4runtime-proto/proto";
    let descriptors = protox::compile(files, ["proto", shared]).expect("proto/ is sound");
    tonic_prost_build::configure()
        .extern_path(".google.rpc", "::p4runtime_proto::google::rpc")
        .compile_fds(descriptors)
        .expect("proto/ becomes Rust");
}

/// Names every folder and file: a change inside a named folder alone did not make cargo run this again.
fn watch(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        watch(&entry.path());
    }
}
