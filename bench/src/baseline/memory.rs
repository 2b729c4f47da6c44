//! Memory that NICs reach, at the program.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zsr_soft_nic::{HostMemory, MemoryRegion};

/// Memory that is registered, or will be.
#[derive(Clone)]
pub struct Block {
    memory: Arc<HostMemory>,
    base: *mut u8,
}

// SAFETY: the pointer goes into `memory`, which may be reached from any thread.
unsafe impl Send for Block {}

impl Block {
    /// `len` zero bytes.
    pub(super) fn new(len: usize) -> Block {
        let memory = Arc::new(HostMemory::allocate(len).expect("memory"));
        Block { base: memory.base(), memory }
    }

    /// To be registered.
    pub(super) fn region(&self) -> Arc<HostMemory> {
        self.memory.clone()
    }

    /// The word at `at`, which others change.
    #[inline]
    pub(super) fn word(&self, at: usize) -> &AtomicU64 {
        debug_assert!(at.is_multiple_of(8) && at + 8 <= self.memory.len());
        // SAFETY: inside the block, as the caller sees to, and aligned: blocks are page-aligned. NICs reach words
        // atomically.
        unsafe { AtomicU64::from_ptr(self.base.add(at).cast()) }
    }

    /// Copies a tuple to `at`, which must be in the sender's hands.
    #[inline]
    pub(super) fn write(&self, at: usize, bytes: &[u8]) {
        debug_assert!(at + bytes.len() <= self.memory.len());
        // SAFETY: inside the block, as the caller sees to; nobody else touches the segment before it is posted.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base.add(at), bytes.len()) }
    }

    /// The tuples of a consumable segment.
    ///
    /// # Safety
    /// The source must not write there while the slice lives.
    #[inline]
    pub(super) unsafe fn bytes(&self, at: usize, len: usize) -> &[u8] {
        debug_assert!(at + len <= self.memory.len());
        // SAFETY: inside the block; unchanged by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.base.add(at), len) }
    }

    /// The word at `at` by an acquiring load.
    #[inline]
    pub(super) fn load(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    /// Stores the word at `at`, releasing.
    #[inline]
    pub(super) fn store(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Release);
    }
}
