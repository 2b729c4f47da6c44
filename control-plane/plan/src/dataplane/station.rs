//! The ends of the switch's connections, as its tables name them.

use super::{RingAddress, RingIds, connection, forward, peer, pipes};
use crate::p4::{Schema, schema::SchemaError};
use p4runtime_proto::p4::v1::TableEntry;
use std::net::Ipv4Addr;
use zsr_topology::{ByteOrder, MacAddr, Topology, Traffic};

/// A host's NIC and its place at the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Station {
    /// The station's address.
    pub ip: Ipv4Addr,
    /// The station's Ethernet address.
    pub mac: MacAddr,
    /// The switch's port.
    pub port: u32,
    /// The port for packets to the host that only producers get.
    pub round: u32,
    /// The clone session whose copies leave at the station's port.
    pub session: u16,
    /// Byte order of the counters in the host's rings.
    pub byte_order: ByteOrder,
    /// The VLAN of the host.
    pub vlan: Option<u16>,
    /// The marks of packets to the host.
    pub traffic: Traffic,
}

impl Station {
    /// The NIC of host number `host` as the switch sees it; `None` without a link.
    pub fn of(topology: &Topology, host: usize) -> Option<Self> {
        let link = topology.link_of(host)?;
        let (host, traffic) = (&topology.hosts[host], topology.traffic);
        let (byte_order, vlan) = (host.byte_order, host.vlan);
        let (switch, port) = (&topology.switches[link.switch], link.port);
        let (round, session) = (pipes::to_producers(switch, port), forward::session(switch, port));
        Some(Station { ip: host.ip, mac: host.mac, port, round, session, byte_order, vlan, traffic })
    }

    pub(super) fn ip(&self) -> u32 {
        ip(self.ip)
    }

    pub(super) fn mac(&self) -> u64 {
        mac(self.mac)
    }

    /// Whether counters are turned round on their way.
    pub(super) fn swap(&self) -> u8 {
        u8::from(self.byte_order == ByteOrder::Little)
    }
}

/// The switch's own addresses: the far end of all queue pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchAddress {
    /// The switch's address.
    pub ip: Ipv4Addr,
    /// The switch's Ethernet address.
    pub mac: MacAddr,
}

impl SwitchAddress {
    pub(super) fn ip(&self) -> u32 {
        ip(self.ip)
    }

    pub(super) fn mac(&self) -> u64 {
        mac(self.mac)
    }
}

/// Everything that the switch holds for the two connections of a ring at `station`, registered as `at`.
///
/// # Errors
/// When program and controller do not fit.
pub fn ring_entries(
    schema: &Schema,
    switch: SwitchAddress,
    station: &Station,
    ids: &RingIds,
    at: RingAddress,
) -> Result<Vec<TableEntry>, SchemaError> {
    let mut out = Vec::with_capacity(6);
    let port = if ids.is_producer { station.round } else { station.port };
    for (qp, qpn, is_poll) in [(ids.data, at.data_qpn, false), (ids.poll, at.poll_qpn, true)] {
        out.extend(peer::entries(schema, switch, (station, port), (qp, is_poll), qpn, at)?);
        out.push(connection::entry(schema, station, ids, qp, is_poll)?);
    }
    Ok(out)
}

pub(super) fn ip(a: Ipv4Addr) -> u32 {
    a.into()
}

pub(super) fn mac(a: MacAddr) -> u64 {
    crate::p4::schema::number(&a.0)
}
