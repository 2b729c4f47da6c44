//! Topology and rings -> what the switch has to hold. Pure planning: no I/O.
//!
//! Each file beside this one fills the tables of the P4 file of the same name.

pub mod admin;
mod clock;
mod connection;
mod forward;
mod ids;
mod peer;
pub mod report;
mod solve;
mod station;
pub mod ticks;
pub mod worker;

pub use crate::p4::names::PORT_TIMER;
use crate::p4::names::counter;
use crate::p4::schema::{Schema, SchemaError};
use crate::topology::{Flow, FlowKind, Link, Switch, Topology};
pub use clock::Clock;
pub use connection::doorbell;
#[cfg(test)]
pub(crate) use forward::group;
pub(crate) use forward::member_groups;
pub use ids::{FIRST_FLOW_GROUP, MAX_MEMBERS, Qp, RingIds, Worker, qp, random_psn, secret};
pub(crate) use ids::{MAX_RINGS, MAX_WORKERS};
use p4runtime_proto::p4::v1 as rt;
pub use station::{Station, SwitchAddress, ring_entries};
pub use ticks::GROUP_TICK;

/// Multicast group of broadcast frames: one replica per port.
pub const GROUP_FLOOD: u32 = 2;
/// The port that leads back into the pipeline (P4: `PORT_RECIRCULATE`).
pub const PORT_RECIRCULATE: u32 = 501;
/// First port number that links may not use.
pub const FIRST_RESERVED_PORT: u32 = 500;

/// Counters that are read.
pub(crate) const COUNTERS: [&str; 5] =
    [counter::RECEIVED, counter::SENT, counter::TRANSFERS, counter::PRODUCER_TRANSFERS, counter::RETRIES];

/// What a host's agent says about one of its rings, once its memory is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingAddress {
    /// Memory key of the ring's region; its I/O virtual address is 0.
    pub rkey: u32,
    /// Queue pair for items, tail words and commit records.
    pub data_qpn: u32,
    /// Queue pair for READs of the word that the PU writes.
    pub poll_qpn: u32,
    /// Changes whenever the ring is registered anew.
    pub epoch: u16,
}

/// Why a topology can't be put onto a switch.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Program and controller do not fit.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// More of something than the program has room for.
    #[error("the topology needs {needed} {what}, the P4 program has room for {room}")]
    Full {
        /// "workers", "producer rings", …
        what: &'static str,
        /// Number that the topology needs.
        needed: usize,
        /// Number that fits.
        room: usize,
    },
    /// A host of a flow has no link to the switch.
    #[error("host `{host}` has no link to a switch")]
    Unlinked {
        /// The host.
        host: String,
    },
}

/// Numbers and settings for one switch and all rings of its flows.
pub struct Plan<'t> {
    topology: &'t Topology,
    /// The switch that the plan is for.
    pub switch: &'t Switch,
    /// Per ring of the topology, `None` for one without a flow.
    pub rings: Vec<Option<RingIds>>,
    /// The workers; number `i + 1` is at index `i`.
    pub workers: Vec<Worker>,
}

impl<'t> Plan<'t> {
    /// Numbers workers, producers and queue pairs. `generation` (1 to 127) keeps the switch's queue pair numbers apart from
    /// those of an earlier controller.
    pub fn new(topology: &'t Topology, switch: usize, generation: u8) -> Result<Self, PlanError> {
        let (rings, workers) = ids::assign(topology, generation)?;
        Ok(Plan { topology, switch: &topology.switches[switch], rings, workers })
    }

