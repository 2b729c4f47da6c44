//! Counters of flows and rings: the switch counts by connection, worker and producer ring, agents read the rings' own
//! words.

use crate::Controller;
use crate::agents::CLOSED;
use crate::times::counters::PATIENCE;
use p4runtime_proto::p4::v1 as rt;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use tokio::time::Instant;
use zsr_api::{agent, controller as proto};
use zsr_plan::dataplane::alloc::Number;
use zsr_plan::dataplane::model::{Flow, Ring};
use zsr_plan::dataplane::{PlanError, RingAddress};
use zsr_plan::error::ControllerError;
use zsr_plan::p4::{COUNTERS, SchemaError};
use zsr_switch::Cell;

/// Cells read for a ring.
const CELLS: usize = 6;

impl Controller {
    /// Counters of flow `name`, or of all flows if it is empty. For agents or a switch that do not answer, these are
    /// the last known values, with their age.
    ///
    /// # Errors
    /// When there is no such flow.
    pub async fn stats(&self, name: &str) -> Result<proto::Stats, ControllerError> {
        let flows = if name.is_empty() { self.list_flows() } else { vec![self.get_flow(name)?] };
        let counters = self.counters().map_err(zsr_plan::dataplane::PlanError::from)?;
        let rings: Vec<&Ring> = flows.iter().flat_map(|f| f.rings()).collect();
        let cells: Vec<(u32, u16)> = rings.iter().flat_map(|r| cells_of(r, counters)).collect();
        let reader = self.reader();
        // Agents that are known to be away are not waited for.
        let is_away = |host: &str| self.0.connected.borrow().get(host) == Some(&false);
        let there = rings.iter().copied().filter(|r| !is_away(&r.host));
        let mut hosts: Vec<String> = Vec::new();
        if name.is_empty() {
            hosts.extend(self.0.agents.hosts().filter(|host| self.is_connected(host)).cloned());
        }
        let (counted, seen) = tokio::join!(
            tokio::time::timeout(PATIENCE, reader.cells(&cells)),
            self.0.agents.look_within(there, &hosts, PATIENCE)
        );
        let counted = counted.ok().and_then(Result::ok);
        let now = Instant::now();
        let time_ns = (now - self.0.started).as_nanos() as u64;
        let mut last = self.0.last.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counted = counted.as_ref().map(|cells| cells.chunks_exact(CELLS));
        let lost: HashMap<String, (bool, bool)> = {
            let state = self.state();
            let known = |name: &String| (state.troubles.contains_key(name), state.silent.contains_key(name));
            state.troubles.keys().chain(state.silent.keys()).map(|name| (name.clone(), known(name))).collect()
        };
        let lost = |ring: &str| lost.get(ring).copied().unwrap_or_default();
        let flows = flows.iter().map(|flow| {
            let ring = |ring: &Ring| {
                let known = last.entry(ring.name.clone()).or_insert_with(|| Known::of(ring, self.0.started));
                if known.ring != ring.address {
                    *known = Known::of(ring, self.0.started);
                }
                let cells = counted.as_mut().and_then(Iterator::next);
                let is_new = known.learn(cells, seen.rings.get(&ring.name), now);
                let age = (now - known.since()).as_millis() as u64;
                let mut stats = ring_stats(flow, ring, known, if is_new { 0 } else { age.max(1) });
                (stats.died, stats.silent) = lost(&ring.name);
                stats
            };
            flow_stats(flow, flow.rings().map(ring).collect())
        });
        let mut stats = proto::Stats { time_ns, flows: flows.collect(), ..Default::default() };
        if name.is_empty() {
            stats.hosts = self.0.last.hosts(seen.figures, now);
        }
        let state = self.state();
        last.retain(|ring, _| state.user_of_ring(ring).is_some());
        Ok(stats)
    }

    /// Sets the counters of `numbers` back to zero, for the next owners of these numbers.
    pub(crate) fn zeros(&self, numbers: &[Number]) -> Result<Vec<rt::Update>, PlanError> {
        let [received, sent, transfers, producer, retries] = self.counters()?;
        let cells = numbers.iter().flat_map(|&number| match number {
            Number::Qp(n) => vec![(received, n), (sent, n)],
            Number::Worker(n) => vec![(transfers, n), (retries, n)],
            Number::Producer(n) => vec![(producer, n)],
            Number::Flow(_) => Vec::new(),
        });
        let zero = |(counter_id, index): (u32, u16)| {
            let entry = rt::CounterEntry {
                counter_id,
                index: Some(rt::Index { index: index.into() }),
                data: Some(rt::CounterData::default()),
            };
            let entity = rt::Entity { entity: Some(rt::entity::Entity::CounterEntry(entry)) };
            rt::Update { r#type: rt::update::Type::Modify.into(), entity: Some(entity) }
        };
        Ok(cells.map(zero).collect())
    }

    fn counters(&self) -> Result<[u32; 5], SchemaError> {
        let mut ids = [0; 5];
        for (id, name) in ids.iter_mut().zip(COUNTERS) {
            *id = self.0.plane.schema().counter(name)?;
        }
        Ok(ids)
    }
}

fn cells_of(ring: &Ring, [received, sent, transfers, producer, retries]: [u32; 5]) -> [(u32, u16); CELLS] {
    let (data, poll, worker) = (ring.ids.data.index, ring.ids.poll.index, ring.ids.worker);
    let transfers = if ring.ids.is_producer { (producer, ring.ids.id) } else { (transfers, worker) };
    [(received, data), (sent, data), (received, poll), (sent, poll), transfers, (retries, worker)]
}

/// The last known counters.
#[derive(Debug, Default)]
pub(crate) struct Last {
    /// Of rings, by name.
    rings: Mutex<HashMap<String, Known>>,
    /// Of hosts, by name, and when they were read.
    hosts: Mutex<BTreeMap<String, (agent::HostFigures, Instant)>>,
}

impl Last {
    /// Takes in the figures of hosts that were read `now`, and tells those of all hosts.
    fn hosts(&self, seen: HashMap<String, agent::HostFigures>, now: Instant) -> Vec<proto::HostStats> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        hosts.extend(seen.into_iter().map(|(host, figures)| (host, (figures, now))));
        let message = |(name, (figures, since)): (&String, &(agent::HostFigures, Instant))| {
            let old_ms = if *since == now { 0 } else { ((now - *since).as_millis() as u64).max(1) };
            proto::HostStats {
                name: name.clone(),
                nic: figures.nic.map(nic_stats),
                ring_bytes: figures.ring_bytes,
                refused_programs: figures.refused_programs,
                old_ms,
            }
        };
        hosts.iter().map(message).collect()
    }
}

