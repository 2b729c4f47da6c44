//! Flows: members and rings.

use super::build::Builder;
use super::diag::Place;
use super::limits::MAX_LANES;
use super::model::{Endpoint, Flow, FlowKind, RingRole};
use super::read::{Reader, Table};
use super::rules;
use super::settings;
use super::yaml::Node;

/// Keys of a flow beside its settings'.
const KEYS: [&str; 13] = [
    "name",
    "kind",
    "producers",
    "consumers",
    "lanes",
    "item_size",
    "ring_size",
    "schema",
    "routing",
    "workload",
    "description",
    "groups",
    "order",
];

impl Builder<'_> {
    /// Reads `flows` and the workload that they share.
    pub(crate) fn flows(&mut self, top: &Table<'_>) {
        let shared = top.get("workload");
        let nodes = self.reader.items(top, "flows", "flows");
        if top.get("flows").is_none() && self.reader.diags.is_empty() {
            let place = top.place_of("flows");
            self.reader.error(
                place,
                "the topology has no flow",
                "flows: a list (such as - name: orders), which may be empty",
            );
        }
        for node in nodes {
            self.flow(node, shared);
        }
    }

    fn flow(&mut self, node: &Node, shared: Option<&Node>) {
        let known = [&KEYS[..], settings::KEYS].concat();
        let Some(mut table) = self.reader.table(node, "this flow", &known) else { return };
        let Some(name) = self.reader.name(&table) else { return };
        table.what = format!("flow '{}'", name.value);
        if let Some(twin) = self.topology.flows.iter().find(|f| f.name == name.value) {
            let expected = format!("a name of its own (the first is at line {})", twin.place.line);
            self.reader.error(name.place, format!("two flows are named '{}'", name.value), expected);
        }
        if self.names.contains_key(&name.value) {
            self.reader.obey(name.place, Err(rules::name_of_node(&name.value)));
        }
        let kinds = [FlowKind::Shuffle, FlowKind::LoadBalance, FlowKind::Replicate].map(|k| (k.word(), k));
        let kind = self.reader.choice(&table, "kind", &kinds).map_or(FlowKind::Shuffle, |at| at.value);
        self.unsupported(&table);

        let producers = self.members(&table, "producers");
        let consumers = self.members(&table, "consumers");
        let place = table.place_of("consumers");
        self.reader.obey(place, rules::consumers(&table.what, kind, consumers.len()));
        let lanes = self.lanes(&table, kind, producers.len());
        let (item_size, ring_size) = self.flow_sizes(&table, &producers, &consumers);
        let members = Members {
            flow: &name.value,
            place: name.place,
            item_size,
            ring_size,
            kind,
            consumers: consumers.len(),
            lanes,
        };
        let (producers, consumers) = self.make_endpoints(&members, producers, consumers);
        self.check_hosts(&table, &producers, &consumers);
        if kind.copies() {
            self.check_group(&table, &consumers);
        }

        let read = self.settings(&table, name.place, item_size);
        if table.get("routing").is_some() {
            self.reader.obey(table.place_of("routing"), rules::is_routed(&table.what, kind));
        }
        let data = self.flow_data(&table, shared, kind.rings_per_producer(consumers.len()), item_size);
        self.topology.flows.push(Flow {
            name: name.value.clone(),
            kind,
            producers,
            consumers,
            lanes,
            item_size,
            settings: read.settings,
            max_batch_rule: read.max_batch,
            doorbell_said: read.doorbell_said,
            schema: data.schema,
            routing: data.routing,
            workload: data.workload,
            place: name.place,
        });
    }

    /// Refuses keys that the format has and this version does not support. They are never ignored.
    fn unsupported(&mut self, table: &Table<'_>) {
        self.reader.opt(table, "description", "text", |_| Some(()));
        for key in ["groups", "order"] {
            if table.get(key).is_some() {
                self.not_yet(table.place_of(key), &format!("'{key}'"), "a flow without it");
            }
        }
    }

    /// Rings of each consumer. 0: the number is a fault, and rings are not counted against it.
    fn lanes(&mut self, table: &Table<'_>, kind: FlowKind, producers: usize) -> usize {
        let Some(lanes) = self.reader.integer(table, "lanes", 1..=MAX_LANES as u64) else {
            return if table.get("lanes").is_some() { 0 } else { 1 };
        };
        let (count, place) = (lanes.value as usize, lanes.place);
        // A flow without producers has a fault already.
        let fit =
            producers == 0 || self.reader.obey(place, rules::lanes(&table.what, kind, count, producers));
        if fit { count } else { 0 }
    }

    /// Item and ring size: from the flow, else from its declared rings, else from the defaults.
    fn flow_sizes(
        &mut self,
        table: &Table<'_>,
        producers: &[super::members::Member],
        consumers: &[super::members::Member],
    ) -> (u32, u32) {
        let declared = producers.iter().chain(consumers).flat_map(|m| &m.rings).copied();
        let mut declared = declared.filter_map(|ring| self.topology.rings.get(ring)).map(|r| r.item_size);
        let declared = declared.find(|item| *item != 0);
        let (item_size, ring_size) = match (declared, table.get("item_size")) {
            (Some(item), None) => {
                let size = self.reader.pow2_size(table, "ring_size", rules::RING_SIZES);
                let fallback = super::build::default_ring_size(self.defaults.ring_size, item);
                (item, size.map_or(fallback, |at| at.value as u32))
            }
            _ => self.ring_sizes(table, "ring_size"),
        };
        self.check_owners(table, producers, consumers);
        for ring in producers.iter().chain(consumers).flat_map(|m| &m.rings) {
            let Some(ring) = self.topology.rings.get(*ring) else { continue };
            if ring.item_size != 0 && item_size != 0 {
                let (name, rule) =
                    (&ring.name, rules::ring_items(&table.what, &ring.name, ring.item_size, item_size));
                let named = |m: &&super::members::Member| {
                    m.rings.iter().any(|r| self.topology.rings[*r].name == *name)
                };
                let place = producers.iter().chain(consumers).find(named).map_or(table.place, |m| m.place);
                self.reader.obey(place, rule);
            }
        }
        (item_size, ring_size)
    }

    /// Rings of one owner only.
    fn check_owners(
        &mut self,
        table: &Table<'_>,
        producers: &[super::members::Member],
        consumers: &[super::members::Member],
    ) {
        let members = || producers.iter().chain(consumers);
        let owned = members().flat_map(|m| m.rings.iter().map(|r| (m.place, *r)));
        let owned: Vec<_> =
            owned.filter_map(|(place, r)| Some((place, self.topology.rings.get(r)?.clone()))).collect();
        let Some((_, first)) = owned.first() else { return };
        for (place, ring) in &owned {
            self.reader.obey(*place, rules::ring_owner(&table.what, &ring.name, &ring.owner, &first.owner));
        }
    }

    /// Consumer rings of one size.
    fn check_group(&mut self, table: &Table<'_>, consumers: &[Endpoint]) {
        let rings = consumers.iter().flat_map(|c| &c.rings).filter_map(|ring| self.topology.rings.get(*ring));
        let sizes: Vec<(String, u32)> = rings.map(|ring| (ring.name.clone(), ring.size)).collect();
        let Some((first, expected)) = sizes.first() else { return };
        for (ring, size) in &sizes {
            let rule = rules::ring_of_group(&table.what, (ring, *size), (first, *expected));
            self.reader.obey(table.place_of("consumers"), rule);
        }
    }

    /// All hosts of a flow hang on one switch and have one MTU.
    fn check_hosts(&mut self, table: &Table<'_>, producers: &[Endpoint], consumers: &[Endpoint]) {
        let mut first: Option<(usize, usize)> = None;
        let mut seen = std::collections::HashSet::new();
        for endpoint in producers.iter().chain(consumers) {
            if !seen.insert(endpoint.host) {
                continue;
            }
            let host = &self.topology.hosts[endpoint.host];
            let (name, mtu, place) = (host.name.clone(), host.mtu, host.place);
            let Some(switch) = self.topology.link_of(endpoint.host).map(|l| l.switch) else {
                if !self.links_failed {
                    let message = format!("host '{name}' takes part in {} but has no link", table.what);
                    self.reader.error(place, message, format!("a link (such as {name} -> s1:1)"));
                }
                continue;
            };
            let Some((other, other_switch)) = first else {
                first = Some((endpoint.host, switch));
                continue;
            };
            let other = &self.topology.hosts[other];
            self.reader.obey(place, rules::mtu(&table.what, (&name, mtu), other.mtu));
            if other_switch != switch {
                let message = format!(
                    "{} spans two switches: '{}' is at '{}', '{name}' at '{}'",
                    table.what,
                    other.name,
                    self.topology.switches[other_switch].name,
                    self.topology.switches[switch].name
                );
                self.reader.error(table.place, message, "all hosts of a flow at one switch");
            }
        }
    }
}

