//! Switches, hosts and the rings declared under hosts.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::addr::{Generator, MacAddr};
use super::build::{Builder, NodeRef};
use super::diag::Place;
use zsr_records::{NAME_HELP, is_name};
use zsr_ring::memory::MEMORY_HELP;

use super::model::{ByteOrder, Host, Interface, MemoryKind, NicKind, Ring, RingRole, Switch, SwitchKind};
use super::pipes::Pipes;
use super::read::{At, Table};
use super::rules::{self, ITEM_SIZES, RING_SIZES};
use super::standby::SHARED;
use super::tofino::TofinoApi;
use super::yaml::{Node, Value};

/// Ports of links, from 1; those from 500 on belong to the switch (timer, controller), and 511 means drop.
pub(crate) const MAX_PORT: u64 = 499;
const CPU_PORTS: std::ops::RangeInclusive<u64> = 501..=510;
/// Where packet-in and packet-out go unless the file says otherwise.
const DEFAULT_CPU_PORT: u32 = 510;
/// Records per second of a CPU that stands in for a device.
/// Packets that a soft NIC keeps behind a missing one, if the topology says nothing, and what it may say.
const REORDER_WINDOW: u16 = 256;
const REORDER_WINDOWS: std::ops::RangeInclusive<u64> = 0..=1024;
const STAND_INS: std::ops::RangeInclusive<u64> = 1..=1_000_000_000;
/// As many hosts as the switch program has room for.
const MAX_HOSTS: usize = 1024;

/// The path MTUs that RoCE knows.
pub(crate) const MTUS: [(&str, u32); 5] =
    [("256", 256), ("512", 512), ("1024", 1024), ("2048", 2048), ("4096", 4096)];

/// Addresses as the file gives them, before the generator fills the gaps.
struct Addresses {
    ip: Option<At<Ipv4Addr>>,
    mac: Option<At<MacAddr>>,
}

/// [`Switch::keep_alive`], unless the file says otherwise.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// [`Switch::dead_after`], unless the file says otherwise.
const DEAD_AFTER: Duration = Duration::from_secs(15);

/// `p4runtime` of a switch.
struct P4Runtime {
    listen: Option<SocketAddr>,
    device_id: u64,
    keep_alive: Duration,
    keep_primary: bool,
    dead_after: Duration,
}

