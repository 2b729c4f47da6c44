//! How a topology is laid out when it is brought up otherwise than its file says: on bmv2, or in network namespaces.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::model::{Bmv2, Cable, Interface, MaxBatch, NicKind, SwitchKind, Topology};
use super::pipes::Pipes;
use super::settings::Settings;

/// The interface of a host in its namespace.
pub const HOST_INTERFACE: &str = "eth0";

/// The options of `zsr up` beside the topology. All processes of a system are given the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// The program that runs the switch, in place of the file's.
    pub switch: Option<SwitchKind>,
    /// Every host in a network namespace of its own, behind a veth pair.
    pub netns: bool,
    /// Where the controller listens beside its socket, for programs on other machines.
    #[serde(default)]
    pub listen: Option<SocketAddr>,
    /// The controller's journal, where it is not in the system's folder.
    #[serde(default)]
    pub journal: Option<PathBuf>,
}

/// The switch's end of a veth pair in its namespace.
pub fn switch_interface(port: u32) -> String {
    format!("p{port}")
}

impl Layout {
    /// A bmv2 from what stands for it on the command line, if anything does: a path, or an address, and that of its packet
    /// stream.
    ///
    /// # Errors
    /// A packet stream without an address.
    pub fn bmv2(word: Option<&str>, packets: Option<SocketAddr>) -> Result<Bmv2, String> {
        match (word.map(Bmv2::parse), packets) {
            (Some(Bmv2::Running { address, .. }), packets) => Ok(Bmv2::Running { address, packets }),
            (_, Some(_)) => Err("--packets goes with --bmv2 IP:PORT, a bmv2 that runs".into()),
            (Some(started), None) => Ok(match started {
                // Processes of the system have other working directories.
                Bmv2::Started { binary: Some(path) } => {
                    Bmv2::Started { binary: Some(std::path::absolute(&path).unwrap_or(path)) }
                }
                other => other,
            }),
            (None, None) => Ok(Bmv2::Started { binary: None }),
        }
    }
}

impl Topology {
    /// Lays this topology out as told.
    ///
    /// # Errors
    /// Parts that do not go together. The message names the object.
    pub fn lay_out(&mut self, layout: &Layout) -> Result<(), String> {
        if let Some(standby) = self.standby()
            && (layout.switch.as_ref().is_some_and(|kind| *kind != SwitchKind::Soft) || layout.netns)
        {
            return Err(format!(
                "switch '{}' is a standby, which only software switches outside of network namespaces have yet: without \
                 --switch, --bmv2 and --netns, or without the standby",
                standby.name
            ));
        }
        if let Some(address) = layout.listen {
            self.may_listen("the controller", address)?;
        }
        if let Some(kind) = &layout.switch {
            self.may_speak_to(kind)?;
            for switch in &mut self.switches {
                switch.kind = kind.clone();
                switch.tick = switch.tick.max(kind.pace().tick);
                if let SwitchKind::Bmv2(_) = kind {
                    // It has one set of registers, whatever its ports.
                    switch.pipes = Pipes::default();
                }
            }
            self.slow_down();
            if let SwitchKind::Bmv2(Bmv2::Running { packets: None, .. }) = kind {
                self.ports_are_elsewhere()?;
            }
        }
        if layout.netns { self.in_namespaces() } else { Ok(()) }
    }

    /// Gives flows the times of their switch where theirs are shorter, and its batches where theirs are longer.
    fn slow_down(&mut self) {
        let Some(switch) = self.switches.first() else { return };
        let pace = switch.kind.pace();
        for flow in &mut self.flows {
            let slow = Settings::on(&pace, flow.item_size);
            let own = &mut flow.settings;
            own.poll_interval_us = own.poll_interval_us.max(slow.poll_interval_us);
            own.poll_timeout_us = own.poll_timeout_us.max(slow.poll_timeout_us);
            own.rto_us = own.rto_us.max(slow.rto_us);
            if own.max_batch > slow.max_batch {
                own.max_batch = slow.max_batch;
                flow.max_batch_rule = MaxBatch::Bytes(slow.max_batch);
            }
        }
    }

    fn ports_are_elsewhere(&self) -> Result<(), String> {
        if let Some(switch) = self.switches.iter().find(|s| s.tick_interface.is_none()) {
            return Err(format!(
                "nobody can send ticks to switch '{}': name its packet stream (--packets IP:PORT, what \
                 --dp-grpc-server-addr of bmv2 says), or an interface in the topology (tick: {{interface: NAME}})",
                switch.name
            ));
        }
        match self.hosts.iter().find(|h| !h.nic.has_cable()) {
            Some(host) => Err(format!(
                "the NIC of host '{}' is at no interface, and this bmv2 has only such: name its packet stream \
                 (--packets IP:PORT)",
                host.name
            )),
            None => Ok(()),
        }
    }

