//! Memory that a processing unit in another process maps too: an anonymous file, handed over as a descriptor.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate,
    memfd_create,
};
use rustix::io::retry_on_intr;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::host::enough;
use super::{ByteOrder, Memory, MemoryError, MemoryKey, Visibility};

/// Nobody may change the length: a mapping that outlives its file's length kills whoever touches it.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Zeroed, page-aligned memory behind an anonymous file of fixed length, which has all of its pages when it is made.
///
/// The agent makes it and keeps the descriptor for programs that attach; these map the same pages. Whoever maps it can
/// write all of it, so it holds one ring and nothing else.
#[derive(Debug)]
pub struct SharedMemory {
    base: NonNull<u8>,
    len: usize,
    file: OwnedFd,
    order: ByteOrder,
}

// SAFETY: the mapping belongs to this object alone and is only reached through raw pointers; who may touch which bytes
// when is the ring protocol's business, not a property of the thread.
unsafe impl Send for SharedMemory {}
// SAFETY: as above; the object itself is never changed after it was made.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Makes `bytes` zeroed bytes for control words in the given byte order.
    ///
    /// # Errors
    /// [`MemoryError`] with the length and the kernel's reason.
    pub fn create(bytes: usize, order: ByteOrder) -> Result<Self, MemoryError> {
        if bytes == 0 {
            return Err(MemoryError::Empty);
        }
        enough(bytes)?;
        let fail = |source: rustix::io::Errno| MemoryError::Map { bytes, source: source.into() };
        let length = u64::try_from(bytes).map_err(|_| MemoryError::TooLarge { bytes })?;
        let file = memfd_create("zsr-ring", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map_err(fail)?;
        ftruncate(&file, length).map_err(fail)?;
        fcntl_add_seals(&file, SEALS).map_err(fail)?;
        // The pages, so that nobody runs out of memory later. They are mapped when they are touched: of a ring that lives for milliseconds
        // few are, and mapping takes half of the time.
        retry_on_intr(|| fallocate(&file, FallocateFlags::empty(), 0, length))
            .map_err(|source| MemoryError::Populate { bytes, source: source.into() })?;
        let base = map(&file, bytes).map_err(|source| MemoryError::Map { bytes, source })?;
        Ok(Self { base, len: bytes, file, order })
    }

    /// Maps what another process made: at least `bytes` bytes, of a length that nobody can change.
    ///
    /// # Errors
    /// [`MemoryError::Foreign`] when the file is too short or its length is not sealed; [`MemoryError::Map`].
    pub fn open(file: OwnedFd, bytes: usize, order: ByteOrder) -> Result<Self, MemoryError> {
        let fail = |source: rustix::io::Errno| MemoryError::Map { bytes, source: source.into() };
        if bytes == 0 {
            return Err(MemoryError::Empty);
        }
        let length = fstat(&file).map_err(fail)?.st_size;
        if u64::try_from(length).unwrap_or(0) < bytes as u64 {
            let reason = format!("it has {length} B");
            return Err(MemoryError::Foreign { bytes, reason });
        }
        if !fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SealFlags::SHRINK)) {
            let reason = "its length can still be changed".to_owned();
            return Err(MemoryError::Foreign { bytes, reason });
        }
        let base = map(&file, bytes).map_err(|source| MemoryError::Map { bytes, source })?;
        Ok(Self { base, len: bytes, file, order })
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made for this object, and the object is gone after this.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

// SAFETY: the mapping is readable, writable, zeroed by the kernel, page-aligned, and lives until drop; seals keep its
// file as long as it is.
unsafe impl Memory for SharedMemory {
    fn base(&self) -> NonNull<u8> {
        self.base
    }

    fn len(&self) -> usize {
        self.len
    }

    fn key(&self) -> Result<MemoryKey, String> {
        Ok(MemoryKey::HostAddress)
    }

    fn byte_order(&self) -> ByteOrder {
        self.order
    }

    fn visibility(&self) -> Visibility {
        Visibility::Coherent
    }

    fn describe(&self) -> String {
        "host memory, shared with processes".to_owned()
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

fn map(file: &OwnedFd, bytes: usize) -> io::Result<NonNull<u8>> {
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let at = unsafe {
        mmap(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, file, 0)
    }?;
    NonNull::new(at.cast()).ok_or_else(|| io::Error::other("the kernel mapped address 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_mappings_are_the_same_pages() {
        let made = SharedMemory::create(8192, ByteOrder::NATIVE).expect("two pages");
        let file = made.file().expect("a descriptor").try_clone_to_owned().expect("a copy");
        let opened = SharedMemory::open(file, 8192, ByteOrder::NATIVE).expect("the same pages");
        // SAFETY: in bounds of both, and nobody else has them.
        let seen = unsafe {
            made.base().as_ptr().add(5000).write_volatile(7);
            opened.base().as_ptr().add(5000).read_volatile()
        };
        assert_eq!(seen, 7);
        assert_eq!(opened.base().as_ptr() as usize % 4096, 0);
    }

    #[test]
    fn files_that_could_shrink_or_are_short_are_refused() {
        let loose = memfd_create("loose", MemfdFlags::CLOEXEC).expect("a file");
        ftruncate(&loose, 4096).expect("a length");
        let refused = SharedMemory::open(loose, 4096, ByteOrder::NATIVE).expect_err("no seals").to_string();
        assert!(refused.contains("length"), "{refused}");
        let made = SharedMemory::create(4096, ByteOrder::NATIVE).expect("a page");
        let file = made.file().expect("a descriptor").try_clone_to_owned().expect("a copy");
        assert!(ftruncate(&file, 0).is_err());
        assert!(matches!(
            SharedMemory::open(file, 8192, ByteOrder::NATIVE),
            Err(MemoryError::Foreign { bytes: 8192, .. })
        ));
    }
}
