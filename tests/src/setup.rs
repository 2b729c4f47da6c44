//! The P4 program of all tests, and a topology's hosts and switch in hand with it.

use std::sync::OnceLock;

use zsr_plan::p4::Artifacts;
use zsr_soft_switch::Switch;
use zsr_system::run::in_hand::InHand;
use zsr_topology::Topology;

/// The compiled program: from the folder `ZSR_ARTIFACTS`, by which `cargo xtask mutants` breaks it, or the built-in
/// one.
pub fn program() -> &'static Artifacts {
    static PROGRAM: OnceLock<Artifacts> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let folder = std::env::var_os("ZSR_ARTIFACTS");
        let loaded = folder.map_or_else(Artifacts::built_in, |folder| Artifacts::load(folder.as_ref()));
        loaded.expect("artifacts that fit")
    })
}

/// The topology's NICs and rings, whose counters begin at `start` bytes.
pub fn in_hand(topology: &Topology, start: u32) -> InHand {
    InHand::new(topology, program(), start).expect("flows that fit")
}

/// A switch with the entries for them, written by the controller's client through P4Runtime.
pub fn switch_of(hosts: &InHand) -> Switch {
    hosts.switch(program()).expect("a switch with the flows' entries")
}
