//! Links that carry nothing: an interface that is down or gone, a NIC without its port. The owners of the ends report
//! them, the switch's process and the agents; here they become state and events.

use crate::Controller;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use zsr_api::controller::{self as proto, EventKind};
use zsr_topology::{Cable, Link, Topology};

/// An end of a link: at a host, or at the switch's port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    Switch(u32),
    Host(String),
}

/// All ends with a trouble.
#[derive(Debug, Default)]
pub(crate) struct LinkFaults {
    troubled: Mutex<BTreeMap<End, String>>,
}

fn interface(link: &Link) -> &str {
    match &link.cable {
        Cable::Interface(interface) => &interface.name,
        Cable::Sockets { .. } | Cable::Own => "",
    }
}

impl LinkFaults {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<End, String>> {
        self.troubled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ports of the switch of `topology` as they are.
    pub(crate) fn ports(&self, topology: &Topology) -> Vec<proto::Port> {
        let troubled = self.lock();
        let port = |link: &Link| proto::Port {
            port: link.port,
            link: link.name.clone(),
            interface: interface(link).to_owned(),
            trouble: troubled.get(&End::Switch(link.port)).cloned().unwrap_or_default(),
        };
        topology.links.iter().map(port).collect()
    }

    /// The fault at a host's end; empty: no fault.
    pub(crate) fn at_host(&self, host: &str) -> String {
        self.lock().get(&End::Host(host.to_owned())).cloned().unwrap_or_default()
    }

    /// Nobody knows any more how a host's end is.
    pub(crate) fn forget(&self, host: &str) {
        self.lock().remove(&End::Host(host.to_owned()));
    }
}

impl Controller {
    /// Says which of the switch's ports lose frames, and why; the others do not.
    pub fn ports_are(&self, troubled: &BTreeMap<u32, String>) {
        let known: Vec<u32> = {
            let known = self.0.link_faults.lock();
            known
                .keys()
                .filter_map(|end| if let End::Switch(port) = end { Some(*port) } else { None })
                .collect()
        };
        let links = &self.0.base.choice().topology.links;
        let interface = |port: u32| links.iter().find(|l| l.port == port).map_or("", interface);
        for port in known.into_iter().filter(|port| !troubled.contains_key(port)) {
            self.link_is(End::Switch(port), interface(port), "");
        }
        for (&port, why) in troubled {
            self.link_is(End::Switch(port), interface(port), why);
        }
    }

    /// `why` frames are lost at an end; empty: they pass.
    pub(crate) fn link_is(&self, end: End, interface: &str, why: &str) {
        let (host, port) = match &end {
            End::Switch(port) => (String::new(), *port),
            End::Host(host) => (host.clone(), self.state().hosts.get(host).map_or(0, |h| h.station.port)),
        };
        let mut troubled = self.0.link_faults.lock();
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
