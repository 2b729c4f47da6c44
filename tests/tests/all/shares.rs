//! Shares of flows and their members in the resources that they compete for, in virtual time.

use zsr_simnet::LinkConfig;
use zsr_tests::rig::{Rig, hosts, jain};

const LINK: LinkConfig = LinkConfig { bandwidth_bps: Some(10_000_000_000), ..LinkConfig::FAST };
const MS: u64 = 1_000_000;
/// More than any test can move.
const ENDLESS: u64 = 1 << 40;

#[test]
fn producers_of_a_flow_share_equally() {
    // Small rings are drained in smaller pieces: bytes count, not turns. A doorbell makes its ring the next one, so
    // small rings, which ring more often, disturb the turns a little.
    for (doorbell, fair) in [("false", 0.99), ("true", 0.95)] {
        let shares = shares_of_producers(doorbell);
        assert!(shares.iter().all(|s| jain(s) >= fair), "doorbell {doorbell}: {shares:?}");
    }
}

/// Bytes taken from four producers' rings, in five spans of 2 ms.
fn shares_of_producers(doorbell: &str) -> Vec<Vec<u64>> {
    let yaml = format!(
        "
hosts:
  - {{name: h1, rings: [{{name: a, role: producer, item_size: 512, size: 8KiB}}]}}
  - {{name: h2, rings: [{{name: a, role: producer, item_size: 512, size: 64KiB}}]}}
  - {{name: h3, rings: [{{name: a, role: producer, item_size: 512, size: 16KiB}}]}}
  - {{name: h4, rings: [{{name: a, role: producer, item_size: 512, size: 32KiB}}]}}
  - h5
flows:
  - {{name: f, producers: [h1.a, h2.a, h3.a, h4.a], consumers: [h5], ring_size: 64KiB, max_batch: 4KiB,
     doorbell: {doorbell}}}
workload: {{kind: synthetic, items: 1}}
"
    );
    let mut rig = Rig::new(&yaml, LINK, ENDLESS);
    rig.run_for(MS);
    (0..5).map(|_| rig.taken_in(2 * MS)).collect()
}

#[test]
fn a_capped_flow_moves_at_its_rate() {
    for (cap, bytes_per_ms) in [("80Mbit/s", 10_000.0), ("1Gbit/s", 125_000.0)] {
        let yaml = format!(
            "
hosts: [{}]
flows:
  - {{name: a, producers: [h1, h2], consumers: [h3, h4], rate_cap: {cap}, item_size: 1KiB, ring_size: 128KiB,
     max_batch: 16KiB}}
workload: {{kind: synthetic, items: 1}}
",
            hosts(4)
        );
        let mut rig = Rig::new(&yaml, LINK, ENDLESS);
        rig.run_for(20 * MS);
        let moved: u64 = rig.popped_in(100 * MS).iter().sum();
        let off = moved as f64 / (100.0 * bytes_per_ms) - 1.0;
        assert!(off.abs() < 0.05, "{cap}: {moved} bytes in 100 ms");
    }
}

/// The worker that looks first when the rate allows a transfer must not be the same every time.
#[test]
fn consumers_of_a_capped_flow_share_equally() {
    for (cap, batch, consumers, time) in [
        ("20Mbit/s", "64KiB", 2, 1000),
        ("400Mbit/s", "16KiB", 4, 200),
        ("2Gbit/s", "4KiB", 3, 20),
        ("200Mbit/s", "1KiB", 5, 100),
    ] {
        let names: Vec<String> = (2..2 + consumers).map(|n| format!("h{n}")).collect();
        let yaml = format!(
            "
hosts: [{}]
flows:
  - {{name: a, producers: [h1], consumers: [{}], rate_cap: {cap}, item_size: 1KiB, ring_size: 256KiB, max_batch: {batch}}}
workload: {{kind: synthetic, items: 1}}
",
            hosts(1 + consumers),
            names.join(", ")
        );
        let mut rig = Rig::new(&yaml, LINK, ENDLESS);
        rig.run_for(100 * MS);
        let shares = rig.popped_in(time * MS);
        assert!(jain(&shares) >= 0.95, "{cap} {batch}: {shares:?}");
    }
}

#[test]
fn consumers_of_a_load_balance_work_at_their_own_speed() {
    let yaml = format!(
        "
hosts: [{}]
flows:
  - {{name: a, kind: load-balance, producers: [h1, h2], consumers: [h3, h4, h5], item_size: 1KiB, ring_size: 8KiB,
     max_batch: 4KiB}}
workload: {{kind: synthetic, items: 1}}
",
        hosts(5)
    );
    let (items, speeds) = (4000, [20.0, 40.0, 80.0]);
    let mut rig = Rig::new(&yaml, LINK, items);
    rig.sinks.iter_mut().zip(speeds).for_each(|(sink, speed)| sink.speed = speed);
    rig.run_for(1000 * MS);
    let total = 2 * items * 1024;
    assert_eq!(rig.sinks.iter().map(|s| s.bytes).sum::<u64>(), total);
    let ended = rig.sinks.iter().map(|s| s.closed_at.expect("all see the end")).max().expect("three sinks");
    // Equal parts would wait for the slowest; at best all end together.
    let fixed = total as f64 / 3.0 / speeds[0] * 1000.0;
    let best = total as f64 / speeds.iter().sum::<f64>() * 1000.0;
    let gain = fixed / ended as f64;
    assert!(gain >= 0.9 * (fixed / best), "{gain} of {}, {ended} ns", fixed / best);
}
