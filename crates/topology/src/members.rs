//! The members of a flow: hosts by name, or rings declared under hosts.

use super::build::{Builder, NodeRef};
use super::diag::Place;
use super::flows::Members;
use super::model::{Endpoint, MemoryKind, Ring, RingRole};
use super::read::Table;
use super::rules;
use super::yaml::{Node, Value, shorten};

/// Endpoints that one host may have in a list.
const MAX_ENDPOINTS: u64 = 256;

const HELP: &str = "a host (h1), a host's ring (h1.orders), a list of rings ([h1.a, h1.b]), or a map with \
                    host, endpoints and memory";

/// A member as the file names it.
pub(crate) struct Member {
    pub host: usize,
    /// Name in reports and generated ring names.
    pub label: String,
    /// Declared rings; empty when the flow makes them.
    pub rings: Vec<usize>,
    /// Where rings are to be that the flow makes; `None`: where the host says.
    pub memory: Option<MemoryKind>,
    pub place: Place,
}

impl Builder<'_> {
    /// Reads `producers` or `consumers`.
    pub(crate) fn members(&mut self, table: &Table<'_>, key: &str) -> Vec<Member> {
        if table.get(key).is_none() {
            let message = format!("{} has no {key}", table.what);
            self.reader.error(table.place, message, format!("{key}: a list of hosts (such as [h1, h2])"));
            return Vec::new();
        }
        let before = self.reader.diags.len();
        let nodes = self.reader.items(table, key, "hosts or rings");
        let mut members: Vec<Member> = Vec::new();
        for node in nodes {
            self.member(node, table, key, &mut members);
        }
        if members.is_empty() && !self.reader.failed_since(before) {
            let place = table.place_of(key);
            self.reader.error(place, format!("{} has no {key}", table.what), "at least one host");
        }
        number_repeats(&mut members);
        members
    }

    fn member(&mut self, node: &Node, table: &Table<'_>, key: &str, members: &mut Vec<Member>) {
        let what = format!("this entry of {key} of {}", table.what);
        match &node.value {
            Value::Scalar(text) if text.contains('.') => {
                if let Some(ring) = self.ring_ref(text, node.place, &table.what) {
                    members.push(self.with_rings(vec![ring], node.place));
                }
            }
            Value::Scalar(text) => {
                if let Some(host) = self.host_ref(text, node.place, &table.what) {
                    members.push(self.plain(host, node.place));
                }
            }
            Value::Seq(items) => {
                let mut rings = Vec::new();
                for item in items {
                    if let Some(text) = self.reader.text(item, &what, "HOST.RING").map(str::to_owned) {
                        rings.extend(self.ring_ref(&text, item.place, &table.what));
                    }
                }
                let hosts: std::collections::HashSet<usize> =
                    rings.iter().map(|r| self.topology.rings[*r].host).collect();
                if hosts.len() > 1 {
                    self.reader.error(
                        node.place,
                        format!("{what} has rings of {} hosts", hosts.len()),
                        "rings of one host",
                    );
                } else if !rings.is_empty() && rings.len() == items.len() {
                    members.push(self.with_rings(rings, node.place));
                } else if items.is_empty() {
                    self.reader.error(node.place, format!("{what} is an empty list"), HELP);
                }
            }
            Value::Map(_) => {
                let Some(entry) = self.reader.table(node, &what, &["host", "endpoints", "memory"]) else {
                    return;
                };
                let count = self.reader.integer(&entry, "endpoints", 1..=MAX_ENDPOINTS);
                let count = count.map_or(1, |at| at.value);
                let memory = self.memory(&entry);
                let Some(host) = entry.get("host") else {
                    self.reader.error(entry.place, format!("{what} has no host"), "host: the name of a host");
                    return;
                };
                let Some(name) = self.reader.text(host, &what, "the name of a host") else { return };
                if let Some(index) = self.host_ref(name, host.place, &table.what) {
                    members.extend((0..count).map(|_| Member { memory, ..self.plain(index, host.place) }));
                }
            }
            Value::Null => self.reader.error(node.place, format!("{what} is nothing"), HELP),
        }
    }

    fn plain(&self, host: usize, place: Place) -> Member {
        Member { host, label: self.topology.hosts[host].name.clone(), rings: Vec::new(), memory: None, place }
    }

    fn with_rings(&self, rings: Vec<usize>, place: Place) -> Member {
        let host = rings.first().map_or(0, |ring| self.topology.rings[*ring].host);
        Member { host, label: self.topology.hosts[host].name.clone(), rings, memory: None, place }
    }

    fn host_ref(&mut self, name: &str, place: Place, flow: &str) -> Option<usize> {
        match self.names.get(name) {
            Some((NodeRef::Host(host), _)) => return Some(*host),
            Some((NodeRef::Switch(_), _)) => {
                let message = format!("{flow} names '{name}', which is a switch");
                self.reader.error(place, message, "a host");
                return None;
            }
            None => {}
        }
        let hosts = self.topology.hosts.iter().map(|h| h.name.as_str());
        let hint = self.reader.hint(name, hosts);
        let message = format!("{flow} names host '{}', which does not exist{hint}", shorten(name));
        self.reader.error(place, message, HELP);
        None
    }

    fn ring_ref(&mut self, name: &str, place: Place, flow: &str) -> Option<usize> {
        if let Some(ring) = self.ring_names.get(name) {
            return Some(*ring);
        }
        let hint = self.reader.hint(name, self.topology.rings.iter().map(|r| r.name.as_str()));
        let message = format!("{flow} names ring '{}', which does not exist{hint}", shorten(name));
        self.reader.error(place, message, "HOST.RING, a ring declared under that host");
        None
    }

    /// Checks the rings a member brings along, or makes those named `made`.
    pub(crate) fn endpoint(
        &mut self,
        flow: &Members<'_>,
        member: Member,
        role: RingRole,
        made: Vec<String>,
    ) -> Endpoint {
        let Member { host, label, rings, memory, place } = member;
        if rings.is_empty() {
            let first = self.topology.rings.len();
            let count = made.len();
            self.topology.rings.extend(made.into_iter().map(|name| Ring {
                name,
                host,
                role,
                item_size: flow.item_size,
                size: flow.ring_size,
                owner: String::new(),
                memory,
                place: flow.place,
            }));
            return Endpoint { name: label, host, rings: (first..first + count).collect() };
        }
        let what = rules::flow(flow.flow);
        let needed = match role {
            RingRole::Producer => flow.kind.rings_per_producer(flow.consumers),
            RingRole::Consumer => flow.lanes,
        };
        if needed != 0 {
            self.reader.obey(place, rules::ring_count(&what, &label, role, rings.len(), needed));
        }
        for ring in &rings {
            let declared = &self.topology.rings[*ring];
            let name = declared.name.clone();
            let rule = rules::ring_role(&what, &name, declared.role, role);
            self.reader.obey(place, rule);
            if let Some(user) = self.ring_users.insert(*ring, flow.flow.to_owned()) {
                self.reader.obey(place, Err(rules::ring_user(flow.flow, &name, &user)));
            }
        }
        Endpoint { name: label, host, rings }
    }
}

/// A host that appears several times gets numbered labels: `h1~1`, `h1~2`.
fn number_repeats(members: &mut [Member]) {
    let mut counts = std::collections::HashMap::new();
    for member in members.iter() {
        *counts.entry(member.host).or_insert(0u32) += 1;
    }
    let mut next = std::collections::HashMap::new();
    for member in members {
        if counts[&member.host] > 1 {
            let n = next.entry(member.host).or_insert(0u32);
            *n += 1;
            member.label = format!("{}~{n}", member.label);
        }
    }
}
