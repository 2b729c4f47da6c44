//! Anonymous memory of this process, on the largest pages that the system grants.

use std::io;
use std::ptr::NonNull;

use super::{ByteOrder, Memory, MemoryKey, Visibility, limits};

const HUGE_PAGE: usize = 2 << 20;

/// Which pages back a [`HostMemory`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PageKind {
    /// Reserved 2 MiB pages (`vm.nr_hugepages`).
    Huge,
    /// Ordinary memory for which the kernel was asked to use transparent huge pages.
    Transparent,
    /// The system's base pages.
    Base,
}

/// Host memory could not be had.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// Nothing to map.
    #[error("a ring's memory cannot be empty")]
    Empty,
    /// The length does not fit this machine's address space.
    #[error("{bytes} bytes of ring memory do not fit this machine's address space")]
    TooLarge {
        /// Requested length.
        bytes: usize,
    },
    /// The kernel refused the mapping.
    #[error(
        "cannot map {bytes} bytes of ring memory: {source}; make rings smaller or fewer, or raise the \
         limit on address space (ulimit -v) or the container's memory limit"
    )]
    Map {
        /// Requested length.
        bytes: usize,
        /// The kernel's reason.
        source: io::Error,
    },
    /// There is not that much memory left.
    #[error(
        "{bytes} B of ring memory are more than the {available} B that this system, or the process's control \
         group, has left; make rings smaller or fewer, or free memory"
    )]
    Exhausted {
        /// Requested length.
        bytes: usize,
        /// What is left.
        available: u64,
    },
    /// Another process's memory can't be used.
    #[error("the memory handed over is not fit for a ring of {bytes} B: {reason}")]
    Foreign {
        /// Length needed.
        bytes: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The kernel could not back the mapping with pages.
    #[error(
        "cannot back {bytes} bytes of ring memory with pages: {source}; make rings smaller or fewer, or \
         free memory"
    )]
    Populate {
        /// Requested length.
        bytes: usize,
        /// The kernel's reason.
        source: io::Error,
    },
}

/// Anonymous, zeroed, page-aligned memory of this process, populated when it is made, so that neither
/// a page fault nor a shortage of memory can strike while data moves.
///
/// Tried in this order: reserved 2 MiB pages, transparent huge pages, base pages. Regions under 2 MiB
/// take base pages at once: a huge page would mostly be waste.
#[derive(Debug)]
pub struct HostMemory {
    base: NonNull<u8>,
    len: usize,
    mapping: NonNull<u8>,
    mapped: usize,
    pages: PageKind,
    order: ByteOrder,
}

// SAFETY: the mapping belongs to this object alone and is only reached through raw pointers; who may
// touch which bytes when is the ring protocol's business, not a property of the thread.
unsafe impl Send for HostMemory {}
// SAFETY: as above; the object itself is never changed after it was made.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Maps at least `bytes` zeroed bytes for a processing unit with this machine's byte order.
    ///
    /// # Errors
    /// [`MemoryError`] with the length and the kernel's reason.
    pub fn anonymous(bytes: usize) -> Result<Self, MemoryError> {
        Self::with_order(bytes, ByteOrder::NATIVE)
    }

    /// As [`anonymous`](Self::anonymous), for control words in the given byte order.
    ///
    /// # Errors
    /// [`MemoryError`] with the length and the kernel's reason.
    pub fn with_order(bytes: usize, order: ByteOrder) -> Result<Self, MemoryError> {
        if bytes == 0 {
            return Err(MemoryError::Empty);
        }
        if bytes >= HUGE_PAGE {
            if let Some(memory) = Self::reserved_huge(bytes, order)? {
                return Ok(memory);
            }
            enough(bytes)?;
            return Self::transparent(bytes, order);
        }
        let mapping = map(bytes, 0).map_err(|source| MemoryError::Map { bytes, source })?;
        let memory = Self { base: mapping, len: bytes, mapping, mapped: bytes, pages: PageKind::Base, order };
        populate(memory.base, bytes).map_err(|source| MemoryError::Populate { bytes, source })?;
        Ok(memory)
    }

    /// Which pages were granted.
    pub fn pages(&self) -> PageKind {
        self.pages
    }

    fn reserved_huge(bytes: usize, order: ByteOrder) -> Result<Option<Self>, MemoryError> {
        let mapped = bytes.checked_next_multiple_of(HUGE_PAGE).ok_or(MemoryError::TooLarge { bytes })?;
        // Without MAP_NORESERVE the pool's pages are reserved here, so touching them cannot fail later.
        Ok(map(mapped, libc::MAP_HUGETLB | libc::MAP_HUGE_2MB).ok().map(|mapping| Self {
            base: mapping,
            len: bytes,
            mapping,
            mapped,
            pages: PageKind::Huge,
            order,
        }))
    }

    fn transparent(bytes: usize, order: ByteOrder) -> Result<Self, MemoryError> {
        // A huge page only fits where the address is a multiple of its size, so map more and move in.
        let mapped = bytes.checked_add(HUGE_PAGE).ok_or(MemoryError::TooLarge { bytes })?;
        let mapping = map(mapped, 0).map_err(|source| MemoryError::Map { bytes, source })?;
        let skip = mapping.as_ptr().align_offset(HUGE_PAGE).min(HUGE_PAGE);
        // SAFETY: `skip` is at most the HUGE_PAGE bytes that were mapped on top of `bytes`.
        let base = unsafe { mapping.add(skip) };
        let mut memory = Self { base, len: bytes, mapping, mapped, pages: PageKind::Base, order };
        // SAFETY: the range lies in the mapping just made, which nobody else knows.
        let advised = unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE) };
        if advised == 0 {
            memory.pages = PageKind::Transparent;
        }
        populate(base, bytes).map_err(|source| MemoryError::Populate { bytes, source })?;
        Ok(memory)
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made for this object, and the object is gone after this.
        unsafe { libc::munmap(self.mapping.as_ptr().cast(), self.mapped) };
    }
}

