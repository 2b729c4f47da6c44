//! The switch, and what the controller does for one topology.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use clap::Args;
use p4runtime_proto::{Address, local};
use tonic::transport::{Channel, Endpoint};
use zsr_api::{
    agent::agent_client::AgentClient,
    agent::{GetRingRequest, ListRingsRequest},
};
use zsr_controller::{Seat, Setup};
use zsr_link::{AnyPort, FaultRates, Faulty, LoopConfig, PortLoop, Waker};
use zsr_p4runtime_server::P4RuntimeServer;
use zsr_plan::dataplane::model::Flow;
use zsr_plan::from_topology::create_flow_request;
use zsr_plan::p4::Artifacts;
use zsr_soft_switch::{SwitchNode, control_queue};
use zsr_system::parts::bare_switch;
use zsr_topology::{Host, Topology};
use zsr_wire::ring::Flags;

use super::Result;
use super::ports::{Link, Named, Spoil};

/// How long agents may take to come up.
const START: Duration = Duration::from_secs(60);

#[derive(Args)]
pub struct FabricOptions {
    /// A host's agent: NAME=ADDRESS:PORT.
    #[arg(long = "agent")]
    agents: Vec<Named<SocketAddr>>,
    /// A host's link: NAME=if:INTERFACE or NAME=unix:LOCAL,PEER.
    #[arg(long = "port")]
    ports: Vec<Named<Link>>,
    /// Probability that a frame is lost, each way on every link.
    #[arg(long, default_value_t = 0.0)]
    loss: f64,
    /// Seed of the losses.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Have the switch break the ICRC of the packets that it rewrites: NICs that check it must drop them.
    #[arg(long)]
    spoil_icrc: bool,
    /// Seconds for which nothing may move.
    #[arg(long, default_value_t = 60)]
    patience: u64,
}

type Clients = HashMap<String, AgentClient<Channel>>;

async fn connect(agents: &[Named<SocketAddr>]) -> Result<Clients> {
    let mut clients = HashMap::new();
    for agent in agents {
        let endpoint = Endpoint::from_shared(format!("http://{}", agent.value))?;
        let start = Instant::now();
        let client = loop {
            // A forwarded port takes connections before anybody listens behind it, so only an answer counts.
            let tried = async {
                let mut client = AgentClient::new(endpoint.connect().await?);
                client.list_rings(ListRingsRequest::default()).await?;
                Result::Ok(client)
            };
            match tried.await {
                Ok(client) => break client,
                Err(e) if start.elapsed() > START => return Err(format!("agent {}: {e}", agent.name).into()),
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        };
        clients.insert(agent.name.clone(), client);
    }
    Ok(clients)
}

fn client<'c>(clients: &'c mut Clients, host: &str) -> Result<&'c mut AgentClient<Channel>> {
    clients.get_mut(host).ok_or_else(|| format!("no --agent for host {host}").into())
}

/// Waits until every consumer has popped all and seen the end, and every producer's ring is empty.
async fn finished(flows: &[Flow], clients: &mut Clients, patience: Duration) -> Result<()> {
    let (mut last, mut moved) = (Vec::new(), Instant::now());
    loop {
        let (mut words, mut done) = (Vec::new(), true);
        for ring in flows.iter().flat_map(Flow::rings) {
            let client = client(clients, &ring.host)?;
            let now = client.get_ring(GetRingRequest { name: ring.name.clone() }).await?.into_inner();
            done &= now.head_flags & Flags::CLOSED.0 != 0 && now.head == now.tail;
            words.push((ring.name.clone(), now.head, now.tail, now.head_flags));
        }
        if done {
            return Ok(());
        }
        if words != last {
            (last, moved) = (words, Instant::now());
        } else if moved.elapsed() > patience {
            return Err(
                format!("nothing has moved for {patience:?}; (ring, head, tail, flags): {last:?}").into()
            );
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn port(topology: &Topology, options: &FabricOptions, named: &Named<Link>) -> Result<(u16, AnyPort)> {
    let host = topology.hosts.iter().position(|h| h.name == named.name);
    let host = host.ok_or_else(|| format!("the topology has no host {}", named.name))?;
    let link = topology.link_of(host).ok_or_else(|| format!("host {} has no link", named.name))?;
    let number = link.port as u16;
    let mut port = named.value.open(topology.hosts[host].mtu)?;
    if options.loss > 0.0 {
        let rates = FaultRates { loss: options.loss, ..FaultRates::NONE };
        port = Box::new(Faulty::new(port, rates, rates, options.seed ^ u64::from(number) << 32)?);
    }
    if options.spoil_icrc {
        port = Box::new(Spoil(port));
    }
    Ok((number, port))
}

pub fn run(topology: &Topology, options: &FabricOptions) -> Result<()> {
    // Opened first: hosts may send as soon as their queue pairs are made.
    let ports = options.ports.iter().map(|p| port(topology, options, p)).collect::<Result<Vec<_>>>()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let mut clients = runtime.block_on(connect(&options.agents))?;
    let switch = bare_switch(&topology.switches[0])?;
    let waker = Waker::new()?;
    let to_wake = waker.clone();
    let (handle, control) = control_queue(move || to_wake.wake());
    let mut fabric = PortLoop::new(SwitchNode::new(switch, control), &waker, LoopConfig::default())?;
    for (number, port) in ports {
        fabric.add_port(number, port)?;
    }
    fabric.on_trouble(|port, error| error.iter().for_each(|e| eprintln!("port {port}: {e}")));
    let fabric = fabric.spawn("switch")?;
    let done = runtime.block_on(async {
        let (place, listener) = local();
        let server = P4RuntimeServer::new(handle, NonZeroU64::MIN);
        tokio::spawn(server.serve(listener, std::future::pending()));
        let agent = |host: &Host| {
            let found = options.agents.iter().find(|a| a.name == host.name);
            let found = found.ok_or_else(|| format!("no --agent for host {}", host.name))?;
            Ok((Address::Tcp(found.value), None))
        };
        let setup = Setup {
            name: topology.name.clone(),
            topology,
            artifacts: &Artifacts::built_in()?,
            switch: Seat { p4runtime: place.into(), listens: None },
            standby: None,
            agents: topology.hosts.iter().map(agent).collect::<Result<Vec<_>>>()?,
            seed: None,
            journal: None,
        };
        let controller = zsr_controller::start(setup).await?;
        let (start, mut flows) = (Instant::now(), Vec::new());
        for flow in &topology.flows {
            flows.push(controller.create(create_flow_request(topology, flow)).await?);
        }
        finished(&flows, &mut clients, Duration::from_secs(options.patience)).await?;
        let took = start.elapsed();
        controller.shutdown().await?;
        Result::Ok(took)
    });
    let end = fabric.stop();
    for port in &end.stats.ports {
        println!("{port:?}");
    }
    if let Some(error) = end.error {
        return Err(error.into());
    }
    println!("fabric: OK after {:.2} s", done?.as_secs_f64());
    Ok(())
}
