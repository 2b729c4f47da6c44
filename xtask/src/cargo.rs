//! Cargo, run by a program that cargo runs.

use std::process::Command;

/// Cargo as a shell runs it. `cargo run` and `cargo test` set variables of their own package. If another cargo saw
/// these, it would build `ring` anew, whose build script looks at them, and all that depends on it. The next cargo that
/// does not see them would do so again.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let of_package =
            name.to_str().is_some_and(|n| n.starts_with("CARGO_PKG_") || n.starts_with("CARGO_MANIFEST_"));
        if of_package {
            cargo.env_remove(name);
        }
    }
    cargo
}
