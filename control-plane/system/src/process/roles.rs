//! The roles of a system's processes: the switch, one host's agent with its NIC, or the controller.

use super::alive::Watchdog;
use super::layout::read_layout;
use super::log::{self, Log};
use super::restart::Recipe;
use super::troubles::follow;
use super::{agent, switch};
use p4runtime_proto::Address;
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use zsr::{Place, PlaceError, lock::Lock};
use zsr_controller::store::FileStore;
use zsr_link::LinkError;
use zsr_plan::dataplane::FIRST_RESERVED_PORT;
use zsr_plan::p4::{ArtifactError, Artifacts};
use zsr_tls::{CERTIFICATE_ENDS, Identity, IdentityError, Peer, agent_name, switch_name};
use zsr_topology::{Layout, Switch, SwitchKind, Topology};

/// How long a controller waits for its switch to come up.
const SWITCH: Duration = Duration::from_secs(10);

/// Time between two attempts to learn about the switch's ports.
const AGAIN: Duration = Duration::from_millis(200);

/// The role of this process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// The switch of the topology, the first one if there is a standby.
    Switch,
    /// The switch that takes over when the other one dies.
    Standby {
        /// The switch's name.
        name: String,
    },
    /// Agent and NIC of a host.
    Agent {
        /// The host's name.
        host: String,
        /// The agent's address, in place of the topology's.
        listen: Option<SocketAddr>,
    },
    /// The controller.
    Controller,
}

impl Role {
    /// The process's name, which its pid file and log have, too.
    pub fn process(&self) -> String {
        match self {
            Role::Switch => "switch".into(),
            Role::Standby { name } => format!("switch.{name}"),
            Role::Agent { host, .. } => format!("agent.{host}"),
            Role::Controller => "controller".into(),
        }
    }
}

