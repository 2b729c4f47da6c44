//! What a sender pushes into: a flow's rings, or rings that the program has in hand.

use zsr::api::FlowKind;
use zsr::{FlowProducer, To, Wait};
use zsr_ring::PushError;
use zsr_ring::segment::{SegmentPushError, SegmentWriter};

use crate::error::Error;

/// Rings to consumers, into which records are written where they are to lie.
pub trait Outlet {
    /// How many consumers there are.
    fn consumers(&self) -> usize;
    /// A number of the ring to this consumer that no other ring has or had.
    fn ring(&self, consumer: usize) -> Option<u32>;
    /// Bytes of the longest record.
    fn max_record(&self) -> usize;
    /// Bytes of the longest record that goes into the item that has begun for this consumer; 0 if none has.
    fn left(&self, consumer: usize) -> usize;
    /// Whether several consumers take items out of the one ring, each some of them.
    fn shares(&self) -> bool;
    /// Waits for room for a record of at most `len` bytes in the ring to `consumer`, and has `fill` write it there, which says how long it
    /// became: so does this. It is pushed by [`publish`](Self::publish), and forgotten by any other call that changes something.
    ///
    /// # Errors
    /// [`Error::Program`].
    fn reserve(
        &mut self,
        consumer: usize,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<usize, Error>;
    /// Which ring it was written into.
    fn reserved_ring(&self) -> Option<u32>;
    /// Pushes the `used` bytes that were written last.
    ///
    /// # Errors
    /// [`Error::Program`].
    fn publish(&mut self, used: usize) -> Result<(), Error>;
    /// Pushes items that are not full.
    ///
    /// # Errors
    /// [`Error::Program`].
    fn flush(&mut self) -> Result<(), Error>;
    /// Ends the stream.
    ///
    /// # Errors
    /// [`Error::Program`].
    fn close(self) -> Result<(), Error>;
}

impl Outlet for FlowProducer {
    fn consumers(&self) -> usize {
        FlowProducer::consumers(self)
    }

    fn ring(&self, consumer: usize) -> Option<u32> {
        FlowProducer::ring(self, consumer)
    }

    fn max_record(&self) -> usize {
        FlowProducer::max_record(self)
    }

    fn left(&self, consumer: usize) -> usize {
        FlowProducer::left(self, consumer)
    }

    fn shares(&self) -> bool {
        self.kind() == FlowKind::LoadBalance
    }

    fn reserve(
        &mut self,
        consumer: usize,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<usize, Error> {
        let room = FlowProducer::reserve(self, len, To::Consumer(consumer), Wait::Forever)?;
        // Without an end to patience there is room.
        Ok(room.map_or(0, fill))
    }

    fn reserved_ring(&self) -> Option<u32> {
        FlowProducer::reserved_ring(self)
    }

    fn publish(&mut self, used: usize) -> Result<(), Error> {
        Ok(FlowProducer::publish(self, used)?)
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(FlowProducer::flush(self)?)
    }

    fn close(self) -> Result<(), Error> {
        Ok(FlowProducer::close(self)?)
    }
}

/// Rings that the program has in hand, each to a consumer: in memory, or of [`zsr::pu`].
pub struct Rings {
    writers: Vec<SegmentWriter>,
    /// Where room was reserved last, and how much.
    reserved: Option<(usize, usize)>,
}

impl Rings {
    /// Writers of records of any length, in the order of the consumers. There is at least one.
    pub fn new(writers: Vec<SegmentWriter>) -> Self {
        Rings { writers, reserved: None }
    }

    fn writer(&mut self, consumer: usize) -> Result<&mut SegmentWriter, Error> {
        let consumers = self.writers.len();
        let none = || Error::NoSuchConsumer { row: 0, target: consumer, consumers };
        self.writers.get_mut(consumer).ok_or_else(none)
    }
}

fn failed(e: SegmentPushError) -> Error {
    Error::Program(e.into())
}

impl Outlet for Rings {
    fn consumers(&self) -> usize {
        self.writers.len()
    }

    fn ring(&self, consumer: usize) -> Option<u32> {
        (consumer < self.writers.len()).then_some(consumer as u32)
    }

    fn max_record(&self) -> usize {
        self.writers.iter().map(SegmentWriter::max_record).min().unwrap_or(0)
    }

    fn left(&self, consumer: usize) -> usize {
        self.writers.get(consumer).map_or(0, SegmentWriter::left)
    }

    fn shares(&self) -> bool {
        false
    }

    fn reserve(
        &mut self,
        consumer: usize,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> usize,
    ) -> Result<usize, Error> {
        self.reserved = None;
        let writer = self.writer(consumer)?;
        while let Err(e) = writer.try_reserve(len).map(|_| ()) {
            if e != SegmentPushError::Ring(PushError::Full) {
                return Err(failed(e));
            }
            writer.producer().wait_unless(|| false, None).map_err(|e| failed(e.into()))?;
        }
        let used = fill(writer.try_reserve(len).and_then(|room| room.into_bytes()).map_err(failed)?);
        self.reserved = Some((consumer, len));
        Ok(used)
    }

    fn reserved_ring(&self) -> Option<u32> {
        self.reserved.map(|(consumer, _)| consumer as u32)
    }

    fn publish(&mut self, used: usize) -> Result<(), Error> {
        let Some((consumer, len)) = self.reserved.take() else { return Ok(()) };
        let writer = self.writer(consumer)?;
        writer.try_reserve(len).and_then(|room| room.publish(used)).map_err(failed)
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.reserved = None;
        self.writers.iter_mut().try_for_each(SegmentWriter::flush).map_err(failed)
    }

    fn close(self) -> Result<(), Error> {
        self.writers.into_iter().try_for_each(SegmentWriter::close).map_err(failed)
    }
}
