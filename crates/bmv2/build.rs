//! Compiles proto/ to Rust.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["p4/bm/dataplane.proto"], ["proto"])?;
    tonic_prost_build::configure().build_server(true).compile_fds(descriptors)?;
    Ok(())
}
