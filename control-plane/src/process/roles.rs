//! What a process of a system runs: the switch, one host's agent with its NIC, or the controller.

use super::lock::Lock;
use super::place::{Place, PlaceError};
use crate::controller;
use crate::p4::{ArtifactError, Artifacts};
use crate::plan::{FIRST_RESERVED_PORT, ticks};
use crate::topology::{Host, Link, Topology};
use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::net::UnixListener;
use tokio::sync::watch;
use zsr_host_agent::agent::Agent;
use zsr_host_agent::nic::{NicNode, SoftNicBackend, nic_queue};
use zsr_link::{FaultRates, Faulty, LinkError, LoopConfig, PortLoop, UnixPort, Waker};
use zsr_soft_nic::{Nic, NicConfig};
use zsr_soft_switch::p4runtime::{P4RuntimeServer, bind, empty_program};
use zsr_soft_switch::{Switch, SwitchConfig, SwitchNode, control_queue};
use zsr_wire::Mac;

/// How long a controller waits for its switch to come up.
const SWITCH: Duration = Duration::from_secs(10);

/// Which process this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// The switch of the topology.
    Switch,
    /// Agent and NIC of a host, by its name.
    Agent(String),
    /// The controller.
    Controller,
}

impl Role {
    /// The process' name: that of its pid file and its log.
    pub fn process(&self) -> String {
        match self {
            Role::Switch => "switch".into(),
            Role::Agent(host) => format!("agent.{host}"),
            Role::Controller => "controller".into(),
        }
    }
}

/// Why a process could not run.
#[derive(Debug, thiserror::Error)]
pub enum RoleError {
    /// Its folder.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// It runs already.
    #[error("the {process} of system `{system}` runs already: {source}")]
    Twice {
        /// Which.
        process: String,
        /// Of what.
        system: String,
        /// Who.
        source: std::io::Error,
    },
    /// More or fewer switches than one.
    #[error("the topology has {0} switches; a system of processes has exactly one")]
    Switches(usize),
    /// No such host.
    #[error("the topology has no host `{0}`, or the host no link")]
    NoHost(String),
    /// A port number that the program uses itself.
    #[error("link `{link}` uses port {port}; ports from {FIRST_RESERVED_PORT} on belong to the switch")]
    ReservedPort {
        /// The link.
        link: String,
        /// Its port.
        port: u32,
    },
    /// A link.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A link's faults.
    #[error(transparent)]
    Fault(#[from] zsr_link::FaultError),
    /// The compiled program.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// The controller.
    #[error(transparent)]
    Controller(#[from] controller::StartError),
    /// The rest, in words.
    #[error("{0}")]
    Other(String),
}

fn other(what: &'static str) -> impl Fn(&dyn std::fmt::Display) -> RoleError {
    move |e| RoleError::Other(format!("{what}: {e}"))
}

/// Runs `role` of the system at `place` until `stop` turns true. `ready` is called once it can be used.
///
/// # Errors
/// When it cannot run, or runs already.
pub fn run(
    role: &Role,
    place: &Place,
    topology: &Topology,
    artifacts: Option<&Path>,
    stop: watch::Receiver<bool>,
    ready: impl FnOnce(),
) -> Result<(), RoleError> {
    let process = role.process();
    let _lock = Lock::take(&place.pid(&process)).map_err(|source| RoleError::Twice {
        process,
        system: place.name().to_owned(),
        source,
    })?;
    if topology.switches.len() != 1 {
        return Err(RoleError::Switches(topology.switches.len()));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|e| other("starting threads")(&e))?;
    runtime.block_on(async {
        match role {
            Role::Switch => switch(place, topology, stop, ready).await,
            Role::Agent(host) => agent(place, topology, host, stop, ready).await,
            Role::Controller => control(place, topology, artifacts, stop, ready).await,
        }
    })
}

async fn ended(mut stop: watch::Receiver<bool>) {
    // Nobody who could stop it is as good as a stop.
    let _ = stop.wait_for(|&stop| stop).await;
}

/// A socket at `path`; one that a dead process has left is replaced. The caller holds the process' lock.
fn listen(path: &Path) -> Result<UnixListener, RoleError> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(RoleError::Other(format!("{}: {e}", path.display())));
        }
        _ => {}
    }
    UnixListener::bind(path).map_err(|e| RoleError::Other(format!("{}: {e}", path.display())))
}

async fn switch(
    place: &Place,
    topology: &Topology,
    stop: watch::Receiver<bool>,
    ready: impl FnOnce(),
) -> Result<(), RoleError> {
    let spec = &topology.switches[0];
    let program = empty_program().map_err(|e| other("the switch's empty program")(&e))?;
    let config = SwitchConfig { cpu_port: spec.cpu_port as u16, ..Default::default() };
    let mut switch = Switch::new(&program, config);
    let timer = ticks::timer(spec.tick);
    switch.add_timer(timer).map_err(|e| other("the switch's timer")(&e))?;
    let waker = Waker::new()?;
    let wake = waker.clone();
    let (handle, control) = control_queue(move || wake.wake());
    let mut node = PortLoop::new(SwitchNode { switch, control }, &waker, LoopConfig::default())?;
    node.on_trouble(|port, e| eprintln!("port {port}: {e}"));
    for (number, link) in topology.links.iter().enumerate() {
        if link.port >= FIRST_RESERVED_PORT {
            return Err(RoleError::ReservedPort { link: link.name.clone(), port: link.port });
        }
        let (host_end, own) = place.link(number);
        node.add_port(link.port as u16, with_faults(UnixPort::open(&own, &host_end)?, link, topology)?)?;
    }
    let listener = bind(spec.listen).await.map_err(|e| other("the P4Runtime server")(&e))?;
    let address = listener.local_addr().map_err(|e| other("the P4Runtime server")(&e))?;
    let node = node.spawn("zsr-switch").map_err(|e| other("starting a thread")(&e))?;
    let device = NonZeroU64::new(spec.device_id).unwrap_or(NonZeroU64::MIN);
    let server = tokio::spawn(P4RuntimeServer::new(handle, device).serve(listener, ended(stop)));
    write_whole(&place.p4runtime(), &address.to_string())?;
    ready();
    let served = server.await.map_err(|e| other("the P4Runtime server")(&e))?;
    let end = node.stop();
    let _ = std::fs::remove_file(place.p4runtime());
    served.map_err(|e| other("the P4Runtime server")(&e))?;
    end.error.map_or(Ok(()), |e| Err(e.into()))
}

