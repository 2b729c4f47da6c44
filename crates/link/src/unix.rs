//! A link between processes: AF_UNIX datagrams, one Ethernet frame each. QEMU speaks the same (`-netdev dgram`).
//!
//! Each end binds a path of its own and connects to the other's. Connected both ways, the system lets as many frames
//! wait as the sender's buffer holds; to an end that does not connect back (QEMU) it is `net.unix.max_dgram_qlen`
//! frames. In both cases a sender that is too fast is told, and nothing is lost.
//!
//! A socket that is connected takes datagrams only from its peer, and is not told when that dies. So the connection is
//! renewed several times per second, which finds a successor at the same path.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::net::SocketType;
use zsr_wire::{Frame, FramePool};

use crate::error::LinkError;
use crate::mmsg::{self, BATCH};
use crate::outbox::{self, Outbox, Sender};
use crate::port::{Port, SendError};
use crate::socket_file;

/// Time between two looks whether the peer is still the same.
const RENEW_NS: u64 = 200_000_000;
/// Time between two looks whether the peer has come, while frames are sent to it.
const RETRY_NS: u64 = 1_000_000;

/// One end of a link of AF_UNIX datagrams, one raw Ethernet frame each, without framing.
///
/// Frames to a peer that is not there are lost and counted ([`Port::lost`]); a peer that does not read makes the link
/// full. Dropping the port removes its socket.
pub struct UnixPort {
    socket: UnixDatagram,
    name: socket_file::Name,
    local: PathBuf,
    peer: PathBuf,
    connected: bool,
    /// When to connect again, whether connected or not.
    renew_at: u64,
    /// When sending may try to connect again.
    retry_at: u64,
    out: Outbox,
    inward: VecDeque<Frame>,
    /// Where datagrams are received.
    slots: Vec<Frame>,
    /// The last look found fewer frames than it could have, so the next may be spared.
    dry: bool,
    trouble: Option<LinkError>,
    /// Already told, so not again until something works.
    told: bool,
}

impl UnixPort {
    /// An end bound to `local`, whose other end is bound, now or later, to `peer`. A socket file that a dead process
    /// left at `local` is replaced.
    ///
    /// # Errors
    /// [`LinkError`]: a process that runs has `local`, something else is there, paths that are equal or too long, the
    /// folder.
    pub fn open(local: &Path, peer: &Path) -> Result<UnixPort, LinkError> {
        if local == peer {
            return Err(LinkError::SamePath { path: local.to_owned() });
        }
        socket_file::check(peer)?;
        let (socket, name) = socket_file::bind(local, SocketType::DGRAM)?;
        let socket = UnixDatagram::from(socket);
        outbox::enlarge(&socket);
        let mut port = UnixPort {
            socket,
            name,
            local: local.to_owned(),
            peer: peer.to_owned(),
            connected: false,
            renew_at: 0,
            retry_at: 0,
            out: Outbox::new(),
            inward: VecDeque::with_capacity(BATCH),
            slots: (0..BATCH).map(|_| Frame::new()).collect(),
            dry: false,
            trouble: None,
            told: false,
        };
        port.connect();
        Ok(port)
    }

    /// Where this end is.
    pub fn local(&self) -> &Path {
        &self.local
    }

    /// Where the other end is expected.
    pub fn peer(&self) -> &Path {
        &self.peer
    }

    /// Whether the other end was there when it was last looked for.
    pub fn is_connected(&self) -> bool {
        self.connected
    }

    fn connect(&mut self) {
        match self.socket.connect(&self.peer) {
            Ok(()) => {
                self.connected = true;
                self.told = false;
            }
            Err(e) => {
                self.connected = false;
                // Not there yet, or there and still connected to our predecessor.
                let absent = [ErrorKind::NotFound, ErrorKind::ConnectionRefused];
                if !absent.contains(&e.kind()) && e.raw_os_error() != Some(libc::EPERM) {
                    self.tell(LinkError::Peer { path: self.peer.clone(), source: e });
                }
            }
        }
    }

    fn tell(&mut self, error: LinkError) {
        if !self.told {
            self.told = true;
            self.trouble = Some(error);
        }
    }

    fn renew(&mut self, now: u64) {
        if now >= self.renew_at {
            self.renew_at = now.saturating_add(RENEW_NS);
            self.connect();
        }
    }

    fn receive(&mut self, pool: &mut FramePool) {
        let came = match mmsg::recv(self.socket.as_fd(), &mut self.slots) {
            Ok(came) => came,
            // A pending error (the peer turned to somebody else) is cleared by being read.
            Err(e) => {
                self.dry = e.kind() == ErrorKind::WouldBlock;
                return;
            }
        };
        self.dry = came < BATCH;
        for slot in self.slots.iter_mut().take(came) {
            if slot.is_empty() {
                self.out.count_lost(1);
            } else {
                self.inward.push_back(std::mem::replace(slot, pool.take()));
            }
        }
    }
}

impl Sender for UnixPort {
    fn outbox(&mut self) -> &mut Outbox {
        &mut self.out
    }

    fn send_queue(&mut self, now: u64, pool: &mut FramePool) {
        self.out.unblock();
        while !self.out.is_empty() && !self.out.is_blocked() {
            if !self.connected {
                if now >= self.retry_at {
                    self.retry_at = now.saturating_add(RETRY_NS);
                    self.connect();
                }
                if !self.connected {
                    self.out.lose_all(pool);
                    return;
                }
            }
            let Err(e) = self.out.hand_over(self.socket.as_fd(), pool) else { continue };
            match e.raw_os_error() {
                // The peer's turning to somebody else, told once.
                Some(libc::ECONNRESET) => {}
                Some(libc::ECONNREFUSED | libc::ENOTCONN | libc::EPIPE | libc::EPERM) => {
                    self.connected = false;
                }
                _ => {
                    self.out.lose_first(pool);
                    self.tell(LinkError::Refused { port: self.local.display().to_string(), source: e });
                }
            }
        }
    }
}

impl Port for UnixPort {
    outbox::port_of_socket!();

    fn recv(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<Frame> {
        if let Some(frame) = self.inward.pop_front() {
            return Some(frame);
        }
        self.renew(now_ns);
        if std::mem::take(&mut self.dry) {
            return None;
        }
        self.receive(pool);
        let first = self.inward.pop_front();
        // Whoever is told now that nothing is there must not be told so again without a look.
        self.dry &= first.is_some();
        first
    }

    fn next_due(&self) -> Option<u64> {
        Some(self.renew_at)
    }

    fn trouble(&mut self) -> Option<LinkError> {
        self.trouble.take()
    }

    fn is_troubled(&self) -> bool {
        self.told
    }
}

impl std::fmt::Debug for UnixPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UnixPort({} to {}, {:?})", self.local.display(), self.peer.display(), self.name)
    }
}
