//! The process of a host: its agent, and its NIC if that is a soft one.

use super::alive::Watchdog;
use super::captures::{Captures, Serving};
use super::cores;
use super::ports;
use super::roles::{RoleError, ended, exposed, identity, listen, other};
use crate::parts::secret_nic_config;
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::sync::watch;
use zsr::Place;
use zsr_api::machine::Machine;
use zsr_controller::watchdog::News;
use zsr_host_agent::agent::Agent;
use zsr_host_agent::nic::verbs::{VerbsConfig, VerbsNic};
use zsr_host_agent::nic::{NicBackend, NicInfo, NicNode, SoftNicBackend, nic_queue};
use zsr_link::{LoopConfig, LoopThread, PortLoop, Waker};
use zsr_soft_nic::Nic;
use zsr_topology::{Host, MacAddr, NicKind, Topology};
use zsr_wire::Mac;

/// An agent, and the thread of its NIC if it has one.
struct Running {
    agent: Agent,
    nic: Option<LoopThread<NicNode>>,
    captures: Option<Serving>,
}

pub(super) async fn run(
    place: &Place,
    topology: &Topology,
    name: &str,
    listen_at: Option<SocketAddr>,
    stop: watch::Receiver<bool>,
    ready: impl FnOnce(),
) -> Result<(), RoleError> {
    let number = topology.hosts.iter().position(|h| h.name == name);
    let number = number.ok_or_else(|| RoleError::NoHost(name.to_owned()))?;
    let host = &topology.hosts[number];
    let at = listen_at.or(host.agent);
    if let Some(address) = at {
        exposed(topology, &format!("the agent of host `{name}`"), address)?;
    }
    let identity = at.and_then(|_| identity(topology, &format!("agent.{name}")).transpose()).transpose()?;
    let Running { agent, nic, captures } = start(place, topology, number, host)?;
    let programs = listen(&place.programs(number))?;
    agent.set_programs(&place.programs(number), Machine::this());
    if topology.tls.is_some() {
        agent.ask_for_passes();
    }
    let (rounds, tells, lists) = (agent.clone(), agent.clone(), agent.clone());
    Watchdog {
        process: format!("the agent of host `{name}`"),
        round: Box::new(move || rounds.come_round()),
        service: None,
        watched: Vec::new(),
        tell: Box::new(move |one, news| {
            let mut text = format!("the agent: {}", news.of(&one.what));
            if let News::Late(_) = news {
                text = format!("{text}; under way: {}", tells.under_way().join("; "));
            }
            tells.tell_late(&text);
            text
        }),
        under_way: Box::new(move || lists.under_way()),
    }
    .start()?;
    let attaching = agent.clone();
    let until = ended(stop.clone());
    let attaching = tokio::spawn(async move { attaching.serve_programs(programs, until).await });
    let served = match at {
        Some(address) => {
            let listener = TcpListener::bind(address).await.map_err(|source| RoleError::AgentListen {
                host: name.to_owned(),
                address,
                source,
            })?;
            ready();
            match identity {
                Some(identity) => agent.serve_tls(listener, identity, ended(stop)).await,
                None => agent.serve(listener, ended(stop)).await,
            }
        }
        None => {
            let calls = listen(&place.agent(number))?;
            ready();
            agent.serve_unix(calls, ended(stop)).await
        }
    };
    let _ = attaching.await;
    let down = agent.clone();
    // Programs in rings are told; keys and queue pairs are given back.
    let _ = tokio::task::spawn_blocking(move || down.shutdown()).await;
    let error = nic.and_then(|nic| nic.stop().error);
    if let Some(captures) = captures {
        captures.end();
    }
    for path in [place.agent(number), place.programs(number), place.captures(number)] {
        let _ = std::fs::remove_file(path);
    }
    served.map_err(|e| other("the agent's server")(&e))?;
    error.map_or(Ok(()), |e| Err(e.into()))
}

/// Between two looks at a NIC's port.
const LOOK: std::time::Duration = std::time::Duration::from_millis(200);

