//! A link in shared memory: memif 2.0, the packet interface of VPP and DPDK (`net_memif`). Frames pass two rings in a
//! memfd; the system is called only to wake a side that sleeps.
//!
//! ```text
//!  listening side                         connecting side, which owns the memory
//!     ◄── control channel: AF_UNIX, SOCK_SEQPACKET ──►     (channel, message)
//!     ◄── ring, eventfd ───────────────────────────        (ring, region)
//!     ─────────────────────────── ring, eventfd ──►
//! ```
//! The listening side trusts no word in the memory: it checks each index and each descriptor, and refuses memory that
//! could become smaller. The connecting side checks indices and lengths, and knows its own buffers.

mod channel;
mod message;
mod region;
mod ring;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, connect, listen, socket_with,
};
use zsr_wire::{Frame, FramePool};

use crate::error::LinkError;
use crate::poller::Poller;
use crate::port::{Port, SendError};
use crate::socket_file;
use channel::{Channel, Progress, Rings};
use ring::Lie;

/// Time between two attempts to reach the listening side.
const RETRY_NS: u64 = 10_000_000;
/// Time between two looks whether a full ring has room again.
const LOOK_NS: u64 = 20_000;
/// Frames that wait at most in this process for room in the ring.
const QUEUE: usize = 1024;

/// Keys of descriptors.
const NEWCOMERS: u64 = 0;
const CHANNEL: u64 = 1;
const DOORBELL: u64 = 2;

enum End {
    Listens { socket: OwnedFd, _file: socket_file::Name },
    Connects,
}

/// One end of a link in shared memory, one raw Ethernet frame per packet.
///
/// Frames to a peer that is not there are lost and counted ([`Port::lost`]); a peer that does not read makes the link
/// full. A peer that ends is replaced by the next that comes.
pub struct MemifPort {
    end: End,
    path: PathBuf,
    poller: Poller,
    channel: Option<Channel>,
    rings: Option<Box<Rings>>,
    /// Those of the connection before, while frames are left in them.
    last: Option<Box<Rings>>,
    /// This side has asked for an interrupt.
    armed: bool,
    /// Frames for which the ring has no room.
    queue: VecDeque<Frame>,
    /// Where it waits for something that no descriptor tells.
    look_at: Option<u64>,
    lost: u64,
    trouble: Option<LinkError>,
    /// Already told, so not again until there is a connection.
    told: bool,
}

impl MemifPort {
    /// The listening end, at the socket `path`. A socket file that a dead process left there is replaced.
    ///
    /// # Errors
    /// [`LinkError`]: a process that runs has `path`, something else is there, its folder, too long a path.
    pub fn listen(path: &Path) -> Result<MemifPort, LinkError> {
        let failed = |source| LinkError::Bind { path: path.to_owned(), source };
        let (socket, file) = socket_file::bind(path, SocketType::SEQPACKET)?;
        listen(&socket, 4).map_err(|e| failed(e.into()))?;
        let port = MemifPort::new(End::Listens { socket, _file: file }, path)?;
        if let End::Listens { socket, .. } = &port.end {
            port.poller.add(socket.as_fd(), NEWCOMERS)?;
        }
        Ok(port)
    }

    /// The connecting end of a link whose other end listens, now or later, at the socket `path`.
    ///
    /// # Errors
    /// [`LinkError`]: too long a path, no descriptor left.
    pub fn connect(path: &Path) -> Result<MemifPort, LinkError> {
        socket_file::check(path)?;
        let mut port = MemifPort::new(End::Connects, path)?;
        port.try_connect(0);
        Ok(port)
    }

    fn new(end: End, path: &Path) -> Result<MemifPort, LinkError> {
        Ok(MemifPort {
            end,
            path: path.to_owned(),
            poller: Poller::new()?,
            channel: None,
            rings: None,
            last: None,
            armed: false,
            queue: VecDeque::with_capacity(QUEUE),
            look_at: None,
            lost: 0,
            trouble: None,
            told: false,
        })
    }

