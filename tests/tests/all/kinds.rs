//! Load balance and replicate, on links with and without faults: each item exactly once, or once at every consumer and
//! in one order. All kinds on a switch whose hosts are at several pipes.

use zsr_simnet::FaultRates;
use zsr_tests::system::{Spec, System};
use zsr_topology::FlowKind;

const BALANCE: Spec = Spec {
    kind: FlowKind::LoadBalance,
    producers: 2,
    consumers: 3,
    max_batch: 4096,
    items: 150,
    ..Spec::PLAIN
};
const REPLICATE: Spec = Spec { kind: FlowKind::Replicate, ..BALANCE };
/// Held back this long, a frame is overtaken by many.
const LATE_NS: u64 = 4_000;

/// On links without faults, then with.
fn deliver(spec: Spec) {
    System::new(spec).run(|_| ());
    for (seed, rate) in [(1, 0.005), (2, 0.02), (3, 0.02), (4, 0.05)] {
        System::new(Spec { faults: FaultRates::all(rate, LATE_NS), seed, ..spec }).run(|_| ());
    }
}

#[test]
fn balance_two_over_three() {
    deliver(BALANCE);
}

#[test]
fn balance_one_over_two() {
    deliver(Spec { producers: 1, consumers: 2, ..BALANCE });
}

#[test]
fn balance_four_onto_one() {
    deliver(Spec { producers: 4, consumers: 1, ..BALANCE });
}

#[test]
fn replicate_one_to_three() {
    deliver(Spec { producers: 1, ..REPLICATE });
}

#[test]
fn replicate_two_to_three_in_one_order() {
    deliver(REPLICATE);
}

#[test]
fn replicate_to_one() {
    deliver(Spec { consumers: 1, ..REPLICATE });
}

#[test]
fn big_endian_members_and_wrapping_counters() {
    for spec in [BALANCE, REPLICATE] {
        deliver(Spec {
            big_endian: [true, false],
            counters_from: u32::MAX - 20_000,
            psn_from: 0xff_fff0,
            ..spec
        });
    }
}

/// Hosts are at different pipes, so that some are away from that of their flow.
fn across(spec: Spec) {
    for (pipes, seed, rate) in [(2, 1, 0.0), (4, 2, 0.0), (2, 3, 0.02), (4, 4, 0.02), (4, 5, 0.05)] {
        System::new(Spec { pipes, seed, faults: FaultRates::all(rate, LATE_NS), ..spec }).run(|_| ());
    }
}

#[test]
fn shuffle_across_pipes() {
    across(Spec { kind: FlowKind::Shuffle, items: 60, ..BALANCE });
}

#[test]
fn balance_across_pipes() {
    across(BALANCE);
}

#[test]
fn replicate_across_pipes() {
    across(REPLICATE);
}
