//! What a receiver pops from: a flow's ring, or a ring that the program has in hand.

use std::sync::Arc;
use std::time::Instant;

use zsr::{FlowConsumer, HeldBatch, Popped};
use zsr_ring::segment::{SegmentReadError, SegmentReader};
use zsr_ring::{Held, PopError, Ring};

use crate::error::Error;

/// What a look into a ring finds.
pub enum Found<T> {
    /// An item.
    Some(T),
    /// None now.
    Nothing,
    /// The end of the stream.
    End,
}

/// Where the records of an item lie.
#[derive(Clone, Copy, Debug)]
pub struct Lying {
    /// The first one's length.
    pub begin: *const u8,
    /// Bytes of all of them, and of their lengths, each a `u32`, little-endian, in front of its record.
    pub bytes: usize,
    /// Whether they have lengths. Records of one size hold no batches.
    pub has_lengths: bool,
}

/// A ring of which items can be popped, and read until they are given back.
///
/// # Safety
/// The memory that [`lying`](Self::lying) says can be read, and is not written, until the item is given back or the inlet is dropped.
pub unsafe trait Inlet: Send + 'static {
    /// An item that was popped and not given back.
    type Held: Send + 'static;

    /// Pops an item, waiting for one until `stop` says so, or `end` is over. `stop` is asked every few milliseconds, and whenever the
    /// [ring](Self::ring) is nudged.
    ///
    /// # Errors
    /// [`Error::Program`], [`Error::AllLent`].
    fn take(&mut self, stop: &dyn Fn() -> bool, end: Option<Instant>) -> Result<Found<Self::Held>, Error>;
    /// Where an item lies.
    fn lying(held: &Self::Held) -> Lying;
    /// Gives an item back.
    fn give_back(&mut self, held: &Self::Held);
    /// How many items are popped and can't be written again, and how many the ring has. Of several rings, those of the one with the
    /// most.
    fn held(&mut self) -> (usize, usize);
    /// Tells the other side that nobody pops any more.
    fn abort(&mut self);
    /// The ring, in whose memory all items lie; none where there are several.
    fn ring(&mut self) -> Option<Arc<Ring>>;
}

/// A batch of a flow that is not given back.
#[derive(Debug)]
pub struct OfFlow(HeldBatch);

// SAFETY: it is only a place and a number; who may read there is said by `Inlet`.
unsafe impl Send for OfFlow {}

// SAFETY: `Batch::hold` says the same.
unsafe impl Inlet for FlowConsumer {
    type Held = OfFlow;

    fn take(&mut self, stop: &dyn Fn() -> bool, end: Option<Instant>) -> Result<Found<OfFlow>, Error> {
        Ok(match self.pop_unless(stop, end)? {
            Popped::Batch(batch) => Found::Some(OfFlow(batch.hold())),
            Popped::Nothing => Found::Nothing,
            Popped::End => Found::End,
        })
    }

    fn lying(held: &OfFlow) -> Lying {
        Lying { begin: held.0.begin, bytes: held.0.bytes, has_lengths: held.0.record_size.is_none() }
    }

    fn give_back(&mut self, held: &OfFlow) {
        FlowConsumer::give_back(self, &held.0);
    }

    fn held(&mut self) -> (usize, usize) {
        FlowConsumer::held(self)
    }

    fn abort(&mut self) {
        FlowConsumer::abort(self);
    }

    fn ring(&mut self) -> Option<Arc<Ring>> {
        FlowConsumer::ring(self).cloned()
    }
}

/// A ring that the program has in hand: in memory, or of [`zsr::pu`].
pub struct RingReader {
    reader: SegmentReader,
    held: Held,
}

impl RingReader {
    /// The ring of `reader`.
    pub fn new(reader: SegmentReader) -> Self {
        RingReader { reader, held: Held::default() }
    }
}

/// An item of a [`RingReader`].
#[derive(Debug)]
pub struct OfRing {
    number: u64,
    lying: Lying,
}

// SAFETY: as `OfFlow`.
unsafe impl Send for OfRing {}

// SAFETY: `Segment::hold` promises it, and the reader keeps its ring.
unsafe impl Inlet for RingReader {
    type Held = OfRing;

    fn take(&mut self, stop: &dyn Fn() -> bool, end: Option<Instant>) -> Result<Found<OfRing>, Error> {
        let failed = |e: SegmentReadError| Err(Error::Program(e.into()));
        let ring = self.reader.consumer();
        let items = ring.spec().capacity() as usize;
        if ring.held() >= items
            && matches!(ring.peek_at_most(1).map(|view| view.keep()), Err(PopError::Empty))
        {
            return Err(Error::AllLent { items, batches: 0 });
        }
        if let Err(e) = ring.wait_unless(stop, end) {
            return if e == PopError::Closed { Ok(Found::End) } else { failed(e.into()) };
        }
        match self.reader.try_next_segment() {
            Ok(segment) => {
                let (bytes, size) = segment.as_they_lie();
                let lying = Lying { begin: bytes.as_ptr(), bytes: bytes.len(), has_lengths: size.is_none() };
                let number = segment.hold();
                self.held.add(number);
                Ok(Found::Some(OfRing { number, lying }))
            }
            Err(SegmentReadError::Ring(PopError::Empty)) => Ok(Found::Nothing),
            Err(SegmentReadError::Ring(PopError::Closed)) => Ok(Found::End),
            Err(e) => failed(e),
        }
    }

    fn lying(held: &OfRing) -> Lying {
        held.lying
    }

    fn give_back(&mut self, held: &OfRing) {
        self.held.give_back(held.number, self.reader.consumer());
    }

    fn held(&mut self) -> (usize, usize) {
        let ring = self.reader.consumer();
        (ring.held(), ring.spec().capacity() as usize)
    }

    fn abort(&mut self) {
        self.reader.consumer().abort();
    }

    fn ring(&mut self) -> Option<Arc<Ring>> {
        Some(self.reader.consumer().ring().clone())
    }
}
