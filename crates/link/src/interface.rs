//! What the system knows about an interface, asked by name through a socket, so that it is the one of the socket's
//! network namespace.

use std::io;
use std::mem::{Discriminant, discriminant, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::error::LinkError;

/// Longest name, bytes.
const MAX_NAME: usize = libc::IFNAMSIZ - 1;

/// Time between two looks at an interface's state.
const LOOK_NS: u64 = 200_000_000;

/// An interface that is looked at from time to time, and that is reported once when it has become unusable.
#[derive(Debug)]
pub(crate) struct Watch {
    name: String,
    mtu: u32,
    look_at: u64,
    /// Why it can't be used, as already told.
    told: Option<Discriminant<LinkError>>,
    trouble: Option<LinkError>,
}

impl Watch {
    /// Of an interface that carries IP packets of `mtu` bytes at least, and did so just now.
    pub(crate) fn new(name: &str, mtu: u32) -> Watch {
        Watch { name: name.to_owned(), mtu, look_at: 0, told: None, trouble: None }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_due(&self, now: u64) -> bool {
        now >= self.look_at
    }

    /// When to look next.
    pub(crate) fn look_at(&self) -> u64 {
        self.look_at
    }

    /// Something happened: look at once.
    pub(crate) fn hurry(&mut self) {
        self.look_at = 0;
    }

    /// Whether it could be used when it was last looked at.
    pub(crate) fn is_usable(&self) -> bool {
        self.told.is_none()
    }

    /// Looks, by way of `socket`. `attach` is told of the interface if it is usable, and makes sure that it is the one in use.
    pub(crate) fn look(
        &mut self,
        now: u64,
        socket: BorrowedFd<'_>,
        attach: impl FnOnce(Interface) -> Result<(), LinkError>,
    ) {
        self.look_at = now.saturating_add(LOOK_NS);
        let found = look_up(socket, &self.name).map_err(|source| LinkError::Interface {
            interface: self.name.clone(),
            what: "asking for its state",
            source,
        });
        // A link may be opened before its other end is up, so this is no reason to refuse one.
        let carries = |found: Interface| match found.running {
            true => Ok(found),
            false => Err(LinkError::NoCarrier { interface: self.name.clone() }),
        };
        let found = found.and_then(|found| usable(found, &self.name, self.mtu));
        match found.and_then(carries).and_then(attach) {
            Ok(()) => self.told = None,
            Err(error) => {
                let kind = Some(discriminant(&error));
                if self.told != kind {
                    self.trouble = Some(error);
                }
                self.told = kind;
            }
        }
    }

    pub(crate) fn take_trouble(&mut self) -> Option<LinkError> {
        self.trouble.take()
    }
}

/// The state of an interface at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) index: i32,
    pub(crate) up: bool,
    pub(crate) running: bool,
    pub(crate) mtu: u32,
    pub(crate) ethernet: bool,
}

/// `None` if there is none of this name.
pub(crate) fn look_up(socket: BorrowedFd<'_>, name: &str) -> io::Result<Option<Interface>> {
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
        // SAFETY: the request has written this member.
        Ok(answer) => unsafe { answer.ifr_ifru.ifru_ifindex },
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => return Ok(None),
        Err(e) => return Err(e),
    };
    // SAFETY: the request has written this member.
    let flags = unsafe { ask(libc::SIOCGIFFLAGS)?.ifr_ifru.ifru_flags };
    // SAFETY: the request has written this member.
    let mtu = unsafe { ask(libc::SIOCGIFMTU)?.ifr_ifru.ifru_mtu };
    // SAFETY: the request has written this member.
    let family = unsafe { ask(libc::SIOCGIFHWADDR)?.ifr_ifru.ifru_hwaddr.sa_family };
    Ok(Some(Interface {
        index,
        up: i32::from(flags) & libc::IFF_UP != 0,
        running: i32::from(flags) & libc::IFF_RUNNING != 0,
        mtu: mtu.max(0) as u32,
        ethernet: family == libc::ARPHRD_ETHER,
    }))
}

/// The interface, if frames of MTU `mtu` can pass it.
pub(crate) fn usable(found: Option<Interface>, name: &str, mtu: u32) -> Result<Interface, LinkError> {
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
