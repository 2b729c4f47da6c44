//! Programs have to run on the machine of their member's agent, which they find through the controller.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use zsr_api::controller as proto;
use zsr_api::machine::Machine;
use zsr_controller::serve_tcp;

use super::rig::{Rig, shuffle};

fn zsr(args: &[&str]) -> Output {
    let nowhere = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_zsr"));
    // Nothing of a system is on this machine but the agents' sockets.
    command.args(args).env("XDG_RUNTIME_DIR", nowhere.path()).env_remove("ZSR_SYSTEM").stdin(Stdio::null());
    command.output().expect("it runs")
}

#[test]
fn a_program_on_another_machine_than_its_agent_is_told_where_to_go() {
    let rig = Rig::new(3, "");
    // h1 and h2 are here, h3 is not.
    rig.agents[0].set_programs(&rig.programs(1), Machine::this());
    rig.agents[1].set_programs(&rig.programs(2), Machine::this());
    let other = Machine { name: "lab7".into(), boot: "another".into() };
    rig.agents[2].set_programs("/run/nowhere".as_ref(), other);
    let (controller, mut client) = rig.control();
    let address = rig.runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(serve_tcp(controller.clone(), listener));
        address.to_string()
    });
    rig.runtime.block_on(client.create_flow(shuffle("f", &["h1"], &["h3", "h2"]))).expect("created");
    rig.meet(&mut client, 3);
    let told = zsr(&["consume", "f", "--member", "h3", "--controller", &address]);
    let text = String::from_utf8_lossy(&told.stderr).into_owned();
    assert_eq!(told.status.code(), Some(1), "{text}");
    for part in ["member `h3` on machine `lab7`", "host `h3`", "start the program there"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    // Without a name, members elsewhere are passed over.
    let moved = zsr(&["produce", "f", "--controller", &address]);
    assert_eq!(moved.status.code(), Some(0), "{}", String::from_utf8_lossy(&moved.stderr));
    let moved = zsr(&["consume", "f", "--controller", &address]);
    assert_eq!(moved.status.code(), Some(0), "{}", String::from_utf8_lossy(&moved.stderr));

    let nobody = zsr(&["consume", "f", "--controller", "127.0.0.1:1"]);
    let text = String::from_utf8_lossy(&nobody.stderr).into_owned();
    assert!(
        nobody.status.code() == Some(1) && text.contains("no controller answers at 127.0.0.1:1"),
        "{text}"
    );
}

#[test]
fn a_ring_that_no_flow_uses_names_the_socket_of_its_host() {
    let rig = Rig::of(
        "
hosts:
  - {name: h1, rings: [{name: out, role: producer, item_size: 64, size: 4096, owner: alice}]}
  - h2
flows: []
",
    );
    rig.agents[0].set_programs(&rig.programs(1), Machine::this());
    let (_controller, mut client) = rig.control();
    rig.meet(&mut client, 2);
    let rings = rig.runtime.block_on(client.list_rings(proto::ListRingsRequest { flow: String::new() }));
    let rings = rings.expect("there").into_inner().rings;
    let [ring] = &rings[..] else { panic!("{rings:?}") };
    let (name, host, programs) = (&*ring.name, &*ring.host, Path::new(&ring.programs));
    assert_eq!((name, host, programs), ("h1.out", "h1", &*rig.programs(1)));
    let shape = (ring.role(), ring.item_size, ring.size, &*ring.owner, &*ring.memory);
    assert_eq!(shape, (proto::Role::Producer, 64, 4096, "alice", "host"));
}
