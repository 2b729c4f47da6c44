//! The one place where flows become table entries: everything that a flow is (kind, members, settings) comes in as a
//! [`Flow`], everything that the switch has to hold for it goes out. Changing a flow is the difference of two such lists
//! ([`super::difference`]), so nothing here knows what changed.

use super::alloc::{PROBE, group_of};
use super::model::{Flow, FlowKind, Host, Member, Ring};
use super::settings::{Hint, Settings};
use crate::p4::Schema;
use crate::plan::worker::{self, Target, Times, WorkerSpec};
use crate::plan::{PORT_AGAIN, PlanError, group, session, ticks};
use crate::topology::{ByteOrder, MacAddr, Switch};
use p4runtime_proto::p4::v1 as rt;
use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::time::Duration;

// Roles (p4/common/types.p4).
const PRODUCER_DATA: u64 = 1;
const PRODUCER_POLL: u64 = 2;
const CONSUMER_DATA: u64 = 3;
const CONSUMER_POLL: u64 = 4;

/// How often a flow with hint latency looks at its producers, at least.
const LATENCY_POLL_US: u64 = 20;

/// The switch's program, as far as flows are concerned.
#[derive(Clone, Debug)]
pub struct DataPlane {
    schema: Schema,
    ip: Ipv4Addr,
    mac: MacAddr,
    tick: Duration,
}

/// The multicast group that makes a worker tick, by worker.
pub type Ticks = BTreeMap<u16, u32>;

/// Hosts by name.
pub type Hosts = HashMap<String, Host>;

/// What a flow's entries depend on beside the flow.
#[derive(Clone, Copy, Debug)]
pub struct Context<'c> {
    /// All hosts.
    pub hosts: &'c Hosts,
    /// The largest weight of all flows.
    pub heaviest: u32,
    /// The flow's workers begin no transfer.
    pub hold: bool,
}

impl Context<'_> {
    fn host(&self, name: &str) -> Result<&Host, PlanError> {
        self.hosts.get(name).ok_or_else(|| PlanError::Unlinked { host: name.to_owned() })
    }
}

impl DataPlane {
    /// For a switch that runs the program of `schema`.
    pub fn new(schema: Schema, switch: &Switch) -> Self {
        DataPlane { schema, ip: switch.ip, mac: switch.mac, tick: switch.tick }
    }

    /// Names of the program.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The address that hosts connect their queue pairs to.
    pub fn address(&self) -> (Ipv4Addr, MacAddr) {
        (self.ip, self.mac)
    }

    /// Everything that the switch holds for a flow, in an order in which it can be inserted: what is named comes before
    /// what names it. Rings without an address are left out.
    ///
    /// # Errors
    /// When program and controller do not fit.
    pub fn entities(&self, flow: &Flow, context: &Context<'_>) -> Result<Vec<rt::Entity>, PlanError> {
        let mut out = Vec::with_capacity(flow.rings().count() * 9);
        for ring in flow.rings() {
            self.connections(ring, context, &mut out)?;
        }
        for ring in flow.producers.iter().flat_map(|p| &p.rings) {
            let qps = (ring.ids.data.index, ring.ids.poll.index);
            out.extend(worker::producer_entries(&self.schema, ring.ids.id, ring.size, qps)?.map(table));
        }
        if flow.settings.rate_cap_bps != 0 {
            out.push(table(worker::cap_entry(&self.schema, flow.number, flow.settings.rate_cap_bps / 8)?));
        }
        if flow.kind == FlowKind::Replicate {
            out.extend(groups(flow, context)?.map(replication));
        }
        for id in flow.workers() {
            self.worker(flow, id, context, &mut out)?;
        }
        if flow.settings.doorbell {
            self.doorbells(flow, context, &mut out)?;
        }
        Ok(out)
    }

