//! From the tree of a file to a [`Topology`], with every error noted on the way.
//!
//! Reading goes on after an error with a default in its place, so that one run lists them all. The result
//! counts only when there was none.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use super::diag::Place;
use zsr_records::is_name;

use super::model::{MaxBatch, Topology};
use super::read::Reader;
use super::rules::{ITEM_SIZES, RING_SIZES};
use super::settings::POLLS;
use super::traffic::Traffic;
use super::yaml::Node;

/// A name's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeRef {
    Switch(usize),
    Host(usize),
}

/// The values that the `defaults` section sets.
pub(crate) struct Defaults {
    pub mtu: u32,
    pub item_size: u32,
    pub ring_size: Option<u32>,
    pub max_batch: Option<MaxBatch>,
    pub poll_interval: Option<Duration>,
}

const DEFAULT_ITEM: u32 = 32 << 10;
const DEFAULT_RING: u32 = 1 << 20;
const DEFAULT_MTU: u32 = 1024;

/// A ring has room for some items even when these are big.
pub(crate) fn default_ring_size(default: Option<u32>, item_size: u32) -> u32 {
    default.unwrap_or(DEFAULT_RING.max(item_size.saturating_mul(4)))
}

/// The topology under construction.
pub(crate) struct Builder<'r> {
    pub reader: &'r mut Reader,
    pub topology: Topology,
    pub defaults: Defaults,
    /// Hosts and switches by name.
    pub names: HashMap<String, (NodeRef, Place)>,
    /// Declared rings by full name, as indices.
    pub ring_names: HashMap<String, usize>,
    /// The flow that uses a declared ring, by ring index.
    pub ring_users: HashMap<usize, String>,
    /// Some link could not be read, so that a host without one is not worth a message.
    pub links_failed: bool,
}

/// Reads a whole topology.
pub(crate) fn build(root: &Node, file: &Path, reader: &mut Reader) -> Topology {
    let stem = file.file_stem().and_then(|s| s.to_str()).filter(|s| is_name(s)).unwrap_or("topology");
    let mut builder = Builder {
        reader,
        topology: Topology {
            name: stem.to_owned(),
            file: file.to_owned(),
            seed: 1,
            first_psn: None,
            traffic: Traffic::default(),
            tls: None,
            insecure: false,
            switches: Vec::new(),
            hosts: Vec::new(),
            links: Vec::new(),
            rings: Vec::new(),
            flows: Vec::new(),
        },
        defaults: Defaults {
            mtu: DEFAULT_MTU,
            item_size: DEFAULT_ITEM,
            ring_size: None,
            max_batch: None,
            poll_interval: None,
        },
        names: HashMap::new(),
        ring_names: HashMap::new(),
        ring_users: HashMap::new(),
        links_failed: false,
    };
    builder.top(root);
    builder.topology
}

impl Builder<'_> {
    fn top(&mut self, root: &Node) {
        let known = [
            "name",
            "description",
            "seed",
            "tls",
            "insecure",
            "defaults",
            "switches",
            "hosts",
            "links",
            "flows",
            "workload",
        ];
        let Some(top) = self.reader.table(root, "the topology", &known) else { return };
        if top.get("name").is_some()
            && let Some(name) = self.reader.name(&top)
        {
            self.topology.name = name.value;
        }
        self.reader.opt(&top, "description", "text", |_| Some(()));
        if let Some(seed) = self.reader.integer(&top, "seed", 0..=u64::MAX) {
            self.topology.seed = seed.value;
        }
        if let Some(node) = top.get("defaults") {
            self.defaults(node);
        }
        self.trust(&top);
        self.nodes(&top);
        self.trusted();
        let before = self.reader.diags.len();
        self.links(&top);
        self.links_failed = self.reader.failed_since(before);
        if !self.links_failed {
            self.cables();
        }
        self.flows(&top);
    }

    fn defaults(&mut self, node: &Node) {
        let known = ["mtu", "item_size", "ring_size", "max_batch", "poll_interval", "first_psn", "traffic"];
        let Some(table) = self.reader.table(node, "defaults", &known) else { return };
        if let Some(mtu) = self.mtu(&table) {
            self.defaults.mtu = mtu.value;
        }
        if let Some(at) = self.reader.pow2_size(&table, "item_size", ITEM_SIZES) {
            self.defaults.item_size = at.value as u32;
        }
        self.defaults.ring_size =
            self.reader.pow2_size(&table, "ring_size", RING_SIZES).map(|at| at.value as u32);
        if let Some(at) = self.max_batch(&table) {
            self.defaults.max_batch = Some(at.value);
        }
        if let Some(at) = self.reader.duration(&table, "poll_interval", POLLS) {
            self.defaults.poll_interval = Some(at.value);
        }
        let psn = self.reader.integer(&table, "first_psn", 0..=0xff_ffff);
        self.topology.first_psn = psn.map(|at| at.value as u32);
        self.traffic(&table);
    }

    /// Notes who owns `name`; a second owner is an error.
    pub(crate) fn claim_name(&mut self, name: &str, place: Place, owner: NodeRef) {
        if let Some((_, first)) = self.names.get(name) {
            let line = first.line;
            self.reader.error(
                place,
                format!("the name '{name}' is used twice"),
                format!("a name that no other host or switch has (the first is at line {line})"),
            );
            return;
        }
        self.names.insert(name.to_owned(), (owner, place));
    }

    /// Reports something that parses and that this version refuses.
    pub(crate) fn not_yet(&mut self, place: Place, what: &str, instead: &str) {
        self.reader.error(place, format!("{what} is not yet supported (see docs/status.md)"), instead);
    }
}
