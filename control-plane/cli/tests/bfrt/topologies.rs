//! Each topology of `topologies/` with a Tofino for its switch, and those of `topologies/tofino/`.

use super::driver::drivers;
use super::files::program;
use super::flows::{Rig, runtime};
use super::server::Recorder;
use std::path::{Path, PathBuf};
use zsr_api::controller as proto;
use zsr_plan::from_topology::create_flow_request;
use zsr_topology::{Chip, Topology};

/// The files of a folder below `topologies/`, at least so many.
fn files(folder: &str, least: usize) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies").join(folder);
    let files = std::fs::read_dir(&folder).expect("topologies");
    let mut files: Vec<_> = files.map(|f| f.expect("a file").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "yaml"));
    files.sort();
    assert!(files.len() >= least, "{files:?}");
    files
}

/// A Tofino's hosts have NICs of their own, and no rings in a simulated FPGA; its ports have other numbers. Hosts' names, flows and
/// workload are the file's.
fn flows_come_and_go(chip: Chip, recorder: impl Fn(&tokio::runtime::Runtime) -> Recorder) {
    let files = files("", 12);
    for (path, pipes) in files.iter().flat_map(|f| [(f, 1), (f, 4)]) {
        let what = format!("{} with {pipes} pipes of a {}", path.display(), chip.name());
        let original = Topology::load(path).unwrap_or_else(|e| panic!("{e}"));
        let hosts: Vec<String> = original.hosts.iter().map(|h| h.name.clone()).collect();
        let text = std::fs::read_to_string(path).expect("a topology");
        let flows = &text[text.find("\nflows:").expect("flows") + 1..];
        let runtime = runtime();
        let recorder = recorder(&runtime);
        let rig = Rig::with(chip, recorder, None, pipes, (&hosts, flows), runtime);
        let controller = rig.start().unwrap_or_else(|e| panic!("{what}: {e}"));
        let mut client = rig.client(&controller);
        assert_eq!(rig.topology.flows.len(), original.flows.len());
        let mut made = Vec::new();
        for flow in &rig.topology.flows {
            match rig.runtime.block_on(client.create_flow(create_flow_request(&rig.topology, flow))) {
                Ok(_) => made.push(flow),
                // Four producers in two pipes, for consumers in both, want more than leads from one into the other.
                Err(e) if chip == Chip::Tofino && pipes == 4 && path.ends_with("shuffle-4x4.yaml") => {
                    assert!(e.message().contains("no more than 100 Gbit/s get there"), "{}", e.message());
                }
                Err(e) => panic!("{what}: {}", e.message()),
            }
        }
        assert_eq!(rig.of_flows().0 == 0, made.is_empty(), "{what}");
        for flow in made {
            let delete = proto::DeleteFlowRequest { name: flow.name.clone(), force: true };
            let gone = rig.runtime.block_on(client.delete_flow(delete));
            gone.unwrap_or_else(|e| panic!("{what}: {}", e.message()));
        }
        assert_eq!(rig.of_flows(), (0, 0, 0), "{what}");
        assert_eq!(rig.recorder.state().problems, [""; 0], "{what}");
        rig.end(controller);
    }
}

#[test]
fn every_topology_at_a_tofino() {
    for chip in [Chip::Tofino, Chip::Tofino2] {
        flows_come_and_go(chip, |_| Recorder::new(&program(chip), &super::files::driver(chip)));
    }
}

/// Links and flows are the file's, and so are the switch's pipes.
#[test]
fn hosts_at_all_pipes_as_an_operator_has_them() {
    for path in files("tofino", 3) {
        let original = Topology::load(&path).unwrap_or_else(|e| panic!("{e}"));
        let hosts: Vec<String> = original.hosts.iter().map(|h| h.name.clone()).collect();
        let text = std::fs::read_to_string(&path).expect("a topology");
        let rest = &text[text.find("\nlinks:").expect("links") + 1..];
        let chip = original.switches[0].kind.tofino().expect("a Tofino").chip;
        let pipes = original.links.iter().map(|l| l.port >> 7).max().expect("links") + 1;
        let recorder = Recorder::new(&program(chip), &super::files::driver(chip));
        let rig = Rig::with(chip, recorder, None, pipes, (&hosts, rest), runtime());
        assert_eq!(rig.topology.switches[0].pipes, original.switches[0].pipes, "{}", path.display());
        let controller = rig.start().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut client = rig.client(&controller);
        for flow in &rig.topology.flows {
            let made = rig.runtime.block_on(client.create_flow(create_flow_request(&rig.topology, flow)));
            made.unwrap_or_else(|e| panic!("{}: {}", path.display(), e.message()));
        }
        rig.sound();
        rig.end(controller);
    }
}

#[test]
#[ignore = "needs the vendor's driver: tests/tofino/run"]
fn every_topology_at_the_driver() {
    for (chip, address) in drivers() {
        flows_come_and_go(chip, |runtime| runtime.block_on(Recorder::beside(&address)));
    }
}
