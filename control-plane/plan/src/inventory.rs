//! The parts of a topology that a controller begins with: hosts, declared rings, rules for numbers.

use crate::dataplane::alloc::{Allocator, Room};
use crate::dataplane::model::{DeclaredRing, Host};
use crate::dataplane::{Chance, Station};
use crate::placement::Loops;
use crate::state::State;
use p4runtime_proto::Address;
use std::collections::HashSet;
use std::path::PathBuf;
use zsr_link::Rng;
use zsr_topology::{NicKind, Switch, Topology};

impl State {
    /// The inventory of `topology` without its flows, for a program that has `room`. `agents`: for each host, the
    /// address of its agent, and the socket for programs. `seed`: seed of numbers that nobody else should guess;
    /// `None`: they are random.
    pub fn of(
        topology: &Topology,
        switch: &Switch,
        agents: &[(Address, Option<PathBuf>)],
        room: Room,
        seed: Option<u64>,
    ) -> State {
        let mut state = State::new(hosts(topology, agents), declared(topology), switch.kind.pace());
        state.switch.clone_from(&switch.name);
        state.numbers = Allocator::with(room);
        state.pipes = switch.pipes;
        state.loops = Loops::of(switch);
        state.first_psn = topology.first_psn;
        if let Some(seed) = seed {
            state.chance = Chance::Seeded(Rng::new(seed));
        }
        state
    }
}

fn hosts(t: &Topology, agents: &[(Address, Option<PathBuf>)]) -> Vec<Host> {
    let host = |(at, h): (usize, &zsr_topology::Host)| {
        let (agent, programs) = agents.get(at).cloned()?;
        let (name, station) = (h.name.clone(), Station::of(t, at)?);
        let reorder_window = if matches!(h.nic, NicKind::Soft { .. }) { h.reorder_window } else { 0 };
        Some(Host { name, station, mtu: h.mtu, reorder_window, memory: h.memory, agent, programs })
    };
    t.hosts.iter().enumerate().filter_map(host).collect()
}

fn declared(topology: &Topology) -> Vec<DeclaredRing> {
    let made: HashSet<usize> = topology
        .flows
        .iter()
        .flat_map(|f| f.producers.iter().chain(&f.consumers))
        .flat_map(|e| e.rings.iter().copied())
        .collect();
    let declared = topology.rings.iter().enumerate().filter(|(at, r)| {
        let host = &topology.hosts[r.host].name;
        // A flow names the rings that it makes for itself; those of hosts are named for their host.
        !made.contains(at) || r.name.strip_prefix(host.as_str()).is_some_and(|rest| rest.starts_with('.'))
    });
    let ring = |(_, r): (usize, &zsr_topology::Ring)| DeclaredRing {
        name: r.name.clone(),
        host: topology.hosts[r.host].name.clone(),
        role: r.role,
        item_size: r.item_size,
        size: r.size,
        owner: r.owner.clone(),
        memory: r.memory,
    };
    declared.map(ring).collect()
}
