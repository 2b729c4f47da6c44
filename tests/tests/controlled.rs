//! The controller that users run, in virtual time: what it does about faults, and that a seed says everything.

use std::time::Duration;

use zsr_api::controller as proto;
use zsr_ring::PopError;
use zsr_sim::{FaultRates, LinkConfig};
use zsr_tests::controlled::Controlled;

const HOSTS: &str = "hosts: [h1, h2, h3, h4]\nflows: []\n";
const MS: Duration = Duration::from_millis(1);

fn shuffle(name: &str, producers: &[&str], consumers: &[&str]) -> proto::CreateFlowRequest {
    let members = |hosts: &[&str]| {
        hosts.iter().map(|h| proto::Member { host: (*h).into(), ..Default::default() }).collect()
    };
    proto::CreateFlowRequest {
        name: name.into(),
        producers: members(producers),
        consumers: members(consumers),
        item_size: 64,
        ring_size: 4096,
        ..Default::default()
    }
}

/// Moves 1,000 items through a flow that a controller has created over links that lose packets; returns what the network saw.
fn moved(seed: u64) -> (u64, u64) {
    let faults = FaultRates { loss: 0.02, duplicate: 0.01, reorder: 0.01, ..FaultRates::NONE };
    let mut sim = Controlled::new(HOSTS, LinkConfig::FAST.with_faults(faults), seed);
    let controller = sim.controller(None).expect("a controller");
    let flow = sim.create(&controller, shuffle("f", &["h1"], &["h2"]));
    let (mut tx, mut rx) = (sim.producer(&flow, 0), sim.consumer(&flow, 1));
    let (mut pushed, mut popped) = (0u64, 0u64);
    let mut item = [0; 64];
    while popped < 1000 {
        while pushed < 1000 {
            item[..8].copy_from_slice(&pushed.to_le_bytes());
            if tx.try_push(&item).is_err() {
                break;
            }
            pushed += 1;
        }
        loop {
            match rx.try_pop(&mut item) {
                Ok(()) => assert_eq!(u64::from_le_bytes(item[..8].try_into().expect("8 bytes")), popped),
                Err(PopError::Empty) => break,
                Err(e) => panic!("{e}"),
            }
            popped += 1;
        }
        sim.run_for(MS / 10);
        assert!(sim.net.now() < 20_000_000_000, "{popped} of 1000 items in 20 s");
    }
    tx.detach();
    rx.detach();
    let deleting = controller.clone();
    sim.drive(async move { deleting.delete_flow("f", false).await }).expect("deleted");
    assert!(sim.agents.iter().all(|a| a.rings().expect("rings").is_empty()), "rings are left");
    (sim.net.now(), sim.net.trace_hash())
}

#[test]
fn a_seed_says_everything() {
    let first = moved(1);
    assert_eq!(moved(1), first);
    assert_ne!(moved(2).1, first.1);
}
