//! Numbers in the data plane: workers, producers, connections, groups.

use super::PlanError;
use super::admin::Reset;
use std::hash::BuildHasher;
use zsr_link::Rng;
use zsr_topology::limits::{MAX_MEMBERS, MAX_QPS, MAX_WORKERS};
use zsr_topology::{FlowKind, Topology};

// Number 0 is nobody's, of everything: a commit record of zeros names no producer, and a reset (admin.rs) that is not about a
// worker, say, names worker 0. So it is in the sizes of zsr_topology::limits.
const MAX_PRODUCERS: usize = 32768 - 1;
const PSN_BITS: u32 = 0xff_ffff;
/// First multicast group of replicate flows; each has two, the second one for polls.
pub const FIRST_FLOW_GROUP: u16 = 0x1000;

/// A queue pair's end at the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qp {
    /// Index of its connection in tables and counters.
    pub index: u16,
    /// Number that the peer sends to, 24 bits.
    pub qpn: u32,
    /// First PSN in both directions, 24 bits.
    pub psn: u32,
}

impl Qp {
    /// The same with another first PSN.
    #[must_use]
    pub fn from_psn(self, psn: u32) -> Qp {
        Qp { psn, ..self }
    }
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

impl RingIds {
    /// What the switch's registers begin with, where both counters of the ring are at `start` bytes and both connections have one
    /// first PSN. For a consumer ring that includes those of its worker.
    pub fn reset(&self, start: u32) -> Reset {
        let poll = Reset { head: start, producer_tail: start, ..self.reset_poll(start) };
        match self.is_producer {
            true => Reset { producer: self.id, ..poll },
            false => Reset { worker: self.worker, ..poll },
        }
    }

    /// Those of the ring's poll connection alone, for a consumer ring whose worker runs already.
    pub fn reset_poll(&self, start: u32) -> Reset {
        Reset { poll_qp: self.poll.index, consumer_tail: start, psn: self.poll.psn, ..Default::default() }
    }
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
    let psns = topology.first_psn.ok_or(Rng::new(topology.seed));
    let mut numbers = Numbers { generation: generation.max(1), qps: 1, producers: 0, psns };
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
            // A worker counts packets to all of its consumers as one.
            let psn = numbers.psn();
            for (member, &ring) in w.consumers.iter().enumerate() {
                rings[ring] = Some(numbers.ring(w.id, w.id, None, member as u8, psn));
            }
            for &ring in &w.producers {
                if rings[ring].is_none() {
                    numbers.producers += 1;
                    let psn = numbers.psn();
                    rings[ring] = Some(numbers.ring(w.id, 0, Some(numbers.producers as u16), 0, psn));
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
    /// First PSNs: all the same, or made of the topology's seed, so that a run can be repeated.
    psns: Result<u32, Rng>,
}

impl Numbers {
    fn psn(&mut self) -> u32 {
        match &mut self.psns {
            Ok(psn) => *psn,
            Err(rng) => rng.bits() as u32 & PSN_BITS,
        }
    }

    fn ring(&mut self, worker: u16, id: u16, producer: Option<u16>, member: u8, psn: u32) -> RingIds {
        let first = 2 * self.qps;
        self.qps += 1;
        RingIds {
            id: producer.unwrap_or(id),
            worker,
            is_producer: producer.is_some(),
            member,
            data: qp(first as u16, self.generation).from_psn(psn),
            poll: qp(first as u16 + 1, self.generation).from_psn(psn),
            secret: secret(),
        }
    }
}

/// A first PSN that nobody can guess.
pub fn random_psn() -> u32 {
    secret() & PSN_BITS
}

/// A connection's queue pair at the switch, with first PSN 0. `generation` keeps its number apart from those of an earlier controller.
pub fn qp(index: u16, generation: u8) -> Qp {
    // Queue pair number 0 is never used.
    Qp { index, qpn: u32::from(generation.max(1)) << 16 | u32::from(index), psn: 0 }
}
