//! Memory of a device that processors reach through a window: part of a file that the device's driver lets processes map.

use std::any::Any;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::{ByteOrder, Memory, MemoryError, MemoryKey, Visibility};

/// A ring's part of a device's window, mapped. Whoever has the [`file`](Memory::file) can map all of the window.
///
/// The rules by which processors reach it are at [`Visibility::PostedWrites`].
#[derive(Debug)]
pub struct DeviceMemory {
    base: NonNull<u8>,
    len: usize,
    file: OwnedFd,
    part: DevicePart,
    order: ByteOrder,
    what: String,
    _keep: Option<Box<dyn Any + Send + Sync>>,
}

/// Which part of a device's window, and how processors map it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DevicePart {
    /// Bytes from the file's begin, a multiple of 4096.
    pub offset: u64,
    /// Whether stores are gathered ([`Visibility::PostedWrites`]).
    pub combining: bool,
}

// SAFETY: the mapping belongs to this object alone and is only reached through raw pointers; who may touch which bytes
// when is the ring protocol's business, not a property of the thread.
unsafe impl Send for DeviceMemory {}
// SAFETY: as above; the object itself is never changed after it was made.
unsafe impl Sync for DeviceMemory {}

impl DeviceMemory {
    /// Maps `bytes` bytes of `file`, which another part of the system has zeroed. `what` is for reports.
    ///
    /// # Errors
    /// [`MemoryError`]: on a machine that is no x86-64, and with the kernel's reason.
    pub fn open(
        file: OwnedFd,
        part: DevicePart,
        bytes: usize,
        order: ByteOrder,
        what: String,
    ) -> Result<Self, MemoryError> {
        if !cfg!(target_arch = "x86_64") {
            let reason =
                "windows of devices are tried on x86-64 only, whose order of accesses their rings rely on";
            return Err(MemoryError::Foreign { bytes, reason: reason.to_owned() });
        }
        if bytes == 0 {
            return Err(MemoryError::Empty);
        }
        let map = || {
            // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
            let at = unsafe {
                let rights = ProtFlags::READ | ProtFlags::WRITE;
                mmap(std::ptr::null_mut(), bytes, rights, MapFlags::SHARED, &file, part.offset)
            }?;
            NonNull::new(at.cast()).ok_or_else(|| io::Error::other("the kernel mapped address 0"))
        };
        let base = map().map_err(|source| MemoryError::Map { bytes, source })?;
        Ok(Self { base, len: bytes, file, part, order, what, _keep: None })
    }

    /// As [`open`](Self::open), zeroed. `keep` lives until the memory is unmapped.
    ///
    /// # Errors
    /// As [`open`](Self::open); [`MemoryError::Foreign`] when the memory does not keep what is stored there.
    pub fn zeroed(
        file: OwnedFd,
        part: DevicePart,
        bytes: usize,
        order: ByteOrder,
        what: String,
        keep: Box<dyn Any + Send + Sync>,
    ) -> Result<Self, MemoryError> {
        let mut memory = Self::open(file, part, bytes, order, what)?;
        memory._keep = Some(keep);
        memory.zero()?;
        Ok(memory)
    }

    fn zero(&self) -> Result<(), MemoryError> {
        let words = self.len / size_of::<u64>();
        // SAFETY: inside the mapping, which is aligned to a page; atomics may be used by several at once.
        let word = |n: usize| unsafe { AtomicU64::from_ptr(self.base.as_ptr().cast::<u64>().add(n)) };
        // A device that is switched off or gone takes all stores and answers loads with ones.
        let pattern = 0x7a73_725f_7269_6e67;
        for (n, value) in [(0, pattern), (words - 1, !pattern)] {
            word(n).store(value, Ordering::Release);
            fence(self.part.combining);
            let found = word(n).load(Ordering::Acquire);
            if found != value {
                let reason =
                    format!("it does not keep what is stored there: {value:#x} is read back as {found:#x}");
                return Err(MemoryError::Foreign { bytes: self.len, reason });
            }
        }
        (0..words).for_each(|n| word(n).store(0, Ordering::Release));
        fence(self.part.combining);
        Ok(())
    }

    /// Which part of the device's window it is.
    pub fn part(&self) -> DevicePart {
        self.part
    }
}

/// Before and behind a store that publishes: with gathered stores (`combining`), all earlier ones go out first, and this one
/// at once. A release store alone orders nothing there: processors keep gathered stores in no order.
#[inline(always)]
pub(crate) fn fence(combining: bool) {
    #[cfg(target_arch = "x86_64")]
    if combining {
        // SAFETY: every x86-64 has the instruction.
        unsafe { std::arch::x86_64::_mm_sfence() }
    }
    let _ = combining;
}

/// Behind a load that receives: what is loaded later is not fetched earlier, which is allowed in memory whose stores are
/// gathered.
#[inline(always)]
pub(crate) fn load_fence(combining: bool) {
    #[cfg(target_arch = "x86_64")]
    if combining {
        // SAFETY: every x86-64 has the instruction.
        unsafe { std::arch::x86_64::_mm_lfence() }
    }
    let _ = combining;
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made for this object, and the object is gone after this.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

// SAFETY: the mapping is readable, writable, zeroed, page-aligned, and lives until drop.
unsafe impl Memory for DeviceMemory {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn len(&self) -> usize {
        self.len
    }

    fn key(&self) -> Result<MemoryKey, String> {
        Err("sysfs has no dma-buf of it".to_owned())
    }

    fn byte_order(&self) -> ByteOrder {
        self.order
    }

    fn visibility(&self) -> Visibility {
        Visibility::PostedWrites { combining: self.part.combining }
    }

    fn describe(&self) -> String {
        self.what.clone()
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn part(&self) -> Option<DevicePart> {
        Some(self.part)
    }
}