fn nic_stats(nic: agent::NicStats) -> proto::NicStats {
    proto::NicStats {
        received_frames: nic.received_frames,
        received_bytes: nic.received_bytes,
        sent_frames: nic.sent_frames,
        sent_bytes: nic.sent_bytes,
        cnps_received: nic.cnps_received,
        cnps_sent: nic.cnps_sent,
        rate_cuts: nic.rate_cuts,
        naks_sent: nic.naks_sent,
        repeated_requests: nic.repeated_requests,
        kept_requests: nic.kept_requests,
        dropped_frames: nic.dropped_frames,
        damaged_frames: nic.damaged_frames,
        marked_packets: nic.marked_packets,
    }
}

/// The last known counters of a ring.
#[derive(Clone, Debug)]
struct Known {
    /// Address of the ring that was counted: a ring of the same name may have been made anew.
    ring: Option<RingAddress>,
    /// Counters of the switch, and when they were read.
    cells: ([Cell; CELLS], Instant),
    /// Words of the agent, and when they were read.
    words: (Words, Instant),
}

/// An agent's words about a ring.
#[derive(Clone, Debug, Default)]
struct Words {
    bytes: u64,
    fill: u32,
    attached: bool,
    closed: bool,
    latency: Option<agent::Latency>,
}

impl Known {
    /// Counters of a ring that was not counted yet.
    fn of(ring: &Ring, since: Instant) -> Self {
        Known {
            ring: ring.address,
            cells: ([Cell::default(); CELLS], since),
            words: (Words::default(), since),
        }
    }

    /// Takes in the counters that were read `now`; whether both halves were read.
    fn learn(&mut self, cells: Option<&[Cell]>, seen: Option<&agent::Ring>, now: Instant) -> bool {
        if let Some(cells) = cells.and_then(|c| <[Cell; CELLS]>::try_from(c).ok()) {
            self.cells = (cells, now);
        }
        if let Some(r) = seen {
            let fill = r.head.wrapping_sub(r.tail);
            let (closed, latency) = (r.head_flags & CLOSED != 0, r.latency.clone());
            self.words = (Words { bytes: r.bytes, fill, attached: r.attached, closed, latency }, now);
        }
        cells.is_some() && seen.is_some()
    }

    /// When the older half was read.
    fn since(&self) -> Instant {
        self.cells.1.min(self.words.1)
    }
}

fn ring_stats(flow: &Flow, ring: &Ring, known: &Known, old_ms: u64) -> proto::RingStats {
    let (cells, words) = (known.cells.0, &known.words.0);
    let (role, retries) = match ring.ids.is_producer {
        true => (proto::Role::Producer, 0),
        false => (proto::Role::Consumer, cells[5].packets),
    };
    proto::RingStats {
        name: ring.name.clone(),
        host: ring.host.clone(),
        role: role.into(),
        bytes: words.bytes,
        items: words.bytes / u64::from(flow.item_size),
        fill: words.fill,
        size: ring.size,
        transfers: cells[4].packets,
        retries,
        polls: cells[3].packets,
        packets: cells[..4].iter().map(|c| c.packets).sum(),
        wire_bytes: cells[..4].iter().map(|c| c.bytes).sum(),
        attached: words.attached,
        closed: words.closed,
        latency: words
            .latency
            .clone()
            .map(|agent::Latency { segments, sum_us }| proto::Latency { segments, sum_us }),
        old_ms,
        ..Default::default()
    }
}

fn flow_stats(flow: &Flow, rings: Vec<proto::RingStats>) -> proto::FlowStats {
    let consumers = || rings.iter().filter(|r| r.role() == proto::Role::Consumer);
    let bytes = consumers().map(|r| r.bytes).sum();
    proto::FlowStats {
        name: flow.name.clone(),
        bytes,
        items: bytes / u64::from(flow.item_size),
        transfers: consumers().map(|r| r.transfers).sum(),
        retries: consumers().map(|r| r.retries).sum(),
        polls: rings.iter().map(|r| r.polls).sum(),
        old_ms: rings.iter().map(|r| r.old_ms).max().unwrap_or(0),
        rings,
    }
}