/// The reason why a process could not run.
#[derive(Debug, thiserror::Error)]
pub enum RoleError {
    /// The system's folder.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The process runs already.
    #[error("the {process} of system `{system}` runs already: {source}")]
    Twice {
        /// The process.
        process: String,
        /// The system.
        system: String,
        /// The running process.
        source: std::io::Error,
    },
    /// More or fewer switches than one.
    #[error("the topology has {0} switches; a system of processes has exactly one")]
    Switches(usize),
    /// No such switch.
    #[error("the topology has no standby switch `{0}`: expected standby: true at that switch")]
    NoStandby(String),
    /// No such host.
    #[error("the topology has no host `{0}`, or the host no link")]
    NoHost(String),
    /// A port number that the program uses itself.
    #[error("link `{link}` uses port {port}; ports from {FIRST_RESERVED_PORT} on belong to the switch")]
    ReservedPort {
        /// The link.
        link: String,
        /// The link's port.
        port: u32,
    },
    /// A host's NIC.
    #[error("host `{host}`: {reason}")]
    Nic {
        /// The host.
        host: String,
        /// The fault, and the change that is necessary.
        reason: String,
    },
    /// An agent can't listen.
    #[error(
        "host `{host}`: its agent can't listen at {address}: {source}; run it on the machine that has this address, or say \
         where to listen with --listen"
    )]
    AgentListen {
        /// The host.
        host: String,
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// The controller can't listen.
    #[error(
        "the controller can't listen at {address}: {source}; --listen takes an address of this machine, and a free port"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// A bmv2.
    #[error(transparent)]
    Bmv2(#[from] zsr_bmv2::Bmv2Error),
    /// A bmv2 that should run, but does not answer.
    #[error(
        "switch `{switch}`: no P4Runtime server at {address}: {source}; start bmv2 there (--grpc-server-addr {address})"
    )]
    NoP4Runtime {
        /// The switch.
        switch: String,
        /// The address of its server.
        address: SocketAddr,
        /// The system's error.
        source: std::io::Error,
    },
    /// A bmv2 without a source of ticks.
    #[error(
        "switch `{0}`: nobody can send it ticks: name its packet stream, or an interface for ticks, in the topology"
    )]
    NoTicks(String),
    /// The system's layout.
    #[error("{file}: {reason}", file = file.display())]
    Layout {
        /// The file of the layout.
        file: PathBuf,
        /// The error.
        reason: String,
    },
    /// An address at which everybody could command the system.
    #[error("{0}")]
    Exposed(String),
    /// A certificate.
    #[error(transparent)]
    Identity(#[from] IdentityError),
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
    Controller(#[from] zsr_controller::StartError),
    /// Other errors, in words.
    #[error("{0}")]
    Other(String),
}

pub(super) fn other(what: &'static str) -> impl Fn(&dyn std::fmt::Display) -> RoleError {
    move |e| RoleError::Other(format!("{what}: {e}"))
}

/// Runs `role` of the system at `place` until `stop` turns true. `ready` is called once it can be used. A restart makes
/// the process log as `log` says.
///
/// # Errors
/// When it cannot run, or runs already.
pub fn run(
    role: &Role,
    place: &Place,
    topology: &Topology,
    artifacts: Option<&Path>,
    log: &Log,
    stop: watch::Receiver<bool>,
    ready: impl FnOnce(),
) -> Result<(), RoleError> {
    // Checked before there are files of a process that never ran.
    if let Role::Agent { host, .. } = role
        && !topology.hosts.iter().any(|h| h.name == *host)
    {
        return Err(RoleError::NoHost(host.clone()));
    }
    if let Role::Standby { name } = role
        && topology.standby().is_none_or(|standby| standby.name != *name)
    {
        return Err(RoleError::NoStandby(name.clone()));
    }
    let process = role.process();
    let _lock = Lock::take(&place.pid(&process)).map_err(|source| match source.kind() {
        ErrorKind::AddrInUse => RoleError::Twice { process, system: place.name().to_owned(), source },
        _ => RoleError::Place(PlaceError::Io { path: place.pid(&role.process()), source }),
    })?;
    let switches = topology.switches.iter().filter(|s| !s.standby).count();
    if switches != 1 {
        return Err(RoleError::Switches(switches));
    }
    let recipe = Recipe::new(role, topology, artifacts, log);
    let ready = || {
        // A process that could not start leaves no recipe for a restart.
        if let Err(e) = recipe.write(place) {
            let file = place.recipe(&role.process());
            tracing::warn!("warning: {}: {e}; zsr restart will not know this process", file.display());
        }
        ready();
    };
    let mut topology = topology.clone();
    let layout = read_layout(place).map_err(RoleError::Place)?;
    if let Some(layout) = &layout {
        let wrong = |reason| RoleError::Layout { file: place.layout_file(), reason };
        topology.lay_out(layout).map_err(wrong)?;
    }
    if let [Switch { kind: SwitchKind::Tofino(_), artifacts: of_chip, .. }] = topology.switches.as_mut_slice()
        && let Some(folder) = artifacts
    {
        *of_chip = Some(folder.to_owned());
    }
    let topology = &topology;
    let Layout { listen: listen_at, journal, .. } = layout.unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        // Threads for calls that block are few, and soon gone.
        .max_blocking_threads(4)
        .thread_keep_alive(Duration::from_millis(100))
        .enable_all()
        .build()
        .map_err(|e| other("starting threads")(&e))?;
    runtime.block_on(async {
        match role {
            Role::Switch => switch::run(place, &topology.of_switch(0), 0, stop, ready).await,
            Role::Standby { .. } => switch::run(place, &topology.of_switch(1), 1, stop, ready).await,
            Role::Agent { host, listen } => agent::run(place, topology, host, *listen, stop, ready).await,
            Role::Controller => {
                // One in the system's folder has the lock of the process.
                let _lock = journal.as_deref().map(lock_journal).transpose()?;
                let journal = journal.unwrap_or_else(|| place.journal());
                control(place, topology, artifacts, (&journal, listen_at), stop, ready).await
            }
        }
    })
}

/// A journal that lies elsewhere belongs to one controller of the machine at a time.
fn lock_journal(journal: &Path) -> Result<Lock, RoleError> {
    let mut path = journal.as_os_str().to_owned();
    path.push(".lock");
    let path = PathBuf::from(path);
    Lock::take(&path).map_err(|e| match e.kind() {
        ErrorKind::AddrInUse => {
            RoleError::Other(format!("--journal {}: another controller writes it", journal.display()))
        }
        _ => RoleError::Other(format!("--journal {}: {}: {e}", journal.display(), path.display())),
    })
}

pub(super) async fn ended(mut stop: watch::Receiver<bool>) {
    // If nobody can stop the process, that counts as a stop.
    let _ = stop.wait_for(|&stop| stop).await;
}

/// A socket at `path`; a socket that a dead process has left is replaced. The caller holds the process's lock.
pub(super) fn listen(path: &Path) -> Result<UnixListener, RoleError> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(RoleError::Other(format!("{}: {e}", path.display())));
        }
        _ => {}
    }
    UnixListener::bind(path).map_err(|e| RoleError::Other(format!("{}: {e}", path.display())))
}

