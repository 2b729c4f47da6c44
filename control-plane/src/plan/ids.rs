//! Numbers in the data plane: workers, producers, connections.

use super::PlanError;
use crate::topology::Topology;

// Sizes of the P4 program (p4/common/types.p4).
const MAX_WORKERS: usize = 16384;
/// Number 0 is none: a commit record of zeros names no producer.
const MAX_PRODUCERS: usize = 32768 - 1;
const MAX_QPS: usize = 65536;

/// A queue pair's end at the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qp {
    /// Index of its connection in tables and counters.
    pub index: u16,
    /// Number that the peer sends to, 24 bits.
    pub qpn: u32,
    /// First PSN in both directions.
    pub psn: u32,
}

/// What the data plane calls a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingIds {
    /// Number among the producer rings, from 1, or the worker's for a consumer ring, from 0.
    pub id: u16,
    /// The worker that drains or fills it.
    pub worker: u16,
    /// Whether the switch reads items from it.
    pub is_producer: bool,
    /// Items, tail words, commit records.
    pub data: Qp,
    /// Polls.
    pub poll: Qp,
}

type Assignment = (Vec<Option<RingIds>>, Vec<(usize, usize)>);

/// Numbers the rings of all flows: one worker per consumer ring, in the order of the topology.
pub(super) fn assign(topology: &Topology, generation: u8) -> Result<Assignment, PlanError> {
    let mut rings = vec![None; topology.rings.len()];
    let mut workers = Vec::new();
    let mut producers = 0;
    let mut qps = 0;
    let mut qp = || {
        let index = qps;
        qps += 1;
        // Registers start at zero, so PSNs do; queue pair number 0 is never used.
        Qp { index: index as u16, qpn: u32::from(generation.max(1)) << 16 | (index as u32 & 0xffff), psn: 0 }
    };
    for (f, flow) in topology.flows.iter().enumerate() {
        for (c, consumer) in flow.consumers.iter().enumerate() {
            let worker = workers.len();
            workers.push((f, c));
            let ids = |id: usize, is_producer, data, poll| RingIds {
                id: id as u16,
                worker: worker as u16,
                is_producer,
                data,
                poll,
            };
            rings[consumer.rings[0]] = Some(ids(worker, false, qp(), qp()));
            for producer in &flow.producers {
                producers += 1;
                rings[producer.rings[c]] = Some(ids(producers, true, qp(), qp()));
            }
        }
    }
    for (what, needed, room) in [
        ("workers", workers.len(), MAX_WORKERS),
        ("producer rings", producers, MAX_PRODUCERS),
        ("queue pairs", qps, MAX_QPS),
    ] {
        if needed > room {
            return Err(PlanError::Full { what, needed, room });
        }
    }
    Ok((rings, workers))
}
