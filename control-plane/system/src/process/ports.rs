//! Ends of links, opened as the topology says.

use super::roles::RoleError;
use crate::parts::with_faults;
use zsr::Place;
use zsr_link::{AnyPort, LinkError, MemifPort, PacketPort, Port, TapPoint, Tapped, UnixPort, XdpPort};
use zsr_topology::{Cable, Host, Interface, Link, NicKind, Topology};

/// Headers and trailer of a RoCEv2 packet on top of its payload, in an IP packet, with room to spare.
const OVERHEAD: u32 = 128;

/// `port`, watched at `point` if there is one. Nothing is between the two, so watching costs nothing while nobody
/// watches.
fn watched(port: impl Port + Send + 'static, point: Option<TapPoint>) -> AnyPort {
    match point {
        Some(point) => Box::new(Tapped::new(port, point)),
        None => Box::new(port),
    }
}

/// A port on an interface, for packets of path MTU `mtu`.
///
/// # Errors
/// No privilege, no such interface, not Ethernet, down, too small an MTU, no AF_XDP.
pub fn on_interface(interface: &Interface, mtu: u32, point: Option<TapPoint>) -> Result<AnyPort, LinkError> {
    if interface.xdp {
        return Ok(watched(XdpPort::open(&interface.name, mtu + OVERHEAD)?, point));
    }
    Ok(watched(PacketPort::open(&interface.name, mtu + OVERHEAD)?, point))
}

/// The switch's end of a link, with its faults. Frames that the switch sends and gets can be watched at `point`.
///
/// # Errors
/// The error of the interface or the socket.
pub(super) fn at_switch(
    place: &Place,
    topology: &Topology,
    link: &Link,
    point: TapPoint,
) -> Result<AnyPort, RoleError> {
    let (inner, outer) = match link.is_plain() {
        true => (Some(point), None),
        false => (None, Some(point)),
    };
    let port = match &link.cable {
        Cable::Interface(interface) => on_interface(interface, link.mtu, inner)?,
        Cable::Sockets { switch, host } => watched(UnixPort::open(switch, host)?, inner),
        Cable::Own => watched(MemifPort::listen(&place.link(link.number))?, inner),
    };
    Ok(match outer {
        None => port,
        outer => watched(with_faults(port, link, topology)?, outer),
    })
}

/// The end of a link at the soft NIC of its host, watched at `point`.
///
/// # Errors
/// The error of the interface or the socket.
pub(super) fn at_host(
    place: &Place,
    link: &Link,
    host: &Host,
    point: TapPoint,
) -> Result<AnyPort, LinkError> {
    if let NicKind::Soft { interface: Some(interface) } = &host.nic {
        return on_interface(interface, host.mtu, Some(point));
    }
    Ok(match &link.cable {
        Cable::Sockets { switch, host } => watched(UnixPort::open(host, switch)?, Some(point)),
        Cable::Own | Cable::Interface(_) => {
            watched(MemifPort::connect(&place.link(link.number))?, Some(point))
        }
    })
}
