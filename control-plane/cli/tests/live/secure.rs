//! A system whose parts speak TLS: who gets in, and how far.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use p4runtime_proto::p4::v1 as rt;
use rt::p4_runtime_client::P4RuntimeClient;
use tokio::io::AsyncReadExt;
use tonic::Code;
use tonic::transport::Channel;
use zsr_api::agent::{self, agent_client::AgentClient};
use zsr_ring::Role;
use zsr_tls::{CONTROLLER, Identity, Peer, agent_name, switch_name};

use crate::system::{Done, System, line, say};

/// A port that nobody has for the moment.
fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port()
}

/// A system with TLS: the agent of host h1 is started on its own, as on another machine.
struct Secured {
    system: System,
    agent: u16,
    /// Where the controller listens.
    controller: String,
}

impl Secured {
    fn new() -> Secured {
        let agent = port();
        let system = System::new(&format!(
            "name: s\ntls: certs\nswitches: [{{name: s1, p4runtime: {{listen: '127.0.0.1:0'}}}}]\n\
             hosts: [{{name: h1, agent: '127.0.0.1:{agent}'}}, h2]\nlinks:\n  \
             - {{from: h1, to: s1:1, sockets: {{switch: far, host: near}}}}\n  - h2 -> s1:2\nflows: []\n"
        ));
        Secured { system, agent, controller: String::new() }
    }

    fn up() -> Secured {
        let mut own = Secured::new();
        own.system.well(&["ca", own.system.path()]);
        own.system.well(&["agent", own.system.path(), "h1", "--system", "elsewhere", "--daemon"]);
        own.system.well(&["up", own.system.path(), "--listen", "127.0.0.1:0"]);
        let address =
            std::fs::read_to_string(own.system.root().join("s/controller-address")).expect("written");
        own.controller = address.trim().to_owned();
        own
    }

    fn certificate(&self, name: &str) -> PathBuf {
        self.system.folder.path().join("certs").join(format!("{name}.pem"))
    }

    /// A command with the certificate NAME.pem.
    fn by(&self, name: &str, args: &[&str]) -> Done {
        let certificate = self.certificate(name);
        let mut all = args.to_vec();
        all.extend(["--controller", &self.controller, "--certificate", certificate.to_str().expect("text")]);
        self.system.zsr(&all)
    }

    #[track_caller]
    fn may(&self, name: &str, args: &[&str]) -> String {
        let done = self.by(name, args);
        assert_eq!(done.code, Some(0), "{name}: zsr {args:?}: {}", done.err);
        done.out
    }

    #[track_caller]
    fn may_not(&self, name: &str, args: &[&str], parts: &[&str]) {
        let done = self.by(name, args);
        assert_eq!(done.code, Some(1), "{name}: zsr {args:?}: {}{}", done.out, done.err);
        assert!(parts.iter().all(|part| done.err.contains(part)), "{name}: zsr {args:?}: {}", done.err);
    }

    fn peer(&self, at: &str, name: &str, certificate: &str) -> Peer {
        let identity = Identity::open(&self.certificate(certificate)).unwrap_or_else(|e| panic!("{e}"));
        Peer { address: at.to_owned(), name: name.to_owned(), identity }
    }
}

