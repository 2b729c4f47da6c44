//! Damaged copies of sound input, from seeds, to all parsers of others' bytes. `fuzz/` does the same without end.

use zsr_tests::fuzz::{self, Damage};

/// Runs `entry` on each sound input of a target as it is, and on damaged copies.
fn damaged(target: &str, entry: impl Fn(&[u8]), copies: usize) {
    for (number, seed) in fuzz::seeds(target).iter().enumerate() {
        entry(seed);
        let mut damage = Damage::new(number as u64);
        for _ in 0..copies {
            entry(&damage.of(seed));
        }
    }
}

#[test]
fn topologies() {
    damaged("topology", fuzz::topology, 600);
}

#[test]
fn journals() {
    damaged("journal", fuzz::journal, 300);
}

#[test]
fn segments() {
    assert!(fuzz::seeds("segments")[0].len() >= 512, "several segments");
    damaged("segments", fuzz::segments, 2000);
}

#[test]
fn rings() {
    damaged("rings", fuzz::rings, 1000);
}

#[test]
fn programs_of_switches() {
    damaged("program", fuzz::program, 100);
}

#[test]
fn p4infos() {
    damaged("p4info", fuzz::p4info, 300);
}

#[test]
fn programs_at_an_agent() {
    damaged("programs", fuzz::programs, 150);
}

#[test]
fn captures() {
    damaged("capture", fuzz::capture, 2000);
}

#[test]
fn records() {
    damaged("records", fuzz::records, 500);
}

#[test]
fn packets_at_the_switch() {
    damaged("switch", fuzz::switch, 5);
}

#[test]
fn calls_to_the_controller() {
    damaged("controller", fuzz::controller, 30);
}

#[test]
fn calls_to_an_agent() {
    damaged("agent", fuzz::agent, 60);
}

#[test]
fn calls_to_the_switch() {
    damaged("p4runtime", fuzz::p4runtime, 3);
}
