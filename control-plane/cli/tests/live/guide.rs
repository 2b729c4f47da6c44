//! docs/guide.md, line by line.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A shell for the guide's commands, in a folder and with systems of its own.
struct Shell(tempfile::TempDir);

impl Shell {
    fn new() -> Self {
        // Sockets have short paths.
        let folder = tempfile::Builder::new().prefix("zsr").tempdir_in("/tmp").expect("a folder");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the repository");
        std::os::unix::fs::symlink(root.join("topologies"), folder.path().join("topologies"))
            .expect("a link");
        Shell(folder)
    }

    fn command(&self, program: &str) -> Command {
        let zsr = Path::new(env!("CARGO_BIN_EXE_zsr")).parent().expect("a folder");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths([PathBuf::from(zsr)].into_iter().chain(std::env::split_paths(&path)));
        let mut command = Command::new(program);
        command.current_dir(self.0.path()).env("XDG_RUNTIME_DIR", self.0.path()).env_remove("ZSR_SYSTEM");
        command.env("PATH", path.expect("a path"));
        command
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.0.path().join(file)).expect("text");
        text.lines().map(str::to_owned).collect()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // A test that has failed leaves no processes either.
        let _ = self.command("zsr").arg("down").stderr(Stdio::null()).stdout(Stdio::null()).status();
    }
}

#[test]
fn the_guide_can_be_followed() {
    let guide = include_str!("../../../../docs/guide.md");
    // Behind that it takes other switches and machines.
    let day = guide.split("## Other switches").next().expect("a text");
    let commands = day.lines().filter_map(|line| line.strip_prefix("    "));
    // These wait for somebody at a terminal.
    let commands = commands.filter(|c| !c.contains("wireshark") && !c.contains("--follow"));
    let mut script: String = commands.map(|c| format!("{c}\n")).collect();
    script = script.replace("zsr top ", "zsr top -n 1 ");
    assert!(script.contains("zsr up ") && script.contains("zsr restart"), "{script}");
    let shell = Shell::new();
    let mut sh = shell.command("sh");
    let sh = sh.args(["-e", "-x"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut run = sh.spawn().expect("it runs");
    // Programs in the background come to their ends.
    write!(run.stdin.take().expect("piped"), "{script}wait\nzsr down\n").expect("written");
    let said = run.wait_with_output().expect("it ends");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    // What the guide's consumers have written is what its producers have read.
    let input = shell.lines("in.csv");
    let mut pushed = [input.clone(), input.clone(), input].concat();
    let mut got = [shell.lines("out.csv"), shell.lines("out4.csv")].concat();
    pushed.sort();
    got.sort();
    assert!(got == pushed, "{} records of {}", got.len(), pushed.len());
    let mut tuples = [shell.lines("tuples3.csv"), shell.lines("tuples4.csv")].concat();
    tuples.sort();
    assert_eq!(tuples, ["1,2.5,first", "2,3.5,\"second, and last\"", "id,price,note", "id,price,note"]);
}
