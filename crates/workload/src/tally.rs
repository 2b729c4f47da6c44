//! What went through a pair of producer and consumer, small enough to compare and exact enough to prove.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Counts and a running hash of everything that one producer sent to one consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Ring items.
    pub items: u64,
    /// Records in them; for synthetic items the items themselves.
    pub records: u64,
    /// Bytes of the records without any framing.
    pub bytes: u64,
    /// Hash over the contents, in order: each record's is seeded with the one before; a sum where the stream is divided among
    /// consumers. Synthetic items, whose contents are checked one by one, leave it 0.
    pub chain: u64,
}

impl Tally {
    /// Counts a record.
    #[inline]
    pub fn record(&mut self, record: &[u8]) {
        self.records += 1;
        self.bytes += record.len() as u64;
        self.chain = xxh3_64_with_seed(record, self.chain);
    }

    /// Counts a record of a stream that is divided among consumers: the hash is a sum, whatever the order.
    #[inline]
    pub fn shared_record(&mut self, record: &[u8]) {
        self.records += 1;
        self.bytes += record.len() as u64;
        self.chain = self.chain.wrapping_add(xxh3_64_with_seed(record, 0));
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
