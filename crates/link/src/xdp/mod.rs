//! A link on an interface of the system's: AF_XDP, frames of every kind and address, handed over before the host's own
//! network stack sees them.
//!
//! Frames lie in memory that the kernel knows, and four rings of descriptors say whose each is; receiving costs no system
//! call, sending one per burst. An XDP program on the interface hands frames to the socket; it goes with the port, also
//! if the process is killed.

mod bpf;
mod memory;
mod socket;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll;
use rustix::net::sockopt;
use zsr_wire::{Frame, FramePool};

use crate::error::LinkError;
use crate::interface::{self, Interface, Watch};
use crate::packet::{open_socket, take_all};
use crate::port::{Port, SendError};
use socket::{Sent, Socket};

/// Frames after which the kernel is told.
const BATCH: usize = 32;
/// Bytes before an IP packet, without a VLAN tag.
const ETHERNET: usize = 14;
const VLAN_TAG: usize = 4;
/// When to try again while the kernel has no room.
const RETRY_NS: u64 = 50_000;

/// One end of a link on a network interface, past the host's network stack (AF_XDP, copy mode, generic XDP). It takes every
/// frame that arrives at the interface's only receive queue, whatever its address.
///
/// While the interface is down or gone, frames are lost and counted; the port goes on when it is back.
pub struct XdpPort {
    /// Asks for the interface's state, and keeps it promiscuous.
    asker: OwnedFd,
    /// Readable when the socket is: that changes when the interface is made anew.
    ready: OwnedFd,
    socket: Socket,
    index: i32,
    /// Longest frame that the interface takes, bytes, without a VLAN tag.
    longest: usize,
    watch: Watch,
    unkicked: usize,
    retry_at: Option<u64>,
    /// Lost at interfaces that are gone, or while this one was unusable.
    lost: u64,
    /// As of the last look.
    lost_here: u64,
}

impl XdpPort {
    /// Takes over the interface `name`, which must carry IP packets of `mtu` bytes at least.
    ///
    /// # Errors
    /// [`LinkError`]: no privilege, a kernel without AF_XDP, no such interface, not Ethernet, down, too small an MTU, several
    /// receive queues, another XDP program on it.
    pub fn open(name: &str, mtu: u32) -> Result<XdpPort, LinkError> {
        let asker = open_socket(name)?;
        let failed = |what| move |source| LinkError::Interface { interface: name.to_owned(), what, source };
        let found = interface::look_up(asker.as_fd(), name).map_err(failed("asking for its state"))?;
        let found = interface::usable(found, name, mtu)?;
        let ready = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(|e| failed("making an epoll instance")(e.into()))?;
        let socket = attach(name, found, asker.as_fd(), ready.as_fd())?;
        Ok(XdpPort {
            asker,
            ready,
            socket,
            index: found.index,
            longest: longest(found),
            watch: Watch::new(name, mtu),
            unkicked: 0,
            retry_at: None,
            lost: 0,
            lost_here: 0,
        })
    }

    /// The interface's name.
    pub fn interface(&self) -> &str {
        self.watch.name()
    }

    fn look(&mut self, now: u64) {
        if !self.watch.is_due(now) {
            return;
        }
        // An error that waits would make the descriptor readable for ever.
        let _ = sockopt::socket_error(self.socket.fd());
        self.lost_here = self.socket.lost();
        let name = self.watch.name().to_owned();
        let (asker, ready) = (self.asker.as_fd(), self.ready.as_fd());
        let (socket, index, longest_now) = (&mut self.socket, &mut self.index, &mut self.longest);
        let (lost, lost_here) = (&mut self.lost, &mut self.lost_here);
        self.watch.look(now, asker, |found| {
            // Another interface that came under the old name: its socket goes with the one that is gone.
            if found.index != *index {
                *socket = attach(&name, found, asker, ready)?;
                *index = found.index;
                *lost += std::mem::take(lost_here);
            }
            *longest_now = longest(found);
            Ok(())
        });
    }

