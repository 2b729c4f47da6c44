//! A controller that has no time for a while, or no room to write, and who can reach what a system listens at.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Stdio};

use p4runtime_proto::Address;
use p4runtime_proto::p4::v1 as rt;
use rt::p4_runtime_client::P4RuntimeClient;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tokio_stream::StreamExt;
use tonic::transport::Endpoint;

use super::deaths::carries_a_line;
use super::system::{HOSTS, System, line, lives, say, signal};

/// Waits until the switch has nobody who is primary. It tells its other clients; this one, without an election id, never is primary.
fn until_nobody_is_primary(system: &System) {
    let address = std::fs::read_to_string(system.root().join("s/p4runtime")).expect("a switch");
    let address: Address = address.parse().expect("an address");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let channel = Endpoint::from_shared(address.uri()).expect("a URI").connect().await.expect("a switch");
        let arbitration = rt::MasterArbitrationUpdate { device_id: 1, ..Default::default() };
        let update = Some(rt::stream_message_request::Update::Arbitration(arbitration));
        let hello = rt::StreamMessageRequest { update };
        // The stream stays open behind it.
        let requests = tokio_stream::once(hello).chain(tokio_stream::pending());
        let answers = P4RuntimeClient::new(channel).stream_channel(requests).await;
        let mut answers = answers.expect("a stream").into_inner();
        loop {
            let answer = answers.message().await.expect("a stream").expect("no end").update;
            let Some(rt::stream_message_response::Update::Arbitration(told)) = answer else { continue };
            if told.status.is_some_and(|status| status.code == tonic::Code::NotFound as i32) {
                return;
            }
        }
    });
}

#[test]
fn a_controller_that_pauses_loses_no_flow_and_no_record() {
    let system = System::up(&format!("switches: [{{name: s1, p4runtime: {{keep_alive: 300ms}}}}]\n{HOSTS}"));
    let mut events = system.events();
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "--item-size", "4KiB"]);
    let (mut producer, _) = system.start(&["produce", "f"]);
    let (mut consumer, mut lines) = system.start(&["consume", "f"]);
    say(&mut producer, "before\n");
    assert_eq!(line(&mut lines), "before");
    let before = system.json(&["flow", "show", "f"]);
    let controller = system.pid("controller");
    signal(controller, "-STOP");
    until_nobody_is_primary(&system);
    // Data moves all the same.
    say(&mut producer, "meanwhile\n");
    assert_eq!(line(&mut lines), "meanwhile");
    signal(controller, "-CONT");
    let kinds = ["session-found", "flow-failed", "flow-deleted", "switch-lost", "switch-found", "agent-lost"];
    let found = events.next_of(&kinds);
    assert_eq!(found["kind"], "session-found", "{found}");
    assert_eq!(system.json(&["flow", "show", "f"]), before);
    say(&mut producer, "after\n");
    assert_eq!(line(&mut lines), "after");
    drop(producer.stdin.take());
    assert!(producer.wait().expect("it ends").success() && consumer.wait().expect("it ends").success());
    assert_eq!(system.switch()["connected"], true);
    system.well(&["flow", "delete", "f"]);
    system.down();
}

#[test]
fn a_flow_that_cannot_be_written_is_refused_and_the_others_outlive_the_controller() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2"]);
    let pid = system.pid("controller");
    let written = std::fs::metadata(system.root().join("s/journal")).expect("a journal").len();
    // Room for a line that says that a change begins, and not for what came of it.
    let limit = Rlimit { current: Some(written + 200), maximum: Some(written + 200) };
    let number = Pid::from_raw(pid as i32).expect("a process");
    prlimit(Some(number), Resource::Fsize, limit).expect("ours");
    for args in [&["flow", "create", "g", "-p", "h1", "-c", "h3"][..], &["flow", "set", "f", "--weight", "3"]]
    {
        let refused = system.zsr(args);
        assert_eq!(refused.code, Some(1), "{}", refused.out);
        assert!(refused.err.contains("journal") && refused.err.contains("File too large"), "{}", refused.err);
    }
    assert!(system.well(&["status"]).contains("changes are refused: the controller's journal"));
    let flows = system.json(&["flow", "list"]);
    assert_eq!(
        (flows.len(), &flows[0]["name"], &flows[0]["settings"]["weight"]),
        (1, &"f".into(), &1.into())
    );
    signal(pid, "-KILL");
    while lives(pid) {
        std::thread::yield_now();
    }
    let (mut controller, mut said) = system.start(&["controller", system.path(), "--ready"]);
    assert_eq!(line(&mut said), "ready");
    assert_eq!(system.json(&["flow", "list"])[0]["settings"], flows[0]["settings"]);
    carries_a_line(&system);
    system.down();
    controller.wait().expect("it ended");
}

/// Inodes of the sockets that a process has open.
fn sockets(pid: u64) -> HashSet<String> {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("ours").flatten();
    let targets = open.filter_map(|e| std::fs::read_link(e.path()).ok());
    let inode = |t: &Path| Some(t.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned());
    targets.filter_map(|t| inode(&t)).collect()
}

