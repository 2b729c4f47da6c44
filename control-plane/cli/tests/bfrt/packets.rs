//! The controller's own packets, which the packet generator makes.

use super::files::program;
use super::flows::{Rig, flow};
use std::collections::BTreeSet;
use zsr_api::controller::FlowKind;
use zsr_plan::p4::names::{EV_QUERY, EV_RESET, internal};
use zsr_topology::Chip;

/// Registers of all rings are set, then the data plane is asked whether they are, and only behind its answer there are entries by which
/// something moves. There are more packets than a Tofino 1 has places for.
#[test]
fn a_flow_has_entries_when_its_registers_are_set() {
    for chip in [Chip::Tofino, Chip::Tofino2] {
        let rig = Rig::new(chip, &program(chip));
        let controller = rig.start().expect("a controller");
        let keys = |table: &str| -> BTreeSet<u64> {
            rig.recorder.held(table).into_iter().map(|(key, ..)| key[0]).collect()
        };
        // The worker that is asked has no rings.
        let (probe, packets, updates) = {
            let probe = keys(".workers");
            let state = rig.recorder.state();
            (probe, state.packets.len(), state.updates.len())
        };
        let mut client = rig.client(&controller);
        let shuffle = flow("shuffle", FlowKind::Shuffle, &["h1", "h2"], &["h3", "h4"]);
        rig.runtime.block_on(client.create_flow(shuffle)).expect("created");

        let (workers, producers) = (&keys(".workers") - &probe, keys(".producers"));
        let state = rig.recorder.state();
        let made = &state.packets[packets..];
        // The generator's own bytes are in place of the destination address.
        let number =
            |packet: &[u8], at: usize| u64::from(u16::from_be_bytes([packet[at - 6], packet[at - 5]]));
        let events: Vec<u8> = made.iter().map(|packet| packet[internal::EVENT - 6]).collect();
        let rings = workers.len() + producers.len();
        assert_eq!(events, [vec![EV_RESET; rings], vec![EV_QUERY]].concat());
        let set =
            |at| made[..rings].iter().map(|p| number(p, at)).filter(|n| *n != 0).collect::<BTreeSet<_>>();
        assert_eq!((set(internal::WORKER), set(internal::PRODUCER)), (workers, producers));
        assert_eq!(set(internal::QP).len(), rings, "a poll connection each");
        let is_of_generator = |(_, table): &(_, String)| table.contains("pktgen.");
        let of_generator: Vec<bool> = state.updates[updates..].iter().map(is_of_generator).collect();
        assert!(of_generator.is_sorted_by(|a, b| a >= b), "{of_generator:?}");
        drop(state);
        rig.sound();
        rig.end(controller);
    }
}