impl Builder<'_> {
    /// Reads both lists of nodes and gives everyone an address.
    pub(crate) fn nodes(&mut self, top: &Table<'_>) {
        let mut addresses = Vec::new();
        if top.get("switches").is_none() {
            self.default_switch(top.place, &mut addresses);
        }
        for node in self.reader.items(top, "switches", "switches") {
            self.switch(node, &mut addresses);
        }
        if matches!(top.get("switches"), Some(Node { value: Value::Seq(list), .. }) if list.is_empty()) {
            let place = top.place_of("switches");
            self.reader.error(
                place,
                "the topology has no switch",
                "at least one switch (such as - name: s1)",
            );
        }
        let switch_count = addresses.len();
        for node in self.reader.items(top, "hosts", "hosts") {
            self.host(node, &mut addresses);
        }
        if matches!(top.get("hosts"), None | Some(Node { value: Value::Seq(_), .. }))
            && self.topology.hosts.is_empty()
        {
            let place = top.place_of("hosts");
            self.reader.error(place, "the topology has no host", "hosts: a list (such as - name: h1)");
        }
        if let Some(extra) = self.topology.hosts.get(MAX_HOSTS) {
            let message = format!("the topology has {} hosts", self.topology.hosts.len());
            self.reader.error(extra.place, message, format!("at most {MAX_HOSTS}"));
        }
        self.fill_addresses(addresses, switch_count);
    }

    /// A file without `switches` has one called `s1`.
    fn default_switch(&mut self, place: Place, addresses: &mut Vec<Addresses>) {
        self.claim_name("s1", place, NodeRef::Switch(0));
        addresses.push(Addresses { ip: None, mac: None });
        self.topology.switches.push(Switch {
            name: "s1".into(),
            standby: false,
            kind: SwitchKind::Soft,
            pipes: Pipes::default(),
            ip: Ipv4Addr::UNSPECIFIED,
            mac: MacAddr([0; 6]),
            listen: None,
            keep_alive: KEEP_ALIVE,
            keep_primary: true,
            dead_after: DEAD_AFTER,
            device_id: 1,
            tick: SwitchKind::Soft.pace().tick,
            tick_interface: None,
            cpu_port: DEFAULT_CPU_PORT,
            artifacts: None,
            place,
        });
    }

    fn switch(&mut self, node: &Node, addresses: &mut Vec<Addresses>) {
        let own = ["name", "standby", "kind", "ip", "mac", "p4runtime"];
        let known = [&own[..], &SHARED, &["device_id"]].concat();
        let index = self.topology.switches.len();
        let Some(mut table) = self.reader.table(node, "this switch", &known) else { return };
        let Some(name) = self.reader.name(&table) else { return };
        table.what = format!("switch '{}'", name.value);
        self.claim_name(&name.value, name.place, NodeRef::Switch(index));

        let standby = self.reader.flag(&table, "standby").is_some_and(|at| at.value);
        let kind = self.switch_kind(&table);
        let P4Runtime { listen, mut device_id, keep_alive, keep_primary, dead_after } =
            self.p4runtime(&table, &kind, index);
        if let Some(tofino) = kind.tofino() {
            // The servers' number for the only device that they have, unless told otherwise.
            let usual = u64::from(tofino.api == TofinoApi::P4Runtime);
            device_id =
                self.reader.integer(&table, "device_id", 0..=u32::MAX.into()).map_or(usual, |at| at.value);
        }
        let pipes = self.pipes(&table, &kind);
        let (tick, tick_interface) = self.tick(&table, kind.pace().tick);
        let cpu_port =
            self.reader.integer(&table, "cpu_port", CPU_PORTS).map_or(DEFAULT_CPU_PORT, |at| at.value as u32);
        let artifacts = self.path(&table, "artifacts");
        addresses.push(Addresses { ip: self.reader.ip(&table, "ip"), mac: self.reader.mac(&table, "mac") });
        self.topology.switches.push(Switch {
            name: name.value,
            standby,
            kind,
            pipes,
            ip: Ipv4Addr::UNSPECIFIED,
            mac: MacAddr([0; 6]),
            listen,
            keep_alive,
            keep_primary,
            dead_after,
            device_id,
            tick,
            tick_interface,
            cpu_port,
            artifacts,
            place: name.place,
        });
        if standby {
            self.standby(&table);
        }
    }

    /// How often timer packets come, and from where; `default` unless the file says otherwise.
    fn tick(&mut self, table: &Table<'_>, default: Duration) -> (Duration, Option<Interface>) {
        let Some(node) = table.get("tick") else { return (default, None) };
        let range = Duration::from_micros(1)..=Duration::from_secs(1);
        if let Value::Scalar(_) = &node.value {
            return (self.reader.duration(table, "tick", range).map_or(default, |at| at.value), None);
        }
        let what = format!("tick of {}", table.what);
        let Some(tick) = self.reader.table(node, &what, &["interval", "interface"]) else {
            return (default, None);
        };
        let interval = self.reader.duration(&tick, "interval", range).map_or(default, |at| at.value);
        (interval, self.interface(&tick, "interface").map(|at| at.value))
    }

    /// The switch's P4Runtime server, and the controller's session with it.
    fn p4runtime(&mut self, table: &Table<'_>, kind: &SwitchKind, index: usize) -> P4Runtime {
        // The number of a bmv2 that was not told one.
        let least = u64::from(*kind == SwitchKind::Soft);
        let mut out = P4Runtime {
            listen: None,
            device_id: index as u64 + 1,
            keep_alive: KEEP_ALIVE,
            keep_primary: true,
            dead_after: DEAD_AFTER,
        };
        let what = format!("p4runtime of {}", table.what);
        let Some(node) = table.get("p4runtime") else { return out };
        let keys = ["listen", "device_id", "keep_alive", "keep_primary", "dead_after"];
        let Some(p4runtime) = self.reader.table(node, &what, &keys) else { return out };
        if let Some(at) = self.reader.listen(&p4runtime, "listen") {
            out.listen = Some(at.value);
            let twin = self.topology.switches.iter().find(|s| s.listen == out.listen && at.value.port() != 0);
            if let Some(twin) = twin {
                let message = format!("{what} listens on {}, as switch '{}' does", at.value, twin.name);
                self.reader.error(at.place, message, "an address of its own (port 0 takes a free one)");
            }
        }
        if let Some(at) = self.reader.integer(&p4runtime, "device_id", least..=u64::MAX) {
            out.device_id = at.value;
            if let Some(twin) = self.topology.switches.iter().find(|s| s.device_id == at.value) {
                let message = format!("{what} has device_id {}, as switch '{}' has", at.value, twin.name);
                self.reader.error(at.place, message, "a device_id that no other switch has");
            }
        }
        let times = Duration::from_millis(100)..=Duration::from_secs(3600);
        if let Some(at) = self.reader.duration(&p4runtime, "dead_after", times.clone()) {
            out.dead_after = at.value;
        }
        if let Some(at) = self.reader.duration(&p4runtime, "keep_alive", times) {
            out.keep_alive = at.value;
            if *kind != SwitchKind::Soft {
                let message = format!("'keep_alive' of {what} goes with kind: soft");
                self.reader.error(p4runtime.place_of("keep_alive"), message, "kind: soft, or no keep_alive");
            }
        }
        if let Some(at) = self.reader.flag(&p4runtime, "keep_primary") {
            out.keep_primary = at.value;
        }
        out
    }

    fn host(&mut self, node: &Node, addresses: &mut Vec<Addresses>) {
        // `- h1` is short for `- name: h1`.
        let short = match &node.value {
            Value::Scalar(_) => {
                let name =
                    self.reader.parsed(node, "this host", NAME_HELP, |t| is_name(t).then(|| t.to_owned()));
                let Some(name) = name else { return };
                Some(name)
            }
            _ => None,
        };
        let known = [
            "name",
            "ip",
            "mac",
            "byte_order",
            "memory",
            "stand_in",
            "nic",
            "agent",
            "mtu",
            "vlan",
            "reorder_window",
            "rings",
        ];
        let index = self.topology.hosts.len();
        let mut host = Host {
            name: String::new(),
            ip: Ipv4Addr::UNSPECIFIED,
            mac: MacAddr([0; 6]),
            byte_order: ByteOrder::Little,
            memory: MemoryKind::Host,
            stand_in: None,
            nic: NicKind::Soft { interface: None },
            agent: None,
            mtu: self.defaults.mtu,
            vlan: None,
            reorder_window: REORDER_WINDOW,
            place: node.place,
        };
        let mut address = Addresses { ip: None, mac: None };
        match short {
            Some(name) => {
                self.claim_name(&name.value, name.place, NodeRef::Host(index));
                host.name = name.value;
                self.topology.hosts.push(host);
            }
            None => {
                let Some(mut table) = self.reader.table(node, "this host", &known) else { return };
                let Some(name) = self.reader.name(&table) else { return };
                table.what = format!("host '{}'", name.value);
                self.claim_name(&name.value, name.place, NodeRef::Host(index));
                host.name = name.value;
                host.place = name.place;
                let orders = [("little", ByteOrder::Little), ("big", ByteOrder::Big)];
                if let Some(order) = self.reader.choice(&table, "byte_order", &orders) {
                    host.byte_order = order.value;
                }
                host.memory = self.memory(&table).unwrap_or_default();
                let stand_in = self.reader.integer(&table, "stand_in", STAND_INS);
                host.stand_in = stand_in.map(|at| at.value as u32);
                host.nic = self.nic(&table);
                host.agent = self.agent(&table);
                if let Some(mtu) = self.mtu(&table) {
                    host.mtu = mtu.value;
                }
                host.vlan = self.vlan(&table);
                if let Some(window) = self.reorder_window(&table, &host.nic) {
                    host.reorder_window = window;
                }
                address = Addresses { ip: self.reader.ip(&table, "ip"), mac: self.reader.mac(&table, "mac") };
                self.own_addresses(&table, &host.nic);
                self.topology.hosts.push(host);
                for node in self.reader.items(&table, "rings", "rings") {
                    self.ring(node, index);
                }
            }
        }
        addresses.push(address);
    }

    /// `reorder_window`, for soft NICs.
    fn reorder_window(&mut self, table: &Table<'_>, nic: &NicKind) -> Option<u16> {
        let window = self.reader.integer(table, "reorder_window", REORDER_WINDOWS)?;
        if !matches!(nic, NicKind::Soft { .. }) {
            let message = format!("'reorder_window' of {} goes with nic: soft", table.what);
            self.reader.error(window.place, message, "nic: soft, or no reorder_window");
        }
        Some(window.value as u16)
    }

    /// `memory`, where rings are to be.
    pub(crate) fn memory(&mut self, table: &Table<'_>) -> Option<MemoryKind> {
        self.reader.opt(table, "memory", MEMORY_HELP, |t| t.parse().ok()).map(|at| at.value)
    }

    /// `mtu`, a RoCE path MTU.
    pub(crate) fn mtu(&mut self, table: &Table<'_>) -> Option<At<u32>> {
        let expected = "a RoCE path MTU (payload bytes per packet): 256, 512, 1024, 2048 or 4096";
        self.reader.opt(table, "mtu", expected, |t| {
            let bytes = super::units::size(t)?;
            MTUS.iter().find(|(_, mtu)| u64::from(*mtu) == bytes).map(|(_, mtu)| *mtu)
        })
    }

    fn ring(&mut self, node: &Node, host: usize) {
        let owner = self.topology.hosts[host].name.clone();
        let what = format!("this ring of host '{owner}'");
        let known = ["name", "role", "item_size", "size", "owner", "memory"];
        let Some(mut table) = self.reader.table(node, &what, &known) else { return };
        let Some(name) = self.reader.name(&table) else { return };
        let full = format!("{owner}.{}", name.value);
        table.what = format!("ring '{full}'");
        let index = self.topology.rings.len();
        if let Some(first) = self.ring_names.get(&full) {
            let line = self.topology.rings[*first].place.line;
            let message = format!("host '{owner}' has two rings named '{}'", name.value);
            self.reader.error(
                name.place,
                message,
                format!("a name of its own (the first is at line {line})"),
            );
        } else {
            self.ring_names.insert(full.clone(), index);
        }
        let roles = [("producer", RingRole::Producer), ("consumer", RingRole::Consumer)];
        if table.get("role").is_none() {
            self.reader.error(
                table.place,
                format!("{} has no role", table.what),
                "role: producer or consumer",
            );
        }
        let role = self.reader.choice(&table, "role", &roles).map_or(RingRole::Producer, |at| at.value);
        let (item_size, size) = self.ring_sizes(&table, "size");
        let owner = self.reader.opt(&table, "owner", "a name", |t| is_name(t).then(|| t.to_owned()));
        let owner = owner.map(|at| at.value).unwrap_or_default();
        let (memory, place) = (self.memory(&table), name.place);
        self.topology.rings.push(Ring { name: full, host, role, item_size, size, owner, memory, place });
    }

    /// `item_size` and the ring's size under `key`, each a power of two, the item not above the ring.
    pub(crate) fn ring_sizes(&mut self, table: &Table<'_>, key: &str) -> (u32, u32) {
        let item = self.reader.pow2_size(table, "item_size", ITEM_SIZES);
        let size = self.reader.pow2_size(table, key, RING_SIZES);
        // 0 stands for a size that was refused: nothing more is said about it.
        let missing = if table.get("item_size").is_some() { 0 } else { self.defaults.item_size };
        let item_size = item.as_ref().map_or(missing, |at| at.value as u32);
        let fallback = super::build::default_ring_size(self.defaults.ring_size, item_size);
        let ring_size = size.as_ref().map_or(fallback, |at| at.value as u32);
        let place = size.as_ref().or(item.as_ref()).map_or(table.place, |at| at.place);
        self.reader.obey(place, rules::ring_holds_item(&table.what, item_size.into(), ring_size.into()));
        (item_size, ring_size)
    }

    /// Reports addresses that appear twice and invents the missing ones.
    fn fill_addresses(&mut self, addresses: Vec<Addresses>, switch_count: usize) {
        let mut ips = HashSet::new();
        let mut macs = HashSet::new();
        for address in &addresses {
            if let Some(ip) = &address.ip
                && !ips.insert(ip.value)
            {
                let message = format!("the address {} is used twice", ip.value);
                self.reader.error(ip.place, message, "an address that no other node has");
            }
            if let Some(mac) = &address.mac
                && !macs.insert(mac.value)
            {
                let message = format!("the address {} is used twice", mac.value);
                self.reader.error(mac.place, message, "an address that no other node has");
            }
        }
        let mut free = Generator::new(ips, macs);
        for (index, address) in addresses.into_iter().enumerate() {
            let is_switch = index < switch_count;
            let (block, first) = if is_switch { (0, 1) } else { (1, 1) };
            let ip = address.ip.map_or_else(|| free.ip(block, first), |at| at.value);
            let mac = address.mac.map_or_else(|| free.mac(block), |at| at.value);
            if is_switch {
                if let Some(switch) = self.topology.switches.get_mut(index) {
                    (switch.ip, switch.mac) = (ip, mac);
                }
            } else if let Some(host) = self.topology.hosts.get_mut(index - switch_count) {
                (host.ip, host.mac) = (ip, mac);
            }
        }
    }

    /// A path; relative ones count from the topology's folder.
    pub(crate) fn path(&mut self, table: &Table<'_>, key: &str) -> Option<PathBuf> {
        let at = self.reader.opt(table, key, "a path", |t| (!t.is_empty()).then(|| t.to_owned()))?;
        let base = self.topology.file.parent().unwrap_or(Path::new(""));
        Some(base.join(at.value))
    }
}
