//! Compiles the services to Rust.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files =
        ["zsr/controller/v1/controller.proto", "zsr/agent/v1/agent.proto", "zsr/agent/v1/program.proto"];
    let server = std::env::var_os("CARGO_FEATURE_SERVER").is_some();
    tonic_prost_build::configure().build_server(server).compile_fds(protox::compile(files, ["proto"])?)?;
    Ok(())
}
