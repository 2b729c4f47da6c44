//! The choice of the queue pair that transmits next.

use std::collections::VecDeque;

use crate::qp::Qp;

/// Queue pairs (by slot) that have something to send. Each is in each list at most once, and never in both `data` and `paced`, so
/// none grows beyond the number of queue pairs.
#[derive(Default)]
pub(crate) struct Sched {
    /// An acknowledgement, NAK or congestion notification is next.
    pub(crate) control: VecDeque<u16>,
    /// A READ response, READ request or WRITE is next; round-robin.
    pub(crate) data: VecDeque<u16>,
    /// Has something for `data`, but its rate does not allow it yet.
    pub(crate) paced: Vec<u16>,
    /// Queue pairs with a timer running, in no order; may hold some whose timer has stopped meanwhile.
    pub(crate) timers: Vec<u16>,
}

impl Sched {
    /// Room for `n` queue pairs.
    pub(crate) fn reserve(&mut self, n: usize) {
        self.control.reserve(n.saturating_sub(self.control.len()));
        self.data.reserve(n.saturating_sub(self.data.len()));
        self.paced.reserve(n.saturating_sub(self.paced.len()));
        self.timers.reserve(n.saturating_sub(self.timers.len()));
    }

    /// Puts `qp` into the lists that it belongs in. To be called after everything that may have changed that.
    #[inline]
    pub(crate) fn update(&mut self, slot: u16, qp: &mut Qp) {
        if !qp.in_control && qp.wants_control() {
            qp.in_control = true;
            self.control.push_back(slot);
        }
        if !qp.in_data && qp.wants_data() {
            qp.in_data = true;
            self.data.push_back(slot);
        }
        if !qp.in_timers && qp.deadline().is_some() {
            qp.in_timers = true;
            self.timers.push(slot);
        }
    }

    /// Removes a destroyed queue pair.
    pub(crate) fn forget(&mut self, slot: u16) {
        self.control.retain(|&s| s != slot);
        self.data.retain(|&s| s != slot);
        self.paced.retain(|&s| s != slot);
        self.timers.retain(|&s| s != slot);
    }
}
