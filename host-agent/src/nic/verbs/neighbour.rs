//! Tells the system the switch's MAC address, which a queue pair needs and which the switch may not answer for.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use zsr_wire::Mac;

/// Enters a permanent neighbour of `interface`.
pub(super) fn set(interface: &str, ip: Ipv4Addr, mac: Mac) -> io::Result<()> {
    // SAFETY: makes a descriptor and touches no memory.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: all zeros is a valid `arpreq`, which is plain data.
    let mut request: libc::arpreq = unsafe { std::mem::zeroed() };
    // SAFETY: likewise a valid `sockaddr_in`.
    let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    address.sin_family = libc::AF_INET as libc::sa_family_t;
    address.sin_addr.s_addr = u32::from(ip).to_be();
    // SAFETY: both kinds of address have the same size and are plain data.
    request.arp_pa = unsafe { std::mem::transmute::<libc::sockaddr_in, libc::sockaddr>(address) };
    request.arp_ha.sa_family = libc::ARPHRD_ETHER;
    for (to, from) in request.arp_ha.sa_data.iter_mut().zip(mac.0) {
        *to = from as libc::c_char;
    }
    request.arp_flags = libc::ATF_PERM | libc::ATF_COM;
    for (to, from) in request.arp_dev.iter_mut().zip(interface.bytes().take(15)) {
        *to = from as libc::c_char;
    }
    // SAFETY: the request reads `request` only.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSARP, &mut request) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
