//! The header of a segment, and what can be wrong with it.

use super::{HEADER_LEN, LENGTH_LEN};

const MAGIC: [u8; 4] = *b"ZSEG";
const VERSION: u8 = 1;
const CHECKSUM: u8 = 1 << 0;
const TUPLES: u8 = 1 << 1;
const STAMP: u8 = 1 << 2;
/// A [layout](crate::layout) stands in place of the records. Only a consumer that has placed it sees it.
pub(crate) const LAYOUT: u8 = 1 << 7;

/// A segment's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Who wrote the segment.
    pub producer: u32,
    /// Number of the segment: 0, 1, … per producer and ring.
    pub sequence: u64,
    /// Records in the segment.
    pub count: u32,
    /// Bytes used behind the header.
    pub used: u32,
    /// Whether the records are tuples of one size, side by side.
    pub tuples: bool,
    /// Whether there is a checksum.
    pub checksum: bool,
    /// When the segment was pushed: the time of day in microseconds, modulo 2³². A segment with a checksum has none.
    pub stamp: Option<u32>,
}

/// An item does not hold a sound segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SegmentFault {
    /// Too short for a header.
    #[error("an item of {0} B is too short for a segment's header of {HEADER_LEN} B")]
    TooShort(usize),
    /// Something else than a segment.
    #[error("the item does not begin with a segment's magic: found {0:02x?}")]
    Magic([u8; 4]),
    /// From a newer library.
    #[error("segment version {0} is not known here: expected {VERSION}")]
    Version(u8),
    /// Flags or reserved bytes that this version does not define.
    #[error("the segment sets flags that version {VERSION} does not define: {0:#08x}")]
    Flags(u32),
    /// More bytes used than the item has.
    #[error("the segment claims {used} B of records, but its item has only {room} B for them")]
    Used {
        /// What the header says.
        used: u32,
        /// What the item has behind the header.
        room: usize,
    },
    /// Count and bytes do not go together.
    #[error("the segment claims {count} records in {used} B, which cannot be")]
    Count {
        /// What the header says.
        count: u32,
        /// What the header says.
        used: u32,
    },
    /// The content was damaged.
    #[error("the segment's checksum is {stored:#010x}, but its content gives {computed:#010x}")]
    Checksum {
        /// In the header.
        stored: u32,
        /// Of the content.
        computed: u32,
    },
    /// A record runs over the end of the bytes used.
    #[error("record {index} of the segment claims {length} B, but only {left} B are left")]
    RecordLength {
        /// Which record, from 0.
        index: u32,
        /// The record's length as stored.
        length: u32,
        /// What is left.
        left: usize,
    },
    /// Bytes are left over behind the last record.
    #[error("{left} B are left over behind the segment's {count} records")]
    LeftOver {
        /// Records read.
        count: u32,
        /// Bytes behind them.
        left: usize,
    },
}

