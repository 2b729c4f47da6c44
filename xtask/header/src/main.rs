//! `cargo xtask header [--check]`: crates/capi/include/zsr.h, made of the crate that it describes.

#![forbid(unsafe_code)]

use std::path::Path;
use std::process::ExitCode;

const HEADER: &str = "crates/capi/include/zsr.h";

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let check = std::env::args().any(|arg| arg == "--check");
    match run(&root, check) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xtask: {e}");
            ExitCode::FAILURE
        }
    }
}

fn run(root: &Path, check: bool) -> Result<(), String> {
    let config = root.join("crates/capi/cbindgen.toml");
    let config =
        cbindgen::Config::from_file(config).map_err(|e| format!("crates/capi/cbindgen.toml: {e}"))?;
    let header = cbindgen::Builder::new()
        .with_crate(root.join("crates/capi"))
        .with_config(config)
        .generate()
        .map_err(|e| format!("crates/capi: {e}"))?;
    let mut text = Vec::new();
    header.write(&mut text);
    let path = root.join(HEADER);
    if !check {
        return std::fs::write(path, text).map_err(|e| format!("{HEADER}: {e}"));
    }
    if std::fs::read(path).map_err(|e| format!("{HEADER}: {e}"))? != text {
        return Err(format!("{HEADER} is not what `cargo xtask header` writes. Run it."));
    }
    println!("{HEADER}: fits the library");
    Ok(())
}
