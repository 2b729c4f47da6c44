//! The JSON object of `--json`, described field by field in `docs/json.md`.
//!
//! The structs here are the format: a field is never renamed or removed without a new [`JSON_VERSION`].

use serde::Serialize;

use zsr_topology::RingRole;
use zsr_workload::{Tally, Verification};

use super::figures::{FlowReport, LinkReport, Outcome, Report, RingReport, SwitchCounts};

/// Version of the format. Fields may be added within a version.
pub const JSON_VERSION: u32 = 1;

#[derive(Serialize)]
struct Run<'r> {
    format: &'static str,
    version: u32,
    zsr: &'static str,
    topology: &'r str,
    file: String,
    outcome: &'static str,
    error: Option<&'r str>,
    setup_seconds: f64,
    transfer_seconds: f64,
    teardown_seconds: f64,
    flows: Vec<Flow<'r>>,
    links: Vec<Link<'r>>,
    outputs: Vec<String>,
}

#[derive(Serialize)]
struct Flow<'r> {
    name: &'r str,
    kind: &'r str,
    producers: usize,
    consumers: usize,
    item_size: u32,
    max_batch: u32,
    seconds: f64,
    items: u64,
    records: u64,
    record_bytes: u64,
    item_bytes: u64,
    goodput_bytes_per_second: f64,
    items_per_second: f64,
    mean_batch_bytes: f64,
    #[serde(flatten)]
    switch: Switch,
    control_packets_per_gb: f64,
    control_bytes_per_gb: f64,
    pu_communication_operations: u64,
    pu_communication_operations_per_item: f64,
    verification: Verdict<'r>,
    rings: Vec<Ring<'r>>,
}

#[derive(Serialize)]
struct Switch {
    transfers: u64,
    polls: u64,
    control_packets: u64,
    control_bytes: u64,
    data_packets: u64,
    retries: u64,
}

#[derive(Serialize)]
struct Ring<'r> {
    name: &'r str,
    host: &'r str,
    role: &'static str,
    size: u32,
    items: u64,
    records: u64,
    record_bytes: u64,
    blocked: u64,
    switch: Option<Switch>,
}

#[derive(Serialize)]
struct Verdict<'r> {
    exact: bool,
    pushed: Count,
    delivered: Count,
    lost: u64,
    repeated: u64,
    misrouted: u64,
    altered: u64,
    discrepancies: Vec<Finding<'r>>,
}

#[derive(Serialize)]
struct Count {
    items: u64,
    records: u64,
    record_bytes: u64,
}

#[derive(Serialize)]
struct Finding<'r> {
    ring: &'r str,
    producer: Option<&'r str>,
    what: &'r str,
}

#[derive(Serialize)]
struct Link<'r> {
    name: &'r str,
    to_switch_frames: u64,
    to_switch_bytes: u64,
    to_host_frames: u64,
    to_host_bytes: u64,
    faults: u64,
    pcap: Option<String>,
}

/// The report as one JSON object on several lines, without a line end.
pub fn to_json(report: &Report) -> String {
    // Nothing here can fail to serialize: no maps with odd keys; numbers that are no numbers become null.
    serde_json::to_string_pretty(&Run::from(report)).unwrap_or_default()
}

impl<'r> From<&'r Report> for Run<'r> {
    fn from(r: &'r Report) -> Self {
        let (outcome, error) = match &r.outcome {
            Outcome::Delivered => ("delivered", None),
            Outcome::Interrupted => ("interrupted", None),
            Outcome::Failed(why) => ("failed", Some(why.as_str())),
        };
        Run {
            format: "zsr.run",
            version: JSON_VERSION,
            zsr: env!("CARGO_PKG_VERSION"),
            topology: &r.topology,
            file: r.file.display().to_string(),
            outcome,
            error,
            setup_seconds: r.setup.as_secs_f64(),
            transfer_seconds: r.transfer.as_secs_f64(),
            teardown_seconds: r.teardown.as_secs_f64(),
            flows: r.flows.iter().map(Flow::from).collect(),
            links: r.links.iter().map(Link::from).collect(),
            outputs: r.outputs.iter().map(|p| p.display().to_string()).collect(),
        }
    }
}

impl<'r> From<&'r FlowReport> for Flow<'r> {
    fn from(f: &'r FlowReport) -> Self {
        Flow {
            name: &f.name,
            kind: f.kind,
            producers: f.producers,
            consumers: f.consumers,
            item_size: f.item_size,
            max_batch: f.max_batch,
            seconds: f.elapsed.as_secs_f64(),
            items: f.items(),
            records: f.verification.delivered.records,
            record_bytes: f.verification.delivered.bytes,
            item_bytes: f.item_bytes(),
            goodput_bytes_per_second: f.goodput(),
            items_per_second: f.item_rate(),
            mean_batch_bytes: f.mean_batch(),
            switch: Switch::from(&f.switch),
            control_packets_per_gb: f.control_packets_per_gb(),
            control_bytes_per_gb: f.control_bytes_per_gb(),
            pu_communication_operations: f.pu_communication_operations,
            pu_communication_operations_per_item: f.pu_operations_per_item(),
            verification: Verdict::from(&f.verification),
            rings: f.rings.iter().map(Ring::from).collect(),
        }
    }
}

impl From<&SwitchCounts> for Switch {
    fn from(s: &SwitchCounts) -> Self {
        let SwitchCounts { transfers, polls, control_packets, control_bytes, data_packets, retries } = *s;
        Switch { transfers, polls, control_packets, control_bytes, data_packets, retries }
    }
}

impl<'r> From<&'r RingReport> for Ring<'r> {
    fn from(r: &'r RingReport) -> Self {
        Ring {
            name: &r.name,
            host: &r.host,
            role: match r.role {
                RingRole::Producer => "producer",
                RingRole::Consumer => "consumer",
            },
            size: r.size,
            items: r.items,
            records: r.records,
            record_bytes: r.bytes,
            blocked: r.blocked,
            switch: r.switch.as_ref().map(Switch::from),
        }
    }
}

impl<'r> From<&'r Verification> for Verdict<'r> {
    fn from(v: &'r Verification) -> Self {
        let count = |t: &Tally| Count { items: t.items, records: t.records, record_bytes: t.bytes };
        Verdict {
            exact: v.is_exact(),
            pushed: count(&v.pushed),
            delivered: count(&v.delivered),
            lost: v.lost,
            repeated: v.repeated,
            misrouted: v.misrouted,
            altered: v.altered,
            discrepancies: v
                .first
                .iter()
                .map(|d| Finding { ring: &d.ring, producer: d.producer.as_deref(), what: &d.what })
                .collect(),
        }
    }
}

impl<'r> From<&'r LinkReport> for Link<'r> {
    fn from(l: &'r LinkReport) -> Self {
        Link {
            name: &l.name,
            to_switch_frames: l.to_switch_frames,
            to_switch_bytes: l.to_switch_bytes,
            to_host_frames: l.to_host_frames,
            to_host_bytes: l.to_host_bytes,
            faults: l.faults,
            pcap: l.pcap.as_ref().map(|p| p.display().to_string()),
        }
    }
}
