//! Multicast groups of nodes, and mirroring sessions.

use std::collections::BTreeMap;

use serde_json::json;
use zsr_soft_switch::{CloneSession, ControlError, Replica};

use crate::error::{Error, Result, multicast, other, refused};
use crate::session::Session;

/// The member of a link aggregation group that gets a packet: bmv2 takes this number modulo the number of members.
const LAG_HASH: usize = 0xff;

/// Copies with one `rid`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Node {
    rid: u16,
    ports: Vec<u16>,
    lags: Vec<u16>,
    group: Option<u32>,
}

/// Nodes, groups of them, link aggregation groups, and the sessions that mirror to a group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Multicast {
    nodes: BTreeMap<u32, Node>,
    groups: BTreeMap<u32, Vec<u32>>,
    lags: BTreeMap<u16, Vec<u16>>,
    mirrored: BTreeMap<u32, MirrorTo>,
}

/// Where a mirroring session sends its copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MirrorTo {
    pub port: Option<u16>,
    pub group: Option<u32>,
}

impl Multicast {
    fn node(&mut self, handle: i32) -> Result<&mut Node> {
        let none = || refused(multicast::INVALID_NODE, format!("there is no node {handle}"));
        self.nodes.get_mut(&(handle as u32)).ok_or_else(none)
    }

    fn group(&mut self, handle: i32) -> Result<&mut Vec<u32>> {
        let none = || refused(multicast::INVALID_GROUP_HANDLE, format!("there is no group {handle}"));
        self.groups.get_mut(&(handle as u32)).ok_or_else(none)
    }

    /// The copies of a group, in the order of its nodes.
    fn replicas(&self, group: u32) -> Vec<Replica> {
        let nodes = self.groups.get(&group).into_iter().flatten().filter_map(|node| self.nodes.get(node));
        nodes.flat_map(|node| self.copies(node)).collect()
    }

    fn copies<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = Replica> + 'a {
        let members = node.lags.iter().filter_map(|lag| {
            let members = self.lags.get(lag).filter(|members| !members.is_empty())?;
            Some(members[LAG_HASH % members.len()])
        });
        let ports = node.ports.iter().copied().chain(members);
        ports.map(|port| Replica { port, instance: node.rid })
    }
}

