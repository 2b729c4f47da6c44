//! Segments: many records in one item, with a fill count and their origin.
//!
//! | offset | size | field (least significant byte first) |
//! | --- | --- | --- |
//! | 0 | 4 | bytes of records behind the header |
//! | 4 | 4 | number of records |
//! | 8 | 4 | producer's number in the flow |
//! | 12 | 4 | 0 |
//! | 16 | 8 | sequence number among the segments of this producer to this consumer |
//! | 24 | | records: length (4 bytes), then the bytes; what is behind them is undefined |

/// Bytes before the first record.
pub const HEADER: usize = 24;
/// Bytes before each record.
pub const RECORD_HEADER: usize = 4;

/// The longest record that fits in an item of `item_size` bytes.
pub fn max_record(item_size: usize) -> usize {
    item_size.saturating_sub(HEADER + RECORD_HEADER)
}

/// Where a segment comes from, and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of records, their lengths included.
    pub used: u32,
    /// Number of records.
    pub records: u32,
    /// The producer's number in the flow.
    pub producer: u32,
    /// Which of the segments of this producer to this consumer this is, from 0.
    pub sequence: u64,
}

/// How full a segment under construction is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// Bytes of records so far.
    pub used: usize,
    /// Records so far.
    pub records: u32,
}

impl Fill {
    /// Whether a record of `length` bytes still fits.
    #[inline]
    pub fn fits(&self, item_size: usize, length: usize) -> bool {
        item_size.saturating_sub(HEADER + self.used) >= RECORD_HEADER.saturating_add(length)
    }

    /// Appends a record. The caller has asked [`Fill::fits`]; otherwise nothing is written.
    #[inline]
    pub fn append(&mut self, item: &mut [u8], record: &[u8]) {
        let start = HEADER + self.used;
        let Some(room) = item.get_mut(start..start + RECORD_HEADER + record.len()) else { return };
        let (length, bytes) = room.split_at_mut(RECORD_HEADER);
        length.copy_from_slice(&(record.len() as u32).to_le_bytes());
        bytes.copy_from_slice(record);
        self.used += RECORD_HEADER + record.len();
        self.records += 1;
    }

    /// Writes the header, which makes the segment complete. Returns the bytes of its records.
    pub fn seal<'i>(&self, item: &'i mut [u8], producer: u32, sequence: u64) -> &'i [u8] {
        if let Some(header) = item.get_mut(..HEADER) {
            header[0..4].copy_from_slice(&(self.used as u32).to_le_bytes());
            header[4..8].copy_from_slice(&self.records.to_le_bytes());
            header[8..12].copy_from_slice(&producer.to_le_bytes());
            header[12..16].copy_from_slice(&[0; 4]);
            header[16..24].copy_from_slice(&sequence.to_le_bytes());
        }
        item.get(HEADER..HEADER + self.used).unwrap_or(&[])
    }
}

/// A segment as received, whose header agrees with its item.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'i> {
    /// Origin and fill.
    pub header: Header,
    /// The bytes of its records, lengths included.
    pub body: &'i [u8],
}

/// Bytes that are no segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// Shorter than a header.
    #[error("an item of {0} bytes has no room for a segment header of {HEADER}")]
    TooShort(usize),
    /// The header claims more than the item has.
    #[error("the segment header says {used} bytes, but the item has {room}")]
    Overlong {
        /// Bytes of records claimed.
        used: u32,
        /// Bytes behind the header.
        room: usize,
    },
    /// The lengths of the records don't add up.
    #[error("the lengths of the {records} records don't add up to {used} bytes")]
    Inconsistent {
        /// Records claimed.
        records: u32,
        /// Bytes claimed.
        used: u32,
    },
}

impl<'i> Segment<'i> {
    /// Reads and checks an item.
    ///
    /// # Errors
    /// When it is no complete segment.
    pub fn parse(item: &'i [u8]) -> Result<Self, SegmentError> {
        let Some((head, rest)) = item.split_first_chunk::<HEADER>() else {
            return Err(SegmentError::TooShort(item.len()));
        };
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let header = Header {
            used: word(0),
            records: word(4),
            producer: word(8),
            sequence: u64::from(word(16)) | u64::from(word(20)) << 32,
        };
        let body = rest
            .get(..header.used as usize)
            .ok_or(SegmentError::Overlong { used: header.used, room: rest.len() })?;
        let segment = Segment { header, body };
        let mut records = segment.records();
        let count = records.by_ref().count();
        if count != header.records as usize || !records.rest.is_empty() {
            return Err(SegmentError::Inconsistent { records: header.records, used: header.used });
        }
        Ok(segment)
    }

    /// Its records, in the order pushed.
    pub fn records(&self) -> Records<'i> {
        Records { rest: self.body }
    }
}

/// Iterator over the records of a segment.
#[derive(Clone, Debug)]
pub struct Records<'i> {
    rest: &'i [u8],
}

impl<'i> Iterator for Records<'i> {
    type Item = &'i [u8];

    #[inline]
    fn next(&mut self) -> Option<&'i [u8]> {
        let (length, rest) = self.rest.split_first_chunk::<RECORD_HEADER>()?;
        let (record, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        self.rest = rest;
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            records in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..12),
            size in 24usize..256, producer: u32, sequence: u64
        ) {
            let mut item = vec![0xaa; size];
            let mut fill = Fill::default();
            let mut kept = Vec::new();
            for record in &records {
                if fill.fits(size, record.len()) {
                    fill.append(&mut item, record);
                    kept.push(record.clone());
                }
            }
            let body = fill.seal(&mut item, producer, sequence).to_vec();
            let got = Segment::parse(&item).unwrap();
            prop_assert_eq!((got.header.producer, got.header.sequence), (producer, sequence));
            prop_assert_eq!(got.body, body.as_slice());
            let read: Vec<Vec<u8>> = got.records().map(<[u8]>::to_vec).collect();
            prop_assert_eq!(read, kept);
        }

        #[test]
        fn any_bytes_are_read_or_refused(item in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(segment) = Segment::parse(&item) {
                prop_assert_eq!(segment.records().count(), segment.header.records as usize);
            }
        }
    }

    #[test]
    fn a_record_fits_up_to_the_last_byte() {
        let mut item = [0; 64];
        assert_eq!(max_record(64), 36);
        assert!(Fill::default().fits(64, 36) && !Fill::default().fits(64, 37));
        let mut fill = Fill::default();
        fill.append(&mut item, &[7; 36]);
        fill.seal(&mut item, 1, 2);
        assert_eq!(Segment::parse(&item).unwrap().records().next(), Some(&[7; 36][..]));
        assert_eq!(max_record(16), 0);
        assert!(!Fill::default().fits(16, 0));
    }
}
