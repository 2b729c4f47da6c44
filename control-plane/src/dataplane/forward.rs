//! Fills p4/pipeline/forward.p4: VLANs and source addresses of ports, stations, the switch's own addresses, groups and clone sessions of ports.

use super::station::{ip, mac};
use super::{GROUP_FLOOD, PORT_RECIRCULATE, PlanError, RingIds};
use crate::p4::Schema;
use crate::p4::names::{action, table};
use p4runtime_proto::p4::v1 as rt;
use rt::packet_replication_engine_entry::Type;
use zsr_topology::{Host, Topology};

/// Operation of an ARP request (RFC 826).
const ARP_REQUEST: u16 = 1;
const BROADCAST: u64 = 0xffff_ffff_ffff;
/// Who asks whether an address is free, or for one, has none yet (0.0.0.0; RFC 5227, RFC 2131).
const NO_ADDRESS: u32 = 0;

pub(super) fn entries(topology: &Topology, schema: &Schema) -> Result<Vec<rt::TableEntry>, PlanError> {
    let switch = &topology.switches[0];
    let mut out = vec![
        schema.entry(table::OwnIp { dst: ip(switch.ip) }, action::Own {})?,
        schema.entry(
            table::OwnArp { operation: ARP_REQUEST, target_ip: ip(switch.ip), foreign: 0, spoofed: 0 },
            action::Reply { mac: mac(switch.mac) },
        )?,
        schema.entry(
            table::OwnArp { operation: ARP_REQUEST, target_ip: ip(switch.ip), foreign: 1, spoofed: 0 },
            action::Ignore {},
        )?,
        schema.entry(table::Stations { dst: BROADCAST }, action::ToGroup { group: GROUP_FLOOD as u16 })?,
    ];
    for link in &topology.links {
        let host = &topology.hosts[link.host];
        let station = table::Stations { dst: mac(host.mac) };
        out.push(schema.entry(station, action::ToPort { port: link.port as u16 })?);
        let vlan = table::Vlans { port: link.port as u16, vlan: host.vlan.unwrap_or(0) };
        out.push(schema.entry(vlan, action::Expected {})?);
        out.extend(sources(schema, link.port as u16, host)?);
    }
    Ok(out)
}

/// The source addresses that what comes from `host` at `port` may have.
fn sources(schema: &Schema, port: u16, host: &Host) -> Result<Vec<rt::TableEntry>, PlanError> {
    let mac = mac(host.mac);
    let mut out = vec![schema.entry(table::Sources { port, mac }, action::OwnSource {})?];
    for ip in [ip(host.ip), NO_ADDRESS] {
        out.push(schema.entry(table::IpSources { port, mac, ip }, action::OwnSource {})?);
        let arp = table::ArpSources { port, mac, sender_mac: mac, sender_ip: ip };
        out.push(schema.entry(arp, action::OwnSource {})?);
    }
    Ok(out)
}

/// The clone session whose copies leave at `port`.
pub(crate) fn session(port: u32) -> u16 {
    port as u16 + 1
}

pub(super) fn replication(topology: &Topology) -> Vec<rt::PacketReplicationEngineEntry> {
    let ports = || topology.links.iter().map(|l| l.port);
    let sessions = ports().map(|port| rt::PacketReplicationEngineEntry {
        r#type: Some(Type::CloneSessionEntry(rt::CloneSessionEntry {
            session_id: session(port).into(),
            replicas: vec![replica(port, 1)],
            ..Default::default()
        })),
    });
    sessions.chain([group(GROUP_FLOOD, ports().map(|p| (p, 1)))]).collect()
}

/// The groups of a replicate flow's consumers, each given as (port, ids): `id` for items, the next one for polls. One
/// replica per member, whose instance is its connection.
pub(crate) fn member_groups(id: u16, members: &[(u32, RingIds)]) -> [rt::PacketReplicationEngineEntry; 2] {
    let data = members.iter().map(|&(port, ids)| (port, ids.data.index.into()));
    let polls = members.iter().map(|&(_, ids)| (PORT_RECIRCULATE, ids.poll.index.into()));
    [group(id.into(), data), group(u32::from(id) + 1, polls)]
}

/// A multicast group of (port, instance) replicas, in the order in which switches give them back.
pub(crate) fn group(id: u32, replicas: impl Iterator<Item = (u32, u32)>) -> rt::PacketReplicationEngineEntry {
    let mut replicas: Vec<(u32, u32)> = replicas.collect();
    replicas.sort_by_key(|&(port, instance)| (instance, port));
    rt::PacketReplicationEngineEntry {
        r#type: Some(Type::MulticastGroupEntry(rt::MulticastGroupEntry {
            multicast_group_id: id,
            replicas: replicas.into_iter().map(|(port, instance)| replica(port, instance)).collect(),
            ..Default::default()
        })),
    }
}

fn replica(port: u32, instance: u32) -> rt::Replica {
    let port = crate::p4::schema::canonical(port.into());
    rt::Replica { instance, port_kind: Some(rt::replica::PortKind::Port(port)), ..Default::default() }
}
