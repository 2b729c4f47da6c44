//! Compiles proto/ to Rust, and keeps the descriptors for the text format and for the wire test.

use std::{env, fs, path::PathBuf};

use prost::Message;

const FILES: [&str; 7] = [
    "google/rpc/status.proto",
    "p4/config/v1/p4types.proto",
    "p4/config/v1/p4info.proto",
    "p4/v1/p4data.proto",
    "p4/v1/entities.proto",
    "p4/v1/stream.proto",
    "p4/v1/p4runtime.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    tonic_prost_build::configure()
        .include_file("packages.rs")
        .compile_fds_with_config(descriptors, config)?;
    Ok(())
}
