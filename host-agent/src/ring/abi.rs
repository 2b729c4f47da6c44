//! The ring's memory layout, ABI version 1 (protocol.md, "Ring memory"): `zsr_wire::ring`, and the step
//! from its words to this machine's atomics.

pub use zsr_wire::ring::{ABI_VERSION, ByteOrder, ControlWord, Flags, Geometry, GeometryError};

/// Offset of the word that the side which *fills* the ring writes: `head`, `flags`.
pub(crate) const HEAD_OFFSET: usize = zsr_wire::ring::PRODUCER_HEAD as usize;
/// Offset of the second half of a consumer ring's commit record: `producer_id`, `producer_tail`.
pub(crate) const SOURCE_OFFSET: usize = HEAD_OFFSET + zsr_wire::ring::CONTROL_WORD_LEN;
/// Offset of the word that the side which *drains* the ring writes: `tail`, `flags`.
pub(crate) const TAIL_OFFSET: usize = zsr_wire::ring::PRODUCER_TAIL as usize;
/// Offset of the first item; everything before it is control words.
pub(crate) const ITEMS_OFFSET: usize = zsr_wire::ring::ITEMS as usize;

// Handles treat both kinds of ring alike, and loopback rings are both at once.
const _: () = assert!(zsr_wire::ring::PRODUCER_HEAD == zsr_wire::ring::COMMIT_RECORD);
const _: () = assert!(zsr_wire::ring::PRODUCER_TAIL == zsr_wire::ring::CONSUMER_TAIL);

/// The word as one 64-bit integer whose bytes in memory are `counter`, `flags` in `order`.
#[inline]
pub(crate) fn to_raw(word: ControlWord, order: ByteOrder) -> u64 {
    u64::from_ne_bytes(word.to_bytes(order))
}

/// The inverse of [`to_raw`].
#[inline]
pub(crate) fn from_raw(raw: u64, order: ByteOrder) -> ControlWord {
    ControlWord::from_bytes(raw.to_ne_bytes(), order)
}
