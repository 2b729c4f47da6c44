//! Losses of a replicate flow: members report the items that they have, and only items that one of them lacks are read
//! and sent again.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use zsr_simnet::FaultRates;
use zsr_tests::system::{Spec, System};
use zsr_tests::wire::{FragmentNumber, Kind};
use zsr_wire::Opcode;

const MEMBERS: u64 = 3;
/// Items of one packet, in transfers of up to 32.
const SPEC: Spec = Spec {
    kind: zsr_topology::FlowKind::Replicate,
    consumers: MEMBERS as usize,
    item_size: 1024,
    ring_size: 65536,
    max_batch: 32768,
    items: 600,
    ..Spec::PLAIN
};
const NEEDED: u64 = SPEC.items as u64 * MEMBERS;
/// Port of the first member, and of another one.
const FIRST: u16 = 2;
const OTHER: u16 = 3;

/// Fragments that are lacking when a timeout ends are read again at once if they are no more: who lacks more is asked
/// (P4: `FEW`).
const FEW: u64 = 128;
/// Items of 16 packets, in transfers of up to 512.
const LONG: Spec =
    Spec { item_size: 4096, ring_size: 1 << 18, max_batch: 1 << 17, mtu: 256, items: 600, ..SPEC };
const NEEDED_LONG: u64 = LONG.items as u64 * 16 * MEMBERS;

/// Runs a flow whose packets to the first member are lost if `lost` says so, by their place in the transfer. Returns
/// the number of fragments of the first transfer with a loss, the ports that were asked, and the system.
fn lose(spec: Spec, lost: impl Fn(u64, Kind) -> bool + 'static) -> (u64, Vec<u16>, System) {
    let mut system = System::new(spec);
    let (first, other) = (FragmentNumber::default(), FragmentNumber::default());
    let (gone, frags) = (Cell::new(false), Rc::new(Cell::new(0)));
    let asked = Rc::<RefCell<Vec<u16>>>::default();
    let (length, ports) = (frags.clone(), asked.clone());
    system.switch().filter = Box::new(move |port, kind| {
        if let (OTHER, Kind::Write(opcode)) = (port, kind) {
            let at = other.next(opcode);
            // The transfer in which something is lost ends, for who has lost nothing.
            if gone.get() && length.get() == 0 && opcode == Opcode::WriteLast {
                length.set(at + 1);
            }
        }
        if kind == Kind::Probe {
            ports.borrow_mut().push(port);
        }
        if port != FIRST {
            return false;
        }
        let at = if let Kind::Write(opcode) = kind { first.next(opcode) } else { first.get() };
        let loses = lost(at, kind);
        gone.set(gone.get() || loses);
        loses
    });
    system.run(|_| ());
    asked.borrow_mut().sort_unstable();
    (frags.get(), asked.take(), system)
}

/// The first packet of which `of` is true, and no other.
fn once(of: impl Fn(u64, Kind) -> bool) -> impl Fn(u64, Kind) -> bool {
    let done = Cell::new(false);
    move |at, kind| !done.get() && of(at, kind) && !done.replace(true)
}

/// The last fragment, which lies behind `more` others, and then the commit.
fn end_behind(more: u64) -> impl Fn(u64, Kind) -> bool {
    let cut = Cell::new(0);
    move |at, kind| {
        let is_lost = match (kind, cut.get()) {
            (Kind::Write(Opcode::WriteLast), 0) => at >= more,
            (Kind::Commit, 1) => true,
            _ => false,
        };
        cut.set(cut.get() + u32::from(is_lost));
        is_lost
    }
}

#[test]
fn what_is_behind_a_lost_fragment_is_read_again_once() {
    const CUT: u64 = 16;
    let (frags, asked, mut system) = lose(SPEC, once(|at, kind| at == CUT && matches!(kind, Kind::Write(_))));
    let wire = &system.switch().wire;
    assert!(frags > CUT + 1 && asked.is_empty());
    assert_eq!(wire.repeated_reads, 1);
    assert_eq!(wire.fragments, NEEDED + (frags - CUT) * MEMBERS, "of {frags}");
}

/// Nothing comes behind it that would make the member say what it lacks: all are asked.
#[test]
fn behind_a_lost_end_members_are_asked() {
    let (frags, asked, mut system) = lose(LONG, end_behind(FEW));
    assert!(frags > FEW && asked == [2, 3, 4], "{frags} {asked:?}");
    let wire = &system.switch().wire;
    assert_eq!(
        (wire.repeated_reads, wire.fragments),
        (1, NEEDED_LONG + MEMBERS),
        "one fragment, to each member"
    );
}

/// To ask costs as much time as to send them again.
#[test]
fn few_fragments_are_sent_again_without_a_question() {
    let (frags, asked, mut system) = lose(SPEC, end_behind(16));
    assert!(frags > 16 && frags <= FEW && asked.is_empty(), "{frags} {asked:?}");
    let wire = &system.switch().wire;
    let all_and_last = NEEDED + (frags + 1) * MEMBERS;
    assert_eq!(
        (wire.repeated_reads, wire.fragments),
        (2, all_and_last),
        "answers to duplicates tell what is lacking"
    );
}

/// A commit whose ACK is lost is asked for, and not written again with all that is in front of it.
#[test]
fn a_lost_ack_of_a_member_costs_no_item() {
    let (_, asked, mut system) = lose(LONG, once(|at, kind| at >= FEW && kind == Kind::Committed));
    assert_eq!(asked, [2, 3, 4]);
    let wire = &system.switch().wire;
    assert_eq!((wire.repeated_reads, wire.fragments), (0, NEEDED_LONG));
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
    // 30,508 of 19,200; were all read again from the beginning, and for each member, 39,500.
    assert!(sent * 3 < needed * 5, "{sent} fragments sent, {needed} needed");
}
