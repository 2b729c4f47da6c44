//! How far a program is, for whoever wants to show it while the program waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Records so far, and what the program waited for last.
#[derive(Debug, Default)]
pub struct Counts {
    records: AtomicU64,
    bytes: AtomicU64,
    waits: Mutex<String>,
}

impl Counts {
    /// A record of `bytes` bytes was pushed or written.
    #[inline]
    pub(crate) fn add(&self, records: u64, bytes: u64) {
        self.records.fetch_add(records, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// How many records.
    pub fn records(&self) -> u64 {
        self.records.load(Ordering::Relaxed)
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The program begins to wait for this.
    pub fn wait_for(&self, what: impl Into<String>) {
        *self.waits.lock().unwrap_or_else(PoisonError::into_inner) = what.into();
    }

    /// What it waited for last: it still does if the numbers stand.
    pub fn waits(&self) -> String {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