impl Drop for Secured {
    fn drop(&mut self) {
        for name in ["s", "elsewhere"] {
            let mut down = self.system.command(&["down", name]);
            let _ = down.stderr(Stdio::null()).stdout(Stdio::null()).status();
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[test]
fn an_address_takes_certificates_or_a_word() {
    let system = System::new("name: s\nhosts: [h1, h2]\nflows: []\n");
    let up = system.zsr(&["up", system.path(), "--listen", "127.0.0.1:0"]);
    assert_eq!(up.code, Some(2), "{}", up.err);
    assert!(
        up.err.contains("tls: FOLDER") && up.err.contains("zsr ca") && up.err.contains("insecure: true"),
        "{}",
        up.err
    );
    let controller = system.zsr(&["controller", system.path(), "--listen", "127.0.0.1:0"]);
    assert!(controller.code != Some(0) && controller.err.contains("tls: FOLDER"), "{}", controller.err);
    let agent = system.zsr(&["agent", system.path(), "h1", "--listen", "127.0.0.1:0"]);
    assert!(agent.code == Some(1) && agent.err.contains("tls: FOLDER"), "{}", agent.err);
    // A word is not enough for `zsr ca`, nor a folder without certificates for a process.
    let ca = system.zsr(&["ca", system.path()]);
    assert!(ca.code == Some(2) && ca.err.contains("tls: certs"), "{}", ca.err);
    let secured = Secured::new();
    let up = secured.system.zsr(&["up", secured.system.path()]);
    assert_eq!(up.code, Some(1), "{}", up.err);
    assert!(up.err.contains("switch.pem") && up.err.contains("zsr ca"), "{}", up.err);
}

#[test]
fn certificates_are_made_once_and_keys_are_their_owners() {
    use std::os::unix::fs::PermissionsExt;
    let secured = Secured::new();
    let system = &secured.system;
    let said = system.well(&["ca", system.path()]);
    let folder = system.folder.path().join("certs");
    let mut files: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok())
        .collect();
    files.sort();
    let names = ["agent.h1", "agent.h2", "ca", "controller", "operator", "reader", "switch"];
    let both = |name: &&str| [format!("{name}.key"), format!("{name}.pem")];
    assert_eq!(files, names.iter().flat_map(both).collect::<Vec<_>>());
    for name in names {
        assert!(said.contains(&format!("{name}.pem: ")), "{name}: {said}");
        let mode = std::fs::metadata(folder.join(format!("{name}.key"))).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let before = std::fs::read(folder.join("ca.pem")).unwrap();
    for again in
        [&["ca", system.path()][..], &["ca", system.path(), "--name", "operator", "--role", "operator"]]
    {
        let done = system.zsr(again);
        assert!(done.code == Some(1) && done.err.contains("is not overwritten"), "{again:?}: {}", done.err);
    }
    assert_eq!(std::fs::read(folder.join("ca.pem")).unwrap(), before);
    system.well(&["ca", system.path(), "--name", "loader", "--role", "program", "--flow", "f"]);
    assert!(folder.join("loader.key").exists());
    for wrong in
        [&["--name", "ca"][..], &["--name", "../x"], &["--name", "x", "--role", "king"], &["--flow", "f"]]
    {
        let done = system.zsr(&[&["ca", system.path()], wrong].concat());
        assert_eq!(done.code, Some(2), "{wrong:?}: {}", done.err);
    }
}

#[test]
fn everybody_gets_as_far_as_the_certificate_goes() {
    let secured = Secured::up();
    let system = &secured.system;
    for (name, role, flow) in [("loader", "program", "f*"), ("mine", "operator", "f")] {
        system.well(&["ca", system.path(), "--name", name, "--role", role, "--flow", flow]);
    }
    let create = |flow| ["flow", "create", flow, "-p", "h1", "-c", "h2", "--item-size", "64"];
    // Readers look.
    secured.may_not(
        "reader",
        &create("f"),
        &["`reader` (role reader)", "lacks the right `change`", "operator, worker has"],
    );
    assert_eq!(secured.may("reader", &["flow", "list", "--json"]), "");
    secured.may("operator", &create("f"));
    secured.may("operator", &create("other"));
    assert!(secured.may("reader", &["flow", "list"]).contains("other"));
    secured.may("reader", &["events"]);
    assert!(
        secured.may("reader", &["top", "-n", "1", "--interval", "10ms", "--json"]).contains("\"unknown-qp\"")
    );
    secured.may_not("reader", &["barrier", "b", "-n", "1"], &["lacks the right `use`"]);
    // A confined operator changes its flows, and hears of no others.
    secured.may("mine", &["flow", "set", "f", "--weight", "2"]);
    secured.may_not(
        "mine",
        &["flow", "set", "other", "--weight", "2"],
        &["`mine`", "flow `other`", "is for f"],
    );
    secured.may_not("mine", &create("new"), &["flow `new`"]);
    for args in
        [&["flow", "list"][..], &["ring", "list"], &["events"], &["top", "-n", "1", "--interval", "10ms"]]
    {
        assert!(!secured.may("mine", args).contains("other"), "{args:?}");
    }
    // A program pushes and pops, through agents on both sides.
    secured.may("loader", &["barrier", "b", "-n", "1"]);
    secured.may_not("loader", &["flow", "delete", "f"], &["lacks the right `change`"]);
    secured.may_not("loader", &["consume", "other"], &["flow `other`"]);
    let (certificate, at) = (secured.certificate("loader"), &secured.controller);
    let stream =
        |what| [what, "f", "--controller", at, "--certificate", certificate.to_str().expect("text"), "-q"];
    let (mut consumer, mut out) = system.start(&stream("consume"));
    let (mut producer, _) = system.start(&stream("produce"));
    say(&mut producer, "over tls\n");
    drop(producer.stdin.take());
    assert_eq!(line(&mut out), "over tls");
    assert!(producer.wait().expect("it ends").success() && consumer.wait().expect("it ends").success());
    // Parts are called, and call nobody.
    secured.may_not("agent.h1", &["flow", "list"], &["(role agent)", "lacks the right `read`"]);
    // Without a certificate, or with one of another authority, nobody is anybody.
    let plain = system.zsr(&["flow", "list", "--controller", at]);
    assert!(plain.code == Some(1) && plain.err.contains("--certificate"), "{}", plain.err);
    let none = system.zsr(&["flow", "list", "--controller", at, "--certificate", "nobody.pem"]);
    assert!(none.err.starts_with("error: nobody.pem: no such file"), "{}", none.err);
    let far = system.zsr(&["flow", "list", "--controller", "192.0.2.1:7700"]);
    assert!(far.code == Some(1) && far.err.contains("--certificate"), "{}", far.err);
    let other = Secured::new();
    other.system.well(&["ca", other.system.path()]);
    let stranger = other.certificate("operator");
    let stranger = stranger.to_str().expect("text");
    let done = system.zsr(&["flow", "list", "--controller", at, "--certificate", stranger]);
    assert!(done.code == Some(1) && done.err.contains("no controller answers"), "{}", done.err);
    // Whoever has the system's user's socket has everything.
    assert_eq!(system.json(&["flow", "list", "--system", "s"]).len(), 2);
}

/// All programs here run as the system's user, who can open every socket of it.
#[test]
fn rings_are_for_certificates_that_may_push_and_pop() {
    let secured = Secured::up();
    let system = &secured.system;
    for (name, role, flow) in
        [("loader", "program", "f"), ("other", "program", "g"), ("mine", "operator", "f")]
    {
        system.well(&["ca", system.path(), "--name", name, "--role", role, "--flow", flow]);
    }
    for flow in ["f", "g"] {
        secured.may("operator", &["flow", "create", flow, "-p", "h1", "-c", "h2", "--item-size", "64"]);
    }
    // h1's agent listens at an address, h2's at a socket.
    for what in ["produce", "consume"] {
        let role =
            ["`reader` (role reader)", "GetPass", "lacks the right `use`", "operator, program, worker has"];
        secured.may_not("reader", &[what, "f"], &role);
        secured.may_not("other", &[what, "f"], &["flow `f`"]);
        secured.may_not("agent.h1", &[what, "f"], &["(role agent)"]);
    }
    // Whoever leaves the controller out gets nothing of an agent, whatever it says.
    for ring in system.json(&["ring", "list", "--system", "s"]) {
        let (name, socket) = (ring["name"].as_str().expect("text"), ring["programs"].as_str().expect("text"));
        let role = if ring["role"] == "producer" { Role::Producer } else { Role::Consumer };
        let refused = zsr::pu::hold(Path::new(socket), name, role).expect_err("nobody has let it in");
        assert!(matches!(refused, zsr::pu::PuError::NoPass(_)), "{name}: {refused}");
        assert!(refused.to_string().contains(name) && refused.to_string().contains("pass"), "{refused}");
    }

    let [loader, mine] = ["loader", "mine"].map(|name| secured.certificate(name));
    let by = |certificate: &PathBuf| {
        let certificate = certificate.to_str().expect("text").to_owned();
        ["--controller".to_owned(), secured.controller.clone(), "--certificate".to_owned(), certificate]
            .to_vec()
    };
    let user = ["--system".to_owned(), "s".to_owned()].to_vec();
    // A program, an operator, and the system's user.
    for (produces, consumes) in [(by(&loader), by(&mine)), (by(&mine), user.clone()), (user, by(&loader))] {
        let start = |what: &[&'static str], whom: &[String]| {
            system.start(&what.iter().copied().chain(whom.iter().map(String::as_str)).collect::<Vec<_>>())
        };
        let (mut consumer, mut out) = start(&["consume", "f", "-q", "-n", "1"], &consumes);
        let (mut producer, _) = start(&["produce", "f", "-q", "--keep-open"], &produces);
        say(&mut producer, "by leave\n");
        drop(producer.stdin.take());
        assert_eq!(line(&mut out), "by leave");
        assert!(producer.wait().expect("it ends").success() && consumer.wait().expect("it ends").success());
    }
    system.well(&["ca", system.path(), "--revoke", "loader"]);
    secured.may_not("loader", &["produce", "f"], &["Revoked"]);
}

#[test]
fn agents_and_switch_obey_the_controller_alone() {
    let secured = Secured::up();
    let agent_at = format!("127.0.0.1:{}", secured.agent);
    let switch_at = secured.system.json(&["status", "--system", "s"]).remove(0)["switch"]["p4runtime"]
        .as_str()
        .expect("text")
        .to_owned();
    runtime().block_on(async {
        let connect =
            async |at: &str, name: &str, certificate: &str| -> Result<Channel, tonic::transport::Error> {
                secured.peer(at, name, certificate).connect(|endpoint| endpoint).await
            };
        for (certificate, rings) in
            [("operator", false), ("reader", false), ("agent.h2", false), ("controller", true)]
        {
            let channel = connect(&agent_at, &agent_name("h1"), certificate).await.expect("an agent");
            let mut client = AgentClient::new(channel);
            let info = client.get_info(agent::GetInfoRequest {}).await;
            assert_eq!(info.is_ok(), certificate != "agent.h2", "{certificate}");
            // What it says of rings has their keys.
            let list = client.list_rings(agent::ListRingsRequest::default()).await;
            match list {
                Ok(_) => assert!(rings, "{certificate}"),
                Err(status) => {
                    assert!(!rings && status.code() == Code::PermissionDenied, "{certificate}: {status}");
                    assert!(status.message().contains("lacks the right `rings`"), "{status}");
                }
            }
        }
        for (certificate, entries) in
            [("operator", false), ("reader", false), ("switch", false), ("controller", true)]
        {
            let channel = connect(&switch_at, &switch_name("s1"), certificate).await.expect("a switch");
            let mut client = P4RuntimeClient::new(channel);
            let entity =
                rt::Entity { entity: Some(rt::entity::Entity::TableEntry(rt::TableEntry::default())) };
            let read = rt::ReadRequest { device_id: 1, entities: vec![entity], ..Default::default() };
            // Entries have keys and secrets.
            let said = client.read(read).await.map(|_| ());
            assert_eq!(said.is_ok(), entries, "{certificate}: {said:?}");
            if let Err(status) = said {
                assert!(status.message().contains("lacks the right `entries`"), "{status}");
                let stream = client.stream_channel(tokio_stream::pending()).await.map(|_| ());
                assert_eq!(stream.map_err(|s| s.code()), Err(Code::PermissionDenied), "{certificate}");
            }
        }
        // Nobody takes one part for another.
        for (at, name) in
            [(&agent_at, agent_name("h2")), (&agent_at, CONTROLLER.into()), (&switch_at, CONTROLLER.into())]
        {
            assert!(connect(at, &name, "operator").await.is_err(), "{name} at {at}");
        }
    });
}

#[test]
fn a_new_certificate_is_used_from_the_next_connection_on() {
    let secured = Secured::up();
    let system = &secured.system;
    let shown = || {
        runtime().block_on(async {
            let mut stream =
                secured.peer(&secured.controller, CONTROLLER, "reader").stream().await.expect("TLS");
            // Anything: the server's settings of HTTP/2.
            stream.read_u8().await.expect("it was taken");
            stream.get_ref().1.peer_certificates().expect("one")[0].to_vec()
        })
    };
    let before = shown();
    assert_eq!(shown(), before);
    for end in ["pem", "key"] {
        std::fs::remove_file(Path::new(&secured.certificate("controller")).with_extension(end))
            .expect("it was there");
    }
    assert_eq!(shown(), before, "as long as there is no other");
    system.well(&["ca", system.path(), "--name", "s", "--role", "controller"]);
    assert_ne!(shown(), before);
    secured.may("reader", &["flow", "list"]);
}

#[test]
fn a_certificate_that_was_taken_back_gets_nothing_more() {
    let secured = Secured::up();
    let system = &secured.system;
    secured.may("reader", &["flow", "list"]);
    let said = system.well(&["ca", system.path(), "--revoke", "reader"]);
    assert!(said.contains("ca.crl") && said.contains("reader.pem"), "{said}");
    secured.may_not("reader", &["flow", "list"], &["Revoked"]);
    secured.may("operator", &["flow", "list"]);
    for (name, code, part) in [("nobody", 1, "no such file"), ("../reader", 2, "certificate's file")] {
        let done = system.zsr(&["ca", system.path(), "--revoke", name]);
        assert!(done.code == Some(code) && done.err.contains(part), "{name}: {}", done.err);
    }
}

/// Somebody has the cable of a host.
#[test]
fn what_is_forged_at_a_port_is_seen_in_top() {
    let secured = Secured::up();
    let system = &secured.system;
    system.well(&["down", "elsewhere"]);
    let (near, far) = (system.folder.path().join("near"), system.folder.path().join("far"));
    let _ = std::fs::remove_file(&near);
    let cable = std::os::unix::net::UnixDatagram::bind(&near).expect("a socket");
    // It is the one of the agent before until the switch looks again.
    while cable.connect(&far).is_err() {
        std::thread::yield_now();
    }
    let mut frame = [0; 64];
    // From the switch to itself, it says.
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    for _ in 0..5 {
        cable.send(&frame).expect("sent");
    }
    let forged = || {
        let top = secured.may("reader", &["top", "-n", "1", "--interval", "10ms", "--json"]);
        let top: serde_json::Value = serde_json::from_str(&top).expect("JSON");
        top["drops"]["forged"].as_u64().expect("a number")
    };
    while forged() < 5 {}
    assert_eq!(forged(), 5);
    assert!(secured.may("reader", &["top", "-n", "1", "--interval", "10ms"]).contains("forged 5"));
}
