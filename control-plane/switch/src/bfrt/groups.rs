//! Multicast groups and clone sessions.
//!
//! A Tofino's group is a list of nodes. A node has ports, and one number for the packets that it makes. So replicas of
//! one instance are one node. Its own number is made of the group's and the instance's: written groups can be read
//! back, and nobody has to remember them.

use super::BfrtError;
use super::info::Info;
use super::proto as bf;
use super::row::{Row, Value, data, only_key};
use bf::data_field::Value as Wire;
use bf::update::Type;
use p4runtime_proto::p4::v1 as rt;
use rt::packet_replication_engine_entry::Type as Replication;
use std::collections::{BTreeMap, BTreeSet};
use zsr_plan::p4::schema::number;

pub(super) const GROUP: &str = "$pre.mgid";
pub(super) const NODE: &str = "$pre.node";
pub(super) const SESSION: &str = "$mirror.cfg";
const NODES: &str = "$MULTICAST_NODE_ID";

/// Ports by instance.
pub(super) type Group = BTreeMap<u16, BTreeSet<u32>>;
/// All groups of a switch, by number.
pub(super) type Groups = BTreeMap<u16, Group>;

/// The updates for a change of `kind` of `entry`, in order; `held` becomes the state after them.
pub(super) fn updates(
    info: &Info,
    held: &mut Groups,
    kind: Type,
    entry: &rt::PacketReplicationEngineEntry,
) -> Result<Vec<bf::Update>, BfrtError> {
    match &entry.r#type {
        Some(Replication::CloneSessionEntry(session)) => Ok(vec![clone(info, kind, session)?]),
        Some(Replication::MulticastGroupEntry(group)) => {
            let id = u16::try_from(group.multicast_group_id)
                .map_err(|_| BfrtError::Unsaid("a multicast group's number of more than 16 bits"))?;
            let new = if kind == Type::Delete { Group::new() } else { wanted(group)? };
            let old = held.remove(&id).unwrap_or_default();
            let out = change(info, kind, id, &old, &new)?;
            if kind != Type::Delete {
                held.insert(id, new);
            }
            Ok(out)
        }
        None => Err(BfrtError::Unsaid("an empty entry")),
    }
}

fn wanted(group: &rt::MulticastGroupEntry) -> Result<Group, BfrtError> {
    let mut out = Group::new();
    for replica in &group.replicas {
        let (Ok(instance), Some(port)) = (u16::try_from(replica.instance), port_of(replica)) else {
            return Err(BfrtError::Unsaid("a replica whose instance has more than 16 bits, or without port"));
        };
        out.entry(instance).or_default().insert(port);
    }
    Ok(out)
}

fn port_of(replica: &rt::Replica) -> Option<u32> {
    match &replica.port_kind {
        Some(rt::replica::PortKind::Port(bytes)) => u32::try_from(number(bytes)).ok(),
        #[allow(deprecated, reason = "still spoken by some")]
        Some(rt::replica::PortKind::EgressPort(port)) => Some(*port),
        None => None,
    }
}

/// Nodes come before their group names them, and go after it has dropped them. A group that exists gets and loses
/// single nodes. The driver would make the group anew for a whole list: that takes longer the more nodes it has, and no
/// node gets a copy meanwhile.
fn change(info: &Info, kind: Type, id: u16, old: &Group, new: &Group) -> Result<Vec<bf::Update>, BfrtError> {
    let mut out = Vec::new();
    for (instance, ports) in new {
        match old.get(instance) {
            Some(before) if before == ports => {}
            Some(_) => out.push(update(Type::Modify, node(info, id, *instance, Some(ports))?)),
            None => out.push(update(Type::Insert, node(info, id, *instance, Some(ports))?)),
        }
    }
    let come: Vec<u16> = new.keys().filter(|i| !old.contains_key(i)).copied().collect();
    let gone: Vec<u16> = old.keys().filter(|i| !new.contains_key(i)).copied().collect();
    match kind {
        Type::Modify => {
            if !come.is_empty() {
                out.push(update(Type::ModifyInc, naming(info, id, &come)?));
            }
            if !gone.is_empty() {
                let table_flags = Some(bf::TableFlags { mod_del: true, ..Default::default() });
                let entry = bf::TableEntry { table_flags, ..naming(info, id, &gone)? };
                out.push(update(Type::ModifyInc, entry));
            }
        }
        Type::Delete => out.push(update(kind, group(info, id)?.entry())),
        _ => out.push(update(kind, naming(info, id, &new.keys().copied().collect::<Vec<_>>())?)),
    }
    for instance in gone {
        out.push(update(Type::Delete, node(info, id, instance, None)?));
    }
    Ok(out)
}

