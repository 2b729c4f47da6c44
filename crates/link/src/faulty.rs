//! A port that does to frames what bad links do.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use zsr_wire::{Frame, FramePool};

use crate::faults::{FaultError, FaultRates, FaultStats, Faults, Verdict};
use crate::holding::{Holding, Lane};
use crate::port::Port;

/// A frame that is held back until its time.
struct Held {
    due: u64,
    /// Keeps frames with the same time in their order.
    serial: u64,
    frame: Frame,
}

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        (self.due, self.serial) == (other.due, other.serial)
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Held) -> std::cmp::Ordering {
        (self.due, self.serial).cmp(&(other.due, other.serial))
    }
}

/// One direction of a [`Faulty`] port.
pub struct Direction {
    faults: Faults,
    held: BinaryHeap<Reverse<Held>>,
    serial: u64,
}

impl Direction {
    fn new(rates: FaultRates, seed: u64) -> Result<Direction, FaultError> {
        Ok(Direction { faults: Faults::new(rates, seed)?, held: BinaryHeap::new(), serial: 0 })
    }

    fn hold(&mut self, due: u64, frame: Frame) {
        self.serial += 1;
        self.held.push(Reverse(Held { due, serial: self.serial, frame }));
    }
}

impl Lane for Direction {
    fn take(&mut self, now: u64, frame: Frame, pool: &mut FramePool) {
        if let Verdict::Arrives { frame, delay_ns, copy } = self.faults.decide(frame, pool) {
            self.hold(now.saturating_add(delay_ns), frame);
            if let Some((copy, delay_ns)) = copy {
                self.hold(now.saturating_add(delay_ns), copy);
            }
        }
    }

    fn put_back(&mut self, frame: Frame) {
        // First in line again: nothing else has the time 0.
        self.held.push(Reverse(Held { due: 0, serial: 0, frame }));
    }

    fn due(&self) -> Option<u64> {
        self.held.peek().map(|held| held.0.due)
    }

    fn pop(&mut self) -> Option<Frame> {
        self.held.pop().map(|held| held.0.frame)
    }

    fn is_full(&self, _now: u64) -> bool {
        self.held.len() >= MAX_HELD
    }

    fn faults(&self) -> u64 {
        let s = self.faults.stats();
        s.lost + s.duplicated + s.reordered + s.corrupted
    }
}

/// Most frames that wait in one direction because of a delay or because the inner link is full.
const MAX_HELD: usize = 4096;

/// A port with faults. Frames that are held back leave when their time has come and the port is used again: see
/// [`Port::next_due`].
pub type Faulty<P> = Holding<P, Direction>;

impl<P: Port> Faulty<P> {
    /// Faults at the rates `send` for what this end sends, and `recv` for what it receives. The same seed and the same
    /// calls give the same faults.
    ///
    /// # Errors
    /// Rates that are no probabilities.
    pub fn new(inner: P, send: FaultRates, recv: FaultRates, seed: u64) -> Result<Faulty<P>, FaultError> {
        let out = Direction::new(send, seed)?;
        let inward = Direction::new(recv, seed ^ 0x5bf0_3635_dc82_1d9d)?;
        Ok(Holding::behind(inner, out, inward))
    }

    /// What has gone wrong in the two directions: sent, received.
    pub fn stats(&self) -> (&FaultStats, &FaultStats) {
        (self.out.faults.stats(), self.inward.faults.stats())
    }
}
