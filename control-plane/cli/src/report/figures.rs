//! The figures of a run, as measured; ratios are computed from them where they are shown.

use std::path::PathBuf;
use std::time::Duration;

use zsr_topology::{RingRole, Topology};
use zsr_workload::{FlowOutcome, Verification};

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every item arrived exactly once, at the right consumer, in order per producer.
    Delivered,
    /// Somebody stopped the run; items pushed by then arrived exactly, unless the text says otherwise.
    Interrupted,
    /// The run failed.
    Failed(String),
}

/// Counts of the switch for a flow or a ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchCounts {
    /// Transfers completed.
    pub transfers: u64,
    /// Polls of control words: READ requests sent for them.
    pub polls: u64,
    /// Packets other than items on the way: requests, acknowledgements, control words, commits, tails.
    pub control_packets: u64,
    /// Bytes of those packets, from the Ethernet header to the ICRC.
    pub control_bytes: u64,
    /// Packets with items.
    pub data_packets: u64,
    /// Requests sent again.
    pub retries: u64,
}

impl SwitchCounts {
    /// Adds other counts.
    pub fn add(&mut self, other: &SwitchCounts) {
        self.transfers += other.transfers;
        self.polls += other.polls;
        self.control_packets += other.control_packets;
        self.control_bytes += other.control_bytes;
        self.data_packets += other.data_packets;
        self.retries += other.retries;
    }
}

/// A ring's figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingReport {
    /// The ring's name.
    pub name: String,
    /// The ring's host's name.
    pub host: String,
    /// The side that fills the ring.
    pub role: RingRole,
    /// Bytes of items that the ring has room for.
    pub size: u32,
    /// Items pushed or popped.
    pub items: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of those records, without framing.
    pub bytes: u64,
    /// How often the PU found the ring full (producer) or empty (consumer).
    pub blocked: u64,
    /// Counts of the switch for this ring, where it counts by ring.
    pub switch: Option<SwitchCounts>,
}

/// A flow's figures.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowReport {
    /// The flow's name.
    pub name: String,
    /// The flow's kind, as in the topology.
    pub kind: &'static str,
    /// Consumers that each item goes to.
    pub copies: u64,
    /// Number of producers.
    pub producers: usize,
    /// Number of consumers.
    pub consumers: usize,
    /// Bytes of an item.
    pub item_size: u32,
    /// Largest transfer, bytes.
    pub max_batch: u32,
    /// From the first push to the end of the last consumer.
    pub elapsed: Duration,
    /// Counts of the switch for the flow.
    pub switch: SwitchCounts,
    /// Network operations that PUs executed to push and pop.
    pub pu_communication_operations: u64,
    /// The flow's rings, producers' first.
    pub rings: Vec<RingReport>,
    /// The comparison of both ends.
    pub verification: Verification,
}

/// A link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkReport {
    /// The link's name.
    pub name: String,
    /// Frames that the host's NIC sent.
    pub to_switch_frames: u64,
    /// Their bytes.
    pub to_switch_bytes: u64,
    /// Frames that reached the host's NIC.
    pub to_host_frames: u64,
    /// Their bytes.
    pub to_host_bytes: u64,
    /// Faults that the link made, as the topology asked.
    pub faults: u64,
    /// The capture, if one was written.
    pub pcap: Option<PathBuf>,
}

/// Everything about a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The topology's name.
    pub topology: String,
    /// The topology's file.
    pub file: PathBuf,
    /// How the run ended.
    pub outcome: Outcome,
    /// From the start to the first push: bringing everything up, creating the flows.
    pub setup: Duration,
    /// From the first push to the end of the last consumer.
    pub transfer: Duration,
    /// From there to the end: removing flows, stopping everything.
    pub teardown: Duration,
    /// The flows, in the topology's order.
    pub flows: Vec<FlowReport>,
    /// The links, in the topology's order.
    pub links: Vec<LinkReport>,
    /// Files that were written for `--output`.
    pub outputs: Vec<PathBuf>,
}

impl FlowReport {
    /// A report from what endpoints saw and what the switch counted. `by_ring` gives a ring's own counts by
    /// its index in the topology.
    pub fn new(
        topology: &Topology,
        outcome: &FlowOutcome,
        switch: SwitchCounts,
        by_ring: impl Fn(usize) -> Option<SwitchCounts>,
    ) -> Option<Self> {
        let flow = topology.flows.get(outcome.flow)?;
        let rings = outcome
            .producer_rings
            .iter()
            .chain(&outcome.consumer_rings)
            .filter_map(|r| {
                let ring = topology.rings.get(r.ring)?;
                Some(RingReport {
                    name: ring.name.clone(),
                    host: topology.hosts.get(ring.host)?.name.clone(),
                    role: ring.role,
                    size: ring.size,
                    items: r.tally.items,
                    records: r.tally.records,
                    bytes: r.tally.bytes,
                    blocked: r.stats.blocked,
                    switch: by_ring(r.ring),
                })
            })
            .collect();
        Some(FlowReport {
            name: flow.name.clone(),
            kind: flow.kind.word(),
            copies: if flow.kind.copies() { flow.consumers.len() as u64 } else { 1 },
            producers: flow.producers.len(),
            consumers: flow.consumers.len(),
            item_size: flow.item_size,
            max_batch: flow.settings.max_batch,
            elapsed: outcome.elapsed,
            switch,
            pu_communication_operations: zsr_ring::RingStats::COMMUNICATION_OPERATIONS,
            rings,
            verification: outcome.verification.clone(),
        })
    }

    /// Items delivered.
    pub fn items(&self) -> u64 {
        self.verification.delivered.items
    }

    /// Bytes of delivered items: what crossed the network as payload.
    pub fn item_bytes(&self) -> u64 {
        self.items() * u64::from(self.item_size)
    }

    /// Bytes of delivered records per second; 0 before any time has passed.
    pub fn goodput(&self) -> f64 {
        per(self.verification.delivered.bytes as f64, self.elapsed.as_secs_f64())
    }

    /// Delivered items per second.
    pub fn item_rate(&self) -> f64 {
        per(self.items() as f64, self.elapsed.as_secs_f64())
    }

    /// Mean bytes of items per transfer.
    pub fn mean_batch(&self) -> f64 {
        per(self.item_bytes() as f64 / self.copies as f64, self.switch.transfers as f64)
    }

    /// Control packets per 10⁹ bytes of items.
    pub fn control_packets_per_gb(&self) -> f64 {
        per(self.switch.control_packets as f64, self.item_bytes() as f64 / 1e9)
    }

    /// Bytes of control packets per 10⁹ bytes of items.
    pub fn control_bytes_per_gb(&self) -> f64 {
        per(self.switch.control_bytes as f64, self.item_bytes() as f64 / 1e9)
    }

    /// Network operations that PUs executed, per item.
    pub fn pu_operations_per_item(&self) -> f64 {
        per(self.pu_communication_operations as f64, self.items() as f64)
    }
}

/// A ratio that is 0 where there is nothing to divide by.
fn per(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

impl Report {
    /// The exit code of the command: 0 when everything was delivered, else 1.
    pub fn exit_code(&self) -> u8 {
        u8::from(self.outcome != Outcome::Delivered)
    }
}