/// Reports the state of the port of a NIC in hardware, as long as the process lives.
async fn watch_nic(agent: Agent, interface: String) {
    let mut before = None;
    loop {
        let looking = agent.clone();
        // Ends early only with the process.
        let Ok(trouble) = tokio::task::spawn_blocking(move || looking.nic_trouble()).await else { return };
        if trouble != before {
            match &trouble {
                Some(why) => tracing::warn!("the NIC: {why}"),
                None => tracing::warn!("the NIC: its port works again"),
            }
            agent.set_link(&interface, trouble.clone());
            before = trouble;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The reason why a NIC in hardware can't belong to a host on VLAN `wanted`: its frames are on another VLAN.
fn wrong_vlan(found: &NicInfo, interface: &str, wanted: Option<u16>) -> Option<String> {
    let (name, ip) = (&found.name, found.ip);
    match (found.vlan, wanted) {
        (found, wanted) if found == wanted => None,
        (Some(vlan), None) => Some(format!(
            "the GID {ip} of the RDMA device {name} is on VLAN {vlan} (interface {interface}), and the topology says that the host is on none: \
             put vlan: {vlan} there"
        )),
        (Some(vlan), Some(wanted)) => Some(format!(
            "the GID {ip} of the RDMA device {name} is on VLAN {vlan} (interface {interface}), the topology says VLAN {wanted}: \
             put vlan: {vlan} there"
        )),
        (None, wanted) => Some(format!(
            "the GID {ip} of the RDMA device {name} is on no VLAN (interface {interface}), the topology says VLAN {}: give the address {ip} \
             to the VLAN's interface, or take vlan: out of the topology",
            wanted.unwrap_or(0)
        )),
    }
}

fn start(place: &Place, topology: &Topology, number: usize, host: &Host) -> Result<Running, RoleError> {
    if let NicKind::Verbs { device, port, gid_index } = &host.nic {
        let config =
            VerbsConfig { device: device.clone(), port: *port, gid_index: *gid_index, ip: Some(host.ip) };
        let refused = |reason: String| RoleError::Nic { host: host.name.clone(), reason };
        let nic = VerbsNic::open(&config).map_err(|e| refused(e.to_string()))?;
        let found = nic.info();
        let mac = MacAddr(found.mac.0);
        if mac != host.mac {
            return Err(refused(format!(
                "the RDMA device {} has the address {mac}, the topology says {}: put mac: '{mac}' there",
                found.name, host.mac
            )));
        }
        let interface = nic.interface().to_owned();
        if let Some(why) = wrong_vlan(&found, &interface, host.vlan) {
            return Err(refused(why));
        }
        let agent = Agent::with_shared_memory(&host.name, nic, None);
        tokio::spawn(watch_nic(agent.clone(), interface));
        return Ok(Running { agent, nic: None, captures: None });
    }
    // A host may have a link to the switch and a link to its standby.
    let links: Vec<_> = topology.links.iter().filter(|l| l.host == number).collect();
    if links.is_empty() {
        return Err(RoleError::NoHost(host.name.clone()));
    }
    let config = secret_nic_config(topology, number);
    let waker = Waker::new()?;
    let wake = waker.clone();
    let (handle, queue) = nic_queue(move || wake.wake());
    let backend =
        SoftNicBackend::new("soft0", handle, &config, host.mtu).map_err(|e| other("the NIC")(&e))?;
    let agent = Agent::with_shared_memory(&host.name, backend, None);
    let interface = match &host.nic {
        NicKind::Soft { interface: Some(interface) } => interface.name.clone(),
        _ => String::new(),
    };
    let switches = links.iter().map(|l| Mac(topology.switches[l.switch].mac.0)).collect();
    let node = NicNode::between(Nic::new(config), queue, switches);
    let mut node = PortLoop::new(node, &waker, LoopConfig::default())?;
    if let Some(cores) = cores::divide(place, topology).filter(|_| host.agent.is_none()) {
        node.keep_to(cores.nics);
    }
    let told = agent.clone();
    node.on_trouble(move |_, trouble| {
        match trouble {
            Some(e) => tracing::warn!("the link: {e}"),
            None => tracing::warn!("the link: frames pass again"),
        }
        told.set_link(&interface, trouble.map(ToString::to_string));
    });
    let mut captures = Captures::default();
    for (port, link) in (0..).zip(links) {
        let point = captures.point(&link.name, link.port, &format!("host {}", host.name));
        node.add_port(port, ports::at_host(place, link, host, point)?)?;
    }
    let captures = captures.serve(listen(&place.captures(number))?);
    let nic = node.spawn("zsr-nic").map_err(|e| other("starting a thread")(&e))?;
    Ok(Running { agent, nic: Some(nic), captures: Some(captures) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nic_on_another_vlan_is_refused_with_interface_vlan_and_what_to_do() {
        let nic = |vlan| NicInfo {
            name: "mlx5_0".into(),
            backend: "verbs",
            mac: zsr_wire::Mac([2; 6]),
            ip: [10, 0, 1, 3].into(),
            path_mtu: 1024,
            vlan,
        };
        let why = |found, wanted| wrong_vlan(&nic(found), "eth1.100", wanted);
        assert_eq!((why(None, None), why(Some(100), Some(100))), (None, None));
        for (found, wanted, parts) in [
            (Some(100), None, ["10.0.1.3", "VLAN 100 (interface eth1.100)", "put vlan: 100 there"]),
            (Some(100), Some(200), ["mlx5_0", "the topology says VLAN 200", "put vlan: 100 there"]),
            (None, Some(200), ["on no VLAN", "the topology says VLAN 200", "VLAN's interface"]),
        ] {
            let said = why(found, wanted).expect("refused");
            assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        }
    }
}
