//! Memory that two processes share.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{NonNull, null_mut};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Most bytes of a region of the other side.
const MAX_LEN: u64 = 1 << 31;

/// A mapped region, which the other side may write at any time.
#[derive(Debug)]
pub(super) struct Region {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this object alone; what both sides write they write as atomics or by the ring's rules.
unsafe impl Send for Region {}
// SAFETY: as above; a shared reference gives nothing but addresses.
unsafe impl Sync for Region {}

impl Region {
    /// A new region of `len` bytes, zero, and the descriptor that shares it. It can't be made smaller, so that the other
    /// side does not meet a bus error.
    pub(super) fn create(len: usize) -> io::Result<(Region, OwnedFd)> {
        let fd = memfd_create("zsr-memif", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&fd, len as u64)?;
        fcntl_add_seals(&fd, SealFlags::SHRINK)?;
        Ok((Region::map(&fd, len)?, fd))
    }

    /// The other side's region.
    ///
    /// # Errors
    /// Text: memory that is smaller than `len`, or that could become so.
    pub(super) fn open(fd: OwnedFd, len: u64) -> Result<Region, String> {
        if len == 0 || len > MAX_LEN {
            return Err(format!("a region of {len} bytes (allowed are 1 to {MAX_LEN})"));
        }
        let seals = fcntl_get_seals(&fd).map_err(|e| format!("a region that is no memfd ({e})"))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err("a region that can be made smaller (its memfd lacks F_SEAL_SHRINK)".to_owned());
        }
        let has = fstat(&fd).map_err(|e| format!("a region without a size ({e})"))?.st_size;
        if u64::try_from(has).is_ok_and(|has| has < len) {
            return Err(format!("a region of {len} bytes in a memfd of {has}"));
        }
        Region::map(&fd, len as usize).map_err(|e| format!("a region that can't be mapped ({e})"))
    }

    fn map(fd: impl AsFd, len: usize) -> io::Result<Region> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let at = unsafe { mmap(null_mut(), len, access, MapFlags::SHARED, fd, 0) }?;
        let base = NonNull::new(at.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Region { base, len })
    }

    /// `len` bytes at `offset`; `None` if they are not all in the region.
    #[inline]
    pub(super) fn at(&self, offset: usize, len: usize) -> Option<NonNull<u8>> {
        let fits = offset.checked_add(len).is_some_and(|end| end <= self.len);
        // SAFETY: inside the mapping as just checked.
        fits.then(|| unsafe { self.base.add(offset) })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made for this object, which is gone after this.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
