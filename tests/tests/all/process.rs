//! The `zsr` program where its surroundings fail: its messages, and the state that it leaves behind. Tests that need
//! only arguments are beside the program (control-plane/cli/tests/cli.rs).
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const TOPOLOGY: &str = "\
hosts: [h1, h2, h3]
flows:
  - {name: f, producers: [h1, h2], consumers: [h3], item_size: 1KiB, ring_size: 64KiB, max_batch: 16KiB}
workload: {kind: synthetic, items: 100}
";

/// The program, built like this test and into the same folder.
fn zsr() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| zsr_tests::beside("bin", "zsr"))
}

/// A folder with the topology `t.yaml` and the input `in.txt` of many lines.
fn folder(lines: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder for the test");
    std::fs::write(folder.path().join("t.yaml"), TOPOLOGY).expect("a small file");
    let text: String =
        (0..lines).map(|n| format!("line {n} with some more text to make it longer\n")).collect();
    std::fs::write(folder.path().join("in.txt"), text).expect("a small file");
    folder
}

/// Files in the output folder.
fn left(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder.join("out")) else { return Vec::new() };
    entries.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_full_disk_leaves_nothing_that_looks_whole() {
    let folder = folder(20_000);
    // No file may grow beyond 64 KiB. The signal for that is ignored, as in any program that a service manager starts.
    let script = r#"trap '' XFSZ; ulimit -f 128; exec "$0" run t.yaml -q --input in.txt --output out"#;
    let output = Command::new("sh").args(["-c", script]).arg(zsr()).current_dir(folder.path()).output();
    let output = output.expect("a shell");
    let report = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{report}");
    let said = report.lines().find(|l| l.starts_with("FAILED: ")).unwrap_or_default();
    assert!(said.contains("out/f.h3.txt") && said.contains("File too large"), "{report}");
    assert_eq!(left(folder.path()), Vec::<String>::new());
}

#[test]
fn an_interrupted_run_leaves_nothing_that_looks_whole() {
    let folder = folder(2_000_000);
    let mut child = Command::new(zsr())
        .args(["run", "t.yaml", "--input", "in.txt", "--output", "out"])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut errors = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    // Signals are caught before anything is brought up.
    while !line.contains("bringing up") {
        line.clear();
        assert_ne!(errors.read_line(&mut line).expect("text"), 0, "ended early");
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("a kill command");
    assert!(sent.success());
    let mut rest = String::new();
    errors.read_to_string(&mut rest).expect("text");
    let output = child.wait_with_output().expect("its end");
    let report = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{report}{rest}");
    assert!(report.contains("INTERRUPTED: "), "{report}{rest}");
    assert_eq!(left(folder.path()), Vec::<String>::new(), "{report}{rest}");
}

#[test]
fn damaged_artifacts_are_refused() {
    let folder = folder(1);
    let built_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4/artifacts");
    for file in ["zsr-v1model.json", "zsr-v1model.p4info.txtpb", "zsr-v1model.manifest.json"] {
        let copy = folder.path().join("artifacts");
        std::fs::create_dir_all(&copy).expect("a folder");
        for entry in std::fs::read_dir(&built_in).expect("the artifacts") {
            let entry = entry.expect("an entry");
            std::fs::copy(entry.path(), copy.join(entry.file_name())).expect("a copy");
        }
        let mut bytes = std::fs::read(copy.join(file)).expect("a copy");
        let half = bytes.len() / 2;
        bytes.truncate(half);
        std::fs::write(copy.join(file), bytes).expect("a copy");
        let output = Command::new(zsr())
            .args(["run", "t.yaml", "-q", "--artifacts", "artifacts"])
            .current_dir(folder.path())
            .output()
            .expect("the program runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{file}: {error}");
        assert!(
            error.starts_with("error: ") && error.contains(file) && error.contains("damaged"),
            "{file}: {error}"
        );
        assert!(output.stdout.is_empty());
    }
}
