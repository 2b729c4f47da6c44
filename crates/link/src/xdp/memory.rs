//! What a socket shares with the kernel: the memory of frames, and four rings of descriptors (xdp_umem, if_xdp.h).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

/// A mapping, gone when this is dropped.
struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this object alone; the kernel does not mind the thread.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(len: usize, from: Option<(BorrowedFd<'_>, libc::off_t)>) -> io::Result<Mapping> {
        let (flags, fd, offset) = match from {
            Some((fd, offset)) => (libc::MAP_SHARED, fd.as_raw_fd(), offset),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
        };
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let at = unsafe { libc::mmap(null_mut(), len, access, flags | libc::MAP_POPULATE, fd, offset) };
        match NonNull::new(at.cast()) {
            Some(base) if at != libc::MAP_FAILED => Ok(Mapping { base, len }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn at<T>(&self, offset: u64) -> Option<NonNull<T>> {
        let offset = usize::try_from(offset).ok()?;
        let fits = offset.checked_add(size_of::<T>()).is_some_and(|end| end <= self.len);
        // SAFETY: inside the mapping as just checked.
        (fits && offset.is_multiple_of(align_of::<T>())).then(|| unsafe { self.base.add(offset).cast() })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made for this object, which is gone after this.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Memory of frames, in chunks of equal size, each of which belongs to the kernel or to us.
pub(super) struct Chunks(Mapping);

impl Chunks {
    pub(super) fn new(len: usize) -> io::Result<Chunks> {
        Mapping::new(len, None).map(Chunks)
    }

    /// What the kernel is told of it.
    pub(super) fn register(&self, chunk: u32) -> libc::xdp_umem_reg {
        libc::xdp_umem_reg {
            addr: self.0.base.as_ptr() as u64,
            len: self.0.len as u64,
            chunk_size: chunk,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        }
    }

    fn range(&self, at: u64, len: usize) -> Option<NonNull<u8>> {
        let at = usize::try_from(at).ok()?;
        let fits = at.checked_add(len).is_some_and(|end| end <= self.0.len);
        // SAFETY: inside the mapping as just checked.
        fits.then(|| unsafe { self.0.base.add(at) })
    }

    /// Bytes of a chunk that the kernel has handed to us, until that is given back; `None` if they are not in the memory.
    pub(super) fn bytes(&self, at: u64, len: usize) -> Option<&[u8]> {
        // SAFETY: in the memory, and nobody writes there before it is given back, which takes `&mut` of the port.
        self.range(at, len).map(|p| unsafe { std::slice::from_raw_parts(p.as_ptr(), len) })
    }

    /// Fills the beginning of a chunk of ours.
    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) -> bool {
        let Some(to) = self.range(at, bytes.len()) else { return false };
        // SAFETY: in the memory, which nothing of ours overlaps; the chunk is not the kernel's.
        unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        true
    }
}

/// A ring of descriptors between the kernel and us. One side moves `producer`, the other `consumer`; both only grow, modulo
/// 2³².
pub(super) struct Ring<T> {
    _mapping: Mapping,
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    entries: NonNull<T>,
    size: u32,
    /// Our side's position.
    own: u32,
}

// SAFETY: as of its mapping, which the pointers lead into.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    /// The ring of `size` entries (a power of two) that the socket has at `page`.
    pub(super) fn new(
        socket: BorrowedFd<'_>,
        size: u32,
        page: libc::off_t,
        offsets: &libc::xdp_ring_offset,
    ) -> io::Result<Ring<T>> {
        let len = offsets.desc as usize + size as usize * size_of::<T>();
        let mapping = Mapping::new(len, Some((socket, page)))?;
        let (producer, consumer) = (mapping.at(offsets.producer), mapping.at(offsets.consumer));
        match (producer, consumer, mapping.at(offsets.desc)) {
            (Some(producer), Some(consumer), Some(entries)) => {
                Ok(Ring { _mapping: mapping, producer, consumer, entries, size, own: 0 })
            }
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "offsets outside of the ring")),
        }
    }

    fn position(&self, of: NonNull<AtomicU32>) -> &AtomicU32 {
        // SAFETY: into the mapping, which lives as long as this object; the kernel changes it atomically.
        unsafe { of.as_ref() }
    }

    fn entry(&self, position: u32) -> *mut T {
        // SAFETY: the mask keeps it among the entries, all of which are in the mapping.
        unsafe { self.entries.as_ptr().add((position & (self.size - 1)) as usize) }
    }

    /// For a ring that we fill: entries that have room.
    pub(super) fn room(&self) -> u32 {
        let taken = self.own.wrapping_sub(self.position(self.consumer).load(Ordering::Acquire));
        self.size.saturating_sub(taken)
    }

    /// Adds an entry, for which there must be room; the kernel sees it after [`Ring::publish`].
    pub(super) fn push(&mut self, value: T) {
        // SAFETY: an entry of ours, since there is room.
        unsafe { self.entry(self.own).write(value) };
        self.own = self.own.wrapping_add(1);
    }

    /// Shows the kernel what was added.
    pub(super) fn publish(&self) {
        self.position(self.producer).store(self.own, Ordering::Release);
    }

    /// Entries that the kernel has not taken yet.
    pub(super) fn untaken(&self) -> u32 {
        self.size - self.room()
    }

    /// For a ring that the kernel fills: the next entry; the kernel may use its place again after [`Ring::release`].
    pub(super) fn pop(&mut self) -> Option<T> {
        if self.position(self.producer).load(Ordering::Acquire) == self.own {
            return None;
        }
        // SAFETY: an entry that the kernel has filled and does not touch before it is released.
        let value = unsafe { self.entry(self.own).read() };
        self.own = self.own.wrapping_add(1);
        Some(value)
    }

    /// Gives back what was taken.
    pub(super) fn release(&self) {
        self.position(self.consumer).store(self.own, Ordering::Release);
    }
}
