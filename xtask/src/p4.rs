//! `cargo xtask p4`: compiles the P4 program and refreshes p4/artifacts.

use crate::sources::{hash_of, hash_of_sources};
use std::path::Path;
use std::process::Command;

const MAIN: &str = "p4/arch/v1model/main.p4";
const JSON: &str = "p4/artifacts/zsr-v1model.json";
const P4INFO: &str = "p4/artifacts/zsr-v1model.p4info.txtpb";
const MANIFEST: &str = "p4/artifacts/zsr-v1model.manifest.json";

/// Compiles with `p4c-bm2-ss` (from `$P4C`, or PATH); warnings are errors. With `check`, only says whether the artifacts
/// are those of the sources.
pub fn run(root: &Path, check: bool) -> Result<(), String> {
    let sources = hash_of_sources(&root.join("p4")).map_err(|e| format!("p4/: {e}"))?;
    if check {
        let manifest: serde_json::Value = read(root, MANIFEST)
            .and_then(|t| serde_json::from_slice(&t).map_err(|e| format!("{MANIFEST}: {e}")))?;
        return if manifest["sources_sha256"] == sources.as_str() {
            println!("{MANIFEST}: fits the sources ({sources})");
            Ok(())
        } else {
            Err(format!("{MANIFEST} is stale: p4/ has changed since. Run `cargo xtask p4`."))
        };
    }

    let p4c = std::env::var("P4C").unwrap_or_else(|_| "p4c-bm2-ss".into());
    let version = output(Command::new(&p4c).arg("--version")).map_err(|e| {
        format!("{p4c}: {e}. Put p4c-bm2-ss (p4lang/p4c) on PATH or name it in $P4C; users need no compiler.")
    })?;
    output(Command::new(&p4c).current_dir(root).args([
        "--arch",
        "v1model",
        "--Wwarn",
        "--Werror",
        "-o",
        JSON,
        "--p4runtime-files",
        P4INFO,
        MAIN,
    ]))?;
    let manifest = serde_json::json!({
        "program": MAIN,
        "compiler": version.lines().find(|l| l.starts_with("Version")).unwrap_or("unknown").trim(),
        "sources_sha256": sources,
        "json_sha256": hash_of(&read(root, JSON)?),
        "p4info_sha256": hash_of(&read(root, P4INFO)?),
    });
    let text = serde_json::to_string_pretty(&manifest).map_err(|e| e.to_string())? + "\n";
    std::fs::write(root.join(MANIFEST), text).map_err(|e| format!("{MANIFEST}: {e}"))?;
    println!("{JSON}\n{P4INFO}\n{MANIFEST}");
    Ok(())
}

fn read(root: &Path, name: &str) -> Result<Vec<u8>, String> {
    std::fs::read(root.join(name)).map_err(|e| format!("{name}: {e}"))
}

fn output(command: &mut Command) -> Result<String, String> {
    let out = command.output().map_err(|e| format!("cannot run: {e}"))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    if out.status.success() { Ok(text) } else { Err(text) }
}
