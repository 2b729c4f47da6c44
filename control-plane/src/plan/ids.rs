//! Numbers in the data plane: workers, producers, connections, groups.

use super::PlanError;
use crate::topology::{FlowKind, Topology};
use std::hash::BuildHasher;

// Sizes of the P4 program (p4/common/types.p4). Number 0 is nobody's, of everything: a commit record of zeros names no producer,
// and a reset (admin.rs) that is not about a worker, say, names worker 0.
pub(crate) const MAX_WORKERS: usize = 16384 - 1;
const MAX_PRODUCERS: usize = 32768 - 1;
const MAX_QPS: usize = 65536 - 2;
/// Rings of either side: each has two connections.
pub(crate) const MAX_RINGS: usize = MAX_QPS / 2 - 1;
/// Members of a replicate flow: a bit each in a register of 32.
pub const MAX_MEMBERS: usize = 32;
/// First multicast group of replicate flows; each has two, the second one for polls.
pub const FIRST_FLOW_GROUP: u16 = 0x1000;

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
    /// Number among the producer rings, or the worker's for a consumer ring; from 1.
    pub id: u16,
    /// The worker that drains or fills it; one of them, where a producer ring has several (load balance).
    pub worker: u16,
    /// Whether the switch reads items from it.
    pub is_producer: bool,
    /// Place among the consumers of a replicate flow, else 0.
    pub member: u8,
    /// Items, tail words, commit records.
    pub data: Qp,
    /// Polls.
    pub poll: Qp,
    /// What the doorbells of a producer ring begin with.
    pub secret: u32,
}

/// What moves items: into one consumer ring, or into all of a replicate flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worker {
    /// Number in the data plane, from 1.
    pub id: u16,
    /// Index of its flow.
    pub flow: usize,
    /// The topology's indices of its consumer rings.
    pub consumers: Vec<usize>,
    /// The topology's indices of the producer rings that it drains, in the order in which it visits them.
    pub producers: Vec<usize>,
    /// Multicast group of its consumers, for a replicate flow.
    pub group: Option<u16>,
}

type Assignment = (Vec<Option<RingIds>>, Vec<Worker>);

/// Numbers the rings of all flows, in the order of the topology.
pub(super) fn assign(topology: &Topology, generation: u8) -> Result<Assignment, PlanError> {
    let mut numbers = Numbers { generation: generation.max(1), qps: 1, producers: 0 };
    let mut rings = vec![None; topology.rings.len()];
    let mut workers: Vec<Worker> = Vec::new();
    let mut groups = 0;
    for (flow, f) in topology.flows.iter().enumerate() {
        let consumers: Vec<usize> = f.consumers.iter().map(|c| c.rings[0]).collect();
        let first = workers.len();
        let mut worker = |consumers: Vec<usize>, lane: usize, group| {
            let producers = f.producers.iter().map(|p| p.rings[lane]).collect();
            workers.push(Worker { id: (workers.len() + 1) as u16, flow, consumers, producers, group });
        };
        match f.kind {
            FlowKind::Shuffle => consumers.iter().enumerate().for_each(|(c, &r)| worker(vec![r], c, None)),
            FlowKind::LoadBalance => consumers.iter().for_each(|&r| worker(vec![r], 0, None)),
            FlowKind::Replicate => {
                if consumers.len() > MAX_MEMBERS {
                    let needed = consumers.len();
                    return Err(PlanError::Full {
                        what: "consumers of a replicate flow",
                        needed,
                        room: MAX_MEMBERS,
                    });
                }
                worker(consumers, 0, Some(FIRST_FLOW_GROUP + 2 * groups));
                groups += 1;
            }
        }
        for w in &workers[first..] {
            for (member, &ring) in w.consumers.iter().enumerate() {
                rings[ring] = Some(numbers.ring(w.id, w.id, None, member as u8));
            }
            for &ring in &w.producers {
                if rings[ring].is_none() {
                    numbers.producers += 1;
                    rings[ring] = Some(numbers.ring(w.id, 0, Some(numbers.producers as u16), 0));
                }
            }
        }
    }
    for (what, needed, room) in [
        ("workers", workers.len(), MAX_WORKERS),
        ("producer rings", numbers.producers, MAX_PRODUCERS),
        ("queue pairs", 2 * numbers.qps, MAX_QPS),
    ] {
        if needed > room {
            return Err(PlanError::Full { what, needed, room });
        }
    }
    Ok((rings, workers))
}

/// A number that nobody can guess, for a ring's doorbell.
pub fn secret() -> u32 {
    std::hash::RandomState::new().hash_one(0u8) as u32
}

struct Numbers {
    generation: u8,
    qps: usize,
    producers: usize,
}

impl Numbers {
    fn ring(&mut self, worker: u16, id: u16, producer: Option<u16>, member: u8) -> RingIds {
        let first = 2 * self.qps;
        self.qps += 1;
        RingIds {
            id: producer.unwrap_or(id),
            worker,
            is_producer: producer.is_some(),
            member,
            data: qp(first as u16, self.generation),
            poll: qp(first as u16 + 1, self.generation),
            secret: secret(),
        }
    }
}

/// A connection's queue pair at the switch. `generation` keeps its number apart from those of an earlier controller.
pub fn qp(index: u16, generation: u8) -> Qp {
    // Registers start at zero, so PSNs do; queue pair number 0 is never used.
    Qp { index, qpn: u32::from(generation.max(1)) << 16 | u32::from(index), psn: 0 }
}