/// The certificate of a part of the system, if its parts speak TLS at addresses.
pub(super) fn identity(topology: &Topology, part: &str) -> Result<Option<Identity>, RoleError> {
    let Some(folder) = &topology.tls else { return Ok(None) };
    Ok(Some(Identity::open(&folder.join(format!("{part}{CERTIFICATE_ENDS}")))?))
}

/// Whether a part of the system may listen at `address`.
pub(super) fn exposed(topology: &Topology, what: &str, address: SocketAddr) -> Result<(), RoleError> {
    topology.may_listen(what, address).map_err(RoleError::Exposed)?;
    if topology.tls.is_none() {
        tracing::warn!(
            "warning: {what} listens at {address} without TLS: whoever reaches that can do everything"
        );
    }
    Ok(())
}

/// Makes a file that may not grow any more (`ulimit -f`) an error of the write, as a full disk is, and not the end of
/// the process.
fn take_limits_as_errors() {
    // A signal that is listened to ends nothing, and this signal is listened to for as long as the process lives.
    let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
}

async fn control(
    place: &Place,
    topology: &Topology,
    artifacts: Option<&Path>,
    (journal, listen_at): (&Path, Option<SocketAddr>),
    stop: watch::Receiver<bool>,
    ready: impl FnOnce(),
) -> Result<(), RoleError> {
    take_limits_as_errors();
    // Errors of the command are reported before slow steps begin.
    let spec = &topology.switches[0];
    let is_away = listen_at.is_some()
        || topology.switches.iter().any(|s| s.listen.is_some())
        || topology.hosts.iter().any(|h| h.agent.is_some());
    let identity = if is_away { identity(topology, "controller")? } else { None };
    let outside = match listen_at {
        Some(address) => {
            exposed(topology, "the controller", address)?;
            Some(listen_outside(place, address).await?)
        }
        None => None,
    };
    let secured = |address: Address, name: String| match (address, &identity) {
        (Address::Tcp(at), Some(identity)) => {
            Peer { address: at.to_string(), name, identity: identity.clone() }.into()
        }
        (address, _) => address,
    };
    let artifacts = match artifacts.or(spec.artifacts.as_deref()) {
        // For a chip, these are the chip's artifacts; the built-in program has the names of the plan.
        _ if spec.kind.tofino().is_some() => Artifacts::built_in()?,
        Some(folder) => Artifacts::load(folder)?,
        None => Artifacts::built_in()?,
    };
    let agents = topology.hosts.iter().enumerate().map(|(number, host)| match host.agent {
        // Programs attach on the agent's machine.
        Some(address) => (secured(Address::Tcp(address), agent_name(&host.name)), None),
        None => (Address::Unix(place.agent(number)), Some(place.programs(number))),
    });
    let mut seats = seats(place, topology, secured).await?.into_iter();
    let setup = zsr_controller::Setup {
        name: place.name().to_owned(),
        topology,
        artifacts: &artifacts,
        switch: seats.next().ok_or(RoleError::Switches(0))?,
        standby: seats.next(),
        agents: agents.collect(),
        seed: None,
        journal: Some(Box::new(FileStore::new(journal))),
    };
    let controller = zsr_controller::start(setup).await.map_err(|e| match spec.kind {
        SwitchKind::Soft | SwitchKind::Tofino(_) => RoleError::Controller(e),
        SwitchKind::Bmv2(_) => on_bmv2(e, spec.device_id),
    })?;
    let listener = listen(&place.controller())?;
    let (rounds, tells, lists) = (controller.clone(), controller.clone(), controller.clone());
    Watchdog {
        process: format!("the controller of system `{}`", place.name()),
        round: Box::new(move || rounds.come_round()),
        service: Some(place.controller()),
        watched: vec![controller.watched_turn()],
        tell: Box::new(move |one, news| tells.tell_late(one, news)),
        under_way: Box::new(move || lists.under_way()),
    }
    .start()?;
    let (place_of_ports, told) = (place.clone(), controller.clone());
    tokio::spawn(async move {
        loop {
            let ports = place_of_ports.captures_at_switch(told.active_switch());
            // An error: the switch's process is not there, which others report.
            let _ = follow(&ports, |troubled| told.ports_are(&troubled)).await;
            tokio::select! {
                () = told.stopped() => return,
                () = tokio::time::sleep(AGAIN) => {}
            }
        }
    });
    if let Some(outside) = outside {
        let controller = controller.clone();
        tokio::spawn(async move {
            let served = match identity {
                Some(identity) => zsr_controller::serve_tls(controller, outside, identity).await,
                None => zsr_controller::serve_tcp(controller, outside).await,
            };
            if let Err(e) = served {
                tracing::error!("the controller's server for other machines has ended: {e}");
            }
        });
    }
    ready();
    let stopping = controller.clone();
    tokio::spawn(async move {
        ended(stop).await;
        stopping.stop();
    });
    let served = zsr_controller::serve(controller, listener).await;
    let _ = std::fs::remove_file(place.controller());
    let _ = std::fs::remove_file(place.controller_address());
    served.map_err(|e| other("the controller's server")(&e))
}

