//! Memory that a ring can live in: host memory, and windows of devices, behind the same trait.

mod device;
mod host;
mod kind;
mod limits;
mod shared;

use std::fmt;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

pub use device::{DeviceMemory, DevicePart};
#[cfg(not(feature = "loom"))]
pub(crate) use device::{fence, load_fence};
pub use host::{HostMemory, MemoryError, PageKind};
pub use kind::{MEMORY_HELP, MemoryKind, PciBar, UnknownMemory};
pub use shared::SharedMemory;
pub use zsr_wire::ring::ByteOrder;

/// What a processing unit must do so that a NIC sees its stores in order, and it sees the NIC's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Visibility {
    /// Cache-coherent with the NIC: a release store publishes, an acquire load receives (CPU memory).
    Coherent,
    /// Out of processors' reach: they get there by copies over its [`bus`](Memory::bus) only (a GPU's own memory).
    Copied,
    /// Stores go over a bus to a device's memory, and arrive in order; nothing is in caches (a PCI BAR that is mapped uncached). With
    /// `combining` a processor gathers them and sends them in any order: a store that publishes has a fence before it, and one
    /// behind it so that it does not stay with the processor; a load that receives has one behind it. No locked instructions.
    PostedWrites {
        /// Whether the mapping is write-combining.
        combining: bool,
    },
}

/// The part of a memory from `offset` on, if it is that long and processors reach it as any other.
///
/// # Safety
/// `T` consists of atomics, and is aligned at `offset` of a page.
pub(crate) unsafe fn atomics<T>(memory: &dyn Memory, offset: usize) -> Option<&T> {
    let within = offset + size_of::<T>() <= memory.len();
    let reached = within && memory.visibility() == Visibility::Coherent;
    // SAFETY: within the memory, which is initialised, aligned to pages, and nobody's Rust reference but to atomics.
    reached.then(|| unsafe { &*memory.base().as_ptr().wrapping_add(offset).cast::<T>() })
}

/// How a NIC is told which memory to register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemoryKey {
    /// The address of [`Memory::base`] in this process.
    HostAddress,
    /// A dma-buf exported by another device's driver.
    DmaBuf {
        /// File descriptor of the dma-buf, owned by the memory object.
        fd: i32,
        /// Where [`Memory::base`] begins inside the dma-buf, bytes.
        offset: u64,
    },
}

/// The memory behind a bus is gone: nothing was read, or it is not known what was written. [`Memory::trouble`] says why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the memory behind the bus is gone")]
pub struct Gone;

/// A bus between NIC and memory. Offsets and lengths are bytes within the memory. After the first [`Gone`] all calls say so.
pub trait Bus: Send + Sync {
    /// Sends a write, which takes place later, in the order of sending.
    ///
    /// # Errors
    /// [`Gone`]. So for the following.
    fn write(&self, offset: usize, bytes: &[u8]) -> Result<(), Gone>;
    /// Reads what is there behind all writes that were sent before. Blocks until it has come.
    fn read(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Gone>;
    /// Returns when all writes that were sent before have taken place. What was [expected](Self::expect) is forgotten.
    fn settle(&self) -> Result<(), Gone>;
    /// Begins to read `len` bytes that the NIC will [fetch](Self::fetch), if that takes long. Does not block.
    fn expect(&self, _offset: usize, _len: usize) {}
    /// Whether a fetch of these bytes would not wait.
    fn is_here(&self, _offset: usize, _len: usize) -> bool {
        true
    }
    /// As [`read`](Self::read), of bytes that were expected, as they were when they were expected or later.
    fn fetch(&self, offset: usize, bytes: &mut [u8]) -> Result<(), Gone> {
        self.read(offset, bytes)
    }
}

/// Follows layouts in a ring's items, for a NIC.
pub trait Layouts: Send + Sync {
    /// Whether memory of a program that is about to take the ring can be registered. `drained`: nothing in the ring names what was
    /// registered before.
    ///
    /// # Errors
    /// Why a NIC can't reach it, or that it is too much.
    fn accepts(&self, memory: &[Arc<dyn Memory>], drained: bool) -> Result<(), String>;
    /// Registers memory that was [accepted](Self::accepts), and says by which number layouts name the first of it. What was registered before
    /// is given up if `drained`.
    fn register(&self, memory: Vec<Arc<dyn Memory>>, drained: bool) -> u32;
    /// The program has ended. A consumer's memory is its own again when this returns: records that have come there, and were not popped,
    /// are in the ring for the next program. A producer's memory stays registered until its items are taken.
    fn retire(&self);
}

/// A GPU that has memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GpuPart {
    /// The GPU's number for this process: `CUDA_VISIBLE_DEVICES` counts.
    pub number: u32,
    /// The GPU's UUID, by which the driver tells it from all others.
    pub uuid: [u8; 16],
    /// Bytes of the allocation that begins with the memory: what another process maps.
    pub mapped: u64,
}

/// A fixed block of memory that a NIC and a processing unit share.
///
/// # Safety
/// [`base`](Memory::base) must stay valid for reads and writes of [`len`](Memory::len) bytes, be
/// aligned to 4096 bytes and never move for as long as the object lives; every byte must have been
/// initialised (zeroed). Nobody may hold a Rust reference into it: it changes under remote writes.
/// Of memory that is [`Visibility::Copied`], `base` is a device's address, which this process must not follow; it has a bus.
pub unsafe trait Memory: Send + Sync + fmt::Debug + 'static {
    /// First byte, as addressable by this process, or by the device if it is [`Visibility::Copied`].
    fn base(&self) -> NonNull<u8>;
    /// Usable length in bytes.
    fn len(&self) -> usize;
    /// Whether there is nothing in it (never true for memory that backs a ring).
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// What to hand to the registration call of an RDMA device. A soft NIC needs none.
    ///
    /// # Errors
    /// The reason why RDMA devices can't reach it.
    fn key(&self) -> Result<MemoryKey, String>;
    /// Byte order of the processing unit that owns this memory.
    fn byte_order(&self) -> ByteOrder;
    /// How stores become visible to the NIC and back.
    fn visibility(&self) -> Visibility;
    /// Where the memory is and of what kind, in a few words for reports ("host, 2 MiB pages").
    fn describe(&self) -> String;
    /// The descriptor by which another process can map the same pages, if there is one.
    fn file(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// The bus over which a NIC reaches it, if it is not by loads and stores.
    fn bus(&self) -> Option<&dyn Bus> {
        None
    }
    /// Where in that file, and how it is mapped, if it is a device's.
    fn part(&self) -> Option<DevicePart> {
        None
    }
    /// Whose memory it is, if it is a GPU's own.
    fn gpu(&self) -> Option<GpuPart> {
        None
    }
    /// What follows layouts in its items, if its items may be such.
    fn layouts(&self) -> Option<&dyn Layouts> {
        None
    }
    /// Why the memory can't be reached any more, with the device and what to do.
    fn trouble(&self) -> Option<String> {
        None
    }
}
