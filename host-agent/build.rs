//! Compiles the agent's service to Rust, and declares the `loom` configuration flag.

use std::env;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rustc-check-cfg=cfg(loom)");
    println!("cargo::rerun-if-changed=proto");
    if env::var_os("CARGO_CFG_LOOM").is_some() {
        return Ok(());
    }
    let descriptors = protox::compile(["zsr/agent/v1/agent.proto", "zsr/agent/v1/program.proto"], ["proto"])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