/// Listens for programs on other machines, and writes the address down, as the port may be any free one.
async fn listen_outside(place: &Place, address: SocketAddr) -> Result<TcpListener, RoleError> {
    let refused = |source| RoleError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let file = place.controller_address();
    std::fs::write(&file, format!("{address}\n"))
        .map_err(|e| RoleError::Other(format!("{}: {e}", file.display())))?;
    log::tell(&format!("the controller listens at {address}"));
    Ok(listener)
}

/// An explanation for a refusal by bmv2, which is short of words.
fn on_bmv2(e: zsr_controller::StartError, device: u64) -> RoleError {
    let said = e.to_string();
    let advice = if said.contains("assign device") {
        format!(
            "it has another device id than {device}: start it with --device-id {device}, or put p4runtime: {{device_id: N}} \
             at the switch in the topology"
        )
    } else if said.contains("loading the P4 program") || said.contains("writing table entries") {
        "bmv2 does not take this program (some versions say so only at the first entry, and why only on their standard \
         output): it has to be made by p4c-bm2-ss for v1model, and bmv2 be simple_switch_grpc 1.15 or newer"
            .to_owned()
    } else {
        return RoleError::Controller(e);
    };
    RoleError::Other(format!("{said}; {advice}"))
}

/// The addresses of the P4Runtime servers of the switch and its standby, once one of them listens.
async fn seats(
    place: &Place,
    topology: &Topology,
    secured: impl Fn(Address, String) -> Address,
) -> Result<Vec<zsr_controller::Seat>, RoleError> {
    let begun = Instant::now();
    let said = |number: usize| {
        let text = std::fs::read_to_string(place.p4runtime(number));
        text.ok().and_then(|text| text.trim().parse().ok())
    };
    let of = |(number, switch): (usize, &Switch)| {
        // A server that is not there yet has not said its address; it is asked at the expected address, until it has.
        let address = said(number).or_else(|| switch.listen.map(Address::Tcp));
        let address = address.unwrap_or_else(|| Address::Unix(place.p4runtime_socket(number)));
        let p4runtime = match switch.kind {
            SwitchKind::Soft => secured(address, switch_name(&switch.name)),
            // Servers of others.
            SwitchKind::Bmv2(_) | SwitchKind::Tofino(_) => address,
        };
        zsr_controller::Seat { p4runtime, listens: Some(place.p4runtime(number)) }
    };
    loop {
        if (0..topology.switches.len()).any(|number| said(number).is_some()) {
            return Ok(topology.switches.iter().enumerate().map(of).collect());
        }
        if begun.elapsed() > SWITCH {
            let file = place.p4runtime(0);
            let file = file.display();
            return Err(RoleError::Other(format!(
                "no switch is up: {file} does not say where; start it with zsr switch"
            )));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
