//! The controller at the vendor's own driver, beside the recording server (tests/tofino/run).

use super::flows::{Rig, flow, life_of, runtime};
use super::server::Recorder;
use zsr_api::controller::{self as proto, FlowKind};
use zsr_topology::Chip;

/// Addresses of BF Runtime servers of the vendor's driver, with what the compilers made of our program (tests/tofino/run):
/// `ZSR_BFRT_TOFINO` and `ZSR_BFRT_TOFINO2` name them.
fn drivers() -> Vec<(Chip, String)> {
    let mut found = Vec::new();
    for (chip, variable) in [(Chip::Tofino, "ZSR_BFRT_TOFINO"), (Chip::Tofino2, "ZSR_BFRT_TOFINO2")] {
        match std::env::var(variable).ok().filter(|address| !address.is_empty()) {
            Some(address) => found.push((chip, address)),
            None => println!("SKIPPED: {variable} names no driver's BF Runtime server (tests/tofino/run)"),
        }
    }
    found
}

#[test]
fn a_life_at_the_driver() {
    for (chip, address) in drivers() {
        for pipes in [1, 4] {
            let runtime = runtime();
            let recorder = runtime.block_on(Recorder::beside(&address));
            life_of(Rig::before(chip, recorder, None, pipes, runtime));
        }
    }
}

/// As many flows at the vendor's driver as `ZSR_BFRT_FLOWS` says, with the time that each takes.
#[test]
fn many_flows_at_the_driver() {
    let number = std::env::var("ZSR_BFRT_FLOWS").ok().and_then(|n| n.parse::<usize>().ok()).unwrap_or(20);
    for (chip, address) in drivers() {
        let runtime = runtime();
        let recorder = runtime.block_on(Recorder::beside(&address));
        let rig = Rig::before(chip, recorder, None, 1, runtime);
        let controller = rig.start().expect("a controller");
        let mut client = rig.client(&controller);
        let begun = std::time::Instant::now();
        for n in 0..number {
            let one = flow(&format!("f{n}"), FlowKind::Shuffle, &["h1"], &["h2"]);
            let made = rig.runtime.block_on(client.create_flow(one));
            made.unwrap_or_else(|e| panic!("flow {n}: {}", e.message()));
        }
        println!("{}: {number} flows, {:?} each", chip.name(), begun.elapsed() / number as u32);
        rig.sound();
        let begun = std::time::Instant::now();
        for n in 0..number {
            let delete = proto::DeleteFlowRequest { name: format!("f{n}"), force: true };
            rig.runtime.block_on(client.delete_flow(delete)).expect("deleted");
        }
        println!("{}: deleted, {:?} each", chip.name(), begun.elapsed() / number as u32);
        assert_eq!(rig.of_flows(), (0, 0, 0));
        rig.sound();
        let second = rig.start().err().expect("refused").to_string();
        assert!(second.contains("another controller is connected"), "{second}");
        rig.end(controller);
    }
}