/// The shape of the rings that a flow makes.
pub(crate) struct Members<'f> {
    pub flow: &'f str,
    pub place: Place,
    pub item_size: u32,
    pub ring_size: u32,
    pub kind: FlowKind,
    pub consumers: usize,
    pub lanes: usize,
}

impl Builder<'_> {
    /// Turns members into endpoints and makes the rings that they don't bring along.
    fn make_endpoints(
        &mut self,
        members: &Members<'_>,
        producers: Vec<super::members::Member>,
        consumers: Vec<super::members::Member>,
    ) -> (Vec<Endpoint>, Vec<Endpoint>) {
        let per_producer = members.kind.rings_per_producer(consumers.len());
        let of_consumers = consumers.len() * members.lanes;
        let rings = producers.len().saturating_mul(per_producer).saturating_add(of_consumers);
        let workers = |kind: FlowKind, rings: usize| if kind.copies() { 1 } else { rings };
        let before = self.topology.flows.iter();
        let (used, busy) = before.fold((0, 0), |(rings, busy), flow| {
            let members = flow.producers.iter().chain(&flow.consumers);
            let of_flow: usize = members.map(|m| m.rings.len()).sum();
            (rings + of_flow, busy + workers(flow.kind, flow.consumers.len() * flow.lanes))
        });
        let needed = (rings.saturating_add(used), busy + workers(members.kind, of_consumers));
        if !self.reader.obey(members.place, rules::room(needed.0, needed.1)) {
            return (Vec::new(), Vec::new());
        }
        let names: Vec<String> = consumers.iter().map(|m| m.label.clone()).collect();
        let producers = producers
            .into_iter()
            .map(|m| {
                let ring_names = match members.kind {
                    FlowKind::Shuffle => {
                        names.iter().map(|c| format!("{}.{}.{c}", members.flow, m.label)).collect()
                    }
                    FlowKind::LoadBalance | FlowKind::Replicate => {
                        vec![format!("{}.{}", members.flow, m.label)]
                    }
                };
                self.endpoint(members, m, RingRole::Producer, ring_names)
            })
            .collect();
        let consumers = consumers
            .into_iter()
            .map(|m| {
                let name = format!("{}.{}", members.flow, m.label);
                let rings = (0..members.lanes).map(|lane| rules::lane_name(&name, lane)).collect();
                self.endpoint(members, m, RingRole::Consumer, rings)
            })
            .collect();
        (producers, consumers)
    }
}

impl Reader {
    /// Whether anything went wrong since `count` errors ago.
    pub fn failed_since(&self, count: usize) -> bool {
        self.diags.len() > count
    }
}
