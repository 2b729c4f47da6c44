//! Nodes and links of the real world: interfaces, RDMA devices, sockets, a bmv2; and whether they fit together.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::build::Builder;
use super::diag::Place;
use super::model::{Bmv2, Cable, Interface, NicKind, SwitchKind};
use super::read::{At, Table};
use super::tofino;
use super::yaml::{Node, Value};

const INTERFACE_HELP: &str = "the name of a network interface, as `ip link` shows it (such as eth1)";
const ADDRESS_HELP: &str = "an IP address and a port (such as 127.0.0.1:9559)";
const CABLE_HELP: &str =
    "interface: NAME (the switch's end of the cable), or sockets: {switch: PATH, host: PATH}";

/// The system's limit, without its final zero.
const MAX_INTERFACE: usize = 15;

fn is_interface(text: &str) -> bool {
    let odd = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    (1..=MAX_INTERFACE).contains(&text.len()) && !text.contains(odd) && text != "." && text != ".."
}

/// An address to connect to.
fn reachable(text: &str) -> Option<SocketAddr> {
    let local = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let address: SocketAddr = local.as_deref().unwrap_or(text).parse().ok()?;
    (address.port() != 0 && !address.ip().is_unspecified()).then_some(address)
}

impl Bmv2 {
    /// Reads what stands for a bmv2 in one word: the address of its P4Runtime server, or else the path of the program.
    pub fn parse(text: &str) -> Self {
        match reachable(text) {
            Some(address) => Bmv2::Running { address, packets: None },
            None => Bmv2::Started { binary: Some(text.into()) },
        }
    }
}

