//! `cargo xtask crates`: licences of the crates that we build on, and crates that are there in several versions.

use crate::cargo::cargo;
use serde_json::Value;
use spdx::{Expression, Licensee, ParseMode};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Licences that code under Apache-2.0 may be linked with and shipped with.
const LICENCES: [&str; 9] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

/// Crates under other licences that are only run, as tools: nothing of them is linked with what is shipped.
const TOOLS: [(&str, &str); 2] = [
    ("cbindgen", "MPL-2.0"),
    // Of a macro that arrow-array uses on wasm32 only.
    ("tiny-keccak", "CC0-1.0"),
];

/// Crates that are there in more than one version, and the crates that keep them so.
const SEVERAL: [(&str, &str); 12] = [
    ("base64", "tonic uses 0.22, pem (rcgen) 0.23"),
    ("bit-vec", "yasna (rcgen) uses 0.9"),
    ("bitflags", "cranelift-jit uses region 3, which uses bitflags 1"),
    ("embedded-io", "postcard can use 0.4 and 0.6; neither is compiled"),
    ("foldhash", "comes with hashbrown"),
    ("getrandom", "ring uses 0.2"),
    ("hashbrown", "cranelift-codegen and petgraph use 0.15"),
    ("num-bigint", "der-parser (rcgen) uses 0.4, arrow-buffer uses 0.5"),
    ("syn", "prost and tonic-build use 2, clap and serde use 3"),
    ("toml_datetime", "cbindgen uses toml 0.9"),
    ("unicode-width", "miette uses 0.1"),
    ("winnow", "cbindgen uses toml 0.9"),
];

/// Reports errors in the crates of Cargo.lock, as far as they are built on Linux.
pub fn run(root: &Path) -> Result<(), String> {
    let metadata =
        ["metadata", "--format-version", "1", "--locked", "--filter-platform", "x86_64-unknown-linux-gnu"];
    let output = cargo().current_dir(root).args(metadata).output().map_err(|e| format!("cargo: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let metadata: Value =
        serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata: {e}"))?;
    let crates = metadata["packages"].as_array().ok_or("cargo metadata names no packages")?;
    let mut wrong: Vec<String> = crates.iter().filter_map(licence).collect();
    wrong.extend(versions(crates));
    if wrong.is_empty() {
        println!("{} crates: licences allowed, {} in several versions", crates.len(), SEVERAL.len());
        return Ok(());
    }
    Err(format!("{}\nThe lists are in xtask/src/crates.rs.", wrong.join("\n")))
}

fn text<'v>(of: &'v Value, field: &str) -> &'v str {
    of[field].as_str().unwrap_or_default()
}

/// The error in a crate's licence.
fn licence(of: &Value) -> Option<String> {
    let (name, version, licence) = (text(of, "name"), text(of, "version"), text(of, "license"));
    let allowed: Vec<Licensee> = LICENCES.iter().filter_map(|l| Licensee::parse(l).ok()).collect();
    let expression = Expression::parse_mode(licence, ParseMode::LAX);
    let is_allowed = expression.is_ok_and(|e| e.evaluate(|asked| allowed.iter().any(|l| l.satisfies(asked))));
    (!is_allowed && !TOOLS.contains(&(name, licence)))
        .then(|| format!("{name} {version}: its licence `{licence}` is not among those that are allowed"))
}

/// Crates in several versions that are not listed, and listed ones that are not.
fn versions(crates: &[Value]) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for of in crates {
        versions.entry(text(of, "name")).or_default().insert(text(of, "version"));
    }
    versions.retain(|_, versions| versions.len() > 1);
    let listed = |name: &str| SEVERAL.iter().any(|(known, _)| *known == name);
    let new = versions.iter().filter(|(name, _)| !listed(name)).map(|(name, versions)| {
        let versions: Vec<&str> = versions.iter().copied().collect();
        format!("{name}: in several versions, {}; see `cargo tree --duplicates`", versions.join(", "))
    });
    let gone = SEVERAL.iter().filter(|(name, _)| !versions.contains_key(name));
    let gone = gone.map(|(name, _)| format!("{name}: listed as in several versions, and is in one"));
    new.chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn licences_are_read_as_expressions() {
        let wrong = |licence: &str| super::licence(&json!({"name": "a", "version": "1", "license": licence}));
        for allowed in
            ["MIT", "Apache-2.0/MIT", "GPL-3.0-only OR MIT", "(MIT OR GPL-3.0-only) AND Unicode-3.0"]
        {
            assert_eq!(wrong(allowed), None);
        }
        for refused in ["GPL-3.0-only", "MIT AND GPL-3.0-only", "", "no licence"] {
            assert!(wrong(refused).is_some_and(|w| w.contains(refused)), "{refused}");
        }
    }

    #[test]
    fn a_crate_in_several_versions_has_to_be_listed() {
        let of = |name: &str, version: &str| json!({"name": name, "version": version});
        let listed = SEVERAL.iter().flat_map(|(name, _)| [of(name, "1"), of(name, "2")]);
        let mut crates: Vec<Value> = listed.collect();
        assert_eq!(versions(&crates), [""; 0]);
        crates.pop();
        crates.extend([of("new", "1"), of("new", "2")]);
        let wrong = versions(&crates).join("\n");
        assert!(wrong.contains("new: in several versions, 1, 2") && wrong.contains("listed as"), "{wrong}");
    }
}
