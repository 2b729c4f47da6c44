//! Filling segments where they lie in the ring.

use super::header::Header;
use super::{HEADER_LEN, LENGTH_LEN};
#[cfg(not(feature = "loom"))]
use crate::layout::{Encoded, Layout, LayoutError, Regions, encode};
use crate::{Producer, PushError};

/// How segments are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SegmentConfig {
    /// Stands in every header; tells readers of a merged stream whose segments they see.
    pub producer: u32,
    /// Whether segments carry a CRC-32 of their content. Needed where a memory does not promise that
    /// RDMA writes become visible in order ([`Visibility`](crate::memory::Visibility)).
    pub checksum: bool,
    /// Number of the first segment.
    pub first_sequence: u64,
    /// On average one segment in this many carries the [time when it was pushed](crate::latency), unless they carry checksums; 0: none.
    pub stamp_every: u32,
}

impl SegmentConfig {
    /// The stamp of the segment with this number, if it carries one.
    #[inline]
    pub(super) fn stamp(&self, sequence: u64) -> Option<u32> {
        if self.stamp_every == 0 || self.checksum {
            return None;
        }
        // Regular numbers could be the first ones of batches, or all go to the same consumer.
        let mixed = sequence.wrapping_add(self.producer.into()).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        mixed.is_multiple_of(self.stamp_every.into()).then(crate::latency::now)
    }
}

/// A ring cannot carry segments as asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SegmentSetupError {
    /// Not even an empty record fits an item.
    #[error(
        "items of {item} B are too small for segments: a header takes {HEADER_LEN} B and every record \
         {LENGTH_LEN} B more than its content; use items of 64 B or more"
    )]
    ItemTooSmall {
        /// The ring's item size, bytes.
        item: u32,
    },
    /// Not one tuple fits an item.
    #[error("tuples of {tuple} B do not fit: items of {item} B have room for tuples of 1 B to {room} B")]
    TupleSize {
        /// Size asked for, bytes.
        tuple: u32,
        /// The ring's item size, bytes.
        item: u32,
        /// What an item has behind the header, bytes.
        room: u32,
    },
}

impl SegmentSetupError {
    /// Whether items of `item` bytes can carry tuples of `tuple` bytes, or records of any length.
    ///
    /// # Errors
    /// Why not.
    pub fn check(item: u32, tuple: Option<u32>) -> Result<(), Self> {
        let room = item.saturating_sub(HEADER_LEN as u32);
        match tuple {
            None if room as usize <= LENGTH_LEN => Err(Self::ItemTooSmall { item }),
            Some(tuple) if tuple == 0 || tuple > room => Err(Self::TupleSize { tuple, item, room }),
            _ => Ok(()),
        }
    }
}