fn with_faults(port: UnixPort, link: &Link, topology: &Topology) -> Result<zsr_link::AnyPort, RoleError> {
    let f = &link.faults;
    if f.is_none() {
        return Ok(Box::new(port));
    }
    let rates = FaultRates {
        loss: f.loss,
        duplicate: f.duplicate,
        reorder: f.reorder,
        corrupt: f.corrupt,
        ..Default::default()
    };
    let seed = f.seed.unwrap_or(topology.seed ^ u64::from(link.port) << 32);
    Ok(Box::new(Faulty::new(port, rates, rates, seed)?))
}

/// A host of the topology with its number, and that of its link.
fn host_of<'t>(topology: &'t Topology, name: &str) -> Option<(usize, &'t Host, usize)> {
    let (number, host) = topology.hosts.iter().enumerate().find(|(_, h)| h.name == name)?;
    let link = topology.links.iter().position(|l| l.host == number)?;
    Some((number, host, link))
}

async fn agent(
    place: &Place,
    topology: &Topology,
    name: &str,
    stop: watch::Receiver<bool>,
    ready: impl FnOnce(),
) -> Result<(), RoleError> {
    let (number, host, link) = host_of(topology, name).ok_or_else(|| RoleError::NoHost(name.to_owned()))?;
    let config = NicConfig::new(Mac(host.mac.0), host.ip);
    let waker = Waker::new()?;
    let wake = waker.clone();
    let (handle, queue) = nic_queue(move || wake.wake());
    let backend =
        SoftNicBackend::new("soft0", handle, &config, host.mtu).map_err(|e| other("the NIC")(&e))?;
    let agent = Agent::with_shared_memory(&host.name, backend, None);
    let mut node = PortLoop::new(NicNode { nic: Nic::new(config), queue }, &waker, LoopConfig::default())?;
    node.on_trouble(|_, e| eprintln!("the link: {e}"));
    let (own, switch_end) = place.link(link);
    node.add_port(0, Box::new(UnixPort::open(&own, &switch_end)?))?;
    let (calls, programs) = (listen(&place.agent(number))?, listen(&place.programs(number))?);
    let node = node.spawn("zsr-nic").map_err(|e| other("starting a thread")(&e))?;
    let attaching = agent.clone();
    let until = ended(stop.clone());
    let attaching = tokio::spawn(async move { attaching.serve_programs(programs, until).await });
    ready();
    let served = agent.serve_unix(calls, ended(stop)).await;
    let _ = attaching.await;
    let down = agent.clone();
    // Programs in rings are told; keys and queue pairs go.
    let _ = tokio::task::spawn_blocking(move || down.shutdown()).await;
    let end = node.stop();
    for path in [place.agent(number), place.programs(number)] {
        let _ = std::fs::remove_file(path);
    }
    served.map_err(|e| other("the agent's server")(&e))?;
    end.error.map_or(Ok(()), |e| Err(e.into()))
}

async fn control(
    place: &Place,
    topology: &Topology,
    artifacts: Option<&Path>,
    stop: watch::Receiver<bool>,
    ready: impl FnOnce(),
) -> Result<(), RoleError> {
    let spec = &topology.switches[0];
    let artifacts = match artifacts.or(spec.artifacts.as_deref()) {
        Some(folder) => Artifacts::load(folder)?,
        None => Artifacts::built_in()?,
    };
    let agents = (0..topology.hosts.len())
        .map(|host| (format!("unix://{}", place.agent(host).display()), Some(place.programs(host))));
    let setup = controller::Setup {
        name: place.name().to_owned(),
        topology,
        artifacts: &artifacts,
        p4runtime: address_of_switch(&place.p4runtime()).await?,
        agents: agents.collect(),
        journal: Some(&place.journal()),
    };
    let controller = controller::start(setup).await?;
    let listener = listen(&place.controller())?;
    ready();
    let stopping = controller.clone();
    tokio::spawn(async move {
        ended(stop).await;
        stopping.stop();
    });
    let served = controller::serve(controller, listener).await;
    let _ = std::fs::remove_file(place.controller());
    served.map_err(|e| other("the controller's server")(&e))
}

/// Where the switch's P4Runtime server listens, once it does.
async fn address_of_switch(file: &Path) -> Result<SocketAddr, RoleError> {
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(file);
        if let Some(address) = text.as_ref().ok().and_then(|t| t.trim().parse().ok()) {
            return Ok(address);
        }
        if begun.elapsed() > SWITCH {
            let file = file.display();
            return Err(RoleError::Other(format!(
                "no switch is up: {file} does not say where; start it with zsr switch"
            )));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Writes a file that is there whole or not at all.
fn write_whole(path: &Path, text: &str) -> Result<(), RoleError> {
    let fresh: PathBuf = path.with_extension("new");
    let written = std::fs::File::create(&fresh)
        .and_then(|mut f| f.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&fresh, path));
    written.map_err(|e| RoleError::Other(format!("{}: {e}", path.display())))
}
