//! Links that carry nothing: an interface that is down or gone, a NIC without its port. The owners of the ends say so, the
//! switch's process and the agents; here it becomes state and events.

use super::Controller;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use zsr_api::controller::{self as proto, EventKind};
use zsr_topology::{Cable, Topology};

/// An end of a link: at a host, or at the switch's port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum End {
    Switch(u32),
    Host(String),
}

/// All ends with a trouble, and the switch's ports.
#[derive(Debug, Default)]
pub(super) struct Links {
    ports: Vec<proto::Port>,
    troubled: Mutex<BTreeMap<End, String>>,
}

impl Links {
    pub(super) fn of(topology: &Topology) -> Links {
        let interface = |cable: &Cable| match cable {
            Cable::Interface(interface) => interface.name.clone(),
            Cable::Sockets { .. } | Cable::Own => String::new(),
        };
        let port = |l: &zsr_topology::Link| proto::Port {
            port: l.port,
            link: l.name.clone(),
            interface: interface(&l.cable),
            trouble: String::new(),
        };
        Links { ports: topology.links.iter().map(port).collect(), ..Links::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<End, String>> {
        self.troubled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The switch's ports as they are.
    pub(super) fn ports(&self) -> Vec<proto::Port> {
        let troubled = self.lock();
        let with = |p: &proto::Port| {
            let trouble = troubled.get(&End::Switch(p.port)).cloned().unwrap_or_default();
            proto::Port { trouble, ..p.clone() }
        };
        self.ports.iter().map(with).collect()
    }

    /// What is wrong at a host's end; empty if nothing is.
    pub(super) fn at_host(&self, host: &str) -> String {
        self.lock().get(&End::Host(host.to_owned())).cloned().unwrap_or_default()
    }

    /// Nobody knows any more how a host's end is.
    pub(super) fn forget(&self, host: &str) {
        self.lock().remove(&End::Host(host.to_owned()));
    }
}

impl Controller {
    /// Says which of the switch's ports lose frames, and why; the others do not.
    pub fn ports_are(&self, troubled: &BTreeMap<u32, String>) {
        let known: Vec<u32> = {
            let known = self.0.links.lock();
            known
                .keys()
                .filter_map(|end| if let End::Switch(port) = end { Some(*port) } else { None })
                .collect()
        };
        let interface = |port: u32| {
            let found = self.0.links.ports.iter().find(|p| p.port == port);
            found.map(|p| p.interface.clone()).unwrap_or_default()
        };
        for port in known.into_iter().filter(|port| !troubled.contains_key(port)) {
            self.link_is(End::Switch(port), &interface(port), "");
        }
        for (&port, why) in troubled {
            self.link_is(End::Switch(port), &interface(port), why);
        }
    }

    /// `why` frames are lost at an end; empty: they pass.
    pub(super) fn link_is(&self, end: End, interface: &str, why: &str) {
        let (host, port) = match &end {
            End::Switch(port) => (String::new(), *port),
            End::Host(host) => (host.clone(), self.state().hosts.get(host).map_or(0, |h| h.station.port)),
        };
        let mut troubled = self.0.links.lock();
        let before = match why {
            "" => troubled.remove(&end),
            why => troubled.insert(end, why.to_owned()),
        };
        // Under the lock, so that events come in the order of what they tell.
        let (kind, text) = match (before, why) {
            (None, "") => return,
            (Some(said), why) if said == why => return,
            (_, "") => (EventKind::LinkUp, "frames pass again"),
            (_, why) => (EventKind::LinkDown, why),
        };
        let (interface, text) = (interface.to_owned(), text.to_owned());
        self.0.events.emit(kind, proto::Event { host, port, interface, text, ..Default::default() });
    }
}
