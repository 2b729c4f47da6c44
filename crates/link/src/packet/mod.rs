//! A link on an interface of the system's: AF_PACKET, frames of every kind and address.
//!
//! What arrives lies in a ring that the kernel fills, so that looking costs no system call and many frames cost one
//! wake-up; what leaves goes with one call per 32 frames.

mod interface;
mod ring;

use std::io;
use std::mem::{Discriminant, discriminant};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::net::sockopt;
use zsr_wire::{Frame, FramePool};

use crate::error::LinkError;
use crate::outbox::{self, Outbox, Sender};
use crate::port::{Port, SendError};
use ring::{Ring, Slot, set};

/// Time between two looks at the interface's state.
const LOOK_NS: u64 = 200_000_000;

/// One end of a link on a network interface. It takes every frame that arrives there, whatever its address, and is not
/// heard by this host's own network stack.
///
/// While the interface is down or gone, frames are lost and counted; the port goes on when it is back.
pub struct PacketPort {
    socket: OwnedFd,
    ring: Ring,
    name: String,
    mtu: u32,
    /// The interface that the socket is bound to.
    index: i32,
    /// Why it can't be used, as already told.
    told: Option<Discriminant<LinkError>>,
    look_at: u64,
    out: Outbox,
    /// The last look at the ring found nothing.
    dry: bool,
    trouble: Option<LinkError>,
}

impl PacketPort {
    /// Takes over the interface `name`, which must carry IP packets of `mtu` bytes at least.
    ///
    /// # Errors
    /// [`LinkError`]: no privilege, no such interface, not Ethernet, down, too small an MTU, no memory for the ring.
    pub fn open(name: &str, mtu: u32) -> Result<PacketPort, LinkError> {
        let failed = |what| move |source| LinkError::Interface { interface: name.to_owned(), what, source };
        // SAFETY: makes a descriptor and touches no memory. Protocol 0: nothing arrives until it is bound.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            let source = io::Error::last_os_error();
            return Err(match source.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => LinkError::NoPrivilege { interface: name.to_owned() },
                _ => failed("opening a packet socket")(source),
            });
        }
        // SAFETY: the descriptor is new and nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
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
            name: name.to_owned(),
            mtu,
            index: found.index,
            told: None,
            look_at: 0,
            out: Outbox::new(),
            dry: false,
            trouble: None,
        })
    }

    /// The interface's name.
    pub fn interface(&self) -> &str {
        &self.name
    }

    /// Looks at the interface's state from time to time, and says when it has become unusable.
    fn look(&mut self, now: u64) {
        if now < self.look_at {
            return;
        }
        self.look_at = now.saturating_add(LOOK_NS);
        // An error that waits would make the descriptor readable for ever.
        let _ = sockopt::socket_error(&self.socket);
        let found = interface::look_up(self.socket.as_fd(), &self.name);
        let state = match found {
            Ok(found) => interface::usable(found, &self.name, self.mtu),
            Err(source) => Err(LinkError::Interface {
                interface: self.name.clone(),
                what: "asking for its state",
                source,
            }),
        };
        let state = state.and_then(|found| {
            // Another interface that came under the old name.
            if found.index != self.index {
                bind(self.socket.as_fd(), found.index).map_err(|source| LinkError::Interface {
                    interface: self.name.clone(),
                    what: "binding to it",
                    source,
                })?;
                self.index = found.index;
            }
            Ok(())
        });
        match state {
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
    let all = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(socket, libc::PACKET_ADD_MEMBERSHIP, &all)
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
            if e.raw_os_error() != Some(libc::ENOBUFS) && self.told.is_none() {
                self.look_at = 0;
                self.look(now);
            }
        }
    }
}

impl Port for PacketPort {
    fn send(&mut self, now_ns: u64, frame: Frame, pool: &mut FramePool) -> Result<(), SendError> {
        outbox::send(self, now_ns, frame, pool)
    }

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
            self.look_at = 0;
        }
        self.look(now_ns);
        None
    }

    fn is_closed(&self) -> bool {
        // An interface may always come back.
        false
    }

    fn next_due(&self) -> Option<u64> {
        Some(self.look_at)
    }

    fn flush(&mut self, now_ns: u64, pool: &mut FramePool) {
        self.send_queue(now_ns, pool);
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn is_blocked(&self) -> bool {
        self.out.is_blocked()
    }

    fn lost(&self) -> u64 {
        self.out.lost()
    }

    fn trouble(&mut self) -> Option<LinkError> {
        self.trouble.take()
    }
}

impl std::fmt::Debug for PacketPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PacketPort({}, usable: {})", self.name, self.told.is_none())
    }
}
