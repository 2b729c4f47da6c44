//! Topology and rings -> what the switch has to hold. Pure planning: no I/O.
//!
//! Each file beside this one fills the tables of the P4 file of the same name.

mod connection;
mod forward;
mod ids;
mod params;
mod peer;
mod solve;

use crate::p4::schema::{Schema, SchemaError};
use crate::topology::MacAddr;
use crate::topology::{Flow, Host, Link, Switch, Topology};
pub use ids::{Qp, RingIds};
use p4runtime_proto::p4::v1 as rt;
use std::net::Ipv4Addr;

/// Multicast group of the timer packet: one replica per worker (P4: `GROUP_TICK`).
pub const GROUP_TICK: u32 = 1;
/// Multicast group of broadcast frames: one replica per port.
pub const GROUP_FLOOD: u32 = 2;
/// The port that leads back into the pipeline (P4: `PORT_AGAIN`).
pub const PORT_AGAIN: u32 = 501;
/// The port at which timer packets come in (P4: `PORT_TIMER`).
pub const PORT_TIMER: u16 = 500;
/// First port number that links may not use.
pub const FIRST_RESERVED_PORT: u32 = 500;

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
    /// Per worker: index of its flow, and of its consumer within that.
    pub workers: Vec<(usize, usize)>,
}

/// Who is at the far end of a queue pair, and how to reach it.
struct Peer<'t> {
    host: &'t Host,
    link: &'t Link,
}

impl<'t> Plan<'t> {
    /// Numbers workers, producers and queue pairs. `generation` (1 to 127) keeps the switch's queue pair numbers apart from
    /// those of an earlier controller.
    pub fn new(topology: &'t Topology, switch: usize, generation: u8) -> Result<Self, PlanError> {
        let (rings, workers) = ids::assign(topology, generation)?;
        Ok(Plan { topology, switch: &topology.switches[switch], rings, workers })
    }

    /// The flow of a worker.
    pub fn flow_of(&self, worker: usize) -> &'t Flow {
        &self.topology.flows[self.workers[worker].0]
    }

    /// The topology's index of a worker's consumer ring.
    pub fn consumer_ring_of(&self, worker: usize) -> usize {
        let (flow, consumer) = self.workers[worker];
        self.topology.flows[flow].consumers[consumer].rings[0]
    }

    /// The topology's indices of the producer rings that a worker drains, in the order in which it visits them.
    pub fn producer_rings_of(&self, worker: usize) -> Vec<usize> {
        let (flow, consumer) = self.workers[worker];
        self.topology.flows[flow].producers.iter().map(|p| p.rings[consumer]).collect()
    }

    /// Every queue pair of every ring: (ring, ids, the queue pair, whether it is the poll one).
    fn qps(&self) -> impl Iterator<Item = (usize, &RingIds, Qp, bool)> {
        self.rings
            .iter()
            .enumerate()
            .filter_map(|(i, r)| r.as_ref().map(|r| (i, r)))
            .flat_map(|(i, r)| [(i, r, r.data, false), (i, r, r.poll, true)])
    }

    fn peer_of(&self, ring: usize) -> Result<Peer<'t>, PlanError> {
        let index = self.topology.rings[ring].host;
        let host = &self.topology.hosts[index];
        let link =
            self.topology.link_of(index).ok_or_else(|| PlanError::Unlinked { host: host.name.clone() })?;
        Ok(Peer { host, link })
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
        let mut out = peer::entries(self, schema, addresses)?;
        out.extend(connection::entries(self, schema)?);
        out.extend(params::entries(self, schema)?);
        Ok(out)
    }

    /// The multicast groups and clone sessions of the ports.
    pub fn port_replication(&self) -> Vec<rt::PacketReplicationEngineEntry> {
        forward::replication(self)
    }

    /// The multicast group that turns the timer packet into ticks: workers start when this is written.
    pub fn tick_group(&self) -> rt::PacketReplicationEngineEntry {
        forward::group(GROUP_TICK, (0..self.workers.len()).map(|w| (PORT_AGAIN, w as u32)))
    }

    /// A timer packet (P4: `EV_FANOUT`): an internal frame of 64 bytes.
    pub fn timer_packet() -> Vec<u8> {
        const ETHERTYPE_INTERNAL: [u8; 2] = [0x88, 0xb5];
        const EV_FANOUT: u8 = 32;
        let mut frame = vec![0; 64];
        frame[12..14].copy_from_slice(&ETHERTYPE_INTERNAL);
        frame[14] = EV_FANOUT;
        frame[24..26].copy_from_slice(&(GROUP_TICK as u16).to_be_bytes());
        frame
    }
}

fn ip(a: Ipv4Addr) -> u64 {
    u32::from(a).into()
}

fn mac(a: MacAddr) -> u64 {
    a.0.iter().fold(0, |n, &b| n << 8 | u64::from(b))
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
        assert_eq!(flows.len(), 6 * 2 * 3 + 2 + 4 + 4);
        let Some(rt::packet_replication_engine_entry::Type::MulticastGroupEntry(group)) =
            plan.tick_group().r#type
        else {
            panic!("the tick group is a multicast group");
        };
        assert_eq!(group.replicas.len(), 2);
    }
}
