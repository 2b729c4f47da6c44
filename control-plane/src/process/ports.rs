//! Ends of links, opened as the topology says.

use super::place::Place;
use crate::topology::{Cable, Host, Interface, Link, NicKind, Topology};
use zsr_link::{AnyPort, FaultError, FaultRates, Faulty, LinkError, PacketPort, UnixPort};

/// Headers and trailer of a RoCEv2 packet on top of its payload, in an IP packet, with room to spare.
const OVERHEAD: u32 = 128;

/// A port on an interface, for packets of path MTU `mtu`.
///
/// # Errors
/// No privilege, no such interface, not Ethernet, down, too small an MTU.
pub fn on_interface(interface: &Interface, mtu: u32) -> Result<AnyPort, LinkError> {
    Ok(Box::new(PacketPort::open(&interface.name, mtu + OVERHEAD)?))
}

/// The switch's end of link number `number`, without its faults.
///
/// # Errors
/// What is wrong with the interface or the socket.
pub fn at_switch(place: &Place, number: usize, link: &Link) -> Result<AnyPort, LinkError> {
    Ok(match &link.cable {
        Cable::Interface(interface) => on_interface(interface, link.mtu)?,
        Cable::Sockets { switch, host } => Box::new(UnixPort::open(switch, host)?),
        Cable::Own => {
            let (host_end, own) = place.link(number);
            Box::new(UnixPort::open(&own, &host_end)?)
        }
    })
}

/// The end of link number `number` at the soft NIC of its host.
///
/// # Errors
/// What is wrong with the interface or the socket.
pub fn at_host(place: &Place, number: usize, link: &Link, host: &Host) -> Result<AnyPort, LinkError> {
    if let NicKind::Soft { interface: Some(interface) } = &host.nic {
        return on_interface(interface, host.mtu);
    }
    Ok(match &link.cable {
        Cable::Sockets { switch, host } => Box::new(UnixPort::open(host, switch)?),
        Cable::Own | Cable::Interface(_) => {
            let (own, switch_end) = place.link(number);
            Box::new(UnixPort::open(&own, &switch_end)?)
        }
    })
}

/// `port` with the faults of `link`, if it has any.
///
/// # Errors
/// A probability that is none.
pub fn with_faults(port: AnyPort, link: &Link, topology: &Topology) -> Result<AnyPort, FaultError> {
    let f = &link.faults;
    if f.is_none() {
        return Ok(port);
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