/// A record was not taken. The writer and the records taken before are unharmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SegmentPushError {
    /// The ring refused: [`PushError::Full`] from the `try_` calls, aborted, cancelled.
    #[error(transparent)]
    Ring(#[from] PushError),
    /// Longer than an item can hold.
    #[error("a record of {record} B is longer than items of {item} B can hold, which is {max} B")]
    RecordTooLong {
        /// The record's length, bytes.
        record: usize,
        /// The longest record possible, bytes.
        max: usize,
        /// The ring's item size, bytes.
        item: u32,
    },
    /// Another size than all the others.
    #[error("a tuple of {got} B was given to a writer of tuples of {expected} B")]
    TupleSize {
        /// What the writer was made for, bytes.
        expected: u32,
        /// What came, bytes.
        got: usize,
    },
    /// A layout that makes no sense.
    #[cfg(not(feature = "loom"))]
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// Puts records into segments and segments into a ring.
///
/// A segment is pushed when the next record does not fit, by [`flush`](Self::flush), and by
/// [`close`](Self::close). Dropping the writer otherwise leaves the last segment unpushed and aborts the
/// ring, as dropping a [`Producer`] does.
#[derive(Debug)]
pub struct SegmentWriter {
    producer: Producer,
    config: SegmentConfig,
    /// Bytes of every tuple, or 0 for records of any length.
    tuple: u32,
    sequence: u64,
    /// Records in the open segment; the next item of the ring holds it as soon as there is one.
    count: u32,
    used: usize,
    room: usize,
    records: u64,
}

impl SegmentWriter {
    /// Records of any length up to [`max_record`](Self::max_record).
    ///
    /// # Errors
    /// [`SegmentSetupError::ItemTooSmall`].
    pub fn records(producer: Producer, config: SegmentConfig) -> Result<Self, SegmentSetupError> {
        if let Err(e) = SegmentSetupError::check(producer.spec().item_size(), None) {
            producer.detach();
            return Err(e);
        }
        Ok(Self::new(producer, config, 0))
    }

    /// Tuples of `tuple` bytes each, which need no length of their own.
    ///
    /// # Errors
    /// [`SegmentSetupError::TupleSize`] unless at least one tuple fits an item.
    pub fn tuples(producer: Producer, config: SegmentConfig, tuple: u32) -> Result<Self, SegmentSetupError> {
        if let Err(e) = SegmentSetupError::check(producer.spec().item_size(), Some(tuple)) {
            producer.detach();
            return Err(e);
        }
        Ok(Self::new(producer, config, tuple))
    }

    fn new(producer: Producer, config: SegmentConfig, tuple: u32) -> Self {
        let room = producer.spec().item_size() as usize - HEADER_LEN;
        Self { producer, config, tuple, sequence: config.first_sequence, count: 0, used: 0, room, records: 0 }
    }

    /// Longest record, bytes.
    pub fn max_record(&self) -> usize {
        if self.tuple > 0 { self.tuple as usize } else { self.room - LENGTH_LEN }
    }

    /// Bytes of the longest record that goes into the segment that is open; 0 if none is.
    pub fn left(&self) -> usize {
        if self.count == 0 { 0 } else { (self.room - self.used).saturating_sub(self.needs(0)) }
    }

    /// Adds a record, waiting for the ring as long as it takes.
    ///
    /// # Errors
    /// [`SegmentPushError`], but not `Full`.
    #[inline]
    pub fn push(&mut self, record: &[u8]) -> Result<(), SegmentPushError> {
        self.push_with(record.len(), |place| place.copy_from_slice(record))
    }

    /// Adds a record if that needs no waiting.
    ///
    /// # Errors
    /// [`SegmentPushError`]; after `Full` the same record may be tried again.
    #[inline]
    pub fn try_push(&mut self, record: &[u8]) -> Result<(), SegmentPushError> {
        self.make_room(record.len())?;
        if self.count == 0 {
            self.producer.reserve(1)?;
        }
        self.write(record.len(), |place| place.copy_from_slice(record))
    }

    /// Adds a record of `len` bytes that `fill` writes into the ring's memory, which holds anything
    /// before; waits for the ring as long as it takes.
    ///
    /// # Errors
    /// [`SegmentPushError`], but not `Full`.
    #[inline]
    pub fn push_with(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> Result<(), SegmentPushError> {
        self.make_room(len)?;
        if self.count == 0 {
            self.producer.reserve_wait(1)?;
        }
        self.write(len, fill)
    }

    /// Room for records that the caller writes where they lie in the ring, if that needs no waiting: for one record of at most
    /// `len` bytes, or, of tuples, for as many as the open segment takes of `len` bytes of them, and for at least one.
    ///
    /// # Errors
    /// As [`try_push`](Self::try_push).
    pub fn try_reserve(&mut self, len: usize) -> Result<Room<'_>, SegmentPushError> {
        let tuple = self.tuple as usize;
        if tuple > 0 && (len == 0 || !len.is_multiple_of(tuple)) {
            return Err(SegmentPushError::TupleSize { expected: self.tuple, got: len });
        }
        self.make_room(if tuple > 0 { tuple } else { len })?;
        if self.count == 0 {
            self.producer.reserve(1)?;
        }
        let left = self.room - self.used;
        let len = if tuple > 0 { len.min(left - left % tuple) } else { len };
        Ok(Room { writer: self, len })
    }

    /// Adds as many of the tuples that lie side by side in `tuples` as the open segment takes, at least one, and says how many;
    /// of records of any length, the one that `tuples` is.
    ///
    /// # Errors
    /// As [`try_push`](Self::try_push).
    pub fn try_push_tuples(&mut self, tuples: &[u8]) -> Result<usize, SegmentPushError> {
        let Room { writer, len } = self.try_reserve(tuples.len())?;
        let records = len.checked_div(writer.tuple as usize).unwrap_or(1);
        writer.write_all(len, records, |place| place.copy_from_slice(&tuples[..len]))?;
        Ok(records)
    }

    /// Checks the length, and pushes the open segment if a record of that length does not fit it.
    #[inline]
    fn make_room(&mut self, len: usize) -> Result<(), SegmentPushError> {
        if self.tuple > 0 {
            if len != self.tuple as usize {
                return Err(SegmentPushError::TupleSize { expected: self.tuple, got: len });
            }
        } else if len > self.room - LENGTH_LEN {
            let item = self.producer.spec().item_size();
            return Err(SegmentPushError::RecordTooLong { record: len, max: self.room - LENGTH_LEN, item });
        }
        if self.room - self.used < self.needs(len) {
            self.flush()?;
        }
        Ok(())
    }

    #[inline]
    fn needs(&self, len: usize) -> usize {
        if self.tuple > 0 { len } else { LENGTH_LEN + len }
    }

    /// Writes a record that fits into the item that is known to be free.
    #[inline]
    fn write(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> Result<(), SegmentPushError> {
        self.write_all(len, 1, fill)
    }

    /// As [`write`](Self::write): `records` of them, in `len` bytes.
    #[inline]
    fn write_all(
        &mut self,
        len: usize,
        records: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<(), SegmentPushError> {
        let needs = self.needs(len);
        let mut slot = self.producer.reserve(1)?;
        let start = HEADER_LEN + self.used;
        let Some(place) = slot.bytes().get_mut(start..start + needs) else {
            return Err(PushError::Full.into());
        };
        let (length, place) = place.split_at_mut(needs - len);
        length.copy_from_slice(&(len as u32).to_le_bytes()[..length.len()]);
        fill(place);
        self.used += needs;
        self.count += records as u32;
        self.records += records as u64;
        Ok(())
    }

    /// Pushes the open segment, if it has records. Never waits: its item is reserved already.
    ///
    /// # Errors
    /// The ring was aborted meanwhile.
    pub fn flush(&mut self) -> Result<(), SegmentPushError> {
        if self.count == 0 {
            return Ok(());
        }
        let header = Header {
            producer: self.config.producer,
            sequence: self.sequence,
            count: self.count,
            used: self.used as u32,
            tuples: self.tuple > 0,
            checksum: self.config.checksum,
            stamp: self.config.stamp(self.sequence),
        };
        let mut slot = self.producer.reserve(1)?;
        header.write(slot.bytes());
        slot.publish(1);
        self.sequence = self.sequence.wrapping_add(1);
        (self.count, self.used) = (0, 0);
        Ok(())
    }

    /// Pushes the open segment, and a segment whose records lie where `layout` says in `regions`, if that needs no waiting. The
    /// agent of the ring knows the first region by the number `first`. Says how many records it has.
    ///
    /// # Errors
    /// As [`try_push`](Self::try_push), [`SegmentPushError::Layout`].
    #[cfg(not(feature = "loom"))]
    pub fn try_lay_out(
        &mut self,
        layout: &Layout,
        regions: &Regions,
        first: u32,
    ) -> Result<u32, SegmentPushError> {
        if self.tuple > 0 && layout.row_size() != u64::from(self.tuple) {
            return Err(LayoutError::RowSize { expected: self.tuple, got: layout.row_size() }.into());
        }
        self.flush()?;
        let mut slot = self.producer.reserve(1)?;
        let Encoded { count, used } = encode(layout, regions, first, slot.bytes())?;
        let (producer, sequence) = (self.config.producer, self.sequence);
        let stamp = self.config.stamp(sequence);
        Header { producer, sequence, count, used, tuples: true, checksum: false, stamp }
            .write_laid(slot.bytes());
        slot.publish(1);
        self.sequence = self.sequence.wrapping_add(1);
        self.records += u64::from(count);
        Ok(count)
    }

    /// Pushes the open segment and ends the stream.
    ///
    /// # Errors
    /// The ring was aborted meanwhile.
    pub fn close(mut self) -> Result<(), SegmentPushError> {
        self.flush()?;
        self.producer.close();
        Ok(())
    }

    /// Pushes the open segment and gives the ring back, whose stream goes on.
    ///
    /// # Errors
    /// The ring was aborted meanwhile.
    pub fn into_producer(mut self) -> Result<Producer, SegmentPushError> {
        self.flush()?;
        Ok(self.producer)
    }

    /// Whether the ring was given up, by a fresh look: what is pushed into it goes nowhere.
    pub fn is_aborted(&self) -> bool {
        self.producer.is_aborted()
    }

    /// How many records that were put in here have not been taken out of the ring: those of the open segment, and of the
    /// items that are still there.
    pub fn untaken(&self) -> u64 {
        let pushed = self.producer.untaken().filter_map(Header::pushed);
        // Others were there before.
        let own = pushed.filter(|(producer, _)| *producer == self.config.producer);
        own.map(|(_, count)| u64::from(count)).sum::<u64>() + u64::from(self.count)
    }

    /// Gives up a ring that nobody takes anything out of any more. The open segment is not pushed. Says how many records are
    /// lost, as [`untaken`](Self::untaken).
    pub fn abandon(self) -> u64 {
        let lost = self.untaken();
        self.producer.detach();
        lost
    }

    /// Records taken so far.
    pub fn records_taken(&self) -> u64 {
        self.records
    }

    /// Segments pushed so far.
    pub fn segments_pushed(&self) -> u64 {
        self.sequence.wrapping_sub(self.config.first_sequence)
    }

    /// The ring's handle, for its statistics.
    pub fn producer(&mut self) -> &mut Producer {
        &mut self.producer
    }
}

/// Room for records in the open segment of a [`SegmentWriter`], where they are to lie in the ring. Dropping it pushes nothing.
#[derive(Debug)]
pub struct Room<'w> {
    writer: &'w mut SegmentWriter,
    len: usize,
}

impl<'w> Room<'w> {
    /// The ring's memory, which holds anything before.
    ///
    /// # Errors
    /// The ring was aborted meanwhile.
    pub fn into_bytes(self) -> Result<&'w mut [u8], SegmentPushError> {
        let Room { writer, len } = self;
        let start = HEADER_LEN + writer.used + (writer.needs(len) - len);
        let item = writer.producer.reserve(1)?.into_bytes();
        item.get_mut(start..start + len).ok_or(PushError::Full.into())
    }

    /// Adds what was written to the first `used` bytes of the memory: one record, or as many tuples as that is.
    ///
    /// # Errors
    /// The ring was aborted meanwhile; `used` is more than there is, or no whole tuples.
    pub fn publish(self, used: usize) -> Result<(), SegmentPushError> {
        let Room { writer, len } = self;
        let tuple = writer.tuple;
        if tuple > 0 && (used > len || !used.is_multiple_of(tuple as usize)) {
            return Err(SegmentPushError::TupleSize { expected: tuple, got: used });
        }
        if used > len {
            let item = writer.producer.spec().item_size();
            return Err(SegmentPushError::RecordTooLong { record: used, max: len, item });
        }
        let records = if tuple > 0 { used / tuple as usize } else { 1 };
        writer.write_all(used, records, |_| ())
    }
}
