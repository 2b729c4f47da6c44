//! Every item exactly once, in order, at the right consumer, whatever the links do; and the same again from the same
//! seed.

use zsr_simnet::FaultRates;
use zsr_tests::system::{Spec, System};

/// Held back this long, a frame is overtaken by many.
const LATE_NS: u64 = 4_000;

fn deliver(spec: Spec) -> System {
    let mut system = System::new(spec);
    system.run(|_| ());
    let wire = &system.switch().wire;
    assert!(wire.transfers > 0 && wire.fragments >= wire.transfers);
    system
}

/// The same flow on good links and on bad ones.
fn deliver_on_any_link(spec: Spec) {
    let mut system = deliver(spec);
    assert_eq!(system.switch().wire.repeated_reads, 0, "nothing is repeated on good links");
    for (seed, rate) in [(11, 0.003), (12, 0.01), (13, 0.03), (14, 0.05)] {
        let faults = FaultRates::all(rate, LATE_NS);
        deliver(Spec { faults, seed, ..spec });
    }
}

#[test]
fn one_to_one_with_every_mtu() {
    for mtu in [256, 1024, 4096] {
        deliver_on_any_link(Spec { mtu, ..Spec::default() });
    }
}

#[test]
fn three_to_one() {
    deliver_on_any_link(Spec { producers: 3, items: 100, ..Spec::default() });
}

#[test]
fn two_to_two() {
    deliver_on_any_link(Spec { producers: 2, consumers: 2, items: 80, ..Spec::default() });
}

#[test]
fn items_of_four_bytes() {
    deliver_on_any_link(Spec {
        item_size: 4,
        ring_size: 256,
        max_batch: 256,
        items: 1000,
        ..Spec::default()
    });
}

#[test]
fn items_of_many_fragments() {
    let spec = Spec { item_size: 16384, ring_size: 65536, max_batch: 32768, items: 30, ..Spec::default() };
    deliver_on_any_link(spec);
    deliver_on_any_link(Spec { mtu: 256, items: 8, ..spec });
}

#[test]
fn a_ring_of_one_item() {
    deliver_on_any_link(Spec {
        item_size: 2048,
        ring_size: 2048,
        max_batch: 2048,
        items: 60,
        ..Spec::default()
    });
}

#[test]
fn big_endian_words() {
    for big_endian in [[true, true], [true, false], [false, true]] {
        deliver_on_any_link(Spec { big_endian, producers: 2, items: 60, ..Spec::default() });
    }
}

#[test]
fn counters_and_packet_numbers_wrap() {
    let spec = Spec { counters_from: u32::MAX - 20_000, psn_from: 0xff_ffff - 40, ..Spec::default() };
    deliver_on_any_link(Spec { producers: 2, ..spec });
    // Half way, where a comparison with a sign would turn.
    deliver_on_any_link(Spec { counters_from: (1 << 31) - 20_000, psn_from: (1 << 23) - 40, ..spec });
}

#[test]
fn each_fault_alone() {
    let none = FaultRates::NONE;
    let many = [
        FaultRates { loss: 0.1, ..none },
        FaultRates { duplicate: 0.5, ..none },
        FaultRates { reorder: 0.3, reorder_ns: 50_000, ..none },
        FaultRates { corrupt: 0.1, ..none },
        FaultRates { jitter_ns: 20_000, ..none },
    ];
    for (seed, faults) in (21..).zip(many) {
        deliver(Spec { producers: 2, items: 60, faults, seed, ..Spec::default() });
    }
}

#[test]
fn a_seed_is_a_run() {
    let run = |seed| {
        let faults = FaultRates::all(0.03, LATE_NS);
        let system = deliver(Spec { producers: 2, consumers: 2, items: 40, faults, seed, ..Spec::default() });
        (system.net.now(), system.net.deliveries(), system.net.trace_hash())
    };
    let first = run(5);
    assert_eq!(run(5), first);
    assert_ne!(run(6), first);
}
