//! The process of the switch: the software switch, or the helpers of a bmv2.

use super::captures::Captures;
use super::cores;
use super::ports;
use super::roles::{RoleError, ended, exposed, identity, listen, other};
use crate::parts::bare_switch;
use p4runtime_proto::Address;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::Path;
use tokio::sync::watch;
use zsr::Place;
use zsr_bmv2::{Bridge, Dataplane, Injector, Ticks};
use zsr_link::{AnyPort, LoopConfig, PortLoop, Waker};
use zsr_p4runtime_server::{Listener, P4RuntimeServer, bind, bind_unix};
use zsr_plan::dataplane::{FIRST_RESERVED_PORT, PORT_TIMER, admin};
use zsr_soft_switch::{SwitchNode, control_queue};
use zsr_topology::{Bmv2, Switch, SwitchKind, Topology};

/// Largest IP packet of a link on which only ticks go.
const TICK_MTU: u32 = 256;

/// Runs switch number `number` of a system; `topology` is that switch's view.
pub(super) async fn run(
    place: &Place,
    topology: &Topology,
    number: usize,
    stop: watch::Receiver<bool>,
    ready: impl FnOnce(),
) -> Result<(), RoleError> {
    let spec = &topology.switches[0];
    if let Some(link) = topology.links.iter().find(|l| l.port >= FIRST_RESERVED_PORT) {
        return Err(RoleError::ReservedPort { link: link.name.clone(), port: link.port });
    }
    let run = match &spec.kind {
        SwitchKind::Soft => soft(place, topology, (number, spec), stop, ready).await,
        SwitchKind::Bmv2(bmv2) => on_bmv2(place, topology, spec, bmv2, stop, ready).await,
        SwitchKind::Tofino(tofino) => on_tofino(place, spec, tofino.address, stop, ready).await,
    };
    let files = [place.p4runtime(number), place.p4runtime_socket(number), place.captures_at_switch(number)];
    for path in files.into_iter().chain([place.packets_socket()]) {
        let _ = std::fs::remove_file(path);
    }
    run
}

/// The switch's ends of all links, and the points at which they can be watched.
fn open_links(place: &Place, topology: &Topology) -> Result<(Vec<(u16, AnyPort)>, Captures), RoleError> {
    let mut captures = Captures::default();
    let mut links = Vec::new();
    for link in &topology.links {
        let point = captures.point(&link.name, link.port, "switch");
        links.push((link.port as u16, ports::at_switch(place, topology, link, point)?));
    }
    Ok((links, captures))
}

async fn soft(
    place: &Place,
    topology: &Topology,
    (number, spec): (usize, &Switch),
    stop: watch::Receiver<bool>,
    ready: impl FnOnce(),
) -> Result<(), RoleError> {
    let switch = bare_switch(spec).map_err(|e| RoleError::Other(e.to_string()))?;
    let waker = Waker::new()?;
    let wake = waker.clone();
    let (handle, control) = control_queue(move || wake.wake());
    let mut node = SwitchNode::new(switch, control);
    node.on_failed_assert(|failed| tracing::warn!("the program: {failed}"));
    let mut node = PortLoop::new(node, &waker, LoopConfig::default())?;
    if let Some(cores) = cores::divide(place, topology) {
        node.keep_to(cores.switch);
    }
    let (links, captures) = open_links(place, topology)?;
    node.on_trouble(captures.troubles().teller());
    for (port, link) in links {
        node.add_port(port, link)?;
    }
    let (listener, address) = p4runtime(place, topology, (number, spec)).await?;
    let node = node.spawn("zsr-switch").map_err(|e| other("starting a thread")(&e))?;
    let device = NonZeroU64::new(spec.device_id).unwrap_or(NonZeroU64::MIN);
    let captures = captures.serve(listen(&place.captures_at_switch(number))?);
    let server = P4RuntimeServer::new(handle, device).keep_alive(spec.keep_alive);
    let server = tokio::spawn(server.serve(listener, ended(stop)));
    write_whole(&place.p4runtime(number), &address.to_string())?;
    ready();
    let served = server.await.map_err(|e| other("the P4Runtime server")(&e))?;
    let error = node.stop().error;
    captures.end();
    served.map_err(|e| other("the P4Runtime server")(&e))?;
    error.map_or(Ok(()), |e| Err(e.into()))
}

/// The address at which the P4Runtime server listens.
async fn p4runtime(
    place: &Place,
    topology: &Topology,
    (number, spec): (usize, &Switch),
) -> Result<(Listener, Address), RoleError> {
    let Some(at) = spec.listen else {
        let path = place.p4runtime_socket(number);
        let listener = bind_unix(&path).map_err(|e| other("the P4Runtime server")(&e))?;
        return Ok((listener.into(), Address::Unix(path)));
    };
    exposed(topology, &format!("the P4Runtime server of switch `{}`", spec.name), at)?;
    let identity = identity(topology, "switch")?;
    let listener = bind(at).await.map_err(|e| other("the P4Runtime server")(&e))?;
    let address = listener.local_addr().map_err(|e| other("the P4Runtime server")(&e))?;
    let listener = match identity {
        Some(identity) => Listener::Tls(listener, identity),
        None => listener.into(),
    };
    Ok((listener, address.into()))
}