    /// The links to its switch.
    pub fn links(&self) -> impl Iterator<Item = &'t Link> {
        self.topology.links.iter()
    }

    /// The flow of a worker.
    pub fn flow_of(&self, worker: &Worker) -> &'t Flow {
        &self.topology.flows[worker.flow]
    }

    /// Where a ring is.
    fn station_of(&self, ring: usize) -> Result<Station, PlanError> {
        let host = self.topology.rings[ring].host;
        let unlinked = || PlanError::Unlinked { host: self.topology.hosts[host].name.clone() };
        self.topology.station_of(host).ok_or_else(unlinked)
    }

    /// Entries that do not depend on rings: the rewrite's matrices, addresses, ports.
    pub fn base_entries(&self, schema: &Schema) -> Result<Vec<rt::TableEntry>, PlanError> {
        let mut out = solve::entries(schema)?;
        out.extend(forward::entries(self, schema)?);
        Ok(out)
    }

    /// Entries of all rings and flows. `addresses` is parallel to the topology's rings.
    pub fn flow_entries(
        &self,
        schema: &Schema,
        addresses: &[Option<RingAddress>],
    ) -> Result<Vec<rt::TableEntry>, PlanError> {
        let mut out = Vec::new();
        let switch = SwitchAddress { ip: self.switch.ip, mac: self.switch.mac };
        for (ring, ids) in self.rings.iter().enumerate() {
            let (Some(ids), Some(address)) = (ids, addresses[ring]) else { continue };
            let station = self.station_of(ring)?;
            out.extend(ring_entries(schema, switch, &station, ids, address)?);
            if self.doorbell_of(ids).is_some() {
                out.push(doorbell(schema, &station, ids, ids.worker)?);
            }
        }
        for worker in &self.workers {
            self.worker_entries(worker, schema, &mut out)?;
        }
        Ok(out)
    }

    fn worker_entries(
        &self,
        worker: &Worker,
        schema: &Schema,
        out: &mut Vec<rt::TableEntry>,
    ) -> Result<(), PlanError> {
        let spec = self.worker_spec(worker)?;
        for (place, &ring) in worker.producers.iter().enumerate() {
            let Some(ids) = self.rings[ring] else { continue };
            // A load balance's producer rings are in the lists of all of its workers, and described once.
            if ids.worker == worker.id {
                let size = self.topology.rings[ring].size;
                out.extend(worker::producer_entries(schema, ids.id, size, (ids.data.index, ids.poll.index))?);
            }
            out.push(spec.list_entry(schema, place as u16, spec.producers, ids.id)?);
        }
        if worker.group.is_some() {
            for (place, &ring) in worker.consumers.iter().enumerate() {
                let Some(ids) = self.rings[ring] else { continue };
                out.push(spec.member_entry(schema, place as u16, ids.poll.index)?);
            }
        }
        if let Some(rate) = self.flow_of(worker).rate_cap
            && self.workers.iter().find(|w| w.flow == worker.flow) == Some(worker)
        {
            out.push(worker::cap_entry(schema, spec.flow, rate)?);
        }
        out.extend(spec.entries(schema)?);
        Ok(())
    }

    /// What the switch's registers begin with, for rings whose counters are at 0: to be sent before workers start.
    pub fn resets(&self) -> impl Iterator<Item = admin::Reset> {
        self.rings.iter().flatten().map(|ids| ids.reset(0))
    }

    /// The largest weight of a flow.
    fn heaviest(&self) -> u32 {
        self.topology.flows.iter().map(|f| f.weight).max().unwrap_or(1)
    }

    /// Secret of a ring's doorbell, if it is a producer ring of a flow that is told to ring: a run's flows are hardly ever idle.
    pub fn doorbell_of(&self, ids: &RingIds) -> Option<u32> {
        let worker = &self.workers[usize::from(ids.worker) - 1];
        (ids.is_producer && self.flow_of(worker).doorbell == Some(true)).then_some(ids.secret)
    }

    /// A worker's settings.
    pub fn worker_spec(&self, worker: &Worker) -> Result<worker::WorkerSpec, PlanError> {
        let flow = self.flow_of(worker);
        let ring = worker.consumers[0];
        let ids = |ring: usize| self.rings[ring].map_or((0, 0), |i| (i.data.index, i.poll.index));
        let (data_qp, poll_qp) = ids(ring);
        let target = match worker.group {
            None => worker::Target::Ring { data_qp, poll_qp },
            Some(group) => {
                let members = u32::MAX >> (MAX_MEMBERS - worker.consumers.len());
                worker::Target::Group { group, members, poll_qp }
            }
        };
        let weighted = worker::weighted_batch(flow.max_batch, flow.item_size, flow.weight, self.heaviest());
        Ok(worker::WorkerSpec {
            id: worker.id,
            producers: worker.producers.len() as u16,
            settings: worker::Settings {
                locks: flow.kind == FlowKind::LoadBalance,
                capped: flow.rate_cap.is_some(),
                rings: flow.doorbell == Some(true),
                ..Default::default()
            },
            max_batch: worker::paced_batch(weighted, flow.item_size, flow.rate_cap),
            ring_size: self.topology.rings[ring].size,
            item_size: self.topology.rings[ring].item_size,
            mtu: self.topology.hosts[self.topology.rings[ring].host].mtu,
            target,
            flow: worker.flow as u16 + 1,
            times: worker::Times {
                poll_interval: flow.poll_interval,
                poll_timeout: flow.poll_timeout,
                rto: flow.rto,
                dead_after: flow.dead_after,
            },
        })
    }

    /// The multicast groups of replicate flows: one replica per member, whose instance is its connection.
    pub fn flow_groups(&self) -> Result<Vec<rt::PacketReplicationEngineEntry>, PlanError> {
        let mut out = Vec::new();
        for worker in &self.workers {
            let Some(id) = worker.group else { continue };
            let mut members = Vec::new();
            for &ring in &worker.consumers {
                let Some(ids) = self.rings[ring] else { continue };
                members.push((self.station_of(ring)?.port, ids));
            }
            out.extend(member_groups(id, &members));
        }
        Ok(out)
    }

    /// The multicast groups and clone sessions of the ports.
    pub fn port_replication(&self) -> Vec<rt::PacketReplicationEngineEntry> {
        forward::replication(self)
    }

    /// The multicast groups that turn timer packets into ticks: workers start when these are written.
    pub fn tick_groups(&self) -> Vec<rt::PacketReplicationEngineEntry> {
        let timer = ticks::Timer::of(self.switch);
        let group = |w: &Worker| timer.group_of(w.id, self.flow_of(w).poll_interval);
        ticks::groups(self.workers.iter().map(|w| (w.id, group(w))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::p4::Artifacts;
    use std::path::Path;

    #[test]
    fn a_plan_fits_the_program() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../topologies/shuffle-2x2.yaml");
        let topology = Topology::load(&path).unwrap();
        let schema = Schema::new(&Artifacts::built_in().unwrap().p4info);
        let plan = Plan::new(&topology, 0, 1).unwrap();
        assert_eq!(plan.workers.len(), 2);
        let address = RingAddress { rkey: 7, data_qpn: 17, poll_qpn: 18, epoch: 1 };
        let addresses = vec![Some(address); topology.rings.len()];
        let base = plan.base_entries(&schema).unwrap();
        assert!(base.len() >= 8 * 256);
        let flows = plan.flow_entries(&schema, &addresses).unwrap();
        // Four producer rings and two consumer rings; two queue pairs each with three entries; two workers with two producers.
        assert_eq!(flows.len(), 6 * 2 * 3 + 2 * 2 + 2 * 4 + 4);
        let Some(rt::packet_replication_engine_entry::Type::MulticastGroupEntry(group)) =
            plan.tick_groups()[0].r#type.clone()
        else {
            panic!("the tick group is a multicast group");
        };
        assert_eq!(group.replicas.len(), 2);
    }

    #[test]
    fn first_psns_are_made_of_the_seed_unless_the_topology_says_them() {
        let psns = |defaults: &str| {
            let flow = "{name: f, kind: replicate, producers: [h1, h2], consumers: [h3, h4]}";
            let text = format!("{defaults}\nhosts: [h1, h2, h3, h4]\nflows: [{flow}]\n");
            let topology = Topology::parse(Path::new("t.yaml"), text.as_bytes()).unwrap();
            let plan = Plan::new(&topology, 0, 1).unwrap();
            let of = |ids: &RingIds| {
                assert_eq!((ids.data.psn, ids.reset(0).psn), (ids.poll.psn, ids.data.psn));
                ids.data.psn
            };
            plan.rings.iter().flatten().map(of).collect::<Vec<_>>()
        };
        assert_eq!(psns("defaults: {first_psn: 0xfffff0}"), [0xff_fff0; 4]);
        let first = psns("seed: 1");
        assert_eq!(psns("seed: 1"), first);
        assert_ne!(psns("seed: 2"), first);
        assert!(first.iter().all(|psn| *psn < 1 << 24));
        // Both consumers are one worker's, who counts once; all others count for themselves.
        assert_eq!(first.iter().collect::<std::collections::BTreeSet<_>>().len(), 3, "{first:?}");
    }
}
