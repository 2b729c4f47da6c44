//! Links between hosts and switch ports.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::time::Duration;

use super::build::{Builder, NodeRef};
use super::diag::Place;
use zsr_records::integer;

use super::model::{Cable, Faults, Link};
use super::nodes::MAX_PORT;
use super::read::{At, Table};
use super::units;
use super::yaml::{Node, Value, shorten};

const SHORT_HELP: &str = "'HOST -> SWITCH:PORT' (such as h1 -> s1:1), or a map with from and to";
const END_HELP: &str = "the name of a host, or SWITCH:PORT (such as s1:1)";

/// How long a link may take from one end to the other: to the moon.
const LATENCIES: RangeInclusive<Duration> = Duration::ZERO..=Duration::from_secs(1);
/// Bits per second that a link may have.
const RATES: RangeInclusive<u64> = 1_000_000..=10_000_000_000_000;

/// One end of a link as written.
struct End {
    name: String,
    port: Option<u64>,
    place: Place,
}

/// A link whose switch port may still have to be chosen.
struct Draft {
    link: Link,
    port: Option<u32>,
}

impl Builder<'_> {
    /// Reads `links`. Without that key, and with one switch, every host is linked to it.
    pub(crate) fn links(&mut self, top: &Table<'_>) {
        let mut drafts = Vec::new();
        if top.get("links").is_none() && self.topology.switches.iter().filter(|s| !s.standby).count() == 1 {
            for (host, at) in self.topology.hosts.iter().enumerate() {
                let link = self.plain_link(host, 0, at.place);
                drafts.push(Draft { link, port: None });
            }
        }
        for node in self.reader.items(top, "links", "links") {
            if let Some(draft) = self.link(node) {
                drafts.push(draft);
            }
        }
        self.choose_ports(drafts);
        self.second_links();
        for (number, link) in self.topology.links.iter_mut().enumerate() {
            link.number = number;
        }
    }

    fn plain_link(&self, host: usize, switch: usize, place: Place) -> Link {
        let mtu = self.topology.hosts[host].mtu;
        let faults = Faults::default();
        let (latency, rate) = (Duration::ZERO, None);
        Link {
            name: String::new(),
            number: 0,
            host,
            switch,
            port: 0,
            mtu,
            cable: Cable::Own,
            faults,
            latency,
            rate,
            place,
        }
    }

    fn link(&mut self, node: &Node) -> Option<Draft> {
        if let Value::Scalar(text) = &node.value {
            let ends = ["->", "--", "<->"].iter().find_map(|arrow| text.split_once(arrow));
            let Some((from, to)) = ends else {
                self.reader.error(node.place, format!("this link is {}", node.describe()), SHORT_HELP);
                return None;
            };
            let from = self.end(from.trim_end_matches('<'), node.place);
            let to = self.end(to, node.place);
            let (host, switch, port) = self.resolve(from?, to?, node.place)?;
            return Some(Draft { link: self.plain_link(host, switch, node.place), port });
        }
        let known = ["from", "to", "mtu", "interface", "sockets", "latency", "rate", "faults"];
        let table = self.reader.table(node, "this link", &known)?;
        let from = self.named_end(&table, "from");
        let to = self.named_end(&table, "to");
        let mtu = self.mtu(&table);
        let cable = self.cable(&table);
        let faults = match table.get("faults") {
            Some(node) => self.faults(node),
            None => Faults::default(),
        };
        let latency =
            self.reader.duration(&table, "latency", LATENCIES).map_or(Duration::ZERO, |at| at.value);
        let rate = self.rate(&table);
        let (host, switch, port) = self.resolve(from?, to?, table.place)?;
        let mut link = self.plain_link(host, switch, table.place);
        (link.cable, link.faults, link.latency, link.rate) = (cable, faults, latency, rate);
        if let Some(At { value, place }) = mtu {
            let owner = &self.topology.hosts[host];
            if value != owner.mtu {
                let message =
                    format!("this link has mtu {value}, but its host '{}' has mtu {}", owner.name, owner.mtu);
                let expected = format!("the same MTU at both ends (mtu: {})", owner.mtu);
                self.reader.error(place, message, expected);
            }
            link.mtu = value;
        }
        Some(Draft { link, port })
    }

    fn rate(&mut self, table: &Table<'_>) -> Option<u64> {
        let At { value, place } = self.reader.opt(table, "rate", units::RATE_HELP, units::rate)?;
        if !RATES.contains(&value) {
            let message = format!("'rate' of this link is {value} bit/s");
            self.reader.error(place, message, "a rate from 1Mbit to 10Tbit");
            return None;
        }
        Some(value)
    }

    fn named_end(&mut self, table: &Table<'_>, key: &str) -> Option<End> {
        let Some(node) = table.get(key) else {
            self.reader.error(table.place, format!("this link has no '{key}'"), END_HELP);
            return None;
        };
        let text = self.reader.text(node, &format!("'{key}' of this link"), END_HELP)?;
        self.end(text, node.place)
    }

    /// `NAME` or `NAME:PORT`.
    fn end(&mut self, text: &str, place: Place) -> Option<End> {
        let text = text.trim();
        let Some((name, port)) = text.split_once(':') else {
            return Some(End { name: text.to_owned(), port: None, place });
        };
        let range = format!("a port number from 1 to {MAX_PORT}");
        match integer(port.trim()).filter(|port| (1..=MAX_PORT).contains(port)) {
            Some(port) => Some(End { name: name.trim().to_owned(), port: Some(port), place }),
            None => {
                let message = format!("'{}' is no port of '{}'", shorten(port), shorten(name.trim()));
                self.reader.error(place, message, range);
                None
            }
        }
    }

    /// Which host and which switch port a link joins.
    fn resolve(&mut self, from: End, to: End, place: Place) -> Option<(usize, usize, Option<u32>)> {
        let from_node = self.find(&from);
        let to_node = self.find(&to);
        let (host, host_end, switch, switch_end) = match (from_node?, to_node?) {
            (NodeRef::Host(h), NodeRef::Switch(s)) => (h, from, s, to),
            (NodeRef::Switch(s), NodeRef::Host(h)) => (h, to, s, from),
            (NodeRef::Switch(_), NodeRef::Switch(_)) => {
                self.not_yet(place, "a link between two switches", "a link between a host and a switch");
                return None;
            }
            (NodeRef::Host(_), NodeRef::Host(_)) => {
                let message = format!("this link joins two hosts, '{}' and '{}'", from.name, to.name);
                self.reader.error(place, message, "a link between a host and a switch");
                return None;
            }
        };
        if host_end.port.is_some() {
            let message = format!("host '{}' has only one port", host_end.name);
            self.reader.error(host_end.place, message, format!("'{}' without a port", host_end.name));
            return None;
        }
        Some((host, switch, switch_end.port.map(|port| port as u32)))
    }

    fn find(&mut self, end: &End) -> Option<NodeRef> {
        if let Some((node, _)) = self.names.get(&end.name) {
            return Some(*node);
        }
        let hint = self.reader.hint(&end.name, self.names.keys().map(String::as_str));
        let message = format!("this link leads to '{}', which does not exist{hint}", shorten(&end.name));
        self.reader.error(end.place, message, "the name of a host or switch of this file");
        None
    }

    fn faults(&mut self, node: &Node) -> Faults {
        let known = ["loss", "duplicate", "reorder", "corrupt", "seed"];
        let Some(table) = self.reader.table(node, "faults of this link", &known) else {
            return Faults::default();
        };
        let mut get = |key| self.reader.fraction(&table, key).map_or(0.0, |at| at.value);
        let (loss, duplicate, reorder, corrupt) =
            (get("loss"), get("duplicate"), get("reorder"), get("corrupt"));
        let seed = self.reader.integer(&table, "seed", 0..=u64::MAX).map(|at| at.value);
        Faults { loss, duplicate, reorder, corrupt, seed }
    }

    /// Gives links without a port the lowest free one, and reports ports and hosts used twice.
    fn choose_ports(&mut self, drafts: Vec<Draft>) {
        let mut taken: HashMap<(usize, u32), usize> = HashMap::new();
        let mut linked: HashMap<(usize, bool), u32> = HashMap::new();
        for draft in &drafts {
            let Link { host, switch, place, .. } = draft.link;
            let to_standby = self.topology.switches[switch].standby;
            if let Some(line) = linked.insert((host, to_standby), place.line) {
                let name = &self.topology.hosts[host].name;
                let message = format!("host '{name}' has two links; the first is at line {line}");
                self.reader.error(place, message, "one link per host, and one to the standby");
            }
            let Some(port) = draft.port else { continue };
            let owner = &self.topology.switches[switch];
            if let Some(other) = taken.insert((switch, port), host) {
                let message = format!(
                    "port {port} of switch '{}' is already linked to host '{}'",
                    owner.name, self.topology.hosts[other].name
                );
                self.reader.error(place, message, "a port of its own for each link");
            }
        }
        // Links that a switch has no port for: the place of the first, and how many.
        let mut homeless: BTreeMap<usize, (Place, usize)> = BTreeMap::new();
        // Links to the standby last: a host has the same port at both.
        let (first, second): (Vec<_>, Vec<_>) =
            drafts.into_iter().partition(|draft| !self.topology.switches[draft.link.switch].standby);
        for Draft { mut link, port } in first.into_iter().chain(second) {
            let owner = &self.topology.switches[link.switch];
            let port = port.or_else(|| {
                let first = self.topology.links.iter().find(|l| owner.standby && l.host == link.host);
                first.map(|l| l.port)
            });
            let port =
                port.or_else(|| (1..=MAX_PORT as u32).find(|p| !taken.contains_key(&(link.switch, *p))));
            let Some(port) = port else {
                homeless.entry(link.switch).or_insert((link.place, 0)).1 += 1;
                continue;
            };
            taken.insert((link.switch, port), link.host);
            link.port = port;
            link.name = format!("{}-{}-{port}", self.topology.hosts[link.host].name, owner.name);
            self.topology.links.push(link);
        }
        for (switch, (place, links)) in homeless {
            let name = &self.topology.switches[switch].name;
            let more = match links {
                1 => String::new(),
                n => format!(" and for {} more", n - 1),
            };
            let message = format!("switch '{name}' has no free port left for this link{more}");
            self.reader.error(place, message, format!("at most {MAX_PORT} links per switch"));
        }
    }
}
