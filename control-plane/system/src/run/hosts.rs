//! The hosts of an embedded system. Each has a soft NIC, and an agent that the controller calls by gRPC, like an agent
//! on another machine.

use super::error::RunError;
use crate::parts::secret_nic_config;
use p4runtime_proto::{Address, Local, local};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use tokio::sync::oneshot;
use zsr_host_agent::agent::{Agent, ServeError};
use zsr_host_agent::nic::{NicQueue, SoftNicBackend, nic_queue};
use zsr_plan::dataplane::model::Flow;
use zsr_ring::{Cancel, Consumer, Producer};
use zsr_soft_nic::Nic;
use zsr_topology::Topology;

/// A host of the system.
struct HostSide {
    agent: Agent,
    place: Local,
    shutdown: Option<oneshot::Sender<()>>,
    server: Option<tokio::task::JoinHandle<Result<(), ServeError>>>,
}

/// The agents of all hosts.
pub struct Hosts {
    hosts: Vec<HostSide>,
    /// Per ring of the topology: its host, and its name at the agent; empty without a flow.
    rings: Vec<(usize, String)>,
    cancel: Cancel,
}

/// A NIC, and the channel of its agent's calls.
pub type OwnedNic = (Nic, NicQueue);

impl Hosts {
    /// Starts an agent per host; called in a runtime. The NICs are for the fabric's thread, which `fabric` will name:
    /// calls wake it.
    pub fn start(
        topology: &Topology,
        fabric: &Arc<OnceLock<Thread>>,
        cancel: &Cancel,
    ) -> Result<(Self, Vec<OwnedNic>), RunError> {
        let mut hosts = Vec::new();
        let mut nics = Vec::new();
        for (number, host) in topology.hosts.iter().enumerate() {
            let config = secret_nic_config(topology, number);
            let to_wake = fabric.clone();
            let (handle, queue) = nic_queue(move || {
                if let Some(thread) = to_wake.get() {
                    thread.unpark();
                }
            });
            let backend = SoftNicBackend::new("soft0", handle, &config, host.mtu)
                .map_err(|e| RunError::Host { host: host.name.clone(), reason: e.to_string() })?;
            hosts.push(HostSide::start(Agent::new(&host.name, backend)));
            nics.push((Nic::new(config), queue));
        }
        let rings = topology.rings.iter().map(|r| (r.host, String::new())).collect();
        Ok((Hosts { hosts, rings, cancel: cancel.clone() }, nics))
    }

    /// The addresses of the agents, in the topology's order.
    pub fn places(&self) -> impl Iterator<Item = Address> {
        self.hosts.iter().map(|h| h.place.clone().into())
    }

    /// Learns the controller's names of the rings of the topology's `flows`.
    pub(super) fn name_rings(&mut self, topology: &Topology, flows: &[Flow]) {
        for (flow, made) in topology.flows.iter().zip(flows) {
            let rings = flow.producers.iter().chain(&flow.consumers).flat_map(|e| &e.rings);
            rings.zip(made.rings()).for_each(|(&ring, made)| self.rings[ring].1.clone_from(&made.name));
        }
    }

    /// The agent of a ring, by its index in the topology, and the ring's name there.
    pub fn of_ring(&self, ring: usize) -> (&Agent, &str) {
        let (host, name) = &self.rings[ring];
        (&self.hosts[*host].agent, name)
    }

    /// The producer's handle of a ring, by its index in the topology.
    pub fn producer(&self, ring: usize) -> Result<Producer, RunError> {
        let (agent, name) = self.of_ring(ring);
        agent.attach_producer(name, self.cancel.clone()).map_err(|e| attach_failed(agent, name, &e))
    }

    /// The consumer's handle of a ring, by its index in the topology.
    pub fn consumer(&self, ring: usize) -> Result<Consumer, RunError> {
        let (agent, name) = self.of_ring(ring);
        agent.attach_consumer(name, self.cancel.clone()).map_err(|e| attach_failed(agent, name, &e))
    }

    /// Takes keys and queue pairs back and ends the agents; needs the fabric to run.
    pub async fn stop(&mut self) -> Result<(), RunError> {
        let mut result = Ok(());
        for host in &mut self.hosts {
            let agent = host.agent.clone();
            let name = agent.name().to_string();
            let down = tokio::task::spawn_blocking(move || agent.shutdown()).await;
            if let Ok(Err(e)) = down {
                result = Err(RunError::Host { host: name, reason: e.to_string() });
            }
            drop(host.shutdown.take());
            if let Some(server) = host.server.take() {
                let _ = server.await;
            }
        }
        result
    }
}

impl HostSide {
    fn start(agent: Agent) -> Self {
        let (place, incoming) = local();
        let (shutdown, ended) = oneshot::channel::<()>();
        let serving = agent.clone();
        // The server ends when the sender is used or dropped.
        let server =
            tokio::spawn(async move { serving.serve_incoming(incoming, async { drop(ended.await) }).await });
        HostSide { agent, place, shutdown: Some(shutdown), server: Some(server) }
    }
}

fn attach_failed(agent: &Agent, ring: &str, e: &dyn std::fmt::Display) -> RunError {
    RunError::Agent { host: agent.name().into(), ring: ring.into(), reason: e.to_string() }
}
