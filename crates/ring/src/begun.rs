//! How far programs have come with the item at a ring's tail.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Records of one item that a program has dealt with before it left, for the next one to begin behind. Says so only while `tail`
/// is where it was: popping the item ends it.
#[derive(Clone, Debug, Default)]
pub struct Begun(Arc<AtomicU64>);

impl Begun {
    /// Notes that `records` of the item at `tail` are dealt with.
    pub fn set(&self, tail: u32, records: u32) {
        self.0.store(u64::from(tail) << 32 | u64::from(records), Ordering::Release);
    }

    /// The tail and the records at it.
    pub fn get(&self) -> (u32, u32) {
        let both = self.0.load(Ordering::Acquire);
        ((both >> 32) as u32, both as u32)
    }

    /// How many records of the item at `tail` were dealt with.
    pub fn at(&self, tail: u32) -> u32 {
        let (at, records) = self.get();
        if at == tail { records } else { 0 }
    }

    /// Forgets an item that was popped, before the tail has gone round to where it was.
    pub fn look(&self, tail: impl FnOnce() -> u32) {
        // In this order: a tail that has passed what was set does not come back.
        let before = self.0.load(Ordering::Acquire);
        if before != 0 && (before >> 32) as u32 != tail() {
            let _ = self.0.compare_exchange(before, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}
