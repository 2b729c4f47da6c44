//! Flows that a query has used, with both of their ends, for the next one: a flow takes longer to come and go than a small query.
//!
//! The reader's end says of which host the flow comes, the filler's which flow it is. A flow is used again only after a stream that has
//! ended well at both ends. Every other one is deleted.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use zsr::{Cancel, FlowProducer};
use zsr_arrow::{Received, Receiver};

use super::flows::Made;

/// How many flows from one host wait for their next query, at most.
const MOST: usize = 16;

/// The end of a flow that reads. The flow is deleted when it is dropped, which blocks.
pub(crate) struct Reading {
    pub(crate) receiver: Receiver,
    pub(crate) cancel: Cancel,
    pub(crate) flow: Made,
}

impl Reading {
    /// Whether a stream can come through it.
    fn is_sound(&mut self) -> bool {
        matches!(self.receiver.try_receive(), Ok(Received::Nothing))
    }
}

/// The end of a flow that fills.
pub(crate) struct Filling {
    pub(crate) producer: FlowProducer,
    pub(crate) cancel: Cancel,
}

/// Flows that wait for their next query.
#[derive(Default)]
pub(crate) struct Kept {
    /// By the host that fills them.
    reading: Mutex<HashMap<String, Vec<Reading>>>,
    /// By the flow's name.
    filling: Mutex<HashMap<String, Filling>>,
}

impl Kept {
    /// A flow from host `from`, if there is one. Blocks when flows have gone meanwhile.
    pub(crate) fn take_reading(&self, from: &str) -> Option<Reading> {
        loop {
            let mut next = lock(&self.reading).get_mut(from)?.pop()?;
            if next.is_sound() {
                return Some(next);
            }
        }
    }

    /// Keeps the reader's end of a flow from host `from`. Blocks when it is one too many.
    pub(crate) fn keep_reading(&self, from: &str, reading: Reading) {
        let mut all = lock(&self.reading);
        let kept = all.entry(from.to_owned()).or_default();
        if kept.len() < MOST {
            kept.push(reading);
        } else {
            drop(all);
            drop(reading);
        }
    }

    /// The filler's end of flow `flow`, if it is here.
    pub(crate) fn take_filling(&self, flow: &str) -> Option<Filling> {
        lock(&self.filling).remove(flow)
    }

    /// Keeps the filler's end of flow `flow`. Those whose readers have deleted their flows go.
    pub(crate) fn keep_filling(&self, flow: String, filling: Filling) {
        let mut all = lock(&self.filling);
        all.retain(|_, kept| !kept.producer.has_lost_a_ring());
        all.insert(flow, filling);
    }

    /// Drops ends of flows that have gone or failed, so that nothing is left of them before the next query. Blocks.
    pub(crate) fn sweep(&self) {
        lock(&self.filling).retain(|_, kept| !kept.producer.has_lost_a_ring());
        let mut left = Vec::new();
        for kept in lock(&self.reading).values_mut() {
            left.extend(kept.extract_if(.., |reading| !reading.is_sound()));
        }
    }

    /// Deletes all flows that are read here. Blocks.
    pub(crate) fn clear(&self) {
        let left = std::mem::take(&mut *lock(&self.reading));
        drop(left);
    }
}

/// Maps are whole also behind a panic.
fn lock<T>(map: &Mutex<T>) -> MutexGuard<'_, T> {
    map.lock().unwrap_or_else(PoisonError::into_inner)
}