    /// The socket at which the two ends meet.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether frames can move.
    pub fn is_connected(&self) -> bool {
        self.rings.is_some()
    }

    fn tell(&mut self, what: String) {
        if !self.told {
            self.told = true;
            self.trouble = Some(LinkError::Memif { path: self.path.clone(), what });
        }
    }

    fn try_connect(&mut self, now: u64) {
        self.look_at = Some(now.saturating_add(RETRY_NS));
        let made = (|| {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
            connect(&socket, &SocketAddrUnix::new(&self.path)?)?;
            Ok::<_, Errno>(socket)
        })();
        match made {
            Ok(socket) => self.begin(Channel::connected(socket)),
            // Not there yet, or busy.
            Err(Errno::NOENT | Errno::CONNREFUSED | Errno::AGAIN) => {}
            Err(e) => {
                if !self.told {
                    self.told = true;
                    self.trouble = Some(LinkError::Peer { path: self.path.clone(), source: e.into() });
                }
            }
        }
    }

    fn accept(&mut self) {
        let End::Listens { socket, .. } = &self.end else { return };
        let mut came = Vec::new();
        while let Ok(one) = accept_with(socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            came.push(one);
        }
        for one in came {
            if self.channel.is_none() {
                self.begin(Channel::accepted(one));
            } else if let Ok(other) = Channel::accepted(one) {
                other.end("another process is connected to this port");
            }
        }
    }

    fn begin(&mut self, channel: std::io::Result<Channel>) {
        match channel {
            Ok(channel) => {
                if let Err(e) = self.poller.add(channel.socket(), CHANNEL) {
                    return self.tell(e.to_string());
                }
                self.channel = Some(channel);
                // From now on the socket tells, also of a peer that takes its time to answer.
                self.look_at = None;
            }
            Err(e) => self.tell(format!("can't begin: {e}")),
        }
    }

    /// The connection is over. What came by it can still be received.
    fn end(&mut self, now: u64, why: Option<String>) {
        if let Some(channel) = self.channel.take() {
            self.poller.remove(channel.socket());
        }
        if let Some(rings) = self.rings.take() {
            self.poller.remove(rings.receive.doorbell.as_fd());
            self.last = Some(rings);
        }
        if let Some(why) = why {
            self.tell(why);
        }
        // Not at once: a peer that speaks wrongly will do so again.
        self.look_at = matches!(self.end, End::Connects).then(|| now.saturating_add(RETRY_NS));
    }

    fn broken(&mut self, now: u64, lie: &Lie) {
        let text = lie.to_string();
        match lie {
            // The rest of the ring can be used.
            Lie::Descriptor { .. } => self.tell(text),
            Lie::Index { .. } | Lie::Cookie(_) => {
                if let Some(channel) = &self.channel {
                    channel.end(&text);
                }
                self.end(now, Some(text));
                self.last = None;
            }
        }
    }

    fn attend_channel(&mut self, now: u64) {
        let Some(channel) = &mut self.channel else { return };
        match channel.attend() {
            Progress::Waits => {}
            Progress::Ended(why) => self.end(now, why),
            Progress::Up(rings) => {
                if let Err(e) = self.poller.add(rings.receive.doorbell.as_fd(), DOORBELL) {
                    return self.end(now, Some(e.to_string()));
                }
                self.rings = Some(rings);
                self.look_at = None;
                self.told = false;
            }
        }
    }

    fn lose_queue(&mut self, pool: &mut FramePool) {
        self.lost += self.queue.len() as u64;
        self.queue.drain(..).for_each(|frame| pool.put(frame));
    }
}