// SAFETY: the mapping is readable, writable, zeroed by the kernel, page-aligned, and lives until drop.
unsafe impl Memory for HostMemory {
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
        let pages = match self.pages {
            PageKind::Huge => "reserved 2 MiB pages",
            PageKind::Transparent => "transparent huge pages",
            PageKind::Base => "base pages",
        };
        format!("host memory on {pages}")
    }
}

fn map(bytes: usize, flags: libc::c_int) -> io::Result<NonNull<u8>> {
    // SAFETY: an anonymous private mapping at an address of the kernel's choice touches nothing that
    // exists.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags,
            -1,
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(at.cast()).ok_or_else(|| io::Error::other("the kernel mapped address 0"))
}

/// Refuses what would bring the kernel to kill processes: it grants mappings freely, and takes the memory
/// from whoever it finds once they are used.
pub(super) fn enough(bytes: usize) -> Result<(), MemoryError> {
    match limits::available() {
        Some(available) if bytes as u64 > available => Err(MemoryError::Exhausted { bytes, available }),
        _ => Ok(()),
    }
}

/// Makes the kernel back the range with pages now.
fn populate(base: NonNull<u8>, bytes: usize) -> io::Result<()> {
    // SAFETY: the range is a mapping of the caller's.
    if unsafe { libc::madvise(base.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() != Some(libc::EINVAL) {
        return Err(error);
    }
    // Kernels before 5.14 do not know the call: touch one byte of every page instead.
    for offset in (0..bytes).step_by(4096) {
        // SAFETY: inside the mapping; volatile so that the store of a zero over a zero is not elided.
        unsafe { base.as_ptr().add(offset).write_volatile(0) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(memory: &HostMemory) -> Vec<u8> {
        // SAFETY: the memory is initialised and nobody else has it.
        unsafe { std::slice::from_raw_parts(memory.base().as_ptr(), memory.len()).to_vec() }
    }

    #[test]
    fn small_memory_is_zeroed_aligned_and_as_long_as_asked() {
        let memory = HostMemory::anonymous(4096 + 64).expect("a page and a bit");
        assert_eq!(memory.len(), 4160);
        assert_eq!(memory.base().as_ptr() as usize % 4096, 0);
        assert_eq!(memory.pages(), PageKind::Base);
        assert!(bytes_of(&memory).iter().all(|&byte| byte == 0));
        // The last byte is really there.
        // SAFETY: in bounds.
        unsafe { memory.base().as_ptr().add(memory.len() - 1).write(7) };
        assert_eq!(bytes_of(&memory).last(), Some(&7));
    }

    #[test]
    fn large_memory_starts_on_a_huge_page_boundary() {
        let memory = HostMemory::anonymous(4096 + (4 << 20)).expect("4 MiB");
        assert_eq!(memory.base().as_ptr() as usize % HUGE_PAGE, 0);
        assert_eq!(memory.len(), 4096 + (4 << 20));
        assert!(bytes_of(&memory).iter().all(|&byte| byte == 0));
    }

    #[test]
    fn impossible_lengths_are_errors_with_the_length() {
        assert!(matches!(HostMemory::anonymous(0), Err(MemoryError::Empty)));
        assert!(matches!(HostMemory::anonymous(usize::MAX), Err(MemoryError::TooLarge { .. })));
        let bytes = 1usize << 60;
        let error = HostMemory::anonymous(bytes).expect_err("an exbibyte").to_string();
        assert!(error.contains(&bytes.to_string()), "{error}");
    }
}
