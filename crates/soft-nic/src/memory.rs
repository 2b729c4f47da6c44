//! Memory that a NIC can be given.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::any::Any;
use std::sync::Arc;

use thiserror::Error;

use crate::access;

/// Memory that a NIC may reach while it is registered.
///
/// # Safety
/// For as long as the value lives, `base` returns the same pointer, valid for reads and writes of `len` bytes. Those
/// bytes are reached through raw pointers or atomics only: the NIC changes them whenever the peer wishes. Where
/// [`Reach::Bus`] is the way, the NIC does not follow `base`.
pub unsafe trait MemoryRegion: Send + Sync {
    /// First byte. Eight-byte alignment is needed for control words to be atomic.
    fn base(&self) -> *mut u8;

    /// Length in bytes.
    fn len(&self) -> usize;

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many of its first bytes are [told](Self::stored) of.
    fn watched(&self) -> usize {
        0
    }

    /// The NIC has stored something of which the first byte lies in the [watched](Self::watched) part. Must not block.
    fn stored(&self) {}

    /// How the NIC has to reach it; the same at each call.
    fn reach(&self) -> Reach<'_> {
        Reach::Coherent
    }
}

/// How a NIC reaches a region.
#[derive(Clone, Copy)]
pub enum Reach<'r> {
    /// By loads and stores.
    Coherent,
    /// By loads and stores that processors gather (a write-combining mapping): each access is fenced, so that they take place in order.
    Gathered,
    /// Over a bus.
    Bus(&'r dyn Bus),
}

/// A bus between a NIC and memory. Offsets and lengths are bytes within the region.
pub trait Bus {
    /// Sends a write, which takes place later, in the order of sending. `false`: the memory is gone, and the peer is told so.
    fn write(&self, offset: usize, bytes: &[u8]) -> bool;

    /// Reads what is there behind all writes that were sent before. `false`: as for a write.
    fn read(&self, offset: usize, bytes: &mut [u8]) -> bool;

    /// A READ was taken, whose responses will [read](Self::read) these bytes: time to begin with it, if reading takes long.
    fn expect(&self, _offset: usize, _len: usize) {}

    /// Whether a read of these bytes, which were expected, would not wait. While it would, the NIC does other things.
    fn is_here(&self, _offset: usize, _len: usize) -> bool {
        true
    }
}

/// Why memory could not be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum RegionError {
    /// The length can't be allocated.
    #[error("can't allocate a memory region of {0} bytes: expected 1 byte to half the address space")]
    Length(usize),
}

const PAGE: usize = 4096;

enum Owner {
    Allocation(Layout),
    Elsewhere { _alive: Arc<dyn Any + Send + Sync> },
}

/// A stretch of this host's memory: allocated here, or mapped elsewhere and kept alive by its owner.
pub struct HostMemory {
    base: *mut u8,
    len: usize,
    owner: Owner,
}

// SAFETY: the memory is reached through raw pointers with atomic or NIC-like accesses, from any thread.
unsafe impl Send for HostMemory {}
// SAFETY: as above; no method hands out a reference to the bytes.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// `len` zero bytes, page-aligned.
    pub fn allocate(len: usize) -> Result<HostMemory, RegionError> {
        let layout = Layout::from_size_align(len, PAGE).map_err(|_| RegionError::Length(len))?;
        if len == 0 {
            return Err(RegionError::Length(len));
        }
        // SAFETY: the layout has a size above zero.
        let base = unsafe { alloc_zeroed(layout) };
        if base.is_null() {
            handle_alloc_error(layout);
        }
        Ok(HostMemory { base, len, owner: Owner::Allocation(layout) })
    }

    /// Memory that `owner` keeps valid: an mmap, a device's BAR.
    ///
    /// # Safety
    /// While `owner` lives, `base` must be valid for reads and writes of `len` bytes, which nobody reaches through
    /// Rust references.
    pub unsafe fn from_raw(base: *mut u8, len: usize, owner: Arc<dyn Any + Send + Sync>) -> HostMemory {
        HostMemory { base, len, owner: Owner::Elsewhere { _alive: owner } }
    }

    /// Copies `bytes` to `offset`, as the NIC would. Panics if they do not fit: this is for the host's own program.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        // SAFETY: checked above; the region is valid while self lives.
        unsafe { access::store(self.base.add(offset), bytes) }
    }

    /// Copies bytes from `offset`, as the NIC would. Panics if the region is shorter: this is for the host's own
    /// program.
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        self.check(offset, bytes.len());
        // SAFETY: checked above; the region is valid while self lives.
        unsafe { access::load(self.base.add(offset), bytes) }
    }

    fn check(&self, offset: usize, len: usize) {
        assert!(
            offset <= self.len && len <= self.len - offset,
            "{len} bytes at offset {offset} leave a region of {} bytes",
            self.len
        );
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if let Owner::Allocation(layout) = self.owner {
            // SAFETY: allocated with this layout in `allocate`.
            unsafe { dealloc(self.base, layout) }
        }
    }
}

impl std::fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostMemory({} bytes at {:p})", self.len, self.base)
    }
}

// SAFETY: base and len never change, and the owner keeps the bytes valid.
unsafe impl MemoryRegion for HostMemory {
    fn base(&self) -> *mut u8 {
        self.base
    }

    fn len(&self) -> usize {
        self.len
    }
}
