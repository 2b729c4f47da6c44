//! `cargo xtask p4`: compiles the P4 program and refreshes p4/artifacts.

use crate::names;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use zsr_p4::sources::{hash_of, hash_of_sources};

const MAIN: &str = "p4/arch/v1model/main.p4";
const JSON: &str = "p4/artifacts/zsr-v1model.json";
const P4INFO: &str = "p4/artifacts/zsr-v1model.p4info.txtpb";
const NAMES: &str = "control-plane/plan/src/p4/names.rs";
const MANIFEST: &str = "p4/artifacts/zsr-v1model.manifest.json";

/// Files of a compiled program in p4/artifacts.
pub const FILES: [&str; 3] = ["zsr-v1model.json", "zsr-v1model.p4info.txtpb", "zsr-v1model.manifest.json"];

/// Compiles with `p4c-bm2-ss` (from `$P4C`, or PATH); warnings are errors. With `check`, only says whether the
/// artifacts are those of the sources.
pub fn run(root: &Path, check: bool) -> Result<(), String> {
    if check {
        let sources = fits(root)?;
        if read(root, NAMES)? != names_of(root)?.as_bytes() {
            return Err(format!("{NAMES} is not what `cargo xtask p4 --names` writes. Run it."));
        }
        println!("{MANIFEST}, {NAMES}: fit the sources ({sources})");
        return Ok(());
    }
    compile(root)?;
    println!("{JSON}\n{P4INFO}\n{MANIFEST}");
    write_names(root)
}

/// The hash of the sources, if the manifest has the same one.
fn fits(root: &Path) -> Result<String, String> {
    let sources = hash_of_sources(&root.join("p4")).map_err(|e| format!("p4/: {e}"))?;
    let manifest: serde_json::Value = read(root, MANIFEST)
        .and_then(|t| serde_json::from_slice(&t).map_err(|e| format!("{MANIFEST}: {e}")))?;
    if manifest["sources_sha256"] != sources.as_str() {
        return Err(format!("{MANIFEST} is stale: p4/ has changed since. Run `cargo xtask p4`."));
    }
    Ok(sources)
}

/// Whether the compiled program is that of the sources.
pub fn is_fresh(root: &Path) -> bool {
    fits(root).is_ok()
}

/// The compiler and what it says of its version.
pub fn compiler() -> Result<(String, String), String> {
    let p4c = std::env::var("P4C").unwrap_or_else(|_| "p4c-bm2-ss".into());
    let version = output(Command::new(&p4c).arg("--version")).map_err(|e| {
        format!("{p4c}: {e}. Put p4c-bm2-ss (p4lang/p4c) on PATH or name it in $P4C; users need no compiler.")
    })?;
    Ok((p4c, version))
}

/// Compiles the program and writes its manifest.
pub fn compile(root: &Path) -> Result<(), String> {
    let sources = hash_of_sources(&root.join("p4")).map_err(|e| format!("p4/: {e}"))?;
    let (p4c, version) = compiler()?;
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
    std::fs::write(root.join(MANIFEST), text).map_err(|e| format!("{MANIFEST}: {e}"))
}

/// Writes the Rust module of names anew, from the artifacts that there are. Needs no P4 compiler.
pub fn write_names(root: &Path) -> Result<(), String> {
    std::fs::write(root.join(NAMES), names_of(root)?).map_err(|e| format!("{NAMES}: {e}"))?;
    println!("{NAMES}");
    Ok(())
}

/// The module of names as rustfmt has it.
fn names_of(root: &Path) -> Result<String, String> {
    let p4info = String::from_utf8(read(root, P4INFO)?).map_err(|e| format!("{P4INFO}: {e}"))?;
    let text = names::module(root, &p4info, &read(root, JSON)?)?;
    let mut rustfmt = Command::new("rustfmt")
        .current_dir(root)
        .args(["--edition", "2024"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("rustfmt: {e}"))?;
    let mut input = rustfmt.stdin.take().ok_or("rustfmt: it has no standard input")?;
    input.write_all(text.as_bytes()).map_err(|e| format!("rustfmt: {e}"))?;
    drop(input);
    let out = rustfmt.wait_with_output().map_err(|e| format!("rustfmt: {e}"))?;
    if !out.status.success() {
        return Err(format!("rustfmt refuses the module of names:\n{text}"));
    }
    String::from_utf8(out.stdout).map_err(|e| format!("rustfmt: {e}"))
}

fn read(root: &Path, name: &str) -> Result<Vec<u8>, String> {
    std::fs::read(root.join(name)).map_err(|e| format!("{name}: {e}"))
}

fn output(command: &mut Command) -> Result<String, String> {
    let out = command.output().map_err(|e| format!("cannot run: {e}"))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    if out.status.success() { Ok(text) } else { Err(text) }
}
