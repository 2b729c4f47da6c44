//! Ring memory, ABI version 1: where the control words are and what is in them.
//!
//! | offset | producer ring | consumer ring |
//! | --- | --- | --- |
//! | 0 | `head`, `flags`: written by the processing unit | [`CommitRecord`], 16 bytes: written by the switch |
//! | 64 | `tail`, `flags`: written by the switch | `tail`, `flags`: written by the processing unit |
//! | 4096 | items, `size` bytes | items, `size` bytes |
//!
//! Counters count bytes and run freely modulo 2³²; they are never wrapped to the size.

use thiserror::Error;

/// Version of the layout described here.
pub const ABI_VERSION: u32 = 1;
/// Offset of a producer ring's head word ([`ControlWord`]).
pub const PRODUCER_HEAD: u64 = 0;
/// Offset of a producer ring's tail word ([`ControlWord`]).
pub const PRODUCER_TAIL: u64 = 64;
/// Offset of a consumer ring's [`CommitRecord`].
pub const COMMIT_RECORD: u64 = 0;
/// Offset of a consumer ring's tail word ([`ControlWord`]).
pub const CONSUMER_TAIL: u64 = 64;
/// Offset of the word, 4 bytes, by which the PU says that it sleeps. No peer reads or writes it.
pub const WAITS: u64 = 128;
/// Offset of the word, 4 bytes, by which the NIC says that it wakes the PU. Likewise.
pub const WAKES: u64 = 132;
/// Offset of the times that stamped segments took from push to pop: how many took each of [`LATENCY_BUCKETS`] spans, then the sum in
/// microseconds, each 8 bytes. For programs of the PU's machine; no peer reads or writes them.
pub const LATENCY: u64 = 256;
/// Spans of time that are told apart.
pub const LATENCY_BUCKETS: usize = 25;
/// Bytes that these counts take.
pub const LATENCY_LEN: usize = 8 * (LATENCY_BUCKETS + 1);
const _: () = assert!(LATENCY.is_multiple_of(8) && LATENCY + LATENCY_LEN as u64 <= ITEMS);
/// Offset of the first item.
pub const ITEMS: u64 = 4096;
/// Length of a control word in bytes.
pub const CONTROL_WORD_LEN: usize = 8;
/// Length of a commit record in bytes.
pub const COMMIT_RECORD_LEN: usize = 16;
/// Smallest item in bytes.
pub const MIN_ITEM: u32 = 4;
/// Largest item in bytes.
pub const MAX_ITEM: u32 = 1 << 20;
/// Largest ring in bytes, control words not counted.
pub const MAX_SIZE: u32 = 1 << 30;

/// Byte order of a processing unit's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ByteOrder {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// The order of the machine that this code runs on.
    pub const NATIVE: ByteOrder =
        if cfg!(target_endian = "big") { ByteOrder::Big } else { ByteOrder::Little };

    #[inline]
    fn put(self, v: u32) -> [u8; 4] {
        match self {
            ByteOrder::Little => v.to_le_bytes(),
            ByteOrder::Big => v.to_be_bytes(),
        }
    }

    #[inline]
    fn get(self, b: [u8; 4]) -> u32 {
        match self {
            ByteOrder::Little => u32::from_le_bytes(b),
            ByteOrder::Big => u32::from_be_bytes(b),
        }
    }
}

/// The flags beside a counter: CLOSED (bit 0), ABORTED (bit 1), epoch (upper 16 bits). Other bits are reserved and
/// carried along.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u32);

impl Flags {
    /// No more items come behind this counter.
    pub const CLOSED: Flags = Flags(1);
    /// The flow was given up; the controller knows why.
    pub const ABORTED: Flags = Flags(2);

    /// No flag, with an epoch.
    #[inline]
    pub const fn with_epoch(epoch: u16) -> Flags {
        Flags((epoch as u32) << 16)
    }

