//! The ring's memory layout, ABI version 1 (`zsr_wire::ring`), and the step
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
///
/// The same as [`ControlWord::to_bytes`], in arithmetic that compiles to two instructions: this is the
/// hot half of a push, and byte by byte it costs more than the rest of it.
#[inline]
pub(crate) const fn to_raw(word: ControlWord, order: ByteOrder) -> u64 {
    convert(pack(word.counter, word.flags.0), order)
}

/// The inverse of [`to_raw`].
#[inline]
pub(crate) const fn from_raw(raw: u64, order: ByteOrder) -> ControlWord {
    let raw = convert(raw, order);
    let (low, high) = (raw as u32, (raw >> 32) as u32);
    let (counter, flags) = if cfg!(target_endian = "little") { (low, high) } else { (high, low) };
    ControlWord { counter, flags: Flags(flags) }
}

/// The first word in memory is the low half here, or the high half on big-endian machines.
#[inline]
const fn pack(first: u32, second: u32) -> u64 {
    let (low, high) = if cfg!(target_endian = "little") { (first, second) } else { (second, first) };
    low as u64 | (high as u64) << 32
}

/// Swaps the bytes of each half if they are in the other order.
#[inline]
const fn convert(raw: u64, order: ByteOrder) -> u64 {
    let native = matches!(
        (order, ByteOrder::NATIVE),
        (ByteOrder::Little, ByteOrder::Little) | (ByteOrder::Big, ByteOrder::Big)
    );
    if native { raw } else { swap_halves(raw) }
}

/// Foreign byte order is rare: kept out of line, it costs native rings one predicted branch.
#[cold]
const fn swap_halves(raw: u64) -> u64 {
    raw.swap_bytes().rotate_left(32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_cut_agrees_with_the_wire_crate() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for (counter, flags) in [(0, 0), (0x0102_0304, 0xa1a2_a3a4), (u32::MAX, 1), (1, u32::MAX)] {
                let word = ControlWord { counter, flags: Flags(flags) };
                assert_eq!(to_raw(word, order).to_ne_bytes(), word.to_bytes(order));
                assert_eq!(from_raw(to_raw(word, order), order), word);
            }
        }
    }
}
