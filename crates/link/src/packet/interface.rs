//! What the system knows about an interface, asked by name through a socket, so that it is the one of the socket's
//! network namespace.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::error::LinkError;

/// Longest name, bytes.
const MAX_NAME: usize = libc::IFNAMSIZ - 1;

/// The state of an interface at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interface {
    pub(super) index: i32,
    pub(super) up: bool,
    pub(super) mtu: u32,
    pub(super) ethernet: bool,
}

/// `None` if there is none of this name.
pub(super) fn look_up(socket: BorrowedFd<'_>, name: &str) -> io::Result<Option<Interface>> {
    if name.is_empty() || name.len() > MAX_NAME || name.bytes().any(|b| b == 0) {
        return Ok(None);
    }
    let ask = |request| {
        // SAFETY: all zeros is a valid `ifreq`, which is plain data.
        let mut answer: libc::ifreq = unsafe { zeroed() };
        for (to, from) in answer.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        // SAFETY: these requests read the name and write the union, both inside `answer`.
        let done = unsafe { libc::ioctl(socket.as_raw_fd(), request, &mut answer) };
        if done == 0 { Ok(answer) } else { Err(io::Error::last_os_error()) }
    };
    let index = match ask(libc::SIOCGIFINDEX) {
        // SAFETY: the request has written this member; so below.
        Ok(answer) => unsafe { answer.ifr_ifru.ifru_ifindex },
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => return Ok(None),
        Err(e) => return Err(e),
    };
    let flags = unsafe { ask(libc::SIOCGIFFLAGS)?.ifr_ifru.ifru_flags };
    let mtu = unsafe { ask(libc::SIOCGIFMTU)?.ifr_ifru.ifru_mtu };
    let family = unsafe { ask(libc::SIOCGIFHWADDR)?.ifr_ifru.ifru_hwaddr.sa_family };
    Ok(Some(Interface {
        index,
        up: i32::from(flags) & libc::IFF_UP != 0,
        mtu: mtu.max(0) as u32,
        ethernet: family == libc::ARPHRD_ETHER,
    }))
}

/// The interface, if frames of MTU `mtu` can pass it.
pub(super) fn usable(found: Option<Interface>, name: &str, mtu: u32) -> Result<Interface, LinkError> {
    let name = || name.to_owned();
    let found = found.ok_or_else(|| LinkError::NoInterface { interface: name() })?;
    if !found.ethernet {
        return Err(LinkError::NotEthernet { interface: name() });
    }
    if !found.up {
        return Err(LinkError::InterfaceDown { interface: name() });
    }
    if found.mtu < mtu {
        return Err(LinkError::SmallMtu { interface: name(), has: found.mtu, needs: mtu });
    }
    Ok(found)
}
