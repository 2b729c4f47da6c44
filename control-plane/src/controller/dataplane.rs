//! The one place where flows become table entries: everything that a flow is (kind, members, settings) comes in as a
//! [`Flow`], everything that the switch has to hold for it goes out. Changing a flow is the difference of two such lists
//! ([`super::difference`]), so nothing here knows what changed.

use super::model::{Flow, FlowKind, Host, Ring};
use super::refusal::{Kind, Refusal};
use super::settings::{Hint, Policy};
use crate::p4::Schema;
use crate::plan::{GROUP_TICK, PORT_AGAIN, PlanError};
use crate::topology::{ByteOrder, MacAddr, Switch};
use p4runtime_proto::p4::v1 as rt;
use rt::packet_replication_engine_entry::Type;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::Duration;

// Roles (p4/common/types.p4).
const PRODUCER_DATA: u64 = 1;
const PRODUCER_POLL: u64 = 2;
const CONSUMER_DATA: u64 = 3;
const CONSUMER_POLL: u64 = 4;

/// The switch's program, as far as flows are concerned.
#[derive(Clone, Debug)]
pub struct DataPlane {
    schema: Schema,
    ip: Ipv4Addr,
    mac: MacAddr,
}

/// Hosts by name.
pub type Hosts = HashMap<String, Host>;

impl DataPlane {
    /// For a switch that runs the program of `schema`.
    pub fn new(schema: Schema, switch: &Switch) -> Self {
        DataPlane { schema, ip: switch.ip, mac: switch.mac }
    }

    /// Names of the program.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The address that hosts connect their queue pairs to.
    pub fn address(&self) -> (Ipv4Addr, MacAddr) {
        (self.ip, self.mac)
    }

    /// Whether the program can do what the flow asks for.
    ///
    /// # Errors
    /// [`Kind::Unsupported`], with what it can't.
    pub fn check(&self, flow: &Flow) -> Result<(), Refusal> {
        let s = &flow.settings;
        let what = match flow.kind {
            FlowKind::Shuffle => None,
            FlowKind::LoadBalance => Some("kind load-balance"),
            FlowKind::Replicate => Some("kind replicate"),
        };
        let what = what
            .or((s.weight != 1).then_some("a weight other than 1"))
            .or((s.rate_cap_bps != 0).then_some("a rate cap"))
            .or(s.doorbell.then_some("the doorbell"))
            .or((s.hint == Hint::Latency).then_some("hint latency"));
        // Policies are the controller's own business.
        let (Policy::Wait | Policy::DropMember | Policy::Abort) = s.policy;
        match what {
            None => Ok(()),
            Some(what) => {
                let message =
                    format!("flow `{}`: the program that the switch runs does not know {what}", flow.name);
                Err(Refusal::new(Kind::Unsupported, message))
            }
        }
    }

    /// Everything that the switch holds for a flow, in an order in which it can be inserted: what is named comes before
    /// what names it. Rings without an address are left out.
    ///
    /// # Errors
    /// When program and controller do not fit.
    pub fn entries(&self, flow: &Flow, hosts: &Hosts) -> Result<Vec<rt::TableEntry>, PlanError> {
        let mut out = Vec::with_capacity(flow.rings().count() * 8);
        for ring in flow.rings() {
            self.connections(ring, hosts, &mut out)?;
        }
        for producer in &flow.producers {
            for ring in &producer.rings {
                let (size, ids) = (u64::from(ring.size), ring.ids);
                let values = [size, size - 1, ids.data.index.into(), ids.poll.index.into()];
                out.push(self.schema.entry("producers", &[ids.id.into()], "producer", &values)?);
            }
        }
        for (c, consumer) in flow.consumers.iter().enumerate() {
            for ring in &consumer.rings {
                self.worker(flow, c, ring, &mut out)?;
            }
        }
        Ok(out)
    }

