//! A summary of all that went through a pair of producer and consumer, small enough to compare and exact enough to
//! prove.

use zsr_topology::FlowKind;

/// Counts and a running hash of everything that one producer sent to one consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Ring items.
    pub items: u64,
    /// Records in them; for synthetic items the items themselves.
    pub records: u64,
    /// Bytes of the records without any framing.
    pub bytes: u64,
    /// The chain of the hashes of all segments, in order: each is mixed into what came of those before. Where the
    /// stream is divided among consumers, it is a sum. Synthetic items, whose contents are checked one by one, leave it
    /// 0.
    pub chain: u64,
}

impl Tally {
    /// Counts a segment of so many records, and bytes of them.
    #[inline]
    pub(crate) fn segment(&mut self, flow: FlowKind, records: u64, bytes: u64, hash: u64) {
        self.items += 1;
        self.records += records;
        self.bytes += bytes;
        self.chain = match flow {
            // Consumers have some of them each, so that the order says nothing.
            FlowKind::LoadBalance => self.chain.wrapping_add(hash),
            FlowKind::Shuffle | FlowKind::Replicate => follow(self.chain, hash),
        };
    }

    /// Adds another share of a divided stream.
    pub fn join(&mut self, other: &Tally) {
        self.items += other.items;
        self.records += other.records;
        self.bytes += other.bytes;
        self.chain = self.chain.wrapping_add(other.chain);
    }

    /// Counts synthetic items.
    #[inline]
    pub fn bare(&mut self, items: u64, item_size: u32) {
        self.items += items;
        self.records += items;
        self.bytes += items * u64::from(item_size);
    }

    /// Adds the counts of another pair; a hash over several pairs means nothing and stays 0.
    pub fn add(&mut self, other: &Tally) {
        self.items += other.items;
        self.records += other.records;
        self.bytes += other.bytes;
        self.chain = 0;
    }
}

/// The hash of an order that goes on with `next`.
#[inline]
pub(crate) fn follow(order: u64, next: u64) -> u64 {
    (order.rotate_left(23) ^ next).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
