//! Fills p4/pipeline/forward.p4: VLANs and source addresses of ports, stations, the switch's own addresses, groups and
//! clone sessions of ports.

use super::station::{ip, mac};
use super::{GROUP_FLOOD, PlanError, RingIds, pipes};
use crate::p4::Schema;
use crate::p4::names::{action, table};
use p4runtime_proto::p4::v1 as rt;
use rt::packet_replication_engine_entry::Type;
use zsr_topology::{Chip, Host, Pipes, Switch, Topology};

/// Operation of an ARP request (RFC 826).
const ARP_REQUEST: u16 = 1;
const BROADCAST: u64 = 0xffff_ffff_ffff;
/// Address of a sender that has none yet (0.0.0.0): it asks whether an address is free, or for an address (RFC 5227,
/// RFC 2131).
const NO_ADDRESS: u32 = 0;
/// Port of packets that come round: none. Among frames, those are the packets to producers behind a pipe
/// (p4/arch/tna/folded.p4).
const NO_PORT: u16 = 0;
/// Instance of the copies of a flooded frame. A Tofino leaves out the copy at the frame's own port
/// (p4/arch/tna/main.p4: `FLOODED`). No worker and no connection has this number.
const FLOODED: u32 = 0xffff;

pub(super) fn entries(topology: &Topology, schema: &Schema) -> Result<Vec<rt::TableEntry>, PlanError> {
    let switch = &topology.switches[0];
    let mut out = vec![
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
        out.extend(ways(schema, switch, link.port)?);
    }
    if topology.links.iter().any(|l| switch.pipes.is_behind(l.port)) {
        let own = table::IpSources { port: NO_PORT, mac: mac(switch.mac), ip: ip(switch.ip) };
        out.push(schema.entry(own, action::OwnSource {})?);
    }
    Ok(out)
}

/// Entries for packets to the switch that come in at `port`: they stay in the pipe that has the registers, or go there.
fn ways(schema: &Schema, switch: &Switch, port: u32) -> Result<Vec<rt::TableEntry>, PlanError> {
    let (pipes, here) = (switch.pipes, switch.pipes.of_port(port));
    let mut out = Vec::new();
    for home in 0..pipes::MAX_PIPES {
        // A pipe that does not exist has no queue pairs.
        let known = pipes.homes().find(|pipe| *pipe == home);
        let again = pipes::port_again_of(switch, known.unwrap_or(here)) as u16;
        let key = |crossed| table::OwnIp { dst: ip(switch.ip), port: port as u16, home: home as u8, crossed };
        match known {
            Some(pipe) if pipe != here => {
                out.push(schema.entry(key(0), action::Cross { way: again })?);
                out.push(schema.entry(key(1), action::Own { again })?);
            }
            _ => out.push(schema.entry(key(0), action::Own { again })?),
        }
    }
    Ok(out)
}

/// The source addresses that frames from `host` at `port` may have.
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

/// The clone session whose copies leave at `port`. A Tofino 2 has 255 sessions, and more port numbers than that. Each
/// pipe has as many sessions as it has ports of cables.
pub(super) fn session(switch: &Switch, port: u32) -> u16 {
    let chip = switch.kind.tofino().map(|tofino| tofino.chip);
    let number = match chip.filter(|chip| *chip == Chip::Tofino2 && switch.pipes.are_several()) {
        None => port,
        Some(chip) => {
            let (pipe, cables) = (switch.pipes.of_port(port), chip.ports());
            let of_pipe = cables.end() - cables.start() + 1;
            pipe * of_pipe + port - Pipes::port_in(pipe, *cables.start())
        }
    };
    number as u16 + 1
}

pub(super) fn replication(topology: &Topology) -> Vec<rt::PacketReplicationEngineEntry> {
    let ports = || topology.links.iter().map(|l| l.port);
    let sessions = ports().map(|port| rt::PacketReplicationEngineEntry {
        r#type: Some(Type::CloneSessionEntry(rt::CloneSessionEntry {
            session_id: session(&topology.switches[0], port).into(),
            replicas: vec![replica(port, 1)],
            ..Default::default()
        })),
    });
    let flood = group(GROUP_FLOOD, ports().map(|p| (p, FLOODED)));
    sessions.chain([flood]).chain(pipes::groups(topology.switches[0].pipes)).collect()
}

/// The groups of a replicate flow's consumers, each given as (port, ids): `id` for items, the next one for polls. Each
/// member has one replica, whose instance is its connection.
pub fn member_groups(
    id: u16,
    members: &[(u32, RingIds)],
    pipes: Pipes,
) -> [rt::PacketReplicationEngineEntry; 2] {
    let data = members.iter().map(|&(port, ids)| (port, ids.data.index.into()));
    let polls = members
        .iter()
        .map(|&(_, ids)| (pipes::port_again(pipes.of_worker(ids.worker)), ids.poll.index.into()));
    [group(id.into(), data), group(u32::from(id) + 1, polls)]
}

/// A multicast group of (port, instance) replicas, in the order in which switches give them back.
pub fn group(id: u32, replicas: impl Iterator<Item = (u32, u32)>) -> rt::PacketReplicationEngineEntry {
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
