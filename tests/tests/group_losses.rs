//! What a replicate flow loses: members say what they have, and only what one of them lacks is read and sent again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use zsr_simnet::FaultRates;
use zsr_tests::system::{Spec, System};
use zsr_tests::wire::Kind;
use zsr_wire::Opcode;

const MEMBERS: u64 = 3;
/// Items of one packet, in transfers of up to 32.
const SPEC: Spec = Spec {
    kind: zsr_topology::FlowKind::Replicate,
    producers: 1,
    consumers: MEMBERS as usize,
    item_size: 1024,
    ring_size: 65536,
    max_batch: 32768,
    mtu: 1024,
    big_endian: [false; 2],
    items: 600,
    counters_from: 0,
    psn_from: 0,
    vlans: [None; 2],
    pipes: 1,
    faults: FaultRates::NONE,
    seed: 1,
};
const NEEDED: u64 = SPEC.items as u64 * MEMBERS;
/// Port of the first member, and of another one.
const FIRST: u16 = 2;
const OTHER: u16 = 3;

/// Where in a transfer a fragment lies that goes to a port.
#[derive(Default)]
struct At(Cell<u64>);

impl At {
    fn next(&self, opcode: Opcode) -> u64 {
        let first = [Opcode::WriteFirst, Opcode::WriteOnly].contains(&opcode);
        self.0.set(if first { 0 } else { self.0.get() + 1 });
        self.0.get()
    }
}

/// Runs a flow of which one packet is lost behind the eighth fragment of the first transfer that is so long: what `lost` says of the
/// first member's packets. Gives how many fragments that transfer had, and the system.
fn lose(lost: impl Fn(u64, Kind) -> bool + 'static) -> (u64, System) {
    let mut system = System::new(SPEC);
    let (first, other) = (At::default(), At::default());
    let (gone, frags) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
    let length = frags.clone();
    system.switch().filter = Box::new(move |port, kind| {
        if let (OTHER, Kind::Write(opcode)) = (port, kind) {
            let at = other.next(opcode);
            // The transfer in which something is lost ends, for who has lost nothing.
            if gone.get() && length.get() == 0 && opcode == Opcode::WriteLast {
                length.set(at + 1);
            }
        }
        if port != FIRST {
            return false;
        }
        let at = if let Kind::Write(opcode) = kind { first.next(opcode) } else { first.0.get() };
        let loses = !gone.get() && at >= 8 && lost(at, kind);
        gone.set(gone.get() || loses);
        loses
    });
    system.run(|_| ());
    (frags.get(), system)
}

#[test]
fn what_is_behind_a_lost_fragment_is_read_again_once() {
    let (frags, mut system) = lose(|at, kind| at == 8 && matches!(kind, Kind::Write(_)));
    let wire = &system.switch().wire;
    assert!(frags > 9);
    assert_eq!(wire.repeated_reads, 1);
    assert_eq!(wire.fragments, NEEDED + (frags - 8) * MEMBERS, "of {frags}");
}

/// Nothing comes behind it that would make the member say what it lacks: all are asked.
#[test]
fn behind_a_lost_end_members_are_asked() {
    let mut system = System::new(SPEC);
    let (cut, probes) = (Rc::new(Cell::new(0)), Rc::<RefCell<Vec<u16>>>::default());
    let asked = probes.clone();
    system.switch().filter = Box::new(move |port, kind| match (port, kind, cut.get()) {
        (FIRST, Kind::Write(Opcode::WriteLast), 0) | (FIRST, Kind::Commit, 1) => {
            cut.set(cut.get() + 1);
            true
        }
        (_, Kind::Probe, _) => {
            asked.borrow_mut().push(port);
            false
        }
        _ => false,
    });
    system.run(|_| ());
    probes.borrow_mut().sort_unstable();
    assert_eq!(*probes.borrow(), [2, 3, 4]);
    let wire = &system.switch().wire;
    assert_eq!((wire.repeated_reads, wire.fragments), (1, NEEDED + MEMBERS), "one fragment, to each member");
}

/// A commit whose ACK is lost is asked for, and not written again with all that is in front of it.
#[test]
fn a_lost_ack_of_a_member_costs_no_item() {
    let (_, mut system) = lose(|_, kind| kind == Kind::Committed);
    let wire = &system.switch().wire;
    assert_eq!((wire.repeated_reads, wire.fragments), (0, NEEDED));
}

/// Four members, one packet of a hundred is lost on each link.
#[test]
fn of_a_group_that_loses_one_packet_in_a_hundred() {
    let faults = FaultRates { loss: 0.01, ..FaultRates::NONE };
    let (mut sent, mut needed) = (0, 0);
    for seed in 1..=8 {
        let mut system = System::new(Spec { consumers: 4, faults, seed, ..SPEC });
        system.run(|_| ());
        sent += system.switch().wire.fragments;
        needed += 4 * u64::from(SPEC.items);
    }
    // 27,764 of 19,200; were all read again from the beginning, and for each member, 39,500.
    assert!(sent * 2 < needed * 3, "{sent} fragments sent, {needed} needed");
}
