//! Synthetic items: bare, numbered, and with contents that can be checked.
//!
//! An item of 4 bytes holds the producer's number (8 bits) above the sequence number (24 bits). Longer items hold the
//! producer (16 bits) above the sequence (48 bits) in 8 bytes, then 8-byte words made from both and the seed. All least
//! significant byte first. Sequence numbers count a producer's items over all consumers.

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A producer's number and an item's, as far as they fit in the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Number of the producer in its flow.
    pub producer: u32,
    /// Number of the item among its producer's, modulo [`sequence_mask`] + 1.
    pub sequence: u64,
}

/// How many producers items of this size can tell apart.
pub fn max_producers(item_size: usize) -> usize {
    if item_size < 8 { 1 << 8 } else { 1 << 16 }
}

/// The bits of a sequence number that items of this size hold.
#[inline]
pub fn sequence_mask(item_size: usize) -> u64 {
    if item_size < 8 { (1 << 24) - 1 } else { (1 << 48) - 1 }
}

/// Fills an item of 4, or of 8 × n bytes.
#[inline]
pub fn write(item: &mut [u8], stamp: Stamp, seed: u64) {
    let sequence = stamp.sequence & sequence_mask(item.len());
    if item.len() < 8 {
        let word = stamp.producer << 24 | sequence as u32;
        item.copy_from_slice(&word.to_le_bytes()[..item.len()]);
        return;
    }
    let first = u64::from(stamp.producer) << 48 | sequence;
    let mut word = pattern(first, seed);
    let (head, rest) = item.split_at_mut(8);
    head.copy_from_slice(&first.to_le_bytes());
    for chunk in rest.chunks_exact_mut(8) {
        chunk.copy_from_slice(&word.to_le_bytes());
        word = word.wrapping_add(GOLDEN);
    }
}

/// Reads an item's stamp and says whether the rest of it is what [`write()`] put there.
#[inline]
pub fn read(item: &[u8], seed: u64) -> (Stamp, bool) {
    if let Some(bytes) = item.first_chunk::<8>() {
        let first = u64::from_le_bytes(*bytes);
        let mut word = pattern(first, seed);
        let mut difference = 0;
        for chunk in item[8..].chunks_exact(8) {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(chunk);
            difference |= u64::from_le_bytes(bytes) ^ word;
            word = word.wrapping_add(GOLDEN);
        }
        let stamp = Stamp { producer: (first >> 48) as u32, sequence: first & sequence_mask(8) };
        return (stamp, difference == 0);
    }
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&item[..4.min(item.len())]);
    let word = u32::from_le_bytes(bytes);
    (Stamp { producer: word >> 24, sequence: u64::from(word & 0x00ff_ffff) }, item.len() == 4)
}

#[inline]
fn pattern(first: u64, seed: u64) -> u64 {
    let mixed = (first ^ seed.wrapping_mul(GOLDEN)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_read_back() {
        for size in [4, 8, 64, 4096] {
            for (producer, sequence) in [(0, 0), (200, 0xab_cdef), (255, sequence_mask(size))] {
                let mut item = vec![0; size];
                write(&mut item, Stamp { producer, sequence }, 7);
                assert_eq!(read(&item, 7), (Stamp { producer, sequence }, true));
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let stamp = Stamp { producer: 3, sequence: 99 };
        let mut item = [0; 64];
        write(&mut item, stamp, 7);
        for bit in 0..512 {
            let mut bad = item;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(read(&bad, 7), (stamp, true), "bit {bit}");
        }
    }

    #[test]
    fn short_items_wrap_their_sequence() {
        let mut item = [0; 4];
        write(&mut item, Stamp { producer: 1, sequence: (1 << 24) + 5 }, 0);
        assert_eq!(read(&item, 0).0, Stamp { producer: 1, sequence: 5 });
    }
}
