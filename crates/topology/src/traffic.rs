//! How packets are marked for the queues of a network: traffic classes, and the VLANs that hosts are on.

use zsr_wire::vlan;

use super::build::Builder;
use super::model::{Cable, NicKind};
use super::read::Table;
use super::yaml::Node;

/// The mark of data in set-ups of RoCE, unless they are told otherwise: DSCP 26, which their switches and NICs map to
/// priority 3.
const DATA: Mark = Mark { dscp: 26, priority: 3 };
/// ECN bits of a sender that heeds marks: ECT(0).
const ECN_CAPABLE: u8 = 2;
/// VLANs that a host may be on; the others of 12 bits are reserved.
const VLANS: std::ops::RangeInclusive<u64> = 1..=4094;

/// The queue that packets ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// In the IPv4 header, 0 to 63.
    pub dscp: u8,
    /// In the VLAN tag, where a host is on a VLAN, 0 to 7.
    pub priority: u8,
}

/// Marks of all packets between the switch and its hosts, but for congestion notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// The mark of data connections: items, their READs, commits, tails and acknowledgements, whose order queues must
    /// keep.
    pub data: Mark,
    /// The mark of poll connections.
    pub polls: Mark,
    /// Whether hosts say of what they send on data connections that it may be marked in place of dropped.
    pub ecn: bool,
}

impl Default for Traffic {
    fn default() -> Self {
        Traffic { data: DATA, polls: DATA, ecn: true }
    }
}

impl Traffic {
    /// The mark of a connection.
    pub fn of(&self, is_poll: bool) -> Mark {
        if is_poll { self.polls } else { self.data }
    }

    /// The type of service of what the switch sends on a connection.
    pub fn of_switch(&self, is_poll: bool) -> u8 {
        self.of(is_poll).dscp << 2
    }

    /// The type of service of what a host sends on a connection.
    pub fn of_host(&self, is_poll: bool) -> u8 {
        self.of_switch(is_poll) | if self.ecn && !is_poll { ECN_CAPABLE } else { 0 }
    }

    /// The tag of what is sent on a connection of a host that is on `vlan`; 0: none.
    pub fn tci(&self, vlan: Option<u16>, is_poll: bool) -> u16 {
        vlan.map_or(0, |vlan| vlan::tci(vlan, self.of(is_poll).priority))
    }
}

impl Builder<'_> {
    /// `traffic` of the defaults.
    pub(crate) fn traffic(&mut self, table: &Table<'_>) {
        let Some(node) = table.get("traffic") else { return };
        let Some(traffic) = self.reader.table(node, "traffic", &["dscp", "priority", "ecn", "polls"]) else {
            return;
        };
        let data = self.mark(&traffic, DATA);
        let ecn = self.reader.flag(&traffic, "ecn").is_none_or(|at| at.value);
        let polls = traffic.get("polls").and_then(|node: &Node| {
            let polls = self.reader.table(node, "polls of traffic", &["dscp", "priority"])?;
            Some(self.mark(&polls, data))
        });
        self.topology.traffic = Traffic { data, polls: polls.unwrap_or(data), ecn };
    }

    fn mark(&mut self, table: &Table<'_>, missing: Mark) -> Mark {
        let dscp = self.reader.integer(table, "dscp", 0..=63);
        let priority = self.reader.integer(table, "priority", 0..=7);
        Mark {
            dscp: dscp.map_or(missing.dscp, |at| at.value as u8),
            priority: priority.map_or(missing.priority, |at| at.value as u8),
        }
    }

    /// `vlan` of a host.
    pub(crate) fn vlan(&mut self, table: &Table<'_>) -> Option<u16> {
        self.reader.integer(table, "vlan", VLANS).map(|at| at.value as u16)
    }

    /// Reports hosts on a VLAN whose frames Linux would tag a second time.
    pub(crate) fn vlan_interfaces(&mut self) {
        for link in &self.topology.links {
            let host = &self.topology.hosts[link.host];
            let Some(vlan) = host.vlan else { continue };
            let near = match &link.cable {
                Cable::Interface(interface) => Some(interface),
                Cable::Own | Cable::Sockets { .. } => None,
            };
            let far = match &host.nic {
                NicKind::Soft { interface } => interface.as_ref(),
                NicKind::Verbs { .. } => None,
            };
            for name in near.into_iter().chain(far).map(|i| &i.name) {
                // The usual name of a VLAN interface.
                let Some((below, id)) = name.rsplit_once('.') else { continue };
                if id.parse::<u16>().is_err() {
                    continue;
                }
                let message = format!(
                    "host '{}' is on VLAN {vlan}, and Linux tags what leaves by the interface {name}, too",
                    host.name
                );
                let expected = format!("the interface {below}, or {name} and no vlan at the host");
                self.reader.error(link.place, message, expected);
            }
        }
    }
}
