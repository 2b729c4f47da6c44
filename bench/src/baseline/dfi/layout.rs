//! Memory of DFI's rings: segments, each with a footer behind it.

use super::super::{BATCH, Flow, Hint};

/// Bytes of a footer. With 32 segments of 8 KiB, rings at sources and targets take the memory that the paper gives
/// (6.1.4). The footer's second word has the number of used bytes of the segment, and flags.
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
    /// 32 segments of 8 KiB to optimize for bandwidth, of one tuple each to optimize for latency. If tuples are larger,
    /// as many segments of one tuple as fit into the same memory.
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