fn group(info: &Info, id: u16) -> Result<Row<'_>, BfrtError> {
    Row::of(info, GROUP)?.key("$MGID", id.into())
}

/// The group with the nodes of these instances.
fn naming(info: &Info, id: u16, instances: &[u16]) -> Result<bf::TableEntry, BfrtError> {
    let nodes: Vec<u32> = instances.iter().map(|&instance| node_id(id, instance)).collect();
    Ok(group(info, id)?
        .with("$MULTICAST_NODE_L1_XID_VALID", Value::Bools(vec![false; nodes.len()]))?
        .with("$MULTICAST_NODE_L1_XID", Value::Numbers(vec![0; nodes.len()]))?
        .with(NODES, Value::Numbers(nodes))?
        .entry())
}

fn node_id(group: u16, instance: u16) -> u32 {
    u32::from(group) << 16 | u32::from(instance)
}

fn node(
    info: &Info,
    group: u16,
    instance: u16,
    ports: Option<&BTreeSet<u32>>,
) -> Result<bf::TableEntry, BfrtError> {
    let row = Row::of(info, NODE)?.key(NODES, node_id(group, instance).into())?;
    let Some(ports) = ports else { return Ok(row.entry()) };
    Ok(row
        .with("$MULTICAST_RID", Value::Number(instance.into()))?
        .with("$MULTICAST_LAG_ID", Value::Numbers(Vec::new()))?
        .with("$DEV_PORT", Value::Numbers(ports.iter().copied().collect()))?
        .entry())
}

/// A session copies at egress, to its one port.
fn clone(info: &Info, kind: Type, session: &rt::CloneSessionEntry) -> Result<bf::Update, BfrtError> {
    let row = Row::of(info, SESSION)?.key("$sid", session.session_id.into())?;
    if kind == Type::Delete {
        return Ok(update(kind, row.entry()));
    }
    let [replica] = session.replicas.as_slice() else {
        return Err(BfrtError::Unsaid("a clone session with more or fewer copies than one"));
    };
    let port = port_of(replica).ok_or(BfrtError::Unsaid("a replica without port"))?;
    let mut row = row
        .action("$normal")?
        .with("$session_enable", Value::Bool(true))?
        .with("$direction", Value::Text("EGRESS"))?
        .with("$ucast_egress_port", Value::Number(port.into()))?
        .with("$ucast_egress_port_valid", Value::Bool(true))?;
    if session.packet_length_bytes > 0 {
        row = row.with("$max_pkt_len", Value::Number(session.packet_length_bytes as u64))?;
    }
    Ok(update(kind, row.entry()))
}

pub(super) fn update(kind: Type, entry: bf::TableEntry) -> bf::Update {
    let entity = bf::Entity { entity: Some(bf::entity::Entity::TableEntry(entry)) };
    bf::Update { r#type: kind.into(), entity: Some(entity) }
}

/// The groups in these entries of the tables of groups and nodes.
pub(super) fn read(info: &Info, groups: &[bf::TableEntry], nodes: &[bf::TableEntry]) -> Groups {
    let mut by_node: BTreeMap<u32, (u16, BTreeSet<u32>)> = BTreeMap::new();
    for entry in nodes {
        let (Some(id), Some(Wire::Stream(rid)), Some(Wire::IntArrVal(ports))) =
            (only_key(entry), data(info, entry, "$MULTICAST_RID"), data(info, entry, "$DEV_PORT"))
        else {
            continue;
        };
        by_node.insert(id as u32, (number(rid) as u16, ports.val.iter().copied().collect()));
    }
    let mut out = Groups::new();
    for entry in groups {
        let Some(id) = only_key(entry) else { continue };
        let mut group = Group::new();
        if let Some(Wire::IntArrVal(ids)) = data(info, entry, NODES) {
            for (instance, ports) in ids.val.iter().filter_map(|id| by_node.get(id)) {
                group.entry(*instance).or_default().extend(ports);
            }
        }
        out.insert(id as u16, group);
    }
    out
}

/// A group in the form of P4Runtime.
pub(super) fn entry_back(id: u16, group: &Group) -> rt::MulticastGroupEntry {
    let replicas = group.iter().flat_map(|(&instance, ports)| {
        ports.iter().map(move |&port| {
            let port = zsr_plan::p4::schema::canonical(port.into());
            let port_kind = Some(rt::replica::PortKind::Port(port));
            rt::Replica { instance: instance.into(), port_kind, ..Default::default() }
        })
    });
    rt::MulticastGroupEntry {
        multicast_group_id: id.into(),
        replicas: replicas.collect(),
        ..Default::default()
    }
}