    /// These flags and `other`'s.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether all of `other`'s bits are set.
    #[inline]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether CLOSED is set.
    #[inline]
    pub const fn closed(self) -> bool {
        self.contains(Flags::CLOSED)
    }

    /// Whether ABORTED is set.
    #[inline]
    pub const fn aborted(self) -> bool {
        self.contains(Flags::ABORTED)
    }

    /// The epoch, which changes whenever the ring is registered again.
    #[inline]
    pub const fn epoch(self) -> u16 {
        (self.0 >> 16) as u16
    }
}

/// A counter and its flags: 8 bytes, read and written as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ControlWord {
    /// `head` or `tail` in bytes, modulo 2³².
    pub counter: u32,
    /// Flags and epoch.
    pub flags: Flags,
}

impl ControlWord {
    /// The bytes in memory.
    #[inline]
    pub fn to_bytes(self, order: ByteOrder) -> [u8; CONTROL_WORD_LEN] {
        let [a, b, c, d] = order.put(self.counter);
        let [e, f, g, h] = order.put(self.flags.0);
        [a, b, c, d, e, f, g, h]
    }

    /// The word that these bytes mean.
    #[inline]
    pub fn from_bytes(bytes: [u8; CONTROL_WORD_LEN], order: ByteOrder) -> ControlWord {
        let [a, b, c, d, e, f, g, h] = bytes;
        ControlWord { counter: order.get([a, b, c, d]), flags: Flags(order.get([e, f, g, h])) }
    }

    /// The word as this machine's atomic 64-bit load or store sees it, for memory in this machine's byte order.
    #[inline]
    pub fn to_native(self) -> u64 {
        u64::from_ne_bytes(self.to_bytes(ByteOrder::NATIVE))
    }

    /// The opposite of [`ControlWord::to_native`].
    #[inline]
    pub fn from_native(word: u64) -> ControlWord {
        ControlWord::from_bytes(word.to_ne_bytes(), ByteOrder::NATIVE)
    }
}

/// The record that the switch writes at the start of a consumer ring: the new head, and whose items it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct CommitRecord {
    /// The consumer ring's head and flags: the first 8 bytes, which publish the rest.
    pub head: ControlWord,
    /// The producer whose items the newest head covers.
    pub producer_id: u32,
    /// The new tail of that producer, in bytes modulo 2³².
    pub producer_tail: u32,
}

impl CommitRecord {
    /// The bytes in memory.
    #[inline]
    pub fn to_bytes(self, order: ByteOrder) -> [u8; COMMIT_RECORD_LEN] {
        let mut out = [0; COMMIT_RECORD_LEN];
        out[0..8].copy_from_slice(&self.head.to_bytes(order));
        out[8..12].copy_from_slice(&order.put(self.producer_id));
        out[12..16].copy_from_slice(&order.put(self.producer_tail));
        out
    }

    /// The record that these bytes mean.
    #[inline]
    pub fn from_bytes(bytes: [u8; COMMIT_RECORD_LEN], order: ByteOrder) -> CommitRecord {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
        CommitRecord {
            head: ControlWord::from_bytes([a, b, c, d, e, f, g, h], order),
            producer_id: order.get([i, j, k, l]),
            producer_tail: order.get([m, n, o, p]),
        }
    }
}

/// Size and item size of a ring; can only be legal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Geometry {
    size: u32,
    item: u32,
}

/// Why a ring can't have these sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum GeometryError {
    /// The item size is not allowed.
    #[error("item size {0} B is not allowed: expected a power of two from 4 B to 1 MiB")]
    Item(u64),
    /// The ring size is not allowed.
    #[error("ring size {0} B is not allowed: expected a power of two up to 1 GiB (1073741824 B)")]
    Size(u64),
    /// The ring is smaller than one item.
    #[error("ring size {size} B is smaller than one item of {item} B")]
    TooSmall {
        /// Ring size in bytes.
        size: u64,
        /// Item size in bytes.
        item: u64,
    },
}

