//! Going through segments where they lie in the ring.

use super::LENGTH_LEN;
use super::header::{Header, SegmentFault};
use crate::latency;
use crate::{Consumer, PopError, View};

/// No segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SegmentReadError {
    /// The ring had none: [`PopError::Closed`] is the regular end of the stream.
    #[error(transparent)]
    Ring(#[from] PopError),
    /// The next item is not a sound segment. It was skipped.
    #[error(transparent)]
    Fault(#[from] SegmentFault),
    /// Segments are missing or come twice. The segment found is still there: read on to get it.
    #[error("producer {producer}: segment {expected} was to come next, but {found} came")]
    Sequence {
        /// Number of the producer ring that the segment came from.
        producer: u32,
        /// Number that follows the last one read.
        expected: u64,
        /// Number in the header.
        found: u64,
    },
}

impl SegmentReadError {
    /// Whether this is the regular end of the stream.
    pub fn is_end_of_stream(&self) -> bool {
        *self == Self::Ring(PopError::Closed)
    }
}

/// Reads segments, of one producer or of several whose streams were merged, and watches that each
/// producer's sequence has no gap.
#[derive(Debug)]
pub struct SegmentReader {
    consumer: Consumer,
    place: Place,
    /// Of a producer's segments others get some.
    has_gaps: bool,
}

#[derive(Debug)]
struct Place {
    /// Producer and the number that comes next. Few, so searched in order, the last one found first.
    next: Vec<(u32, u64)>,
    /// Records of the next segment that were read before.
    begun: u32,
    /// The next segment came before, and was kept.
    again: bool,
}

impl Place {
    /// Counts the time of a segment that comes for the first time, if it has a stamp.
    #[inline]
    fn count_time(&mut self, view: &View<'_>, header: &Header) {
        let again = std::mem::take(&mut self.again);
        if let (Some(stamp), false) = (header.stamp, again) {
            latency::count(&**view.ring().memory(), stamp, latency::now());
        }
    }

    /// Notes a segment.
    ///
    /// # Errors
    /// [`SegmentReadError::Sequence`], if it does not follow its producer's last one.
    fn comes(&mut self, header: &Header, has_gaps: bool) -> Result<(), SegmentReadError> {
        let (producer, found) = (header.producer, header.sequence);
        let slot = match self.next.iter().position(|&(id, _)| id == producer) {
            Some(slot) => slot,
            None => {
                self.next.push((producer, found));
                self.next.len() - 1
            }
        };
        self.next.swap(0, slot);
        if let Some((_, next)) = self.next.first_mut() {
            let expected = *next;
            if expected != found && !has_gaps {
                *next = found;
                return Err(SegmentReadError::Sequence { producer, expected, found });
            }
            *next = found.wrapping_add(1);
        }
        Ok(())
    }
}

impl SegmentReader {
    /// A reader of the ring's items. Each producer may begin with any sequence number.
    pub fn new(consumer: Consumer) -> Self {
        Self::expecting(consumer, [])
    }

    /// As [`new`](Self::new), but each of the producers must begin with the number given.
    pub fn expecting(consumer: Consumer, producers: impl IntoIterator<Item = (u32, u64)>) -> Self {
        let begun = consumer.begun();
        let place = Place { next: producers.into_iter().collect(), begun, again: begun > 0 };
        Self { consumer, place, has_gaps: false }
    }

    /// The same for a ring that gets some of a producer's segments, and others the rest: gaps are no error.
    #[must_use]
    pub fn with_gaps(self) -> Self {
        Self { has_gaps: true, ..self }
    }

    /// The next segment, waiting for it as long as it takes. Its item is popped when it is dropped.
    ///
    /// # Errors
    /// [`SegmentReadError`]; reading may go on after a fault or a gap.
    pub fn next_segment(&mut self) -> Result<Segment<'_>, SegmentReadError> {
        self.consumer.wait_some()?;
        self.try_next_segment()
    }

    /// The next segment if there is one.
    ///
    /// # Errors
    /// [`SegmentReadError`], with [`PopError::Empty`] when there is none now.
    pub fn try_next_segment(&mut self) -> Result<Segment<'_>, SegmentReadError> {
        let view = self.consumer.peek_at_most(1)?;
        let place = &mut self.place;
        let header = match Header::parse(view.bytes()) {
            Ok((header, _)) => header,
            Err(fault) => {
                // Dropping the view pops the item.
                (place.begun, place.again) = (0, false);
                return Err(fault.into());
            }
        };
        if let Err(gap) = place.comes(&header, self.has_gaps) {
            view.keep();
            return Err(gap);
        }
        place.count_time(&view, &header);
        let begun = std::mem::take(&mut place.begun);
        Ok(Segment { header, view, place, begun })
    }

    /// Pops the segments without records that come next. Such are left by a consumer of [layouts](crate::layout::Places) that has died.
    pub fn skip_empty(&mut self) {
        while self.is_next_empty() {
            // What can't be read is for the next call that reads.
            if self.try_next_segment().is_err() {
                return;
            }
        }
    }

    fn is_next_empty(&mut self) -> bool {
        let Ok(view) = self.consumer.peek_at_most(1) else { return false };
        let is_empty = Header::parse(view.bytes()).is_ok_and(|(header, _)| header.count == 0);
        view.keep();
        is_empty
    }

    /// Pops the next item if a NIC has put its records where the item's layout says, and [holds](View::hold) its slot, which says from then
    /// on that it has no records. `None`: its records lie in the ring.
    ///
    /// # Errors
    /// As [`try_next_segment`](Self::try_next_segment).
    pub fn try_next_placed(&mut self) -> Result<Option<Header>, SegmentReadError> {
        let view = self.consumer.peek_at_most(1)?;
        let Some(header) = Header::of_placed(view.bytes()) else {
            view.keep();
            return Ok(None);
        };
        if let Err(gap) = self.place.comes(&header, self.has_gaps) {
            view.keep();
            return Err(gap);
        }
        self.place.count_time(&view, &header);
        self.place.begun = 0;
        view.hold_as(|item| header.write_popped(item));
        Ok(Some(header))
    }

    /// The ring's handle, with all segments that were not read. Whoever attaches when it is detached is told which records of the
    /// first one were.
    pub fn into_consumer(mut self) -> Consumer {
        self.consumer.set_begun(self.place.begun);
        self.consumer
    }

    /// The ring's handle, for its statistics.
    pub fn consumer(&mut self) -> &mut Consumer {
        &mut self.consumer
    }
}

