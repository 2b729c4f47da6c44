//! A standby: a second switch to which each host has a second link. It takes over when the first one dies.

use super::build::Builder;
use super::model::{Cable, Link, SwitchKind};
use super::read::Table;

/// Keys of a switch that its standby has as the switch has them.
pub(crate) const SHARED: [&str; 12] = [
    "pipes",
    "tick",
    "cpu_port",
    "artifacts",
    "binary",
    "address",
    "packets",
    "chip",
    "api",
    "program",
    "ports",
    "loops",
];

impl Builder<'_> {
    /// Makes the switch that was read last a standby.
    pub(crate) fn standby(&mut self, table: &Table<'_>) {
        let at = table.place_of("standby");
        let index = self.topology.switches.len() - 1;
        let [first, standby] = self.topology.switches.as_mut_slice() else {
            let message = format!("{} is a standby, and {index} switches are before it", table.what);
            self.reader.error(at, message, "one switch, and behind it its standby");
            return;
        };
        if first.standby {
            let message = format!("{} and '{}' are both standbys", table.what, first.name);
            self.reader.error(at, message, "one switch, and behind it its standby");
            return;
        }
        (standby.pipes, standby.tick, standby.cpu_port, standby.artifacts) =
            (first.pipes, first.tick, first.cpu_port, first.artifacts.clone());
        if table.get("p4runtime").is_none() {
            (standby.keep_alive, standby.keep_primary, standby.dead_after) =
                (first.keep_alive, first.keep_primary, first.dead_after);
        }
        let soft = first.kind == SwitchKind::Soft && standby.kind == SwitchKind::Soft;
        if let Some(key) = SHARED.iter().find(|key| table.get(key).is_some()) {
            let message = format!("'{key}' of {} can't be its own", table.what);
            let expected = format!("no {key}: a standby has that of its switch");
            self.reader.error(table.place_of(key), message, expected);
        }
        if !soft {
            self.not_yet(
                at,
                "a standby that is no software switch, or of such a switch",
                "kind: soft at both",
            );
        }
    }

    /// Gives each host a link to the standby like its first one, unless the file has one. Reports what does not go with
    /// a standby.
    pub(crate) fn second_links(&mut self) {
        let Some(standby) = self.topology.switches.iter().position(|s| s.standby) else { return };
        if let Some(third) = self.topology.switches.get(2) {
            let message = format!("switch '{}' is a third one, beside a switch and its standby", third.name);
            self.reader.error(third.place, message, "one switch, and behind it its standby");
            return;
        }
        let name = self.topology.switches[standby].name.clone();
        let (second, first): (Vec<Link>, Vec<Link>) =
            self.topology.links.iter().cloned().partition(|l| l.switch == standby);
        for link in &second {
            let host = &self.topology.hosts[link.host].name;
            let expected = match first.iter().find(|l| l.host == link.host) {
                None => format!("a link of '{host}' to the switch, too"),
                Some(own) if own.port != link.port => {
                    format!(
                        "port {}, as at the other switch (such as {host} -> {name}:{})",
                        own.port, own.port
                    )
                }
                Some(_) => continue,
            };
            let message = format!("host '{host}' is at port {} of the standby '{name}' alone", link.port);
            self.reader.error(link.place, message, expected);
        }
        for link in &first {
            if second.iter().all(|l| l.host != link.host) {
                let host = &self.topology.hosts[link.host].name;
                let name = format!("{host}-{name}-{}", link.port);
                self.topology.links.push(Link { name, switch: standby, ..link.clone() });
            }
        }
        let on_cables = |l: &&Link| l.cable != Cable::Own || self.topology.hosts[l.host].nic.has_cable();
        if let Some(link) = first.iter().chain(&second).find(on_cables) {
            let (place, host) = (link.place, &self.topology.hosts[link.host].name);
            let what = format!("a standby, with a cable at host '{host}',");
            self.not_yet(place, &what, "soft NICs and links without interface and sockets");
        }
    }
}
