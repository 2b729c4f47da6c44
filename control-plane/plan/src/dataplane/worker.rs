//! Fills p4/pipeline/params.p4 and the tables of look.p4: settings of workers, rings and flows.

use crate::p4::names::{action, table};
use crate::p4::{Clock, Schema, SchemaError};
use p4runtime_proto::p4::v1::TableEntry;
use std::time::Duration;

/// How long a cap's refills are apart, in microseconds: long against a tick, short against what a person notices.
const REFILL_EVERY: u64 = 1000;

/// The golden ratio's part of 2^32, whose multiples spread evenly.
const MIX: u32 = 0x9e37_79b9;

/// Settings of a worker that change while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Starts no transfer.
    pub hold: bool,
    /// Does not close when all of its producers are drained.
    pub open: bool,
    /// The worker's producers have other workers too (load balance).
    pub locks: bool,
    /// The worker's flow has a rate cap.
    pub capped: bool,
    /// The worker's producers have doorbells.
    pub rings: bool,
}

/// The times of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Between polls of a ring without items, or without room.
    pub poll_interval: Duration,
    /// When a poll without an answer is repeated.
    pub poll_timeout: Duration,
    /// When a transfer without progress is retried for the first time.
    pub rto: Duration,
    /// The time after which a silent peer is reported.
    pub dead_after: Duration,
}

/// The target of a worker's writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A single consumer ring, by the indices of its connections.
    Ring {
        /// Items and commit records.
        data_qp: u16,
        /// Polls.
        poll_qp: u16,
    },
    /// The consumer rings of a replicate flow.
    Group {
        /// Multicast group of the members' data connections; the next number is the group of their poll connections.
        group: u16,
        /// The present members, a bit each.
        members: u32,
        /// Poll connection of one member: its interval stands for all.
        poll_qp: u16,
    },
}

/// A worker in the data plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSpec {
    /// The worker's number, from 1.
    pub id: u16,
    /// The number of producers in the worker's list.
    pub producers: u16,
    /// Settings that may change while the worker runs.
    pub settings: Settings,
    /// Largest transfer, in bytes, a multiple of the item size: also a producer's turn.
    pub max_batch: u32,
    /// Bytes of items in (each of) the worker's consumer ring(s), a power of two.
    pub ring_size: u32,
    /// Bytes of an item.
    pub item_size: u32,
    /// Path MTU in bytes, 256 to 4096.
    pub mtu: u32,
    /// The target of the worker's writes.
    pub target: Target,
    /// Index of the rate cap of the worker's flow.
    pub flow: u16,
    /// The worker's flow's times.
    pub times: Times,
}

impl WorkerSpec {
    /// The worker's entries: in `worker_rings`, which only a look reads, and then in `workers`. Without the second
    /// entry, the worker does nothing.
    pub fn entries(&self, schema: &Schema) -> Result<[TableEntry; 2], SchemaError> {
        Ok([self.ring_entry(schema)?, self.entry(schema)?])
    }

    /// The worker's entry in table `worker_rings`.
    fn ring_entry(&self, schema: &Schema) -> Result<TableEntry, SchemaError> {
        let (poll_qp, group) = match self.target {
            Target::Ring { poll_qp, .. } => (poll_qp, 0),
            Target::Group { group, poll_qp, .. } => (poll_qp, group),
        };
        schema.entry(
            table::WorkerRings { worker: self.id },
            action::WorkerRing {
                producers: self.producers,
                max_batch: self.max_batch,
                size: self.ring_size,
                mask: self.ring_size - 1,
                low_space: (self.ring_size / 2).max(self.item_size),
                poll_qp,
                group,
                mtu: mtu_code(self.mtu),
                mtu_mask: self.mtu - 1,
            },
        )
    }

    /// The worker's entry in table `workers`.
    pub fn entry(&self, schema: &Schema) -> Result<TableEntry, SchemaError> {
        let (s, clock) = (self.settings, schema.clock());
        let settings = [s.hold, s.open, s.locks, s.capped, s.rings];
        let settings = settings.iter().enumerate().fold(0, |n, (bit, &set)| n | u8::from(set) << bit);
        let (data_qp, group, members) = match self.target {
            Target::Ring { data_qp, .. } => (data_qp, 0, 1),
            Target::Group { group, members, .. } => (0, group, members),
        };
        schema.entry(
            table::Workers { worker: self.id },
            action::Worker {
                settings,
                max_batch: self.max_batch,
                mask: self.ring_size - 1,
                data_qp,
                group,
                all_members: members,
                flow: self.flow,
                poll_interval: clock.units(self.times.poll_interval),
                poll_timeout: clock.units(self.times.poll_timeout),
                rto: clock.units(self.times.rto),
                max_tries: max_tries(&self.times),
            },
        )
    }

    /// The place of a producer in the worker's list, and the place that is visited next.
    pub fn list_entry(
        &self,
        schema: &Schema,
        place: u16,
        producer: u16,
        next: u16,
    ) -> Result<TableEntry, SchemaError> {
        let key = table::ProducerList { worker: self.id, index: place };
        schema.entry(key, action::Member { producer, next })
    }

    /// The place of a member in a replicate flow.
    pub fn member_entry(&self, schema: &Schema, place: u16, poll_qp: u16) -> Result<TableEntry, SchemaError> {
        schema.entry(table::Members { worker: self.id, hops: place }, action::GroupMember { poll_qp })
    }
}