impl Geometry {
    /// A ring of `size` bytes of items with `item` bytes each.
    pub fn new(size: u64, item: u64) -> Result<Geometry, GeometryError> {
        if !item.is_power_of_two() || item < u64::from(MIN_ITEM) || item > u64::from(MAX_ITEM) {
            return Err(GeometryError::Item(item));
        }
        if !size.is_power_of_two() || size > u64::from(MAX_SIZE) {
            return Err(GeometryError::Size(size));
        }
        if size < item {
            return Err(GeometryError::TooSmall { size, item });
        }
        Ok(Geometry { size: size as u32, item: item as u32 })
    }

    /// Bytes of items.
    #[inline]
    pub const fn size(self) -> u32 {
        self.size
    }

    /// Bytes of one item.
    #[inline]
    pub const fn item(self) -> u32 {
        self.item
    }

    /// Items that fit.
    #[inline]
    pub const fn capacity(self) -> u32 {
        self.size / self.item
    }

    /// Length of the whole memory region: control words and items.
    #[inline]
    pub const fn region_len(self) -> u64 {
        ITEMS + self.size as u64
    }

    /// Offset in the memory region of the item that a counter points at. The region has I/O virtual address 0, so
    /// this is the remote address too.
    #[inline]
    pub const fn address(self, counter: u32) -> u64 {
        ITEMS + (counter & (self.size - 1)) as u64
    }

    /// Bytes between tail and head.
    #[inline]
    pub const fn fill(self, head: u32, tail: u32) -> u32 {
        head.wrapping_sub(tail)
    }

    /// Bytes free between head and tail; 0 if the counters are further apart than the ring is large, which only
    /// damaged counters are.
    #[inline]
    pub const fn space(self, head: u32, tail: u32) -> u32 {
        self.size.saturating_sub(head.wrapping_sub(tail))
    }

    /// Bytes from the counter's item to the end of the ring.
    #[inline]
    pub const fn to_wrap(self, counter: u32) -> u32 {
        self.size - (counter & (self.size - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_layout_of_the_document() {
        let word = ControlWord { counter: 0x0102_0304, flags: Flags::with_epoch(0xabcd).with(Flags::CLOSED) };
        assert_eq!(word.to_bytes(ByteOrder::Little), [4, 3, 2, 1, 1, 0, 0xcd, 0xab]);
        assert_eq!(word.to_bytes(ByteOrder::Big), [1, 2, 3, 4, 0xab, 0xcd, 0, 1]);
        assert!(word.flags.closed() && !word.flags.aborted());
        assert_eq!(word.flags.epoch(), 0xabcd);
        let record = CommitRecord { head: word, producer_id: 7, producer_tail: 0x1000 };
        assert_eq!(
            record.to_bytes(ByteOrder::Big),
            [1, 2, 3, 4, 0xab, 0xcd, 0, 1, 0, 0, 0, 7, 0, 0, 0x10, 0]
        );
    }

    #[test]
    fn counters_wrap() {
        let g = Geometry::new(1 << 16, 64).unwrap();
        assert_eq!(g.fill(0x40, 0xffff_ffc0), 0x80);
        assert_eq!(g.space(0x40, 0xffff_ffc0), (1 << 16) - 0x80);
        assert_eq!(g.space(0x20_0000, 0), 0);
        assert_eq!(g.address(0xffff_ffc0), 4096 + 0xffc0);
        assert_eq!(g.to_wrap(0xffff_ffc0), 0x40);
    }

    #[test]
    fn only_legal_sizes() {
        assert!(Geometry::new(1 << 30, 4).is_ok());
        assert!(Geometry::new(64, 64).is_ok());
        for (size, item) in
            [(1 << 31, 4), (100, 4), (0, 4), (64, 2), (64, 0), (1 << 30, 1 << 21), (64, 48), (64, 128)]
        {
            assert!(Geometry::new(size, item).is_err(), "{size} {item}");
        }
    }
}
