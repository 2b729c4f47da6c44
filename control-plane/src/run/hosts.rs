//! The hosts of an embedded system: for each a soft NIC, and an agent that the controller reaches through gRPC as it would
//! reach one on another machine.

use super::error::RunError;
use crate::plan::{Plan, Qp, RingAddress};
use crate::topology::{ByteOrder, Host, RingRole, Topology};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use tokio::net::UnixListener;
use tokio::sync::oneshot;
use tonic::transport::{Channel, Endpoint};
use zsr_host_agent::agent::{Agent, ServeError};
use zsr_host_agent::nic::{NicQueue, SoftNicBackend, nic_queue};
use zsr_host_agent::proto;
use zsr_host_agent::proto::agent_client::AgentClient;
use zsr_ring::{Cancel, Consumer, Producer};
use zsr_soft_nic::Nic;

/// One host.
struct HostSide {
    agent: Agent,
    client: AgentClient<Channel>,
    shutdown: Option<oneshot::Sender<()>>,
    server: Option<tokio::task::JoinHandle<Result<(), ServeError>>>,
}

/// The agents of all hosts, and the controller's sessions with them.
pub struct Hosts {
    hosts: Vec<HostSide>,
    /// Per ring of the topology: its host and its name there.
    rings: Vec<(usize, String)>,
    cancel: Cancel,
}

/// A NIC, and where its agent's calls arrive.
pub type OwnedNic = (Nic, NicQueue);

impl Hosts {
    /// Starts an agent per host, each at a socket of its own in `folder`. The NICs are for the fabric's thread, which `fabric`
    /// will name: calls wake it.
    pub async fn start(
        topology: &Topology,
        folder: &Path,
        fabric: &Arc<OnceLock<Thread>>,
        cancel: &Cancel,
    ) -> Result<(Self, Vec<OwnedNic>), RunError> {
        let mut hosts = Vec::new();
        let mut nics = Vec::new();
        for (number, host) in topology.hosts.iter().enumerate() {
            let config = host.nic_config(&topology.traffic);
            let to_wake = fabric.clone();
            let (handle, queue) = nic_queue(move || {
                if let Some(thread) = to_wake.get() {
                    thread.unpark();
                }
            });
            let backend = SoftNicBackend::new("soft0", handle, &config, host.mtu)
                .map_err(|e| RunError::Host { host: host.name.clone(), reason: e.to_string() })?;
            hosts.push(
                HostSide::start(
                    host,
                    Agent::new(&host.name, backend),
                    &folder.join(format!("agent-{number}")),
                )
                .await?,
            );
            nics.push((Nic::new(config), queue));
        }
        let rings = topology.rings.iter().map(|r| (r.host, r.name.clone())).collect();
        Ok((Hosts { hosts, rings, cancel: cancel.clone() }, nics))
    }

    /// Has the agents make and connect the rings of all flows. Returns their addresses, parallel to the topology's rings.
    pub async fn create_rings(
        &mut self,
        topology: &Topology,
        plan: &Plan<'_>,
    ) -> Result<Vec<Option<RingAddress>>, RunError> {
        let mut addresses = Vec::with_capacity(topology.rings.len());
        for (ring, ids) in topology.rings.iter().zip(&plan.rings) {
            let Some(ids) = ids else {
                addresses.push(None);
                continue;
            };
            let host = &topology.hosts[ring.host];
            let refused = |e: tonic::Status| RunError::Agent {
                host: host.name.clone(),
                ring: ring.name.clone(),
                reason: e.message().into(),
            };
            let client = &mut self.hosts[ring.host].client;
            let request = proto::CreateRingRequest {
                name: ring.name.clone(),
                role: match ring.role {
                    RingRole::Producer => proto::Role::Producer.into(),
                    RingRole::Consumer => proto::Role::Consumer.into(),
                },
                item_size: ring.item_size.into(),
                ring_size: ring.size.into(),
                byte_order: match host.byte_order {
                    ByteOrder::Little => proto::ByteOrder::Little.into(),
                    ByteOrder::Big => proto::ByteOrder::Big.into(),
                },
                start: 0,
            };
            let made = client.create_ring(request).await.map_err(refused)?.into_inner();
            let target = |qp: Qp, is_poll| proto::QpTarget {
                qpn: qp.qpn,
                ip: plan.switch.ip.to_string(),
                mac: plan.switch.mac.to_string(),
                rq_psn: qp.psn,
                sq_psn: qp.psn,
                path_mtu: host.mtu,
                traffic_class: topology.traffic.of_host(is_poll).into(),
            };
            let request = proto::ConnectRingRequest {
                name: ring.name.clone(),
                data: Some(target(ids.data, false)),
                poll: Some(target(ids.poll, true)),
                doorbell_secret: plan.doorbell_of(ids),
            };
            client.connect_ring(request).await.map_err(refused)?;
            addresses.push(Some(RingAddress {
                rkey: made.rkey,
                data_qpn: made.data_qp.map_or(0, |q| q.qpn),
                poll_qpn: made.poll_qp.map_or(0, |q| q.qpn),
                epoch: made.epoch as u16,
            }));
        }
        Ok(addresses)
    }

    /// The producer's handle of a ring, by its index in the topology.
    pub fn producer(&self, ring: usize) -> Result<Producer, RunError> {
        let (host, name) = &self.rings[ring];
        let agent = &self.hosts[*host].agent;
        agent.attach_producer(name, self.cancel.clone()).map_err(|e| attach_failed(agent, name, &e))
    }

    /// The consumer's handle of a ring, by its index in the topology.
    pub fn consumer(&self, ring: usize) -> Result<Consumer, RunError> {
        let (host, name) = &self.rings[ring];
        let agent = &self.hosts[*host].agent;
        agent.attach_consumer(name, self.cancel.clone()).map_err(|e| attach_failed(agent, name, &e))
    }

    /// The agents, parallel to the topology's hosts.
    pub fn agents(&self) -> Vec<Agent> {
        self.hosts.iter().map(|h| h.agent.clone()).collect()
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
            let _ = host.shutdown.take().map(|s| s.send(()));
            if let Some(server) = host.server.take() {
                let _ = server.await;
            }
        }
        result
    }
}

impl HostSide {
    async fn start(host: &Host, agent: Agent, socket: &Path) -> Result<Self, RunError> {
        let failed = |e: &dyn std::fmt::Display| RunError::Host {
            host: host.name.clone(),
            reason: format!("cannot serve its agent at {}: {e}", socket.display()),
        };
        let listener = UnixListener::bind(socket).map_err(|e| failed(&e))?;
        let (shutdown, ended) = oneshot::channel::<()>();
        let serving = agent.clone();
        // The server ends when the sender is used or dropped.
        let server = tokio::spawn(async move {
            serving
                .serve_unix(listener, async {
                    let _ = ended.await;
                })
                .await
        });
        let endpoint =
            Endpoint::from_shared(format!("unix://{}", socket.display())).map_err(|e| failed(&e))?;
        let channel = endpoint.connect().await.map_err(|e| failed(&e))?;
        Ok(HostSide {
            agent,
            client: AgentClient::new(channel),
            shutdown: Some(shutdown),
            server: Some(server),
        })
    }
}

fn attach_failed(agent: &Agent, ring: &str, e: &dyn std::fmt::Display) -> RunError {
    RunError::Agent { host: agent.name().into(), ring: ring.into(), reason: e.to_string() }
}