impl Builder<'_> {
    /// `interface` under `key`: a name, or a map with `name` and perhaps `by`.
    pub(crate) fn interface(&mut self, table: &Table<'_>, key: &str) -> Option<At<Interface>> {
        let node = table.get(key)?;
        let mut xdp = false;
        let name = match &node.value {
            Value::Map(_) => {
                let what = format!("'{key}' of {}", table.what);
                let inner = self.reader.table(node, &what, &["name", "by"])?;
                if inner.get("name").is_none() {
                    self.reader.error(inner.place, format!("{what} has no name"), INTERFACE_HELP);
                    return None;
                }
                let by = self.reader.choice(&inner, "by", &[("packet", false), ("xdp", true)]);
                xdp = by.is_some_and(|at| at.value);
                self.interface_name(&inner, "name")
            }
            _ => self.interface_name(table, key),
        };
        name.map(|At { value, place }| At { value: Interface { name: value, xdp }, place })
    }

    fn interface_name(&mut self, table: &Table<'_>, key: &str) -> Option<At<String>> {
        self.reader.opt(table, key, INTERFACE_HELP, |t| is_interface(t).then(|| t.to_owned()))
    }

    pub(crate) fn address(&mut self, table: &Table<'_>, key: &str) -> Option<At<SocketAddr>> {
        self.reader.opt(table, key, ADDRESS_HELP, reachable)
    }

    /// Where a host's agent listens.
    pub(crate) fn agent(&mut self, table: &Table<'_>) -> Option<SocketAddr> {
        self.address(table, "agent").map(|at| at.value)
    }

    /// `nic` of a host: a kind, or a map with `kind`.
    pub(crate) fn nic(&mut self, table: &Table<'_>) -> NicKind {
        let soft = NicKind::Soft { interface: None };
        let Some(node) = table.get("nic") else { return soft };
        let kinds = [("soft", false), ("verbs", true)];
        let what = format!("nic of {}", table.what);
        let verbs = |device, port, gid_index| NicKind::Verbs { device, port, gid_index };
        let Value::Map(_) = &node.value else {
            let is_verbs = self.reader.choice(table, "nic", &kinds).is_some_and(|at| at.value);
            return if is_verbs { verbs(None, None, None) } else { soft };
        };
        let known = ["kind", "interface", "device", "port", "gid_index"];
        let Some(nic) = self.reader.table(node, &what, &known) else { return soft };
        let asked = self.reader.choice(&nic, "kind", &kinds).map(|at| at.value);
        let is_verbs = asked.unwrap_or(nic.get("device").is_some());
        let (foreign, kind) = match is_verbs {
            true => (&["interface"][..], "soft"),
            false => (&["device", "port", "gid_index"][..], "verbs"),
        };
        if let Some(key) = foreign.iter().find(|key| nic.get(key).is_some()) {
            let message = format!("'{key}' of {what} goes with kind: {kind}");
            self.reader.error(nic.place_of(key), message, format!("kind: {kind}, or no {key}"));
        }
        if !is_verbs {
            return NicKind::Soft { interface: self.interface(&nic, "interface").map(|at| at.value) };
        }
        let device =
            self.reader.opt(&nic, "device", "the name of an RDMA device, as `rdma link` shows it", |t| {
                (!t.is_empty() && t.len() < 64 && !t.contains('/') && !t.starts_with('.'))
                    .then(|| t.to_owned())
            });
        let port = self.reader.integer(&nic, "port", 1..=255).map(|at| at.value as u8);
        let gid_index = self.reader.integer(&nic, "gid_index", 0..=255).map(|at| at.value as u8);
        verbs(device.map(|at| at.value), port, gid_index)
    }

    /// A device has its addresses from the system; the switch must be told.
    pub(crate) fn own_addresses(&mut self, table: &Table<'_>, nic: &NicKind) {
        let NicKind::Verbs { .. } = nic else { return };
        for (key, expected) in [
            ("ip", "ip: the IPv4 address of the device's network interface (`ip addr` shows it)"),
            ("mac", "mac: the address of the device's network interface (`ip link` shows it)"),
        ] {
            if table.get(key).is_none() {
                let message = format!("{} has a NIC of kind verbs and no {key}", table.what);
                self.reader.error(table.place, message, expected);
            }
        }
    }

    /// `kind` of a switch, with what goes with it.
    pub(crate) fn switch_kind(&mut self, table: &Table<'_>) -> SwitchKind {
        let kinds = [("soft", Kind::Soft), ("bmv2", Kind::Bmv2), ("tofino", Kind::Tofino)];
        let kind = self.reader.choice(table, "kind", &kinds).map_or(Kind::Soft, |at| at.value);
        for (keys, owner, is) in [
            (&["binary", "packets"][..], "bmv2", kind == Kind::Bmv2),
            (&["address"], "bmv2 or tofino", kind != Kind::Soft),
            (&tofino::KEYS[..], "tofino", kind == Kind::Tofino),
            (&["p4runtime", "cpu_port"], "soft or bmv2", kind != Kind::Tofino),
        ] {
            for key in keys.iter().filter(|key| !is && table.get(key).is_some()) {
                let message = format!("'{key}' of {} goes with kind: {owner}", table.what);
                self.reader.error(table.place_of(key), message, format!("kind: {owner}, or no {key}"));
            }
        }
        match kind {
            Kind::Soft => return SwitchKind::Soft,
            Kind::Tofino => return self.tofino(table).map_or(SwitchKind::Soft, SwitchKind::Tofino),
            Kind::Bmv2 => {}
        }
        let binary = self.path(table, "binary");
        let (address, packets) = (self.address(table, "address"), self.address(table, "packets"));
        if address.is_some() && binary.is_some() {
            let message = format!("{} has both a binary and an address", table.what);
            let expected = "binary: a bmv2 to be started, or address: one that runs";
            self.reader.error(table.place_of("binary"), message, expected);
        }
        if packets.is_some() && table.get("address").is_none() {
            let message = format!("'packets' of {} goes with address", table.what);
            self.reader.error(table.place_of("packets"), message, "address: of its P4Runtime server");
        }
        if address.is_some() && table.get("p4runtime").is_some_and(listens) {
            let message = format!("{} runs already, so nobody can tell it where to listen", table.what);
            self.reader.error(table.place_of("p4runtime"), message, "address alone");
        }
        SwitchKind::Bmv2(match address {
            Some(address) => Bmv2::Running { address: address.value, packets: packets.map(|at| at.value) },
            None => Bmv2::Started { binary },
        })
    }

    /// `interface` or `sockets` of a link.
    pub(crate) fn cable(&mut self, table: &Table<'_>) -> Cable {
        let interface = self.interface(table, "interface");
        let Some(node) = table.get("sockets") else {
            return interface.map_or(Cable::Own, |at| Cable::Interface(at.value));
        };
        if table.get("interface").is_some() {
            let message = "this link has both an interface and sockets";
            self.reader.error(table.place_of("sockets"), message, "one of them");
        }
        let Some(sockets) = self.reader.table(node, "sockets of this link", &["switch", "host"]) else {
            return Cable::Own;
        };
        let mut end = |key: &str| {
            if sockets.get(key).is_none() {
                let message = format!("sockets of this link have no '{key}'");
                self.reader.error(sockets.place, message, "switch: PATH and host: PATH");
            }
            self.path(&sockets, key)
        };
        match (end("switch"), end("host")) {
            (Some(switch), Some(host)) => Cable::Sockets { switch, host },
            _ => Cable::Own,
        }
    }

    /// Reports links whose two ends do not meet, and interfaces that are used twice.
    pub(crate) fn cables(&mut self) {
        let mut found: Vec<(Place, String, String)> = Vec::new();
        let mut taken: HashMap<&str, u32> = HashMap::new();
        let topology = &self.topology;
        for switch in &topology.switches {
            if let Some(interface) = &switch.tick_interface {
                taken.insert(&interface.name, switch.place.line);
                if !needs_ticks(&switch.kind) {
                    let message = format!("switch '{}' has a timer of its own", switch.name);
                    let expected = "no interface for ticks: that is for a running bmv2 without packets";
                    found.push((switch.place, message, expected.into()));
                }
            } else if needs_ticks(&switch.kind) {
                let message = format!("nobody can send ticks to switch '{}'", switch.name);
                let expected = "packets: IP:PORT (what --dp-grpc-server-addr of bmv2 says), or tick: {interface: NAME} \
                                with the far end of an interface at its port 500";
                found.push((switch.place, message, expected.into()));
            }
        }
        for link in &topology.links {
            let (host, switch) = (&topology.hosts[link.host], &topology.switches[link.switch]);
            let (name, own_ports) = (&host.name, has_own_ports(&switch.kind));
            let or_packets = match switch.kind {
                SwitchKind::Bmv2(_) => ", or packets: IP:PORT at the switch",
                _ => "",
            };
            let mut wrong =
                |message: String, expected: &str| found.push((link.place, message, expected.into()));
            let on_interface = matches!(host.nic, NicKind::Soft { interface: Some(_) });
            if own_ports && !link.is_plain() {
                wrong(
                    format!(
                        "nobody can make faults, latency or rate at the ports of switch '{}'",
                        switch.name
                    ),
                    &format!("a link without these{or_packets}"),
                );
            }
            match &link.cable {
                Cable::Interface(_) | Cable::Sockets { .. } if own_ports => wrong(
                    format!("the ports of switch '{}' are its own affair", switch.name),
                    &format!("a link without interface and sockets{or_packets}"),
                ),
                Cable::Own if own_ports && !host.nic.has_cable() => wrong(
                    format!(
                        "the NIC of host '{name}' is at no interface, and switch '{}' has only such",
                        switch.name
                    ),
                    &format!(
                        "nic: {{kind: verbs, device: NAME}} or {{kind: soft, interface: NAME}} at the host{or_packets}"
                    ),
                ),
                Cable::Own if !own_ports && host.nic.has_cable() => {
                    wrong(
                        format!("the NIC of host '{name}' has a cable that leads to no port of the switch"),
                        CABLE_HELP,
                    );
                }
                Cable::Own if !own_ports && host.agent.is_some() => {
                    wrong(
                        format!("the agent of host '{name}' runs elsewhere, so its link needs a cable"),
                        CABLE_HELP,
                    );
                }
                Cable::Interface(_) if !host.nic.has_cable() && host.agent.is_none() => wrong(
                    format!("this link leads to an interface, and the soft NIC of host '{name}' is at none"),
                    "nic: {kind: soft, interface: NAME} at the host",
                ),
                Cable::Sockets { .. } if on_interface => wrong(
                    format!(
                        "this link leads to sockets, and the soft NIC of host '{name}' is at an interface"
                    ),
                    "interface: NAME at the link, or nic: soft at the host",
                ),
                _ => {}
            }
            let far = match &host.nic {
                NicKind::Soft { interface } if host.agent.is_none() => interface.as_ref(),
                _ => None,
            };
            let near = match &link.cable {
                Cable::Interface(interface) => Some(interface),
                _ => None,
            };
            for interface in near.into_iter().chain(far) {
                if let Some(line) = taken.insert(&interface.name, link.place.line) {
                    let message = format!(
                        "the interface {} has two users (the other is at line {line})",
                        interface.name
                    );
                    found.push((
                        link.place,
                        message,
                        "an interface of its own for each end of a link".into(),
                    ));
                }
            }
        }
        for (place, message, expected) in found {
            self.reader.error(place, message, expected);
        }
        self.tofino_ports();
        self.tofino_lanes();
        self.ports_of_pipes();
        self.vlan_interfaces();
    }
}

/// Whether a switch's ports are its own, or interfaces that somebody else has given it.
fn has_own_ports(kind: &SwitchKind) -> bool {
    needs_ticks(kind) || kind.tofino().is_some()
}

/// Whether a switch gets its ticks from an interface.
fn needs_ticks(kind: &SwitchKind) -> bool {
    matches!(kind, SwitchKind::Bmv2(Bmv2::Running { packets: None, .. }))
}

/// `kind` as it is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Soft,
    Bmv2,
    Tofino,
}

fn listens(node: &Node) -> bool {
    matches!(&node.value, Value::Map(entries) if entries.iter().any(|(key, _)| key.text == "listen"))
}