    fn kick(&mut self, now: u64) {
        self.unkicked = 0;
        self.retry_at = None;
        match self.socket.kick() {
            Ok(()) if self.socket.is_waiting() => self.retry_at = Some(now.saturating_add(RETRY_NS)),
            Ok(()) => {}
            Err(_) => {
                if self.watch.is_usable() {
                    self.watch.hurry();
                    self.look(now);
                }
            }
        }
    }
}

/// A socket on an interface, in the set of what is waited for.
fn attach(
    name: &str,
    found: Interface,
    asker: BorrowedFd<'_>,
    ready: BorrowedFd<'_>,
) -> Result<Socket, LinkError> {
    let failed = |what, source: io::Error| LinkError::Interface { interface: name.to_owned(), what, source };
    let queues = queues(name);
    if queues > 1 {
        return Err(LinkError::Queues { interface: name.to_owned(), queues });
    }
    let socket = Socket::open(found.index).map_err(|(what, source)| match source.raw_os_error() {
        // The last is the limit on locked memory.
        Some(libc::EPERM | libc::EACCES | libc::ENOBUFS) => {
            LinkError::NoXdpPrivilege { interface: name.to_owned(), what }
        }
        // The last is a flag that an older kernel does not know.
        Some(libc::EAFNOSUPPORT | libc::ENOSYS | libc::EINVAL) => LinkError::NoXdp { what, source },
        Some(libc::EBUSY) => LinkError::XdpTaken { interface: name.to_owned() },
        _ => failed(what, source),
    })?;
    take_all(asker, found.index).map_err(|e| failed("asking for frames to any address", e))?;
    epoll::add(ready, socket.fd(), epoll::EventData::new_u64(0), epoll::EventFlags::IN)
        .map_err(|e| failed("adding a descriptor to epoll", e.into()))?;
    Ok(socket)
}

/// The driver would drop what is longer without a word.
fn longest(interface: Interface) -> usize {
    ETHERNET + interface.mtu as usize
}

/// Receive queues, as far as the system shows them.
fn queues(name: &str) -> usize {
    let found = std::fs::read_dir(format!("/sys/class/net/{name}/queues")).into_iter().flatten().flatten();
    found.filter(|e| e.file_name().as_encoded_bytes().starts_with(b"rx-")).count()
}

impl Port for XdpPort {
    fn send(&mut self, now_ns: u64, frame: Frame, pool: &mut FramePool) -> Result<(), SendError> {
        let tag = if frame.bytes().get(12..14) == Some(&[0x81, 0]) { VLAN_TAG } else { 0 };
        if !self.watch.is_usable() || frame.len() > self.longest + tag {
            self.lost += 1;
            pool.put(frame);
            self.look(now_ns);
            return Ok(());
        }
        let frame = match self.socket.send(frame, pool) {
            Sent::Yes => None,
            Sent::Full(frame) => {
                self.kick(now_ns);
                match self.socket.send(frame, pool) {
                    Sent::Yes => None,
                    Sent::Full(frame) => Some(frame),
                }
            }
        };
        if let Some(frame) = frame {
            return Err(SendError::Full(frame));
        }
        self.unkicked += 1;
        if self.unkicked >= BATCH {
            self.kick(now_ns);
        }
        Ok(())
    }

    fn recv(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<Frame> {
        if self.retry_at.is_some_and(|t| now_ns >= t) {
            self.kick(now_ns);
        }
        let frame = self.socket.recv(pool);
        if frame.is_none() {
            self.look(now_ns);
        }
        frame
    }

    fn is_closed(&self) -> bool {
        // An interface may always come back.
        false
    }

    fn next_due(&self) -> Option<u64> {
        let look = self.watch.look_at();
        Some(self.retry_at.map_or(look, |retry| look.min(retry)))
    }

    fn flush(&mut self, now_ns: u64, _pool: &mut FramePool) {
        self.kick(now_ns);
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.ready.as_fd())
    }

    fn lost(&self) -> u64 {
        self.lost + self.lost_here
    }

    fn trouble(&mut self) -> Option<LinkError> {
        self.watch.take_trouble()
    }

    fn is_troubled(&self) -> bool {
        !self.watch.is_usable()
    }
}

impl std::fmt::Debug for XdpPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "XdpPort({}, usable: {})", self.watch.name(), self.watch.is_usable())
    }
}