    fn in_namespaces(&mut self) -> Result<(), String> {
        if let Some(SwitchKind::Bmv2(Bmv2::Running { address, .. })) = self.switches.first().map(|s| &s.kind)
        {
            return Err(format!(
                "the bmv2 at {address} is in no namespace of ours: without --netns, or without an address"
            ));
        }
        if let Some(switch) = self.switches.iter().find(|s| s.kind.tofino().is_some()) {
            return Err(format!(
                "switch '{}' is a chip, and no namespace leads to its ports: without --netns",
                switch.name
            ));
        }
        for link in &mut self.links {
            let host = &mut self.hosts[link.host];
            if host.nic.has_cable() || link.cable != Cable::Own || host.agent.is_some() {
                return Err(format!(
                    "host '{}' has a cable of its own, so it can't be put into a namespace: without --netns, or \
                     without interface, sockets and agent in the topology",
                    host.name
                ));
            }
            link.cable = Cable::Interface(Interface::new(switch_interface(link.port)));
            host.nic = NicKind::Soft { interface: Some(Interface::new(HOST_INTERFACE)) };
        }
        Ok(())
    }

    /// The part of the topology that `zsr run` can't do, if there is one: everything is inside one process there.
    pub fn needs_processes(&self) -> Option<String> {
        let switch = self.switches.iter().find(|s| s.kind != SwitchKind::Soft);
        let switch = switch.map(|s| {
            format!("switch '{}' is a {}", s.name, if s.kind.tofino().is_some() { "Tofino" } else { "bmv2" })
        });
        let switch = switch.or_else(|| self.standby().map(|s| format!("switch '{}' is a standby", s.name)));
        let link = self.links.iter().find(|l| l.cable != Cable::Own);
        let link = link.map(|l| format!("link '{}' leads to the outside", l.name));
        let host = self.hosts.iter().find(|h| h.nic.has_cable() || h.agent.is_some());
        switch
            .or(link)
            .or_else(|| host.map(|h| format!("host '{}' has a NIC or an agent of its own", h.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology(text: &str) -> Topology {
        let text = if text.contains("flows:") { text.to_owned() } else { format!("{text}flows: []\n") };
        Topology::parse("t.yaml".as_ref(), text.as_bytes()).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn a_word_is_a_path_or_an_address() {
        let address: SocketAddr = "127.0.0.1:9559".parse().unwrap();
        assert_eq!(Layout::bmv2(Some("localhost:9559"), None), Ok(Bmv2::Running { address, packets: None }));
        assert_eq!(Layout::bmv2(Some("/opt/x"), None), Ok(Bmv2::Started { binary: Some("/opt/x".into()) }));
        assert_eq!(Layout::bmv2(None, None), Ok(Bmv2::Started { binary: None }));
        assert!(Layout::bmv2(None, Some(address)).unwrap_err().contains("--packets goes with"));
    }

    #[test]
    fn on_bmv2_times_are_longer_and_never_shorter() {
        let mut t = topology(
            "hosts: [h1, h2]\nflows:\n  - {name: f, producers: [h1], consumers: [h2], rto: 5s}\nworkload: {kind: synthetic}\n",
        );
        t.lay_out(&Layout {
            switch: Some(SwitchKind::Bmv2(Bmv2::Started { binary: None })),
            netns: false,
            ..Layout::default()
        })
        .unwrap();
        let pace = t.switches[0].kind.pace();
        assert_eq!(t.switches[0].tick, pace.tick);
        let settings = &t.flows[0].settings;
        assert_eq!((settings.poll_timeout_us, settings.rto_us), (1_000_000, 5_000_000));
        assert_eq!((pace.batch, settings.max_batch), (16 << 10, t.flows[0].item_size.max(16 << 10)));
    }

    #[test]
    fn on_bmv2_all_ports_are_at_one_pipe() {
        let mut t = topology(
            "switches: [{name: s1, pipes: 2}]\nhosts: [h1, h2]\nlinks: ['h1 -> s1:1', 'h2 -> s1:129']\n",
        );
        assert!(t.switches[0].pipes.are_several());
        let switch = Some(SwitchKind::Bmv2(Bmv2::Started { binary: None }));
        t.lay_out(&Layout { switch, netns: false, ..Layout::default() }).unwrap();
        assert!(!t.switches[0].pipes.are_several());
        assert_eq!(t.switches[0].pipes.of_port(129), 0);
    }

    #[test]
    fn in_namespaces_every_link_is_a_pair_of_interfaces() {
        let mut t = topology("hosts: [h1, h2]\nlinks: ['h1 -> s1:7', 'h2 -> s1']\n");
        t.lay_out(&Layout { switch: None, netns: true, ..Layout::default() }).unwrap();
        assert_eq!(t.links[0].cable, Cable::Interface(Interface::new("p7")));
        assert!(t.hosts.iter().all(|h| h.nic.has_cable()));
        assert!(t.needs_processes().is_some());
    }

    #[test]
    fn what_does_not_go_together_is_named() {
        let address = "127.0.0.1:1".parse().unwrap();
        let running = Some(SwitchKind::Bmv2(Bmv2::Running { address, packets: None }));
        let refused = |text: &str, layout: Layout| topology(text).lay_out(&layout).unwrap_err();
        assert!(
            refused("hosts: [h1]\n", Layout { switch: running.clone(), netns: false, ..Layout::default() })
                .contains("'s1'")
        );
        assert!(
            refused("hosts: [h1]\n", Layout { switch: running, netns: true, ..Layout::default() })
                .contains("'s1'")
        );
        let cable = "hosts:\n  - {name: h1, nic: {interface: eth5}}\nlinks:\n  - {from: h1, to: s1, interface: eth6}\n";
        assert!(refused(cable, Layout { switch: None, netns: true, ..Layout::default() }).contains("'h1'"));
    }
}