    /// Both connections of a ring: who is at the far end, and how packets reach it.
    fn connections(
        &self,
        ring: &Ring,
        context: &Context<'_>,
        out: &mut Vec<rt::Entity>,
    ) -> Result<(), PlanError> {
        let Some(address) = ring.address else { return Ok(()) };
        let host = context.host(&ring.host)?;
        let swap = u64::from(host.byte_order == ByteOrder::Little);
        let ids = &ring.ids;
        let (roles, number) = if ids.is_producer {
            ([PRODUCER_DATA, PRODUCER_POLL], ids.id)
        } else {
            ([CONSUMER_DATA, CONSUMER_POLL], 0)
        };
        for (qp, role, qpn) in
            [(ids.data, roles[0], address.data_qpn), (ids.poll, roles[1], address.poll_qpn)]
        {
            let (index, port) = (u64::from(qp.index), u64::from(host.port));
            let (flags, mirror) = (u64::from(address.epoch) << 16, session(host.port).into());
            let (from, to) = ((mac(self.mac), ip(self.ip)), (mac(host.mac), ip(host.ip)));
            let peer = [to.0, from.0, from.1, to.1, qpn.into(), address.rkey.into(), swap, flags, mirror];
            out.push(table(self.schema.entry("peers", &[index], "peer", &peer)?));
            out.push(table(self.schema.entry("routes", &[index], "route", &[port])?));
            let owner = [role, number.into(), ids.worker.into(), index, swap, 1 << ids.member];
            out.push(table(self.schema.entry("qps", &[qp.qpn.into(), ip(host.ip), port], "qp", &owner)?));
        }
        Ok(())
    }

    /// A worker, the producers that it visits, and the members of its group.
    fn worker(
        &self,
        flow: &Flow,
        id: u16,
        context: &Context<'_>,
        out: &mut Vec<rt::Entity>,
    ) -> Result<(), PlanError> {
        let consumers: Vec<&Ring> =
            flow.consumers.iter().flat_map(|m| &m.rings).filter(|r| r.ids.worker == id).collect();
        let Some(first) = consumers.first() else { return Ok(()) };
        // A shuffle's producer has a ring for each worker; of the other kinds, all workers share its one ring.
        let lane = |m: &'_ Member| match flow.kind {
            FlowKind::Shuffle => m.rings.iter().find(|r| r.ids.worker == id).map(|r| r.ids.id),
            FlowKind::LoadBalance | FlowKind::Replicate => m.rings.first().map(|r| r.ids.id),
        };
        let producers: Vec<u16> = flow.producers.iter().filter_map(lane).collect();
        let poll_qp = first.ids.poll.index;
        let replicate = flow.kind == FlowKind::Replicate;
        let spec = WorkerSpec {
            id,
            producers: producers.len() as u16,
            settings: worker::Settings {
                hold: context.hold,
                open: false,
                locks: flow.kind == FlowKind::LoadBalance,
                capped: flow.settings.rate_cap_bps != 0,
                rings: flow.settings.doorbell,
            },
            max_batch: weighted(flow, context.heaviest),
            ring_size: consumers.iter().map(|r| r.size).min().unwrap_or(first.size),
            item_size: flow.item_size,
            mtu: flow.mtu,
            target: if replicate {
                let members = consumers.iter().fold(0, |bits, r| bits | 1 << r.ids.member);
                Target::Group { group: group_of(flow.number), members, poll_qp }
            } else {
                Target::Ring { data_qp: first.ids.data.index, poll_qp }
            },
            flow: flow.number,
            times: times(&flow.settings),
        };
        for (place, &producer) in producers.iter().enumerate() {
            out.push(table(spec.list_entry(&self.schema, place as u16, spec.producers, producer)?));
        }
        if replicate {
            for (place, ring) in consumers.iter().enumerate() {
                out.push(table(spec.member_entry(&self.schema, place as u16, ring.ids.poll.index)?));
            }
        }
        out.extend(spec.entries(&self.schema)?.map(table));
        Ok(())
    }

    /// Which datagrams are doorbells of the flow's producer rings, and whose turn they are.
    fn doorbells(
        &self,
        flow: &Flow,
        context: &Context<'_>,
        out: &mut Vec<rt::Entity>,
    ) -> Result<(), PlanError> {
        let first = flow.workers().first().copied().unwrap_or_default();
        for ring in flow.producers.iter().flat_map(|p| &p.rings) {
            let host = context.host(&ring.host)?;
            let worker = if flow.kind == FlowKind::Shuffle { ring.ids.worker } else { first };
            let key = [ring.ids.secret.into(), ip(host.ip), host.port.into()];
            let values = [ring.ids.id.into(), worker.into()];
            out.push(table(self.schema.entry("doorbells", &key, "bell", &values)?));
        }
        Ok(())
    }

    /// A worker that never runs and answers when asked.
    ///
    /// # Errors
    /// When program and controller do not fit.
    pub fn probe(&self) -> Result<rt::TableEntry, PlanError> {
        let spec = WorkerSpec {
            id: PROBE,
            producers: 0,
            settings: worker::Settings { hold: true, open: true, ..Default::default() },
            max_batch: 4,
            ring_size: 4,
            item_size: 4,
            mtu: 256,
            target: Target::Ring { data_qp: 0, poll_qp: 0 },
            flow: 0,
            times: times(&Settings::of_items(4)),
        };
        Ok(spec.entry(&self.schema)?)
    }

    /// The multicast group that makes each worker of a flow tick, by worker.
    pub fn tick_groups(&self, flow: &Flow) -> Ticks {
        let poll = times(&flow.settings).poll_interval;
        flow.workers().into_iter().map(|w| (w, ticks::group_of(w, poll, self.tick))).collect()
    }

    /// Tables that hold nothing but flows' entries.
    pub fn flow_tables() -> [&'static str; 11] {
        [
            "peers",
            "routes",
            "qps",
            "producers",
            "producer_rings",
            "producer_list",
            "members",
            "flows",
            "worker_rings",
            "workers",
            "doorbells",
        ]
    }
}

