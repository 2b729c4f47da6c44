//! An AF_XDP socket bound to one interface, with its memory, in copy mode.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use zsr_wire::frame::MAX_FRAME;
use zsr_wire::{Frame, FramePool};

use super::bpf::Redirect;
use super::memory::{Chunks, Ring};

/// Bytes of a chunk: at most a page. Longer frames lie in several.
const CHUNK: u32 = 4096;
/// Chunks, and so entries of each ring, for either direction.
const ENTRIES: u32 = 2048;
/// Chunks of the longest frame.
const MOST: u32 = (MAX_FRAME as u32).div_ceil(CHUNK);

/// What of it failed.
pub(super) type Failed = (&'static str, io::Error);

/// What became of a frame.
pub(super) enum Sent {
    Yes,
    Full(Frame),
}

pub(super) struct Socket {
    // Detached before the rest goes.
    _redirect: Redirect,
    fd: OwnedFd,
    chunks: Chunks,
    fill: Ring<u64>,
    rx: Ring<libc::xdp_desc>,
    tx: Ring<libc::xdp_desc>,
    completion: Ring<u64>,
    /// Chunks that frames can be sent from.
    free: Vec<u64>,
    /// The beginning of a frame whose end has not come.
    begun: Option<Frame>,
    /// Longer than any frame may be: what is still to come of it is not wanted.
    overlong: bool,
    lost: u64,
}

impl Socket {
    pub(super) fn open(index: i32) -> Result<Socket, Failed> {
        let because = |what| move |e| (what, e);
        // SAFETY: makes a descriptor and touches no memory.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(("opening an AF_XDP socket", io::Error::last_os_error()));
        }
        // SAFETY: the descriptor is new and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let chunks =
            Chunks::new((2 * ENTRIES * CHUNK) as usize).map_err(because("making memory for frames"))?;
        let socket = fd.as_fd();
        set(socket, libc::XDP_UMEM_REG, &chunks.register(CHUNK)).map_err(because("registering memory"))?;
        for ring in
            [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING]
        {
            set(socket, ring, &ENTRIES).map_err(because("making rings"))?;
        }
        let at: libc::xdp_mmap_offsets =
            get(socket, libc::XDP_MMAP_OFFSETS).map_err(because("asking for its rings"))?;
        let mapped = because("mapping rings");
        let fill = libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t;
        let completion = libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t;
        let mut fill = Ring::new(socket, ENTRIES, fill, &at.fr).map_err(mapped)?;
        let completion = Ring::new(socket, ENTRIES, completion, &at.cr).map_err(mapped)?;
        let rx = Ring::new(socket, ENTRIES, libc::XDP_PGOFF_RX_RING, &at.rx).map_err(mapped)?;
        let tx = Ring::new(socket, ENTRIES, libc::XDP_PGOFF_TX_RING, &at.tx).map_err(mapped)?;
        (0..ENTRIES).for_each(|n| fill.push(u64::from(n * CHUNK)));
        fill.publish();
        let free = (ENTRIES..2 * ENTRIES).map(|n| u64::from(n * CHUNK)).collect();
        bind(socket, index as u32).map_err(because("binding an AF_XDP socket"))?;
        let redirect = Redirect::attach(index as u32, socket)?;
        Ok(Socket {
            _redirect: redirect,
            fd,
            chunks,
            fill,
            rx,
            tx,
            completion,
            free,
            begun: None,
            overlong: false,
            lost: 0,
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Frames that were too long, and those that the kernel had no room for.
    pub(super) fn lost(&self) -> u64 {
        let kernel = get::<libc::xdp_statistics>(self.fd(), libc::XDP_STATISTICS);
        self.lost + kernel.map_or(0, |s| s.rx_dropped)
    }

    /// Puts a frame into the memory, to be sent with the next [`Socket::kick`].
    pub(super) fn send(&mut self, frame: Frame, pool: &mut FramePool) -> Sent {
        if self.free.len() < MOST as usize {
            self.reclaim();
        }
        let needed = frame.len().div_ceil(CHUNK as usize).max(1);
        if self.free.len() < needed || (self.tx.room() as usize) < needed {
            return Sent::Full(frame);
        }
        let mut parts = frame.bytes().chunks(CHUNK as usize).peekable();
        while let Some(part) = parts.next() {
            let Some(at) = self.free.pop() else { break };
            self.chunks.write(at, part);
            let options = if parts.peek().is_some() { libc::XDP_PKT_CONTD } else { 0 };
            self.tx.push(libc::xdp_desc { addr: at, len: part.len() as u32, options });
        }
        pool.put(frame);
        Sent::Yes
    }

    /// Has the kernel send what is there. An error says that it sends nothing now; what is there stays.
    pub(super) fn kick(&mut self) -> io::Result<()> {
        self.tx.publish();
        let mut before = self.tx.untaken();
        while before > 0 {
            // SAFETY: a message without bytes.
            let sent = unsafe {
                libc::sendto(
                    self.fd.as_raw_fd(),
                    std::ptr::null(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null(),
                    0,
                )
            };
            let error = io::Error::last_os_error();
            self.reclaim();
            let left = self.tx.untaken();
            // It takes some dozens at a time, and says so.
            let goes_on = matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR | libc::EBUSY));
            match sent {
                0.. if left == before => return Ok(()),
                0.. => {}
                _ if goes_on && left < before => {}
                _ if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS)) => {
                    return Ok(());
                }
                _ if error.raw_os_error() == Some(libc::EINTR) => {}
                _ => return Err(error),
            }
            before = left;
        }
        Ok(())
    }

    /// Whether frames wait for the kernel.
    pub(super) fn is_waiting(&self) -> bool {
        self.tx.untaken() > 0
    }

    fn reclaim(&mut self) {
        while let Some(at) = self.completion.pop() {
            self.free.push(at);
        }
        self.completion.release();
    }

    /// The next frame that has arrived whole.
    pub(super) fn recv(&mut self, pool: &mut FramePool) -> Option<Frame> {
        let mut taken = None;
        while taken.is_none()
            && let Some(part) = self.rx.pop()
        {
            let mut frame = self.begun.take().unwrap_or_else(|| pool.take());
            let bytes = self.chunks.bytes(part.addr, part.len as usize);
            self.overlong |= !bytes.is_some_and(|bytes| frame.append(bytes));
            // The kernel writes at a distance from the beginning of a chunk.
            self.fill.push(part.addr & !u64::from(CHUNK - 1));
            if part.options & libc::XDP_PKT_CONTD != 0 {
                self.begun = Some(frame);
            } else if std::mem::take(&mut self.overlong) {
                self.lost += 1;
                pool.put(frame);
            } else {
                taken = Some(frame);
            }
        }
        self.rx.release();
        self.fill.publish();
        taken
    }
}

fn bind(socket: BorrowedFd<'_>, index: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        // Frames of several chunks.
        sxdp_flags: libc::XDP_COPY | libc::XDP_USE_SG,
        sxdp_ifindex: index,
        sxdp_queue_id: 0,
        sxdp_shared_umem_fd: 0,
    };
    // SAFETY: the kernel reads the address only.
    let done = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            std::ptr::from_ref(&address).cast(),
            size_of::<libc::sockaddr_xdp>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn set<T>(socket: BorrowedFd<'_>, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as `value` has.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_XDP,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn get<T>(socket: BorrowedFd<'_>, option: libc::c_int) -> io::Result<T> {
    // SAFETY: used with structures of numbers only, for which all zeros are valid.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the kernel writes at most as many bytes as `value` has.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_XDP,
            option,
            std::ptr::from_mut(&mut value).cast(),
            &mut len,
        )
    };
    if done == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}