    /// Both connections of a ring: who is at the far end, and how packets reach it.
    fn connections(
        &self,
        ring: &Ring,
        hosts: &Hosts,
        out: &mut Vec<rt::TableEntry>,
    ) -> Result<(), PlanError> {
        let Some(address) = ring.address else { return Ok(()) };
        let host = hosts.get(&ring.host).ok_or_else(|| PlanError::Unlinked { host: ring.host.clone() })?;
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
            // The clone session of a port is its number plus one.
            let (flags, mirror) = (u64::from(address.epoch) << 16, port + 1);
            let (from, to) = ((mac(self.mac), ip(self.ip)), (mac(host.mac), ip(host.ip)));
            let peer = [to.0, from.0, from.1, to.1, qpn.into(), address.rkey.into(), swap, flags, mirror];
            out.push(self.schema.entry("peers", &[index], "peer", &peer)?);
            out.push(self.schema.entry("routes", &[index], "route", &[port])?);
            let owner = [role, number.into(), ids.worker.into(), index, swap, 1];
            out.push(self.schema.entry("qps", &[qp.qpn.into(), ip(host.ip), port], "qp", &owner)?);
        }
        Ok(())
    }

    /// Worker of the consumer at `place`, and the producers that it visits.
    fn worker(
        &self,
        flow: &Flow,
        place: usize,
        ring: &Ring,
        out: &mut Vec<rt::TableEntry>,
    ) -> Result<(), PlanError> {
        let worker = u64::from(ring.ids.worker);
        let producers: Vec<u16> =
            flow.producers.iter().filter_map(|p| p.rings.get(place)).map(|r| r.ids.id).collect();
        let count = producers.len() as u64;
        for (index, &id) in producers.iter().enumerate() {
            let index = index as u64;
            let values = [id.into(), (index + 1) % count];
            out.push(self.schema.entry("producer_list", &[worker, index], "member", &values)?);
        }
        let (s, size) = (&flow.settings, u64::from(ring.size));
        let (no_group, one_member, no_flow) = (0, [1, 1], 0);
        let values = [
            count,
            0,
            s.max_batch.into(),
            size,
            size - 1,
            (size / 2).max(flow.item_size.into()),
            mtu_code(flow.mtu),
            u64::from(flow.mtu) - 1,
            ring.ids.data.index.into(),
            ring.ids.poll.index.into(),
            no_group,
            one_member[0],
            one_member[1],
            no_flow,
            s.poll_interval_us,
            s.poll_timeout_us,
            s.rto_us,
            max_tries(s.rto_us, s.dead_after_us),
        ];
        out.push(self.schema.entry("workers", &[worker], "worker", &values)?);
        Ok(())
    }

    /// The group that makes workers run: one replica per worker.
    pub fn ticks(&self, workers: impl Iterator<Item = u16>) -> rt::PacketReplicationEngineEntry {
        let port = crate::p4::schema::canonical(PORT_AGAIN.into());
        let replica = |worker: u16| rt::Replica {
            instance: worker.into(),
            port_kind: Some(rt::replica::PortKind::Port(port.clone())),
            ..Default::default()
        };
        rt::PacketReplicationEngineEntry {
            r#type: Some(Type::MulticastGroupEntry(rt::MulticastGroupEntry {
                multicast_group_id: GROUP_TICK,
                replicas: workers.map(replica).collect(),
                ..Default::default()
            })),
        }
    }

    /// How long what was in flight takes to end, once nothing new begins: between taking a producer off a worker's list and
    /// taking its connection away.
    pub fn settles_in(&self, flow: &Flow) -> Duration {
        Duration::from_micros(flow.settings.poll_timeout_us.min(50_000))
    }

    /// Tables that hold nothing but flows' entries.
    pub fn flow_tables(&self) -> [&'static str; 6] {
        ["peers", "routes", "qps", "producers", "producer_list", "workers"]
    }
}

fn ip(a: Ipv4Addr) -> u64 {
    u32::from(a).into()
}

fn mac(a: MacAddr) -> u64 {
    a.0.iter().fold(0, |n, &b| n << 8 | u64::from(b))
}

/// 1 to 5 for a path MTU of 256 to 4096.
fn mtu_code(mtu: u32) -> u64 {
    u64::from(mtu.max(256).ilog2().min(12) - 7)
}

/// Retries until a peer has been silent for `dead`: each waits twice as long as the one before, up to 64 times `rto`.
fn max_tries(rto: u64, dead: u64) -> u64 {
    let (mut waited, mut wait, mut tries) = (0, rto, 0);
    while waited < dead && tries < 1 << 20 {
        waited += wait;
        wait = (wait * 2).min(rto * 64);
        tries += 1;
    }
    tries.max(1)
}
