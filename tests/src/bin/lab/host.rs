//! A host: an agent over a NIC of any kind, and a program for each of its rings.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;

use clap::Args;
use tokio::net::TcpListener;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use zsr_host_agent::agent::{Agent, AgentEvent, EventKind};
use zsr_host_agent::nic::verbs::{VerbsConfig, VerbsNic};
use zsr_host_agent::nic::{NicNode, SoftNicBackend, nic_queue};
use zsr_link::{LoopConfig, LoopThread, PortLoop, Waker};
use zsr_plan::draft::Draft;
use zsr_plan::p4::{Artifacts, Schema};
use zsr_ring::{Cancel, Consumer, PopError, Producer};
use zsr_soft_nic::Nic;
use zsr_system::parts::secret_nic_config;
use zsr_tests::items::{self, Received};
use zsr_topology::Topology;

use super::Result;
use super::ports::Link;

#[derive(Args)]
pub struct HostOptions {
    /// Which host of the topology this is.
    #[arg(long)]
    host: String,
    /// Where the agent listens for the controller.
    #[arg(long)]
    listen: SocketAddr,
    /// Items that each producer ring gets.
    #[arg(long)]
    items: u32,
    /// A soft NIC on this link.
    #[arg(long, conflicts_with = "verbs", required_unless_present = "verbs")]
    link: Option<Link>,
    /// An RDMA device of the system's.
    #[arg(long)]
    verbs: Option<String>,
}

/// The task of a program.
struct Job {
    ring: String,
    /// Number of the ring at the switch, and whether it is a producer's.
    id: u32,
    is_producer: bool,
    item_size: u32,
    /// Numbers of the rings that feed a consumer.
    feeders: Vec<u32>,
    shared: bool,
}

fn jobs(topology: &Topology, host: usize) -> Result<Vec<Job>> {
    let draft = Draft::new(topology, Schema::new(&Artifacts::built_in()?.p4info))?;
    let mut jobs = Vec::new();
    for drafted in draft.rings() {
        let ring = &topology.rings[drafted.index];
        if ring.host == host {
            jobs.push(Job {
                ring: drafted.name.clone(),
                id: drafted.ids.id.into(),
                is_producer: drafted.ids.is_producer,
                item_size: ring.item_size,
                feeders: drafted.feeders.iter().map(|id| u32::from(*id)).collect(),
                shared: drafted.shared,
            });
        }
    }
    Ok(jobs)
}

/// Items that a program has pushed or popped. For popped items there are a hash of their order and the sum of their
/// sequence numbers, to compare consumers.
struct Tally {
    items: u32,
    order: u64,
    sum: u64,
}

fn produce(mut producer: Producer, job: &Job, items: u32) -> Result<Tally> {
    let mut item = vec![0; job.item_size as usize];
    for n in 0..items {
        items::fill(job.id, n, &mut item);
        producer.push(&item)?;
    }
    producer.close();
    Ok(Tally { items, order: 0, sum: 0 })
}

fn consume(mut consumer: Consumer, job: &Job, items: u32) -> Result<Tally> {
    let mut item = vec![0; job.item_size as usize];
    let rings = job.feeders.iter().max().map_or(0, |m| *m as usize + 1);
    let mut received = Received::new(rings, job.item_size, job.shared, |r| job.feeders.contains(&(r as u32)));
    loop {
        match consumer.pop(&mut item) {
            // Panics with what is wrong about the item.
            Ok(()) => received.take(&item),
            Err(PopError::Closed) => break,
            Err(e) => return Err(e.into()),
        }
    }
    let counts: Vec<u32> = received.counts().collect();
    if !job.shared && counts.iter().any(|n| *n != items) {
        return Err(format!("{}: {counts:?} items came, {items} of each were pushed", job.ring).into());
    }
    let mut hasher = DefaultHasher::new();
    received.order.hash(&mut hasher);
    let sum = received.order.iter().map(|name| u64::from(name & 0xff_ffff)).sum();
    Ok(Tally { items: counts.iter().sum(), order: hasher.finish(), sum })
}

async fn happened(events: &mut Receiver<AgentEvent>, kind: EventKind, ring: &str) -> Result<()> {
    loop {
        match events.recv().await {
            Ok(e) if e.kind == kind && e.name == ring => return Ok(()),
            Ok(_) => {}
            Err(e @ (RecvError::Closed | RecvError::Lagged(_))) => return Err(e.into()),
        }
    }
}

async fn program(agent: Agent, job: Job, items: u32, mut events: Receiver<AgentEvent>) -> Result<()> {
    happened(&mut events, EventKind::Connected, &job.ring).await?;
    let at_work = agent.clone();
    let ring = job.ring.clone();
    let done = tokio::task::spawn_blocking(move || {
        if job.is_producer {
            produce(at_work.attach_producer(&job.ring, Cancel::default())?, &job, items)
        } else {
            consume(at_work.attach_consumer(&job.ring, Cancel::default())?, &job, items)
        }
    });
    match done.await? {
        Ok(Tally { items, order, sum }) => println!(
            "{}: {ring}: {items} items, each as it should be, order {order:016x} sum {sum}",
            agent.name()
        ),
        Err(e) => return Err(format!("{ring}: {e}").into()),
    }
    // The NIC answers the switch until the controller has let go of the ring.
    happened(&mut events, EventKind::Destroyed, &ring).await
}

pub fn run(topology: &Topology, options: &HostOptions) -> Result<()> {
    let number = topology.hosts.iter().position(|h| h.name == options.host);
    let number = number.ok_or_else(|| format!("the topology has no host {}", options.host))?;
    let host = &topology.hosts[number];
    let mut running: Option<LoopThread<NicNode>> = None;
    let agent = match (&options.link, &options.verbs) {
        (Some(link), _) => {
            let config = secret_nic_config(topology, number);
            let waker = Waker::new()?;
            let to_wake = waker.clone();
            let (handle, queue) = nic_queue(move || to_wake.wake());
            let node = NicNode::new(Nic::new(config), queue);
            let mut nic = PortLoop::new(node, &waker, LoopConfig::default())?;
            nic.add_port(0, link.open(host.mtu)?)?;
            running = Some(nic.spawn("nic")?);
            Agent::new(&host.name, SoftNicBackend::new("soft0", handle, &config, host.mtu)?)
        }
        (None, device) => {
            let config = VerbsConfig { device: device.clone(), ..VerbsConfig::default() };
            Agent::new(&host.name, VerbsNic::open(&config)?)
        }
    };
    println!("{}: {:?}", host.name, agent.nic());
    let runtime = tokio::runtime::Runtime::new()?;
    let result: Result<()> = runtime.block_on(async {
        let listener = TcpListener::bind(options.listen).await?;
        let serving = agent.clone();
        let mut programs = tokio::task::JoinSet::new();
        for job in jobs(topology, number)? {
            programs.spawn(program(agent.clone(), job, options.items, agent.events()));
        }
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let server = tokio::spawn(async move {
            // Ends when the sender is dropped, after the last answer.
            let stopped = async { drop(stopped.await) };
            serving.serve(listener, stopped).await
        });
        while let Some(done) = programs.join_next().await {
            done??;
        }
        drop(stop);
        Ok(server.await??)
    });
    // Programs that wait in a ring end with it.
    agent.shutdown()?;
    if let Some(running) = running {
        let end = running.stop();
        println!("{}: {:?}", host.name, end.node.nic.stats());
    }
    result?;
    println!("{}: OK", host.name);
    Ok(())
}