impl Session<'_> {
    /// Makes a group without nodes. One that was made here before stays as it is.
    pub(crate) fn multicast_create(&mut self, group: i32) -> Result<i32> {
        let id = u32::try_from(group).ok().filter(|id| (1..=0xffff).contains(id)).ok_or_else(|| {
            refused(multicast::INVALID_GROUP, format!("group {group}: 1 to 65535 are possible"))
        })?;
        if !self.state.multicast.groups.contains_key(&id) {
            self.switch.multicast_group_insert(id, Vec::new()).map_err(at_group)?;
            self.state.multicast.groups.insert(id, Vec::new());
        }
        self.write_group(id)?;
        Ok(group)
    }

    /// Removes a group. Its nodes stay.
    pub(crate) fn multicast_destroy(&mut self, group: i32) -> Result<()> {
        let id = group as u32;
        let nodes = self.state.multicast.group(group)?.clone();
        match self.switch.multicast_group_delete(id) {
            // A P4Runtime controller has removed it.
            Ok(()) | Err(ControlError::NotFound { .. }) => {}
            Err(e) => return Err(at_group(e)),
        }
        self.state.multicast.groups.remove(&id);
        for node in nodes {
            self.state.multicast.node(node as i32)?.group = None;
        }
        self.mirror_again(id)
    }

    /// Makes a node that is in no group, and gives its handle.
    pub(crate) fn node_create(&mut self, rid: i32, ports: Vec<u16>, lags: Vec<u16>) -> Result<u32> {
        let wide = || refused(multicast::ERROR, format!("rid {rid}: 0 to 65535 are possible"));
        let rid = u16::try_from(rid).map_err(|_| wide())?;
        let nodes = &mut self.state.multicast.nodes;
        let handle = (0..).zip(nodes.keys()).find(|(free, taken)| free != *taken).map(|(free, _)| free);
        let handle = handle.unwrap_or(nodes.len() as u32);
        nodes.insert(handle, Node { rid, ports, lags, group: None });
        Ok(handle)
    }

    /// Gives a node other ports.
    pub(crate) fn node_update(&mut self, node: i32, ports: Vec<u16>, lags: Vec<u16>) -> Result<()> {
        let group = self.state.multicast.node(node)?.group;
        self.change(group.into_iter().collect(), |all| {
            let node = all.node(node)?;
            (node.ports, node.lags) = (ports, lags);
            Ok(())
        })
    }

    /// Puts a node into a group.
    pub(crate) fn node_associate(&mut self, group: i32, node: i32) -> Result<()> {
        self.change(vec![group as u32], |all| {
            let other = all.node(node)?.group;
            let nodes = all.group(group)?;
            if let Some(other) = other {
                return Err(refused(multicast::ERROR, format!("node {node} is in group {other} already")));
            }
            nodes.push(node as u32);
            all.node(node)?.group = Some(group as u32);
            Ok(())
        })
    }

    /// Takes a node out of a group.
    pub(crate) fn node_dissociate(&mut self, group: i32, node: i32) -> Result<()> {
        self.change(vec![group as u32], |all| {
            let is_in = all.node(node)?.group == Some(group as u32);
            let nodes = all.group(group)?;
            if !is_in {
                return Err(refused(multicast::ERROR, format!("node {node} is not in group {group}")));
            }
            nodes.retain(|one| *one != node as u32);
            all.node(node)?.group = None;
            Ok(())
        })
    }

    /// Removes a node, also from its group.
    pub(crate) fn node_destroy(&mut self, node: i32) -> Result<()> {
        if let Some(group) = self.state.multicast.node(node)?.group {
            self.node_dissociate(group as i32, node)?;
        }
        self.state.multicast.nodes.remove(&(node as u32));
        Ok(())
    }

    /// Says which ports a link aggregation group has.
    pub(crate) fn lag_set(&mut self, lag: i32, ports: Vec<u16>) -> Result<()> {
        let index = u16::try_from(lag).ok().filter(|lag| *lag < 256);
        let index =
            index.ok_or_else(|| refused(multicast::ERROR, format!("LAG {lag}: 0 to 255 are possible")))?;
        let groups = self.state.multicast.groups.keys().copied().collect();
        self.change(groups, |all| {
            all.lags.insert(index, ports);
            Ok(())
        })
    }

    /// Changes nodes, and writes the groups that they are in. What the switch refuses changes nothing.
    fn change(&mut self, groups: Vec<u32>, of: impl FnOnce(&mut Multicast) -> Result<()>) -> Result<()> {
        let before = self.state.multicast.clone();
        let done = of(&mut self.state.multicast)
            .and_then(|()| groups.iter().try_for_each(|group| self.write_group(*group)));
        if done.is_err() {
            self.state.multicast = before;
            // They were possible a moment ago.
            groups.iter().for_each(|group| drop(self.write_group(*group)));
        }
        done
    }

    /// Writes a group of the state to the switch, and the sessions that mirror to it.
    fn write_group(&mut self, group: u32) -> Result<()> {
        if !self.state.multicast.groups.contains_key(&group) {
            return Ok(());
        }
        let replicas = self.state.multicast.replicas(group);
        let written = match self.switch.multicast_group(group) {
            Ok(there) if there == replicas => Ok(()),
            Ok(_) => self.switch.multicast_group_modify(group, replicas),
            // A P4Runtime controller has removed it.
            Err(_) => self.switch.multicast_group_insert(group, replicas),
        };
        written.map_err(at_group)?;
        self.mirror_again(group)
    }

    /// Nodes and groups, as bmv2 writes them.
    pub(crate) fn multicast_json(&self) -> String {
        let Multicast { nodes, groups, lags, .. } = &self.state.multicast;
        let all = json!({
            "mgrps": groups.iter().map(|(id, nodes)| json!({"id": id, "l1_handles": nodes})).collect::<Vec<_>>(),
            "l1_handles": nodes.iter().map(|(handle, node)| {
                json!({"handle": handle, "rid": node.rid, "l2_handle": handle})
            }).collect::<Vec<_>>(),
            "l2_handles": nodes.iter().map(|(handle, node)| {
                json!({"handle": handle, "ports": node.ports, "lags": node.lags})
            }).collect::<Vec<_>>(),
            "lags": lags.iter().map(|(id, ports)| json!({"id": id, "ports": ports})).collect::<Vec<_>>(),
        });
        all.to_string()
    }

    /// Makes a mirroring session, or changes it.
    pub(crate) fn mirror_set(&mut self, id: i32, to: MirrorTo) -> Result<()> {
        let id = session_id(id)?;
        let mut replicas: Vec<Replica> =
            to.port.iter().map(|port| Replica { port: *port, instance: 0 }).collect();
        if let Some(group) = to.group {
            // One that a P4Runtime controller made is taken as it is now.
            let ours = self.state.multicast.groups.contains_key(&group);
            let theirs =
                || self.switch.multicast_group(group).map_or_else(|_| Vec::new(), <[Replica]>::to_vec);
            replicas.extend(if ours { self.state.multicast.replicas(group) } else { theirs() });
        }
        let there = self.switch.clone_session(id).cloned();
        let session = CloneSession { replicas, ..there.clone().unwrap_or_default() };
        let done = match there {
            Ok(_) => self.switch.clone_session_modify(id, session),
            Err(_) => self.switch.clone_session_insert(id, session),
        };
        done.map_err(|e| Error::Arguments(format!("mirroring session {id}: {e}")))?;
        self.state.multicast.mirrored.insert(id, to);
        Ok(())
    }

    /// Removes a mirroring session.
    pub(crate) fn mirror_delete(&mut self, id: i32) -> Result<()> {
        let id = session_id(id)?;
        self.switch.clone_session_delete(id).map_err(|_| no_session(id))?;
        self.state.multicast.mirrored.remove(&id);
        Ok(())
    }

    /// Where a mirroring session sends its copies. Of one that a P4Runtime controller made it is the first port.
    pub(crate) fn mirror(&self, id: i32) -> Result<MirrorTo> {
        let id = session_id(id)?;
        let session = self.switch.clone_session(id).map_err(|_| no_session(id))?;
        let first = || MirrorTo { port: session.replicas.first().map(|first| first.port), group: None };
        Ok(self.state.multicast.mirrored.get(&id).copied().unwrap_or_else(first))
    }

    /// Sessions that mirror to a group follow it. One that a P4Runtime controller has removed is forgotten.
    fn mirror_again(&mut self, group: u32) -> Result<()> {
        let switch = &*self.switch;
        self.state.multicast.mirrored.retain(|id, _| switch.clone_session(*id).is_ok());
        let of_group = |(id, to): (&u32, &MirrorTo)| (to.group == Some(group)).then_some((*id, *to));
        let all: Vec<_> = self.state.multicast.mirrored.iter().filter_map(of_group).collect();
        all.into_iter().try_for_each(|(id, to)| self.mirror_set(id as i32, to))
    }
}

fn session_id(id: i32) -> Result<u32> {
    u32::try_from(id).map_err(|_| no_session(id))
}

fn no_session(id: impl std::fmt::Display) -> Error {
    refused(other::SESSION_NOT_FOUND, format!("there is no mirroring session {id}"))
}

fn at_group(error: ControlError) -> Error {
    refused(multicast::ERROR, error.to_string())
}

/// The numbers that a map of bits names: the last of its characters is number 0.
pub(crate) fn numbers(map: &str) -> Result<Vec<u16>> {
    let bits = map.bytes().rev().enumerate();
    if map.len() > 65536 || map.bytes().any(|bit| !matches!(bit, b'0' | b'1')) {
        return Err(refused(multicast::ERROR, "a map of ports has a 0 or 1 per port"));
    }
    Ok(bits.filter(|(_, bit)| *bit == b'1').map(|(number, _)| number as u16).collect())
}