/// TCP sockets at which a process listens.
fn listens(pid: u64) -> Vec<String> {
    let own = sockets(pid);
    let tables =
        ["tcp", "tcp6"].map(|t| std::fs::read_to_string(format!("/proc/{pid}/net/{t}")).unwrap_or_default());
    let is_own = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(3) == Some(&"0A") && fields.get(9).is_some_and(|inode| own.contains(*inode))
    };
    tables.iter().flat_map(|t| t.lines()).filter(is_own).map(str::to_owned).collect()
}

#[test]
fn nobody_else_can_reach_what_a_system_listens_at() {
    let system = System::up(HOSTS);
    for (process, pid) in system.processes() {
        assert_eq!(listens(pid.expect("it lives")), [""; 0], "{process}");
    }
    let folder = system.root().join("s");
    let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&folder.join("p4runtime.sock")), 0o600);
    assert_eq!(system.switch()["p4runtime"], format!("unix:{}", folder.join("p4runtime.sock").display()));
    system.down();
    // Where the topology asks for an address, there is one.
    let system = System::up(&format!(
        "insecure: true\nswitches: [{{name: s1, p4runtime: {{listen: '127.0.0.1:0'}}}}]\n{HOSTS}"
    ));
    assert_eq!(listens(system.pid("switch")).len(), 1);
    let address = system.switch()["p4runtime"].as_str().expect("text").to_owned();
    assert!(std::net::TcpStream::connect(&address).is_ok(), "{address}");
    system.down();
}

#[test]
fn a_run_listens_nowhere() {
    let system = System::new(
        "hosts: [h1, h2]\nflows:\n  - {name: f, producers: [h1], consumers: [h2], item_size: 64, rate_cap: 1Mbit}\n\
         workload: {kind: synthetic, items: 100000000}\n",
    );
    let run = system.command(&["run", system.path()]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut run = Killed(run.expect("it runs"));
    let pid = u64::from(run.0.id());
    // It moves data: all that could listen does.
    let told = BufReader::new(run.0.stderr.take().expect("piped")).lines();
    let moves = |line: std::io::Result<String>| line.is_ok_and(|l| l.contains("delivered"));
    assert!(told.into_iter().any(moves), "it ended before it moved data");
    assert_eq!(listens(pid), [""; 0]);
    let own = sockets(pid);
    let table = std::fs::read_to_string("/proc/net/unix").expect("a table");
    // Columns: address, references, protocol, flags (0x10000: listens), type, state, inode.
    let listening = |l: &&str| {
        let columns: Vec<&str> = l.split_whitespace().collect();
        columns.get(3) == Some(&"00010000") && columns.get(6).is_some_and(|i| own.contains(*i))
    };
    assert_eq!(table.lines().filter(listening).collect::<Vec<_>>(), [""; 0]);
}

/// A process that ends with the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Lines of a process's log behind the last time that it was asked what is under way.
fn dumped(system: &System, process: &str, asked: usize) -> Vec<String> {
    signal(system.pid(process), "-QUIT");
    loop {
        let log = std::fs::read_to_string(system.root().join(format!("s/{process}.log"))).expect("a log");
        let parts: Vec<&str> = log.split("what is under way, the oldest first\n").collect();
        if parts.len() > asked && parts[asked].ends_with('\n') {
            return parts[asked].lines().map(str::to_owned).collect();
        }
        std::thread::yield_now();
    }
}

#[test]
fn at_sigquit_controller_and_agents_say_what_is_under_way_and_go_on() {
    let system = System::up(HOSTS);
    system.well(&["flow", "create", "f", "-p", "h1", "-c", "h2", "--item-size", "64"]);
    let (mut consumer, mut lines) = system.start(&["consume", "f"]);
    let (mut waiting, _) = system.start(&["barrier", "b", "-n", "2"]);
    let has = |lines: &[String], part: &str| lines.iter().any(|line| line.contains(part));
    // Its call may be on its way.
    let mut asked = 1;
    let mut said = dumped(&system, "controller", asked);
    while !has(&said, "answers Barrier, for ") {
        asked += 1;
        said = dumped(&system, "controller", asked);
    }
    assert!(has(&said, "there is a session with the switch"), "{said:?}");
    let (mut producer, _) = system.start(&["produce", "f"]);
    say(&mut producer, "one\n");
    assert_eq!(line(&mut lines), "one");
    let said = dumped(&system, "agent.h1", 1);
    assert!(has(&said, "rings: 1") && has(&said, "produce f) has a ring"), "{said:?}");

    system.well(&["barrier", "b", "-n", "2"]);
    assert!(waiting.wait().expect("it ends").success());
    say(&mut producer, "two\n");
    assert_eq!(line(&mut lines), "two");
    drop(producer.stdin.take());
    assert!(producer.wait().expect("it ends").success() && consumer.wait().expect("it ends").success());
    system.well(&["flow", "delete", "f"]);
    system.down();
}
