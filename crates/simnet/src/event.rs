//! Events to come, in order of time; those of one time in the order in which they were planned.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use zsr_wire::Frame;

pub(crate) enum What {
    /// A frame arrives at a node's port.
    Arrival { node: usize, port: u16, frame: Frame },
    /// A node that had to wait for a link may transmit again.
    Wake { node: usize },
}

struct Event {
    at: u64,
    serial: u64,
    what: What,
}

impl PartialEq for Event {
    fn eq(&self, other: &Event) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Event) -> Ordering {
        (self.at, self.serial).cmp(&(other.at, other.serial))
    }
}

#[derive(Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Reverse<Event>>,
    serial: u64,
}

impl Events {
    pub(crate) fn push(&mut self, at: u64, what: What) {
        self.serial += 1;
        self.heap.push(Reverse(Event { at, serial: self.serial, what }));
    }

    pub(crate) fn next_at(&self) -> Option<u64> {
        self.heap.peek().map(|e| e.0.at)
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, What)> {
        self.heap.pop().map(|e| (e.0.at, e.0.what))
    }
}
