//! A system of processes of its own for each test, in a folder of its own.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::Value;
use tonic::transport::{Channel, Endpoint};
use zsr_api::controller::controller_client::ControllerClient;

pub struct System {
    pub folder: tempfile::TempDir,
    pub topology: PathBuf,
}

pub struct Done {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Three hosts, one of them with the other byte order, and no flows.
pub const HOSTS: &str = "name: s\nhosts: [h1, h2, {name: h3, byte_order: big}]\nflows: []\n";

impl System {
    /// A folder with this topology; nothing is started.
    pub fn new(topology: &str) -> Self {
        // Sockets have short paths.
        let folder = tempfile::Builder::new().prefix("zsr").tempdir_in("/tmp").expect("a folder");
        let path = folder.path().join("s.yaml");
        std::fs::write(&path, topology).expect("written");
        System { folder, topology: path }
    }

    /// Up, with this topology.
    pub fn up(topology: &str) -> Self {
        let system = Self::new(topology);
        let up = system.zsr(&["up", system.path()]);
        assert_eq!(up.code, Some(0), "{}{}", up.out, up.err);
        system
    }

    pub fn path(&self) -> &str {
        self.topology.to_str().expect("text")
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zsr"));
        command.args(args).env("XDG_RUNTIME_DIR", self.folder.path()).env_remove("ZSR_SYSTEM");
        command.env_remove("ZSR_LOG").env_remove("ZSR_LOG_FORMAT");
        command.stdin(Stdio::null());
        command
    }

    pub fn zsr(&self, args: &[&str]) -> Done {
        done(self.command(args).output().expect("it runs"))
    }

    /// As [`zsr`](Self::zsr), for a command that has to succeed.
    pub fn well(&self, args: &[&str]) -> String {
        let done = self.zsr(args);
        assert_eq!(done.code, Some(0), "zsr {args:?}: {}{}", done.out, done.err);
        done.out
    }

    pub fn json(&self, args: &[&str]) -> Vec<Value> {
        let text = self.well(&[args, &["--json"]].concat());
        text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect()
    }

    /// A command that goes on, with its output.
    pub fn start(&self, args: &[&str]) -> (Child, BufReader<ChildStdout>) {
        let mut child =
            self.command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        let out = child.stdout.take().expect("piped");
        (child, BufReader::new(out))
    }

    /// All events from the first on, as they come.
    pub fn events(&self) -> Events {
        let (child, lines) = self.start(&["events", "--follow", "--json"]);
        Events { child, lines }
    }

    /// Numbers of the processes that live, by name.
    pub fn processes(&self) -> Vec<(String, Option<u64>)> {
        let status = self.zsr(&["status", "--json"]);
        let status: Value = serde_json::from_str(&status.out).expect("JSON");
        let list = status["processes"].as_array().expect("a list").clone();
        list.iter().map(|p| (p["name"].as_str().expect("a name").to_owned(), p["pid"].as_u64())).collect()
    }

    pub fn pid(&self, process: &str) -> u64 {
        let all = self.processes();
        all.iter().find(|(n, _)| n == process).and_then(|(_, pid)| *pid).expect("it lives")
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().join("zsr")
    }

    /// Numbers in use at the switch, and its address; also while another process is gone.
    pub fn switch(&self) -> Value {
        let status: Value = serde_json::from_str(&self.zsr(&["status", "--json"]).out).expect("JSON");
        status["switch"].clone()
    }

    /// As [`down`](Self::down) where a process is gone; nothing is left at the switch.
    pub fn down_after_deaths(&self) {
        let status: Value = serde_json::from_str(&self.zsr(&["status", "--json"]).out).expect("JSON");
        assert_eq!(status["switch"]["queue_pairs"], 0, "{status}");
        self.down();
    }

    pub fn down(&self) {
        self.well(&["down"]);
        let left: Vec<_> = std::fs::read_dir(self.root()).expect("a folder").flatten().collect();
        assert!(left.is_empty(), "left behind: {left:?}");
    }
}

/// A client of the controller.
pub struct Client {
    runtime: tokio::runtime::Runtime,
    client: ControllerClient<Channel>,
}

impl Client {
    pub fn try_call<T>(
        &mut self,
        call: impl AsyncFnOnce(&mut ControllerClient<Channel>) -> Result<tonic::Response<T>, tonic::Status>,
    ) -> Result<T, tonic::Status> {
        self.runtime.block_on(call(&mut self.client)).map(tonic::Response::into_inner)
    }

    /// A call that has to succeed.
    pub fn call<T>(
        &mut self,
        call: impl AsyncFnOnce(&mut ControllerClient<Channel>) -> Result<tonic::Response<T>, tonic::Status>,
    ) -> T {
        self.try_call(call).expect("the controller agrees")
    }
}

impl System {
    pub fn client(&self) -> Client {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let uri = format!("unix://{}", self.root().join("s/controller").display());
        let channel = runtime.block_on(Endpoint::from_shared(uri).expect("a URI").connect());
        Client { client: ControllerClient::new(channel.expect("a controller")), runtime }
    }
}

impl System {
    /// What the system says of itself, for whoever reads why a test has failed.
    fn tell(&self) {
        for args in [&["status"][..], &["flow", "list"], &["ring", "list"], &["events"]] {
            let said = self.zsr(args);
            let lines: Vec<&str> = said.out.lines().chain(said.err.lines()).collect();
            let last = &lines[lines.len().saturating_sub(60)..];
            eprintln!("zsr {}:\n  {}", args.join(" "), last.join("\n  "));
        }
    }
}

impl Drop for System {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell();
        }
        // A test that has failed leaves no processes either.
        let _ = self.command(&["down"]).stderr(Stdio::null()).stdout(Stdio::null()).status();
    }
}

pub struct Events {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Events {
    /// The next event of this kind.
    pub fn next(&mut self, kind: &str) -> Value {
        self.next_of(&[kind])
    }

    /// The next event of one of these kinds.
    pub fn next_of(&mut self, kinds: &[&str]) -> Value {
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).expect("text"), 0, "events ended before {kinds:?}");
            let event: Value = serde_json::from_str(&line).expect("JSON");
            if event["kind"].as_str().is_some_and(|kind| kinds.contains(&kind)) {
                return event;
            }
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn done(output: Output) -> Done {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Done { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

pub fn signal(pid: u64, signal: &str) {
    let sent = Command::new("kill").args([signal, &pid.to_string()]).status().expect("kill runs");
    assert!(sent.success());
}

/// Whether a process lives (a zombie does not). One whose first thread has ended still has its files, and their locks, while it has other threads.
pub fn lives(pid: u64) -> bool {
    let process = Path::new("/proc").join(pid.to_string());
    let stat = std::fs::read_to_string(process.join("stat"));
    let ended = |s: String| s.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z');
    let threads = std::fs::read_dir(process.join("task")).map_or(0, Iterator::count);
    stat.is_ok_and(|s| threads > 1 || !ended(s))
}

pub fn say(child: &mut Child, text: &str) {
    child.stdin.as_mut().expect("piped").write_all(text.as_bytes()).expect("written");
}

pub fn line(out: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    out.read_line(&mut line).expect("text");
    line.trim_end().to_owned()
}
