//! Developer tooling:
//!
//!     cargo xtask p4 [--names | --check]
//!     cargo xtask tofino [--check | tofino | tofino2]
//!     cargo xtask proto [--check]
//!     cargo xtask cli [--check]
//!     cargo xtask header [--check]
//!     cargo xtask dist [--prefix DIR] [--debug]
//!     cargo xtask packages [--out DIR] [--debug]
//!     cargo xtask crates
//!     cargo xtask docs --check
//!     cargo xtask mutants [--list | --check | NAME...]

#![forbid(unsafe_code)]

mod cargo;
mod cli;
mod crates;
mod dist;
mod docs;
mod header;
mod mutants;
mod names;
mod p4;
mod packages;
mod proto;
mod tofino;
mod words;

use std::path::Path;
use std::process::ExitCode;

use tofino::Compile;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository");
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["p4"] => p4::run(root, false),
        ["p4", "--names"] => p4::write_names(root),
        ["p4", "--check"] => p4::run(root, true),
        ["tofino"] => tofino::run(root, Compile::All),
        ["tofino", "--check"] => tofino::run(root, Compile::Nothing),
        ["tofino", chip] => tofino::run(root, Compile::One(chip)),
        ["proto"] => proto::run(root, false),
        ["proto", "--check"] => proto::run(root, true),
        ["cli"] => cli::run(root, false),
        ["cli", "--check"] => cli::run(root, true),
        ["header"] => header::run(root, false),
        ["header", "--check"] => header::run(root, true),
        ["dist", rest @ ..] => dist::run(root, rest),
        ["packages", rest @ ..] => packages::run(root, rest),
        ["crates"] => crates::run(root),
        ["docs", "--check"] => docs::check(root),
        ["mutants", "--list"] => mutants::list(root),
        ["mutants", "--check"] => mutants::check(root),
        ["mutants", names @ ..] => mutants::run(root, names),
        _ => Err(
            "usage: cargo xtask p4 [--names | --check] | cargo xtask tofino [--check | tofino | tofino2] | \
                  cargo xtask proto [--check] | cargo xtask cli [--check] | cargo xtask header [--check] | \
                  cargo xtask dist [--prefix DIR] [--debug] | cargo xtask packages [--out DIR] [--debug] | cargo xtask crates | cargo xtask docs --check | \
                  cargo xtask mutants [--list | --check | NAME...]"
                .into(),
        ),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xtask: {e}");
            ExitCode::FAILURE
        }
    }
}