impl Header {
    /// Writes the header, with the checksum of header and records if it is to have one. `item` must be
    /// the whole item, records in place; whatever does not fit is a mistake of this crate.
    pub(super) fn write(&self, item: &mut [u8]) {
        let Some((header, payload)) = item.split_first_chunk_mut::<HEADER_LEN>() else { return };
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let flags =
            flag(self.checksum, CHECKSUM) | flag(self.tuples, TUPLES) | flag(self.stamp.is_some(), STAMP);
        header[0..4].copy_from_slice(&MAGIC);
        header[4..8].copy_from_slice(&[VERSION, flags, 0, 0]);
        header[8..12].copy_from_slice(&self.producer.to_le_bytes());
        header[12..16].copy_from_slice(&self.count.to_le_bytes());
        header[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        header[24..28].copy_from_slice(&self.used.to_le_bytes());
        let used = payload.get(..self.used as usize).unwrap_or_default();
        let last = if self.checksum { checksum(&header[..28], used) } else { self.stamp.unwrap_or(0) };
        header[28..32].copy_from_slice(&last.to_le_bytes());
    }

    /// Writes the header of an item in which a layout is in place. Bytes and count are those that the NIC makes of it.
    pub(super) fn write_laid(&self, item: &mut [u8]) {
        Self { checksum: false, tuples: true, ..*self }.write(item);
        item[5] |= LAYOUT;
    }

    /// Has the header of an item that was popped say that it has no records, so that nothing comes again to whoever attaches next.
    pub(crate) fn write_popped(&self, item: &mut [u8]) {
        Self { count: 0, used: 0, tuples: true, checksum: false, stamp: None, ..*self }.write(item);
    }

    /// Has an item that [was popped](Self::write_popped) say that there is a layout behind its header, for the item that comes to its slot.
    pub(crate) fn write_placed(item: &mut [u8]) {
        if let Some(flags) = item.get_mut(5) {
            *flags |= LAYOUT;
        }
    }

    /// The header that a NIC leaves in an item whose records it puts where the item's layout says, and the bytes of these records; `None`:
    /// they have to lie in the item. `begin` is that of the item as it comes, and the layout has `room` bytes.
    ///
    /// Only tuples without a checksum are put elsewhere: others have to be looked at first.
    pub fn as_placed(begin: &[u8], room: usize) -> Option<([u8; HEADER_LEN], u32)> {
        let mut begin = *begin.first_chunk::<HEADER_LEN>()?;
        let [m0, m1, m2, m3, version, flags, r0, r1, ..] = begin;
        let (used, count) = (word(&begin, 24), word(&begin, 12));
        let is_stamped = flags & STAMP != 0;
        let is_sound =
            [m0, m1, m2, m3] == MAGIC && (version, flags & !STAMP, r0, r1) == (VERSION, TUPLES, 0, 0);
        let fits = used as usize <= room && count > 0 && used > 0 && used.is_multiple_of(count);
        if !is_sound || !fits || (word(&begin, 28) != 0 && !is_stamped) {
            return None;
        }
        begin[5] |= LAYOUT;
        Some((begin, used))
    }

    /// The header of an item whose records are where its layout says, which a NIC has put there.
    pub fn of_placed(item: &[u8]) -> Option<Self> {
        let header = item.first_chunk::<HEADER_LEN>()?;
        Self::says_layout(begin(header)).then(|| Self::fields(header))
    }

    /// Has an item not say that it has a layout; whether it did.
    pub fn without_layout(begin: &mut [u8; 8]) -> bool {
        let did = Self::says_layout(u64::from_le_bytes(*begin));
        if did {
            begin[5] &= !LAYOUT;
        }
        did
    }

    /// What a header says, checked or not.
    fn fields(header: &[u8; HEADER_LEN]) -> Self {
        Self {
            producer: word(header, 8),
            count: word(header, 12),
            sequence: u64::from(word(header, 16)) | u64::from(word(header, 20)) << 32,
            used: word(header, 24),
            tuples: header[5] & TUPLES != 0,
            checksum: header[5] & CHECKSUM != 0,
            stamp: (header[5] & STAMP != 0).then(|| word(header, 28)),
        }
    }

    /// Whether an item that begins with this word, least significant byte first, has a layout in place of records.
    pub fn says_layout(word: u64) -> bool {
        let [magic @ .., version, flags, _, _] = word.to_le_bytes();
        magic == MAGIC && version == VERSION && flags & LAYOUT != 0
    }

    /// Who wrote the segment, and how many records it has, also where a layout is in place of them.
    pub(super) fn pushed(item: &[u8]) -> Option<(u32, u32)> {
        let header = item.first_chunk::<HEADER_LEN>()?;
        match Self::says_layout(begin(header)) {
            true => Some((word(header, 8), word(header, 12))),
            false => Self::parse(item).ok().map(|(header, _)| (header.producer, header.count)),
        }
    }

    /// Reads the header of an item and checks what it says against the item, the checksum included.
    /// Gives the bytes of the records too.
    ///
    /// # Errors
    /// [`SegmentFault`], all but those of single records.
    pub fn parse(item: &[u8]) -> Result<(Self, &[u8]), SegmentFault> {
        let (header, payload) =
            item.split_first_chunk::<HEADER_LEN>().ok_or(SegmentFault::TooShort(item.len()))?;
        let [m0, m1, m2, m3, version, flags, r0, r1, ..] = *header;
        if [m0, m1, m2, m3] != MAGIC {
            return Err(SegmentFault::Magic([m0, m1, m2, m3]));
        }
        if version != VERSION {
            return Err(SegmentFault::Version(version));
        }
        let known = CHECKSUM | TUPLES | STAMP;
        if flags & !known != 0 || flags & (CHECKSUM | STAMP) == CHECKSUM | STAMP || r0 != 0 || r1 != 0 {
            return Err(SegmentFault::Flags(u32::from_le_bytes([flags, r0, r1, 0])));
        }
        let parsed = Self::fields(header);
        let used = parsed.used;
        let records = payload.get(..used as usize).ok_or(SegmentFault::Used { used, room: payload.len() })?;
        // Without a checksum or a stamp the field is 0, so that a lost flag does not go unnoticed.
        let stored = word(header, 28);
        let computed = match (parsed.checksum, parsed.stamp) {
            (true, _) => checksum(&header[..28], records),
            (false, Some(_)) => stored,
            (false, None) => 0,
        };
        if stored != computed {
            return Err(SegmentFault::Checksum { stored, computed });
        }
        let count = parsed.count;
        let sound = match (parsed.tuples, count) {
            (_, 0) => used == 0,
            (true, _) => used.is_multiple_of(count) && used > 0,
            (false, _) => u64::from(count) * LENGTH_LEN as u64 <= u64::from(used),
        };
        if !sound {
            return Err(SegmentFault::Count { count, used });
        }
        Ok((parsed, records))
    }

    /// Bytes of each tuple, if all are of one size and there are any.
    pub fn tuple_size(&self) -> Option<u32> {
        if self.tuples { self.used.checked_div(self.count) } else { None }
    }
}

/// The first word, least significant byte first.
fn begin(header: &[u8; HEADER_LEN]) -> u64 {
    u64::from(word(header, 0)) | u64::from(word(header, 4)) << 32
}

fn word(header: &[u8; HEADER_LEN], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&header[at..at + 4]);
    u32::from_le_bytes(bytes)
}