/// The timer of the software switch, for a bmv2, which has none.
fn timer(spec: &Switch) -> Ticks {
    let (packet, number_at) = (admin::timer_packet(0), Some(admin::NEXT));
    Ticks { port: PORT_TIMER, interval: spec.tick, packet, number_at }
}

async fn on_bmv2(
    place: &Place,
    topology: &Topology,
    spec: &Switch,
    bmv2: &Bmv2,
    stop: watch::Receiver<bool>,
    ready: impl FnOnce(),
) -> Result<(), RoleError> {
    let (process, p4runtime, packets) = match bmv2 {
        Bmv2::Running { address, packets } => (None, Address::from(*address), packets.map(Address::from)),
        Bmv2::Started { binary } => {
            let process = tokio::select! {
                process = start(place, spec, binary.as_deref()) => process?,
                () = ended(stop.clone()) => return Ok(()),
            };
            let (address, packets) = (process.p4runtime().clone(), process.dataplane().clone());
            (Some(process), address, Some(packets))
        }
    };
    let (mut bridge, mut injector) = (None, None);
    let watched;
    match (packets, &spec.tick_interface) {
        (Some(packets), _) => {
            let (links, captures) = open_links(place, topology)?;
            let tell = captures.troubles().teller();
            watched = captures.serve(listen(&place.captures_at_switch(0))?);
            let mut dataplane = Dataplane::connect(packets, spec.device_id).await?;
            dataplane.free().await?;
            bridge = Some(Bridge::start(dataplane, links, Some(timer(spec)), tell)?);
        }
        (None, Some(interface)) => {
            let link = ports::on_interface(interface, TICK_MTU, None)?;
            // The ports are bmv2's own: nothing here can be captured, and one link can go down.
            let captures = Captures::default();
            injector = Some(Injector::start(link, timer(spec), captures.troubles().teller())?);
            watched = captures.serve(listen(&place.captures_at_switch(0))?);
        }
        (None, None) => return Err(RoleError::NoTicks(spec.name.clone())),
    }
    if let Address::Tcp(address) = p4runtime {
        reachable(&spec.name, address).await?;
    }
    write_whole(&place.p4runtime(0), &p4runtime.to_string())?;
    ready();
    let process_ended = async {
        match &process {
            Some(process) => process.wait().await,
            None => std::future::pending().await,
        }
    };
    let bridge_ended = async {
        match &bridge {
            Some(bridge) => bridge.ended().await,
            None => std::future::pending().await,
        }
    };
    let end = tokio::select! {
        () = ended(stop) => Ok(()),
        e = process_ended => Err(RoleError::Bmv2(e)),
        why = bridge_ended => match &process {
            // The end of bmv2 is the reason, and comes with its last words.
            Some(process) => match tokio::time::timeout(LAST_WORDS, process.wait()).await {
                Ok(e) => Err(RoleError::Bmv2(e)),
                Err(_) => Err(RoleError::Other(why)),
            },
            None => Err(RoleError::Other(why)),
        },
    };
    drop((bridge, injector));
    watched.end();
    if let Some(process) = process {
        tokio::task::block_in_place(|| process.stop());
    }
    end
}

/// A chip runs by itself: its process only tells its address.
async fn on_tofino(
    place: &Place,
    spec: &Switch,
    address: SocketAddr,
    stop: watch::Receiver<bool>,
    ready: impl FnOnce(),
) -> Result<(), RoleError> {
    tokio::net::TcpStream::connect(address).await.map_err(|e| {
        RoleError::Other(format!(
            "switch `{}`: no control server at {address}: {e}; start bf_switchd or Stratum there with the program (docs/tofino.md)",
            spec.name
        ))
    })?;
    write_whole(&place.p4runtime(0), &address.to_string())?;
    ready();
    ended(stop).await;
    Ok(())
}

/// How long a bmv2 may take to end after it has closed its streams.
const LAST_WORDS: std::time::Duration = std::time::Duration::from_secs(2);

async fn start(place: &Place, spec: &Switch, binary: Option<&Path>) -> Result<zsr_bmv2::Bmv2, RoleError> {
    let binary = match binary {
        Some(binary) => binary.to_owned(),
        None => zsr_bmv2::find_binary()?,
    };
    let options = zsr_bmv2::Options {
        device_id: spec.device_id,
        cpu_port: Some(spec.cpu_port as u16),
        p4runtime: Some(spec.listen.map_or(Address::Unix(place.p4runtime_socket(0)), Address::Tcp)),
        dataplane: Some(Address::Unix(place.packets_socket())),
        ..zsr_bmv2::Options::new(binary)
    };
    Ok(zsr_bmv2::Bmv2::start(options).await?)
}

async fn reachable(switch: &str, address: SocketAddr) -> Result<(), RoleError> {
    match tokio::net::TcpStream::connect(address).await {
        Ok(_) => Ok(()),
        Err(source) => Err(RoleError::NoP4Runtime { switch: switch.to_owned(), address, source }),
    }
}

/// Writes a file completely or not at all.
fn write_whole(path: &Path, text: &str) -> Result<(), RoleError> {
    let written = super::layout::write_whole(path, text.as_bytes());
    written.map_err(|e| RoleError::Other(format!("{}: {e}", path.display())))
}