impl Port for MemifPort {
    #[inline]
    fn send(&mut self, now_ns: u64, frame: Frame, pool: &mut FramePool) -> Result<(), SendError> {
        if self.queue.is_empty()
            && let Some(rings) = &mut self.rings
        {
            match rings.send.ring.send(&frame) {
                Ok(true) => {
                    pool.put(frame);
                    return Ok(());
                }
                Ok(false) => {}
                Err(lie) => {
                    self.lost += 1;
                    pool.put(frame);
                    self.broken(now_ns, &lie);
                    return Ok(());
                }
            }
        }
        if self.queue.len() >= QUEUE {
            self.flush(now_ns, pool);
            if self.queue.len() >= QUEUE {
                return Err(SendError::Full(frame));
            }
        }
        self.queue.push_back(frame);
        Ok(())
    }

    #[inline]
    fn recv(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<Frame> {
        if let Some(last) = &mut self.last {
            match last.receive.ring.receive(pool) {
                Ok(Some(frame)) => return Some(frame),
                Ok(None) | Err(_) => self.last = None,
            }
        }
        let Some(rings) = &mut self.rings else {
            if self.channel.is_none() && self.look_at.is_some_and(|at| at <= now_ns) {
                self.try_connect(now_ns);
            }
            return None;
        };
        if self.armed {
            self.armed = false;
            rings.receive.ring.disarm();
        }
        match rings.receive.ring.receive(pool) {
            Ok(frame) => frame,
            Err(lie) => {
                self.lost += 1;
                self.broken(now_ns, &lie);
                // What is behind it can wait for the next round.
                None
            }
        }
    }

    fn is_closed(&self) -> bool {
        // A peer may always come back.
        false
    }

    fn next_due(&self) -> Option<u64> {
        self.look_at
    }

    fn flush(&mut self, now_ns: u64, pool: &mut FramePool) {
        let Some(rings) = &mut self.rings else {
            return self.lose_queue(pool);
        };
        let mut lie = None;
        while let Some(frame) = self.queue.front() {
            match rings.send.ring.send(frame) {
                Ok(true) => {}
                Ok(false) => break,
                Err(what) => {
                    self.lost += 1;
                    lie = Some(what);
                }
            }
            pool.put(self.queue.pop_front().unwrap_or_default());
            if lie.is_some() {
                break;
            }
        }
        self.look_at = (!self.queue.is_empty()).then(|| now_ns.saturating_add(LOOK_NS));
        if rings.send.ring.show_and_ask() {
            // Fails only where it is readable already.
            let _ = rustix::io::write(&rings.send.doorbell, &1u64.to_ne_bytes());
        }
        if let Some(lie) = lie {
            self.broken(now_ns, &lie);
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.poller.fd())
    }

    fn is_polled(&self) -> bool {
        true
    }

    fn attend(&mut self, now_ns: u64) {
        let (mut newcomers, mut said, mut rang) = (false, false, false);
        let looked = self.poller.look(|key, _| match key {
            NEWCOMERS => newcomers = true,
            CHANNEL => said = true,
            _ => rang = true,
        });
        if let Err(e) = looked {
            self.tell(e.to_string());
        }
        if rang && let Some(rings) = &self.rings {
            let _ = rustix::io::read(&rings.receive.doorbell, &mut [0u8; 8]);
        }
        if said {
            self.attend_channel(now_ns);
        }
        if newcomers {
            self.accept();
        }
    }

    fn may_sleep(&mut self) -> bool {
        match &mut self.rings {
            Some(rings) => {
                self.armed = true;
                rings.receive.ring.arm()
            }
            None => true,
        }
    }

    fn is_blocked(&self) -> bool {
        !self.queue.is_empty()
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn lost(&self) -> u64 {
        self.lost
    }

    fn trouble(&mut self) -> Option<LinkError> {
        self.trouble.take()
    }

    fn is_troubled(&self) -> bool {
        self.told
    }
}

impl std::fmt::Debug for MemifPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemifPort({}, connected: {})", self.path.display(), self.is_connected())
    }
}
