//! A second mapping of a ring's memory, in which arrays lie. What is read there for too long is moved out from under its readers: private
//! pages with the same bytes take the place of the ring's, which the ring has back.

use std::io;
use std::ptr::{NonNull, null_mut};

use rustix::mm::{MapFlags, MremapFlags, ProtFlags, mmap, mmap_anonymous, mremap_fixed, munmap};
use zsr_ring::Ring;

/// A mapping of all of a ring's memory, for reading.
#[derive(Debug)]
pub(crate) struct Window {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is this object's alone, and what is read there does not change: who may read where and when is said by `Inlet`.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// Maps the memory of `ring`; nothing if it is no shared memory, or there is no room for another mapping.
    pub(crate) fn of(ring: &Ring) -> Option<Self> {
        let memory = ring.memory();
        let (file, len) = (memory.file()?, memory.len());
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe { mmap(null_mut(), len, ProtFlags::READ, MapFlags::SHARED, file, 0) }.ok()?;
        Some(Window { base: NonNull::new(base.cast())?, len })
    }

    /// Where `at`, which is in the memory of `ring`, is in this mapping of it.
    pub(crate) fn place(&self, ring: &Ring, at: *const u8) -> *const u8 {
        let offset = (at as usize).wrapping_sub(ring.memory().base().as_ptr() as usize);
        assert!(offset < self.len, "not in this ring");
        // SAFETY: in the mapping, as was looked at.
        unsafe { self.base.as_ptr().add(offset) }
    }

    /// Gives the pages of `len` bytes at `at` other memory with the same bytes; whoever reads there sees no change. What is pushed into the
    /// ring there from now on does not appear here.
    ///
    /// # Errors
    /// The kernel's; nothing has changed then.
    pub(crate) fn move_out(&self, at: *const u8, len: usize) -> io::Result<()> {
        // Not rustix's: it reads the kernel's auxiliary vector, in which valgrind's programs find addresses that they have not.
        // SAFETY: no memory is touched.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let begin = (at as usize - self.base.as_ptr() as usize) & !(page - 1);
        let end = (at as usize - self.base.as_ptr() as usize + len).next_multiple_of(page);
        let len = end.min(self.len.next_multiple_of(page)) - begin;
        // SAFETY: as in `of`.
        let copy = unsafe {
            mmap_anonymous(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        }?;
        // SAFETY: both mappings have `len` bytes. Other items on these pages may be written meanwhile, by a NIC: nobody reads those here.
        // Moving a mapping over another is one step for whoever reads there, since the kernel has its map of memory locked: they find
        // the old pages or the new ones, with the same bytes in all items that are lent.
        unsafe {
            let here = self.base.as_ptr().add(begin);
            std::ptr::copy_nonoverlapping(here.cast_const(), copy.cast(), len.min(self.len - begin));
            if let Err(e) = mremap_fixed(copy, len, len, MremapFlags::MAYMOVE, here.cast()) {
                let _ = munmap(copy, len);
                return Err(e.into());
            }
        }
        Ok(())
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: this object's own mapping, with what was moved over parts of it, and the object is gone after this.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
