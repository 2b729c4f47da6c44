//! A topology's hosts and switch in hand, with the built-in program.

use std::sync::OnceLock;

use zsr_control_plane::p4::Artifacts;
use zsr_control_plane::run::in_hand::InHand;
use zsr_soft_switch::Switch;
use zsr_topology::Topology;

fn built_in() -> &'static Artifacts {
    static BUILT_IN: OnceLock<Artifacts> = OnceLock::new();
    BUILT_IN.get_or_init(|| Artifacts::built_in().expect("artifacts that fit"))
}

/// The topology's NICs and rings, whose counters begin at `start` bytes.
pub fn in_hand(topology: &Topology, start: u32) -> InHand {
    InHand::new(topology, built_in(), start).expect("flows that fit")
}

/// A switch with what they need, put there by the controller's client through P4Runtime.
pub fn switch_of(hosts: &InHand) -> Switch {
    hosts.switch(built_in()).expect("a switch with the flows' entries")
}
