//! The switch's part in a 1:1 flow, played on memory, without network, NIC and losses.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::abi::{ControlWord, Flags, from_raw, to_raw};
use super::region::{Ring, Role};

/// Two rings that cannot be joined by a [`NullSwitch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NullSwitchError {
    /// The first ring is not a producer's.
    #[error("the first ring of a null switch must be a producer ring, this is a {0} ring")]
    NoProducer(Role),
    /// The second ring is not a consumer's.
    #[error("the second ring of a null switch must be a consumer ring, this is a {0} ring")]
    NoConsumer(Role),
    /// Different items.
    #[error("producer items have {producer} B, consumer items {consumer} B")]
    ItemSize {
        /// Bytes per item at the producer.
        producer: u32,
        /// Bytes per item at the consumer.
        consumer: u32,
    },
}

/// Moves items from a producer ring to a consumer ring as one batch travels (ARCHITECTURE.md), by copying
/// memory: what is left of a flow when everything on the way costs nothing. For tests, and as the upper
/// bound in benchmarks.
///
/// It is the only party that writes the producer's `tail` and the consumer's commit record, so there
/// must be one per pair of rings, and none beside a real switch.
#[derive(Debug)]
pub struct NullSwitch {
    producer: Arc<Ring>,
    consumer: Arc<Ring>,
    producer_id: u32,
    drained: u32,
    filled: u32,
    tail_flags: Flags,
    head_flags: Flags,
    closed: bool,
}

impl NullSwitch {
    /// Joins two rings with equal items; their sizes may differ. `producer_id` goes into the commit
    /// records.
    ///
    /// # Errors
    /// [`NullSwitchError`] for wrong roles or different items.
    pub fn new(producer: Arc<Ring>, consumer: Arc<Ring>, producer_id: u32) -> Result<Self, NullSwitchError> {
        if producer.role() != Role::Producer {
            return Err(NullSwitchError::NoProducer(producer.role()));
        }
        if consumer.role() != Role::Consumer {
            return Err(NullSwitchError::NoConsumer(consumer.role()));
        }
        let (from, to) = (producer.spec().item_size(), consumer.spec().item_size());
        if from != to {
            return Err(NullSwitchError::ItemSize { producer: from, consumer: to });
        }
        let tail = producer.snapshot().tail;
        let head = consumer.snapshot().head;
        Ok(Self {
            producer,
            consumer,
            producer_id,
            drained: tail.counter,
            filled: head.counter,
            tail_flags: tail.flags,
            head_flags: head.flags,
            closed: false,
        })
    }

    /// Makes one transfer of at most `max_bytes` (rounded down to items, at least one item) and says
    /// how many bytes it moved. 0 means that there is nothing to move or no room.
    ///
    /// The words read are not trusted to make sense; what does not is not moved.
    pub fn step(&mut self, max_bytes: u32) -> u32 {
        let (from, to) = (self.producer.spec(), self.consumer.spec());
        let head = from_raw(self.producer.control.head.load(Ordering::Acquire), from.byte_order());
        let tail = from_raw(self.consumer.control.tail.load(Ordering::Acquire), to.byte_order());
        let available = head.counter.wrapping_sub(self.drained);
        let used = self.filled.wrapping_sub(tail.counter);
        if available > from.ring_size() || used > to.ring_size() {
            return 0;
        }
        let read_at = self.drained & (from.ring_size() - 1);
        let write_at = self.filled & (to.ring_size() - 1);
        let bytes = available
            .min(to.ring_size() - used)
            .min(max_bytes.max(from.item_size()))
            .min(from.to_wrap(self.drained))
            .min(to.to_wrap(self.filled));
        let bytes = from.align_down(bytes);
        if bytes > 0 {
            // SAFETY: both ranges are within their rings by the minima above; the first is committed by
            // the producer's head, the second was given back by the consumer's tail.
            unsafe {
                let source = self.producer.items.read(read_at, bytes);
                let target = self.consumer.items.write(write_at, bytes);
                std::ptr::copy_nonoverlapping(source, target, bytes as usize);
            }
            self.drained = self.drained.wrapping_add(bytes);
            self.filled = self.filled.wrapping_add(bytes);
            self.commit(Flags::default());
            let tail = ControlWord { counter: self.drained, flags: self.tail_flags };
            self.producer.control.tail.store(to_raw(tail, from.byte_order()), Ordering::Release);
        }
        if self.drained == head.counter && !self.closed {
            let end = Flags(head.flags.0 & Flags::CLOSED.with(Flags::ABORTED).0);
            if end != Flags::default() {
                self.commit(end);
                self.closed = true;
            }
        }
        bytes
    }

    /// Whether the consumer was told the end of the stream.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    fn commit(&self, flags: Flags) {
        let order = self.consumer.spec().byte_order();
        let source = ControlWord { counter: self.producer_id, flags: Flags(self.drained) };
        let head = ControlWord { counter: self.filled, flags: self.head_flags.with(flags) };
        self.consumer.control.source.store(to_raw(source, order), Ordering::Relaxed);
        self.consumer.control.head.store(to_raw(head, order), Ordering::Release);
    }
}
