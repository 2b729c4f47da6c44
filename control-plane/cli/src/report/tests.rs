//! The report in its three forms.

use std::time::Duration;

use super::*;
use zsr_topology::RingRole;
use zsr_workload::{Discrepancy, Estimate, Tally, Unit, Verification};

fn sample() -> Report {
    let tally = Tally { items: 100, records: 900, bytes: 6_000_000, chain: 0 };
    let counts = SwitchCounts {
        transfers: 10,
        polls: 40,
        control_packets: 320,
        control_bytes: 32_000,
        data_packets: 6400,
        retries: 1,
    };
    let ring = |name: &str, role, switch| RingReport {
        name: name.into(),
        host: "h1".into(),
        role,
        size: 1 << 20,
        items: 100,
        records: 900,
        bytes: 6_000_000,
        blocked: 3,
        switch,
    };
    Report {
        topology: "t".into(),
        file: "t.yaml".into(),
        outcome: Outcome::Delivered,
        setup: Duration::from_millis(20),
        transfer: Duration::from_secs(2),
        teardown: Duration::from_millis(5),
        flows: vec![FlowReport {
            name: "f".into(),
            kind: "shuffle",
            copies: 1,
            producers: 1,
            consumers: 1,
            item_size: 65536,
            max_batch: 1 << 20,
            elapsed: Duration::from_secs(2),
            switch: counts,
            pu_communication_operations: 0,
            rings: vec![
                ring("f.h1.h2", RingRole::Producer, None),
                ring("f.h2", RingRole::Consumer, Some(counts)),
            ],
            verification: Verification { pushed: tally, delivered: tally, ..Default::default() },
        }],
        links: vec![LinkReport { name: "h1-s1-1".into(), ..Default::default() }],
        outputs: vec!["out/f.h2.tbl".into()],
    }
}

#[test]
fn ratios() {
    let flow = &sample().flows[0];
    assert_eq!(flow.goodput(), 3_000_000.0);
    assert_eq!(flow.item_rate(), 50.0);
    assert_eq!(flow.item_bytes(), 6_553_600);
    assert_eq!(flow.mean_batch(), 655_360.0);
    assert!((flow.control_packets_per_gb() - 320.0 / 0.006_553_6).abs() < 1e-6);
    assert_eq!(flow.pu_operations_per_item(), 0.0);
}

#[test]
fn a_run_without_items_divides_by_nothing() {
    let mut report = sample();
    let flow = &mut report.flows[0];
    flow.verification = Verification::default();
    flow.elapsed = Duration::ZERO;
    flow.switch = SwitchCounts::default();
    let flow = &report.flows[0];
    for ratio in
        [flow.goodput(), flow.mean_batch(), flow.control_bytes_per_gb(), flow.pu_operations_per_item()]
    {
        assert_eq!(ratio, 0.0);
    }
    assert!(
        !to_text(&report, Room::ANY).contains("NaN") && !to_json(&report).contains("null,\n      \"mean")
    );
}

#[test]
fn the_table_has_the_figures() {
    let text = to_text(&sample(), Room::ANY);
    for part in [
        "shuffle 'f': 1 producer to 1 consumer, items of 64 KiB, at most 1 MiB per transfer",
        "▸ f.h1.h2",
        "◂ f.h2",
        "3.0 MB/s",
        "640 KiB",
        "PU-side communication operations per item: 0\n",
        "wrote out/f.h2.tbl",
        "OK: every item arrived exactly once",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
}

#[test]
fn failures_say_what_was_delivered() {
    let mut report = sample();
    report.outcome = Outcome::Failed("the cable broke".into());
    let v = &mut report.flows[0].verification;
    v.delivered.items = 90;
    v.lost = 10;
    v.first.push(Discrepancy { ring: "f.h2".into(), producer: Some("h1".into()), what: "10 items".into() });
    let text = to_text(&report, Room::ANY);
    assert!(text.contains("FAILED: the cable broke\n90 of 100 items pushed were delivered"), "{text}");
    assert!(text.contains("10 lost, 0 repeated, 0 misrouted, 0 altered"), "{text}");
    assert!(text.contains("f.h2 from h1: 10 items"), "{text}");
    assert_eq!(report.exit_code(), 1);
    report.outcome = Outcome::Interrupted;
    assert!(to_text(&report, Room::ANY).contains("INTERRUPTED: 90 of 100"));
}

/// Every path of a JSON value, with list indices left out.
fn paths(value: &serde_json::Value, prefix: &str, into: &mut std::collections::BTreeSet<String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (key, value) in map {
                let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                into.insert(path.clone());
                paths(value, &path, into);
            }
        }
        serde_json::Value::Array(list) => {
            for value in list {
                paths(value, &format!("{prefix}[]"), into);
            }
        }
        _ => {}
    }
}

#[test]
fn the_json_fields_are_the_documented_ones() {
    let mut report = sample();
    report.flows[0].verification.first.push(Discrepancy {
        ring: "r".into(),
        producer: None,
        what: "w".into(),
    });
    let value: serde_json::Value = serde_json::from_str(&to_json(&report)).unwrap();
    let mut found = std::collections::BTreeSet::new();
    paths(&value, "", &mut found);
    let docs = include_str!("../../../../docs/json.md");
    let documented: std::collections::BTreeSet<String> = docs
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .map(str::to_owned)
        .collect();
    assert_eq!(found, documented);
    assert_eq!(value["version"], JSON_VERSION);
    assert_eq!(value["flows"][0]["pu_communication_operations_per_item"], 0.0);
    assert_eq!(value["outcome"], "delivered");
}

#[test]
fn plain_lines_tell_phases_and_the_end() {
    let mut out = Vec::new();
    let mut lines = Lines::new(&mut out);
    lines.phase("bringing up 4 hosts");
    lines.start(Estimate { unit: Unit::Bytes, total: 100 });
    lines.update(Snapshot { records: 1, bytes: 50 });
    lines.finish(Snapshot { records: 2, bytes: 98 });
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("bringing up 4 hosts\ndelivered 100 bytes in "), "{text}");
}

#[test]
fn plain_lines_go_on_with_rates_and_what_is_waited_for() {
    let mut out = Vec::new();
    let mut lines = Lines::new(&mut out);
    lines.start(Estimate { unit: Unit::Items, total: 100 });
    lines.details("12 retries; nothing for 4 s, waiting for 64 KiB of ring `f.h1.h2`");
    lines.now(Snapshot { records: 25, bytes: 50 });
    drop(lines);
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("delivered 25 items, about 25 %, 0.0 s, "), "{text}");
    assert!(
        text.ends_with(" items/s; 12 retries; nothing for 4 s, waiting for 64 KiB of ring `f.h1.h2`\n"),
        "{text}"
    );
}