/// For each place of a worker's list, the place that is visited next. All places form one circle, in a different order
/// for each worker. Workers that visited hosts in the same order would stay together, share one host's link, and leave
/// the links of others unused. A producer that comes or goes does not change the order of the others.
pub fn circle(worker: u16, producers: &[u16]) -> Vec<u16> {
    let shuffled = |&place: &u16| {
        let pair = u32::from(worker) << 16 | u32::from(producers[usize::from(place)]);
        let mixed = pair.wrapping_mul(MIX);
        (mixed ^ mixed >> 15).wrapping_mul(MIX)
    };
    let mut order: Vec<u16> = (0..producers.len() as u16).collect();
    order.sort_by_key(shuffled);
    let mut next = vec![0; producers.len()];
    for (&place, &behind) in order.iter().zip(order.iter().cycle().skip(1)) {
        next[usize::from(place)] = behind;
    }
    next
}

/// A producer ring's entries in tables `producers` and `producer_rings`.
pub fn producer_entries(
    schema: &Schema,
    id: u16,
    ring_size: u32,
    (data_qp, poll_qp): (u16, u16),
) -> Result<[TableEntry; 2], SchemaError> {
    let (size, mask) = (ring_size, ring_size - 1);
    Ok([
        schema.entry(table::Producers { producer: id }, action::Producer { mask, data_qp })?,
        schema.entry(table::ProducerRings { producer: id }, action::ProducerRing { size, mask, poll_qp })?,
    ])
}

/// How long the transfers of a capped flow take at its rate, at most: long against a round trip, short against the time
/// over which the rate is observed.
const PACE: Duration = Duration::from_millis(10);

/// Largest transfer, in bytes, of a flow that may move `cap` bytes per second: whole items, at least one.
pub fn paced_batch(max_batch: u32, item_size: u32, cap: Option<u64>) -> u32 {
    let Some(cap) = cap else { return max_batch };
    let items = (cap / (1_000_000 / PACE.as_micros() as u64) / u64::from(item_size.max(1))).max(1);
    // A power of two, so that it stays the same when the cap changes a little.
    let paced = (1u64 << items.ilog2()) * u64::from(item_size);
    paced.min(max_batch.into()) as u32
}

/// A rate cap's entry in table `flows`, for flow index `flow` and bytes per second.
pub fn cap_entry(schema: &Schema, flow: u16, rate: u64) -> Result<TableEntry, SchemaError> {
    // The bytes that a transfer moves ahead of its rate are debt, which has to fall under `burst` before the next
    // transfer. The debt must not reach zero in between, where time that has passed would be forgotten: so `burst` is
    // more than one refill. Between `burst` less a refill and `burst`, chance decides which worker of the flow begins.
    let mut every = REFILL_EVERY;
    while rate.saturating_mul(every) < 1_000_000 * 64 && every < 1 << 20 {
        every *= 2;
    }
    let refill = (rate.saturating_mul(every) / 1_000_000).clamp(1, 1 << 30) as u32;
    let refill_every = schema.clock().units(Duration::from_micros(every));
    let flow = table::Flows { flow };
    schema.entry(flow, action::Flow { refill, burst: 3 * refill, scarce: 2 * refill, refill_every })
}

/// 1 to 5 for a path MTU of 256 to 4096.
fn mtu_code(mtu: u32) -> u8 {
    mtu.max(256).ilog2().min(12) as u8 - 7
}

/// Retries from which on they are reported, with waits as in `Backoff` of the P4 program. The first report comes when a
/// third of `dead_after` is over. In the rest of that time the controller listens which members answer
/// (`control-plane/controller/src/health/failure_detector.rs`).
fn max_tries(times: &Times) -> u16 {
    let micros = |time| u64::from(Clock::Microseconds.units(time));
    let dead = micros(times.dead_after);
    let mut waited = 0;
    let mut tries = 0u16;
    while waited < dead / 3 && tries < u16::MAX {
        waited += micros(times.rto) << u16::saturating_sub(tries / 2, 4).min(6);
        tries += 1;
    }
    tries.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mtu_codes() {
        assert_eq!([256, 512, 1024, 2048, 4096].map(mtu_code), [1, 2, 3, 4, 5]);
    }

    /// The producers of a circle, from place 0 on.
    fn visited(worker: u16, producers: &[u16]) -> Vec<u16> {
        let next = circle(worker, producers);
        let places = std::iter::successors(Some(0), |&place| Some(next[usize::from(place)]));
        places.take(producers.len()).map(|place| producers[usize::from(place)]).collect()
    }

    #[test]
    fn a_circle_has_each_place_once_and_an_order_of_its_worker() {
        let producers: Vec<u16> = (40..56).collect();
        let orders: std::collections::HashSet<Vec<u16>> = (0..100).map(|w| visited(w, &producers)).collect();
        assert_eq!(orders.len(), 100);
        for mut order in orders {
            order.sort_unstable();
            assert_eq!(order, producers);
        }
        assert_eq!((circle(3, &[]), circle(3, &[9])), (vec![], vec![0]));
    }

    #[test]
    fn whoever_joins_or_leaves_a_circle_changes_one_place_and_its_own() {
        let producers: Vec<u16> = (40..56).collect();
        for worker in 0..100 {
            let (few, all) = (circle(worker, &producers[..15]), circle(worker, &producers));
            let changed: Vec<usize> = (0..15).filter(|&place| few[place] != all[place]).collect();
            assert_eq!(changed.len(), 1, "worker {worker}");
            assert_eq!((all[changed[0]], all[15]), (15, few[changed[0]]), "worker {worker}");
        }
    }
}