fn checksum(header: &[u8], records: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(header);
    hasher.update(records);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    fn header() -> Header {
        Header {
            producer: 7,
            sequence: 1 << 40,
            count: 2,
            used: 12,
            tuples: false,
            checksum: true,
            stamp: None,
        }
    }

    fn sound_item() -> Vec<u8> {
        let mut item = vec![0xee; 64];
        item[32..44].copy_from_slice(&[2, 0, 0, 0, 1, 2, 2, 0, 0, 0, 3, 4]);
        header().write(&mut item);
        item
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let item = sound_item();
        assert_eq!(&item[..8], b"ZSEG\x01\x01\0\0");
        assert_eq!(&item[8..16], [7, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(&item[16..28], [0, 0, 0, 0, 0, 1, 0, 0, 12, 0, 0, 0]);
        assert_eq!(Header::parse(&item).expect("sound"), (header(), &item[32..44]));
    }

    #[test]
    fn every_damaged_bit_is_noticed_and_bytes_unused_do_not_matter() {
        let item = sound_item();
        for bit in 0..item.len() * 8 {
            let mut damaged = item.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::parse(&damaged).is_ok(), bit >= 44 * 8, "bit {bit}");
        }
    }

    proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_parse_or_fail_but_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..96),
                                                  like_one in any::<bool>()) {
            let mut bytes = bytes;
            if like_one && bytes.len() >= 8 {
                bytes[..8].copy_from_slice(b"ZSEG\x01\0\0\0");
            }
            if let Ok((header, records)) = Header::parse(&bytes) {
                prop_assert_eq!(records.len(), header.used as usize);
            }
        }

        #[test]
        fn a_truncated_item_is_never_sound(cut in 0usize..44) {
            prop_assert!(Header::parse(&sound_item()[..cut]).is_err());
        }

        #[test]
        fn headers_round_trip(producer: u32, sequence: u64, size in 1u32..9, count in 0u32..4,
                              checksum: bool, stamp: Option<u32>) {
            let stamp = stamp.filter(|_| !checksum);
            let header =
                Header { producer, sequence, count, used: size * count, tuples: true, checksum, stamp };
            let mut item = [0x55; 64];
            header.write(&mut item);
            let (back, records) = Header::parse(&item).expect("sound");
            prop_assert_eq!(back, header);
            prop_assert_eq!(records, &item[32..32 + (size * count) as usize]);
            prop_assert_eq!(back.tuple_size(), (count > 0).then_some(size));
        }
    }
}