/// One segment in the ring's memory. Dropping it pops its item.
#[derive(Debug)]
pub struct Segment<'a> {
    header: Header,
    view: View<'a>,
    place: &'a mut Place,
    begun: u32,
}

impl Segment<'_> {
    /// Who wrote it, which number it has, how much is in it.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How many records it has that were not read before.
    pub fn len(&self) -> usize {
        self.header.count.saturating_sub(self.begun) as usize
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The records that were not read before, in the order written, where they lie.
    pub fn records(&self) -> Records<'_> {
        let used = self.view.bytes().get(super::HEADER_LEN..).unwrap_or_default();
        let mut records = Records {
            left: used.get(..self.header.used as usize).unwrap_or_default(),
            tuple: self.header.tuple_size().unwrap_or(0) as usize,
            index: 0,
            count: self.header.count,
        };
        for _ in 0..self.begun.min(self.header.count) {
            // A fault among them ends the records: it was seen by whoever read them.
            let _ = records.next();
        }
        records
    }

    /// Bytes of the records that were not read before, without their lengths.
    pub fn record_bytes(&self) -> usize {
        if self.begun > 0 {
            return self.records().flatten().map(<[u8]>::len).sum();
        }
        let lengths = if self.header.tuple_size().is_some() { 0 } else { LENGTH_LEN * self.len() };
        (self.header.used as usize).saturating_sub(lengths)
    }

    /// The records that were not read before as they lie: side by side and of this size, or, where there is none, each behind
    /// its length.
    pub fn as_they_lie(&self) -> (&[u8], Option<u32>) {
        (self.records().left, self.header.tuple_size())
    }

    /// Takes the segment out of the order in which segments are popped. Its item stays as it is in memory until it is [given
    /// back](Consumer::give_back) by the number that this says.
    pub fn hold(self) -> u64 {
        self.view.hold()
    }

    /// As [`hold`](Self::hold); whoever attaches next gets no records of it.
    pub(crate) fn hold_popped(self) {
        let header = self.header;
        self.view.hold_as(|item| header.write_popped(item));
    }

    /// Leaves the segment in the ring without the first `done` of its records: it comes next again, here or at whoever
    /// attaches next.
    pub fn keep(self, done: u32) {
        self.view.keep();
        self.place.begun = self.begun.saturating_add(done);
        self.place.again = true;
        if let Some((_, next)) = self.place.next.first_mut() {
            *next = self.header.sequence;
        }
    }
}

/// Iterator over the records of a [`Segment`]; ends after the first fault.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    left: &'a [u8],
    tuple: usize,
    index: u32,
    count: u32,
}

impl<'a> Records<'a> {
    fn fault(&mut self, fault: SegmentFault) -> Option<Result<&'a [u8], SegmentFault>> {
        (self.index, self.left) = (self.count, &[]);
        Some(Err(fault))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<&'a [u8], SegmentFault>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.index == self.count {
            let left = self.left.len();
            if left > 0 {
                return self.fault(SegmentFault::LeftOver { count: self.count, left });
            }
            return None;
        }
        let (length, rest) = if self.tuple > 0 {
            (self.tuple as u32, self.left)
        } else {
            match self.left.split_first_chunk::<LENGTH_LEN>() {
                Some((length, rest)) => (u32::from_le_bytes(*length), rest),
                None => {
                    let fault = SegmentFault::RecordLength {
                        index: self.index,
                        length: LENGTH_LEN as u32,
                        left: self.left.len(),
                    };
                    return self.fault(fault);
                }
            }
        };
        match rest.split_at_checked(length as usize) {
            Some((record, rest)) => {
                self.left = rest;
                self.index += 1;
                Some(Ok(record))
            }
            None => {
                let (index, left) = (self.index, rest.len());
                self.fault(SegmentFault::RecordLength { index, length, left })
            }
        }
    }
}
