//! Memory of DFI's rings: segments, each with a footer behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zsr_soft_nic::{HostMemory, MemoryRegion};

use super::super::{BATCH, Flow, Hint};

/// Bytes of a footer: with 32 segments of 8 KiB, rings at sources and targets take the memory that the paper gives (6.1.4). Its second word
/// says how many bytes of the segment are used, and flags.
pub(super) const FOOTER: usize = 16;
/// Where that word is in it.
const STATE: usize = 8;
/// The target may consume the segment; otherwise the source may write it.
pub(super) const CONSUMABLE: u64 = 1 << 32;
/// Flag of the last segment of a stream.
pub(super) const LAST: u64 = 1 << 33;

/// Of a footer that has landed at `at`, where that word is.
#[inline]
pub(super) fn landed(at: usize) -> usize {
    at + STATE
}

/// Bytes of a segment that are used.
#[inline]
pub(super) fn used(state: u64) -> usize {
    state as u32 as usize
}

/// Segments of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of tuples that a segment holds.
    pub(super) segment: usize,
    /// Number of segments at the target.
    pub(super) segments: usize,
}

impl Shape {
    /// 32 segments of 8 KiB to optimize for bandwidth, of one tuple each to optimize for latency; if tuples are larger, as many segments of one
    /// tuple as the same memory holds.
    pub(super) fn of(flow: &Flow) -> Shape {
        let segment = match flow.hint {
            Hint::Bandwidth => flow.tuple.max(BATCH),
            Hint::Latency => flow.tuple,
        };
        Shape { segment, segments: flow.ring / segment }
    }

    /// From one segment to the next.
    #[inline]
    pub(super) fn stride(self) -> usize {
        self.segment + FOOTER
    }

    /// Where segment `n` begins.
    #[inline]
    pub(super) fn at(self, n: usize) -> usize {
        n * self.stride()
    }

    /// Where the footer of segment `n` is.
    #[inline]
    pub(super) fn footer(self, n: usize) -> usize {
        self.at(n) + self.segment
    }

    /// Where the word with used bytes and flags is in that.
    #[inline]
    pub(super) fn state(self, n: usize) -> usize {
        self.footer(n) + STATE
    }

    /// Where the target's credit counter is, behind all segments.
    pub(super) fn credits(self) -> usize {
        self.at(self.segments)
    }
}

/// Registered memory, at the program.
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
        // SAFETY: inside the block, as all offsets of a `Shape` are, and aligned: blocks are page-aligned. NICs reach words atomically.
        unsafe { AtomicU64::from_ptr(self.base.add(at).cast()) }
    }

    /// Copies a tuple to `at`, which must be in the sender's hands.
    #[inline]
    pub(super) fn write(&self, at: usize, bytes: &[u8]) {
        debug_assert!(at + bytes.len() <= self.memory.len());
        // SAFETY: inside the block, as all offsets of a `Shape` are; nobody else touches the segment before it is posted.
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
