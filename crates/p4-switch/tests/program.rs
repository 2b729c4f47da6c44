//! The program `zsr-switch`, as a shell starts it. Ports on interfaces need root: tests/netns.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use p4runtime_proto::p4::v1::CapabilitiesRequest;
use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;

fn command(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zsr-switch"));
    command.args(line.split_whitespace()).stdin(Stdio::null());
    command
}

fn ended(line: &str) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command(line).output().expect("it starts");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

/// A switch that runs, and where its server listens.
struct Running {
    child: Child,
    address: String,
}

impl Running {
    fn new(line: &str) -> Self {
        let mut child =
            command(line).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let mut said = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut said).expect("a line");
        let address = said.strip_prefix("P4Runtime at ").and_then(|rest| rest.split(',').next());
        let address = address.unwrap_or_else(|| panic!("it says {said:?}")).to_owned();
        Running { child, address }
    }

    fn signalled(mut self, signal: &str) -> Option<i32> {
        let kill = format!("kill -{signal} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().expect("a shell").success());
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

fn program() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../soft-switch/tests/programs/p4runtime.json")
        .display()
        .to_string()
}

/// With its standard input closed from the beginning, as a daemon has it.
#[test]
fn it_serves_p4runtime_until_it_is_told_to_end() {
    let lines = [
        format!("{} --device-id 3 --log-console -- --grpc-server-addr 127.0.0.1:0 --cpu-port 255", program()),
        "--no-p4 --thrift-port 0 -- --grpc-server-addr 127.0.0.1:0".to_owned(),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (line, signal) in lines.iter().zip(["INT", "TERM"]) {
        let switch = Running::new(line);
        let version = runtime.block_on(async {
            let mut client =
                P4RuntimeClient::connect(format!("http://{}", switch.address)).await.expect("a server");
            client
                .capabilities(CapabilitiesRequest { device_id: 0 })
                .await
                .expect("an answer")
                .into_inner()
                .p4runtime_api_version
        });
        assert!(version.starts_with("1."), "{version}");
        // A second one at its address.
        let (code, why) = ended(&format!("--no-p4 -- --grpc-server-addr {}", switch.address));
        assert!(code == Some(2) && why.contains(&switch.address), "{code:?}: {why}");
        assert_eq!(switch.signalled(signal), Some(0), "{line}");
    }
}

#[test]
fn what_is_wrong_is_one_line_and_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.json");
    std::fs::write(&text, "{}").unwrap();
    let (text, program) = (text.display().to_string(), program());
    for (line, words) in [
        ("nothing.json".to_owned(), "nothing.json: No such file"),
        (text.clone(), text.as_str()),
        (format!("{program} -i 1@none-such"), "-i 1@none-such: "),
        (format!("{program} -i 510@none-such"), "--cpu-port"),
        (format!("{program} -- --grpc-server-addr unix:/none/such/socket"), "/none/such/socket"),
        (
            format!("{program} -- --certificate /none/such.pem --grpc-server-addr 127.0.0.1:0"),
            "/none/such.pem",
        ),
    ] {
        let (code, why) = ended(&line);
        let lines: Vec<&str> = why.lines().filter(|line| !line.starts_with("note: ")).collect();
        assert!(code == Some(2) && lines.len() == 1 && why.contains(words), "{line}: {code:?}: {why}");
    }
    assert_eq!(std::fs::read_to_string(&text).unwrap(), "{}", "a file at the socket's path was touched");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let commands = folder.path().join("commands");
    std::fs::write(&commands, "table_clear l2\n\ntable_clear nothing\n").unwrap();
    let commands = commands.display();
    for (line, words) in [
        (format!("{program} --thrift-port {port}"), format!("--thrift-port {port}: ")),
        (
            format!("{program} --commands {commands}"),
            format!("{commands}:3: table_clear: there is no table 'nothing'"),
        ),
        (format!("{program} --metrics 127.0.0.1:{port}"), format!("--metrics 127.0.0.1:{port}: ")),
        (format!("{program} --metrics 0.0.0.0:0"), "only addresses of this machine".into()),
        (format!("{program} --commands /none/such"), "/none/such: No such file".into()),
        (format!("trace {commands} {program}"), format!("{commands}: this is no capture")),
        (format!("trace /none/such {program}"), "/none/such: No such file".into()),
        (format!("trace {commands} {text}"), format!("{text}: ")),
    ] {
        let (code, why) = ended(&line);
        assert!(
            code == Some(2) && why.lines().count() == 1 && why.contains(&words),
            "{line}: {code:?}: {why}"
        );
    }
    for line in ["", "-i 1 x.json", "--no-p4 x.json", "--no-p4 --assert maybe"] {
        let (code, why) = ended(line);
        assert!(code == Some(2) && why.starts_with("error: "), "{line}: {code:?}: {why}");
    }
    let (code, why) = ended(&format!("{program} -- --cpu-port many"));
    assert!(code == Some(2) && why.contains("--cpu-port"), "{code:?}: {why}");
}

/// A capture of Ethernet frames, a second apart.
fn capture(frames: &[&[u8]]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (i, frame) in frames.iter().enumerate() {
        let len = frame.len() as u32;
        [i as u32, 0, len, len].iter().for_each(|word| file.extend(word.to_le_bytes()));
        file.extend_from_slice(frame);
    }
    file
}

#[test]
fn a_capture_is_traced_without_a_running_switch() {
    let folder = tempfile::tempdir().unwrap();
    let (packets, commands) = (folder.path().join("in.pcap"), folder.path().join("commands"));
    let mut known = [0u8; 60];
    known[5] = 1;
    std::fs::write(&packets, capture(&[&known, &[0; 60]])).unwrap();
    std::fs::write(&commands, "table_add l2 forward 00:00:00:00:00:01 => 3\n").unwrap();
    let line = format!("trace {} {} {} --port 7", packets.display(), program(), commands.display());
    let Output { status, stdout, stderr } = command(&line).output().expect("it starts");
    let (said, why) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success() && why.is_empty(), "{status}: {why}");
    let (first, second) = said.split_once("packet 2 at 1.000000 s\n").expect("two packets");
    assert!(first.starts_with("packet 1 at 0.000000 s\npacket of 60 bytes at port 7\n"), "{first}");
    assert!(first.contains("table In.l2: hdr.ethernet.dst=0x1: hit, In.forward(port=0x3)"), "{first}");
    assert!(second.contains("table In.l2: hdr.ethernet.dst=0x0: miss, In.drop()"), "{second}");
    // A file that ends in the middle of a packet.
    let whole = capture(&[&known, &[0; 60]]);
    std::fs::write(&packets, &whole[..whole.len() - 10]).unwrap();
    let (code, why) = ended(&line);
    assert!(code == Some(2) && why.contains("packet 2") && why.lines().count() == 1, "{code:?}: {why}");
}
