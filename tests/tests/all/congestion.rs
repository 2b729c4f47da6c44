//! Queues that grow, and who is told of them, in virtual time.

use zsr_simnet::LinkConfig;
use zsr_tests::rig::Rig;

const LINK: LinkConfig = LinkConfig { bandwidth_bps: Some(10_000_000_000), ..LinkConfig::FAST };
const MS: u64 = 1_000_000;
/// Hosts 0 to 3 push, 4 and 5 pop.
const PRODUCERS: usize = 4;

/// A flow of small items, as a topology has it.
fn flow(members: &str, max_batch: &str) -> String {
    format!("  - {{{members}, item_size: 1KiB, ring_size: 1MiB, max_batch: {max_batch}}}\n")
}

/// CNPs that the NIC of each host has received, and has sent, in two milliseconds of these flows.
fn cnps(flows: &str) -> Vec<(u64, u64)> {
    let yaml = format!(
        "
hosts: [h1, h2, h3, h4, h5, h6]
flows:
{flows}
workload: {{kind: synthetic, items: 1}}
"
    );
    let mut rig = Rig::new(&yaml, LINK, 1 << 40);
    rig.run_for(2 * MS);
    assert!(rig.sinks.iter().all(|s| s.bytes > 0), "nothing moves");
    let of = |host| {
        let stats = rig.nic(host).stats();
        // Of marks that come one after the other, some are told.
        assert_eq!(stats.marked_packets > 0, stats.cnps_sent > 0);
        assert!(stats.marked_packets >= stats.cnps_sent);
        (stats.cnps_received, stats.cnps_sent)
    };
    (0..PRODUCERS + 2).map(of).collect()
}

fn told(cnps: &[(u64, u64)]) -> Vec<bool> {
    cnps.iter().map(|(received, _)| *received > 0).collect()
}

/// Four links feed one: the data behind it is marked, the consumer's NIC answers, the producers' are told.
#[test]
fn producers_that_fill_one_link_are_told() {
    let flow_of = |h| flow(&format!("name: f{h}, producers: [h{h}], consumers: [h5]"), "128KiB");
    let flows: String = (1..=PRODUCERS).map(flow_of).collect();
    let cnps = cnps(&flows);
    assert_eq!(told(&cnps), [true, true, true, true, false, false], "{cnps:?}");
    assert!(cnps[PRODUCERS].1 > 0, "{cnps:?}");
}

/// All members of a group may be marked, and any of them has the one producer told.
#[test]
fn the_producer_of_a_group_is_told() {
    let flows = [
        "name: r, kind: replicate, producers: [h1], consumers: [h5, h6]",
        "name: f, producers: [h2], consumers: [h5]",
        "name: g, producers: [h3], consumers: [h5]",
    ];
    let cnps = cnps(&flows.map(|members| flow(members, "128KiB")).concat());
    assert_eq!(told(&cnps)[..4], [true, true, true, false], "{cnps:?}");
}

/// Batches that one link carries as fast as the other wait nowhere.
#[test]
fn nobody_is_told_of_queues_that_are_short() {
    let flows = ["name: a, producers: [h1], consumers: [h5]", "name: b, producers: [h2], consumers: [h6]"];
    let cnps = cnps(&flows.map(|members| flow(members, "16KiB")).concat());
    assert_eq!(cnps, vec![(0, 0); PRODUCERS + 2]);
}

/// Eight hosts push to one. Returns the bytes of each flow, and the longest queue at the switch in front of the
/// consumer, in packets, in the last 20 of 60 ms.
fn incast(link: &str) -> (Vec<u64>, usize) {
    const SENDERS: u16 = 8;
    let link_of = |h| format!("  - {{from: h{h}, to: 's1:{h}'{link}}}\n");
    let flow_of = |h| flow(&format!("name: f{h}, producers: [h{h}], consumers: [h9]"), "128KiB");
    let yaml = format!(
        "
hosts: [h1, h2, h3, h4, h5, h6, h7, h8, h9]
links:
{}flows:
{}workload: {{kind: synthetic, items: 1}}
",
        (1..=SENDERS + 1).map(link_of).collect::<String>(),
        (1..=SENDERS).map(flow_of).collect::<String>(),
    );
    let mut rig = Rig::new(&yaml, LINK, 1 << 40);
    rig.run_for(40 * MS);
    rig.deepest();
    let popped = rig.popped_in(20 * MS);
    (popped, rig.deepest()[&(SENDERS + 1)])
}

/// NICs that know how fast their links are slow down by DCQCN until the queue is short; the link stays full, and its
/// users share it.
#[test]
fn many_to_one_keeps_the_queue_short_and_the_link_full() {
    let (_, alone) = incast("");
    assert!(alone > 500, "{alone} packets wait where nobody slows down: nothing is shown");
    let (popped, deepest) = incast(", rate: 10Gbit");
    assert!(deepest < 128, "{deepest} packets wait");
    let sum = popped.iter().sum::<u64>() as f64;
    assert!(sum * 8.0 > 0.9 * 10.0 * 20e6, "{popped:?}");
    let squares = popped.iter().map(|b| (*b as f64).powi(2)).sum::<f64>();
    let jain = sum * sum / (popped.len() as f64 * squares);
    assert!(jain >= 0.95, "{jain}: {popped:?}");
    println!(
        "queue {deepest} packets ({alone} if nobody slows down), {:.2} Gbit/s, Jain {jain:.4}",
        sum * 8.0 / 20e6
    );
}
