//! Developer tooling: `cargo xtask p4 [--check]`, `cargo xtask tofino`.

mod p4;
mod sources;
mod tofino;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository");
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["p4"] => p4::run(root, false),
        ["p4", "--check"] => p4::run(root, true),
        ["tofino"] => tofino::run(root, false),
        ["tofino", "--check"] => tofino::run(root, true),
        _ => Err("usage: cargo xtask p4 [--check] | cargo xtask tofino [--check]".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xtask: {e}");
            ExitCode::FAILURE
        }
    }
}