fn ip(a: Ipv4Addr) -> u64 {
    u32::from(a).into()
}

fn mac(a: MacAddr) -> u64 {
    a.0.iter().fold(0, |n, &b| n << 8 | u64::from(b))
}

fn table(entry: rt::TableEntry) -> rt::Entity {
    rt::Entity { entity: Some(rt::entity::Entity::TableEntry(entry)) }
}

/// A group or session as an entity.
pub fn replication(entry: rt::PacketReplicationEngineEntry) -> rt::Entity {
    rt::Entity { entity: Some(rt::entity::Entity::PacketReplicationEngineEntry(entry)) }
}

/// The groups of a replicate flow: one replica per member, whose instance is its connection.
fn groups(
    flow: &Flow,
    context: &Context<'_>,
) -> Result<impl Iterator<Item = rt::PacketReplicationEngineEntry> + use<>, PlanError> {
    let (mut data, mut polls) = (Vec::new(), Vec::new());
    for ring in flow.consumers.iter().flat_map(|m| &m.rings) {
        data.push((context.host(&ring.host)?.port, ring.ids.data.index.into()));
        polls.push((PORT_AGAIN, ring.ids.poll.index.into()));
    }
    let id = u32::from(group_of(flow.number));
    Ok([group(id, data.into_iter()), group(id + 1, polls.into_iter())].into_iter())
}

/// Largest transfer of a flow whose heaviest neighbour has weight `heaviest`: workers have one transfer under way each, so
/// flows that compete share in proportion to their transfers.
fn weighted(flow: &Flow, heaviest: u32) -> u32 {
    let (s, item) = (&flow.settings, u64::from(flow.item_size));
    let bytes = u64::from(s.max_batch) * u64::from(s.weight) / u64::from(heaviest.max(s.weight));
    (bytes / item * item).max(item) as u32
}

fn times(s: &Settings) -> Times {
    // A producer that is looked at often has its first item on its way soon.
    let poll =
        if s.hint == Hint::Latency { s.poll_interval_us.min(LATENCY_POLL_US) } else { s.poll_interval_us };
    Times {
        poll_interval: Duration::from_micros(poll),
        poll_timeout: Duration::from_micros(s.poll_timeout_us),
        rto: Duration::from_micros(s.rto_us),
        dead_after: Duration::from_micros(s.dead_after_us),
    }
}
