//! A link on an interface of the system's: AF_PACKET, frames of every kind and address.
//!
//! What arrives lies in a ring that the kernel fills, so that looking costs no system call and many frames cost one
//! wake-up; what leaves goes with one call per 32 frames.

pub(crate) mod ring;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::net::sockopt;
use zsr_wire::{Frame, FramePool};

use crate::error::LinkError;
use crate::interface::{self, Watch};
use crate::outbox::{self, Outbox, Sender};
use crate::port::{Port, SendError};
use ring::{Ring, Slot, set};

/// One end of a link on a network interface. It takes every frame that arrives there, whatever its address, and is not
/// heard by this host's own network stack.
///
/// While the interface is down or gone, frames are lost and counted; the port goes on when it is back.
pub struct PacketPort {
    socket: OwnedFd,
    ring: Ring,
    watch: Watch,
    /// The interface that the socket is bound to.
    index: i32,
    out: Outbox,
    /// The last look at the ring found nothing.
    dry: bool,
}

impl PacketPort {
    /// Takes over the interface `name`, which must carry IP packets of `mtu` bytes at least.
    ///
    /// # Errors
    /// [`LinkError`]: no privilege, no such interface, not Ethernet, down, too small an MTU, no memory for the ring.
    pub fn open(name: &str, mtu: u32) -> Result<PacketPort, LinkError> {
        let failed = |what| move |source| LinkError::Interface { interface: name.to_owned(), what, source };
        let socket = open_socket(name)?;
        let found = interface::look_up(socket.as_fd(), name).map_err(failed("asking for its state"))?;
        let found = interface::usable(found, name, mtu)?;
        let ring = Ring::new(socket.as_fd()).map_err(failed("making the receive ring"))?;
        // Frames of this host's own stack are not the link's. Kernels before 4.20 don't know the option; then the
        // ring drops them.
        let _ = set(socket.as_fd(), libc::PACKET_IGNORE_OUTGOING, &1i32);
        // A NIC's queue is behind a port, not a scheduler that reorders.
        let _ = set(socket.as_fd(), libc::PACKET_QDISC_BYPASS, &1i32);
        outbox::enlarge(&socket);
        bind(socket.as_fd(), found.index).map_err(failed("binding to it"))?;
        Ok(PacketPort {
            socket,
            ring,
            watch: Watch::new(name, mtu),
            index: found.index,
            out: Outbox::new(),
            dry: false,
        })
    }

    /// The interface's name.
    pub fn interface(&self) -> &str {
        self.watch.name()
    }

    /// Looks at the interface's state from time to time, and says when it has become unusable.
    fn look(&mut self, now: u64) {
        if !self.watch.is_due(now) {
            return;
        }
        // An error that waits would make the descriptor readable for ever.
        let _ = sockopt::socket_error(&self.socket);
        let (socket, index) = (self.socket.as_fd(), &mut self.index);
        let name = self.watch.name().to_owned();
        self.watch.look(now, socket, |found| {
            // Another interface that came under the old name.
            if found.index != *index {
                bind(socket, found.index).map_err(|source| LinkError::Interface {
                    interface: name,
                    what: "binding to it",
                    source,
                })?;
                *index = found.index;
            }
            Ok(())
        });
    }
}

/// Binds to an interface, all protocols, and asks it for frames to any address.
fn bind(socket: BorrowedFd<'_>, index: i32) -> io::Result<()> {
    // SAFETY: all zeros is a valid address, which is plain data.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index;
    // SAFETY: the kernel reads the address only.
    let done = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            std::ptr::from_ref(&address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    take_all(socket, index)
}

/// Asks an interface for frames to any address, for as long as the socket is open.
pub(crate) fn take_all(socket: BorrowedFd<'_>, index: i32) -> io::Result<()> {
    let all = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(socket, libc::PACKET_ADD_MEMBERSHIP, &all)
}

/// A packet socket that nothing arrives at yet.
pub(crate) fn open_socket(name: &str) -> Result<OwnedFd, LinkError> {
    // SAFETY: makes a descriptor and touches no memory. Protocol 0: nothing arrives until it is bound.
    let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        let source = io::Error::last_os_error();
        return Err(match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => LinkError::NoPrivilege { interface: name.to_owned() },
            _ => LinkError::Interface { interface: name.to_owned(), what: "opening a packet socket", source },
        });
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl Sender for PacketPort {
    fn outbox(&mut self) -> &mut Outbox {
        &mut self.out
    }

    fn send_queue(&mut self, now: u64, pool: &mut FramePool) {
        self.out.unblock();
        while let Err(e) = self.out.hand_over(self.socket.as_fd(), pool) {
            self.out.lose_first(pool);
            // A full queue of the interface is no trouble; all else has a cause that a look finds.
            if e.raw_os_error() != Some(libc::ENOBUFS) && self.watch.is_usable() {
                self.watch.hurry();
                self.look(now);
            }
        }
    }
}

impl Port for PacketPort {
    outbox::port_of_socket!();

    fn recv(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<Frame> {
        loop {
            match self.ring.take(pool) {
                Slot::Frame(frame) => {
                    self.dry = false;
                    return Some(frame);
                }
                Slot::Unwanted { lost } => self.out.count_lost(u64::from(lost)),
                Slot::Empty => break,
            }
        }
        // Said to have something, and there is nothing: an error may wait.
        if std::mem::replace(&mut self.dry, true) && sockopt::socket_error(&self.socket) != Ok(Ok(())) {
            self.watch.hurry();
        }
        self.look(now_ns);
        None
    }

    fn next_due(&self) -> Option<u64> {
        Some(self.watch.look_at())
    }

    fn trouble(&mut self) -> Option<LinkError> {
        self.watch.take_trouble()
    }

    fn is_troubled(&self) -> bool {
        !self.watch.is_usable()
    }
}

impl std::fmt::Debug for PacketPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PacketPort({}, usable: {})", self.watch.name(), self.watch.is_usable())
    }
}
