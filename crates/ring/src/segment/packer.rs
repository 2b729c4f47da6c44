//! Filling segments in memory of one's own.

use super::header::Header;
use super::{HEADER_LEN, LENGTH_LEN, SegmentConfig, SegmentPushError, SegmentSetupError};

/// Makes the segments that a [`SegmentWriter`](super::SegmentWriter) makes, ahead of the time when they go into a ring.
///
/// ```
/// use zsr_ring::segment::{SegmentConfig, SegmentPacker};
///
/// let mut packer = SegmentPacker::records(64, SegmentConfig::default())?;
/// let mut made = Vec::new();
/// for record in ["twelve bytes"; 5] {
///     packer.push(record.as_bytes(), |header, item| made.push((header.count, item.len())))?;
/// }
/// packer.flush(|header, item| made.push((header.count, item.len())));
/// // Two records and their lengths go into 32 bytes behind the header.
/// assert_eq!(made, [(2, 64), (2, 64), (1, 48)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SegmentPacker {
    config: SegmentConfig,
    /// Bytes of every tuple, or 0 for records of any length.
    tuple: u32,
    item_size: u32,
    sequence: u64,
    count: u32,
    /// A header's place and the records of the open segment.
    item: Vec<u8>,
}

impl SegmentPacker {
    /// Records of any length that fits.
    ///
    /// # Errors
    /// [`SegmentSetupError::ItemTooSmall`].
    pub fn records(item_size: u32, config: SegmentConfig) -> Result<Self, SegmentSetupError> {
        SegmentSetupError::check(item_size, None)?;
        Ok(Self::new(item_size, config, 0))
    }

    /// Tuples of `tuple` bytes each, which need no length of their own.
    ///
    /// # Errors
    /// [`SegmentSetupError::TupleSize`] unless at least one tuple fits an item.
    pub fn tuples(item_size: u32, config: SegmentConfig, tuple: u32) -> Result<Self, SegmentSetupError> {
        SegmentSetupError::check(item_size, Some(tuple))?;
        Ok(Self::new(item_size, config, tuple))
    }

    fn new(item_size: u32, config: SegmentConfig, tuple: u32) -> Self {
        let mut item = Vec::with_capacity(item_size as usize);
        item.resize(HEADER_LEN, 0);
        Self { config, tuple, item_size, sequence: config.first_sequence, count: 0, item }
    }

    /// Adds a record. If it does not fit the open segment, that one is made and given to `made` before: its header, and the
    /// bytes of its item that are used, the header among them.
    ///
    /// # Errors
    /// [`SegmentPushError::RecordTooLong`] and [`SegmentPushError::TupleSize`].
    #[inline]
    pub fn push(&mut self, record: &[u8], made: impl FnOnce(&Header, &[u8])) -> Result<(), SegmentPushError> {
        let framing = if self.tuple > 0 { 0 } else { LENGTH_LEN };
        let max = self.item_size as usize - HEADER_LEN - framing;
        if self.tuple > 0 && record.len() != self.tuple as usize {
            return Err(SegmentPushError::TupleSize { expected: self.tuple, got: record.len() });
        }
        if record.len() > max {
            return Err(SegmentPushError::RecordTooLong { record: record.len(), max, item: self.item_size });
        }
        if self.item_size as usize - self.item.len() < framing + record.len() {
            self.flush(made);
        }
        self.item.extend_from_slice(&(record.len() as u32).to_le_bytes()[..framing]);
        self.item.extend_from_slice(record);
        self.count += 1;
        Ok(())
    }

    /// Makes the open segment, if it has records.
    pub fn flush(&mut self, made: impl FnOnce(&Header, &[u8])) {
        if self.count == 0 {
            return;
        }
        let header = Header {
            producer: self.config.producer,
            sequence: self.sequence,
            count: self.count,
            used: (self.item.len() - HEADER_LEN) as u32,
            tuples: self.tuple > 0,
            checksum: self.config.checksum,
            stamp: self.config.stamp(self.sequence),
        };
        header.write(&mut self.item);
        made(&header, &self.item);
        self.sequence = self.sequence.wrapping_add(1);
        self.count = 0;
        self.item.truncate(HEADER_LEN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::SegmentWriter;
    use crate::{Ring, RingSpec};
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    const ITEM: u32 = 64;

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        #[test]
        fn what_is_packed_is_what_a_writer_writes(
            lengths in prop::collection::vec(0usize..40, 0..40), tuple in prop::option::of(1u32..34), checksum: bool,
        ) {
            let config = SegmentConfig { producer: 3, checksum, first_sequence: 7, stamp_every: 0 };
            let (tx, mut rx) = Ring::loopback(RingSpec::new(ITEM.into(), 4096).expect("a ring")).expect("memory");
            let made = match tuple {
                Some(tuple) => (SegmentWriter::tuples(tx, config, tuple), SegmentPacker::tuples(ITEM, config, tuple)),
                None => (SegmentWriter::records(tx, config), SegmentPacker::records(ITEM, config)),
            };
            let (mut writer, mut packer) = match made {
                (Ok(writer), Ok(packer)) => (writer, packer),
                (writer, packer) => {
                    prop_assert_eq!(writer.err(), packer.err());
                    return Ok(());
                }
            };
            let mut packed: Vec<Vec<u8>> = Vec::new();
            for (n, length) in lengths.into_iter().enumerate() {
                // Of tuples most have the right size.
                let length = if n % 5 > 0 { tuple.map_or(length, |tuple| tuple as usize) } else { length };
                let record = vec![n as u8; length];
                let wrote = writer.push(&record);
                prop_assert_eq!(wrote, packer.push(&record, |_, item| packed.push(item.to_vec())));
            }
            writer.close().expect("it closes");
            packer.flush(|_, item| packed.push(item.to_vec()));
            let mut item = [0; ITEM as usize];
            for packed in packed {
                rx.try_pop(&mut item).expect("an item");
                prop_assert_eq!(&item[..packed.len()], &packed[..]);
            }
            prop_assert_eq!(rx.try_pop(&mut item), Err(crate::PopError::Closed));
        }
    }
}
