//! A port that does to frames what bad links do.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use zsr_wire::{Frame, FramePool};

use crate::faults::{FaultError, FaultRates, FaultStats, Faults, Verdict};
use crate::port::{Port, SendError};

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

struct Direction {
    faults: Faults,
    held: BinaryHeap<Reverse<Held>>,
    serial: u64,
}

impl Direction {
    fn new(rates: FaultRates, seed: u64) -> Result<Direction, FaultError> {
        Ok(Direction { faults: Faults::new(rates, seed)?, held: BinaryHeap::new(), serial: 0 })
    }

    fn take(&mut self, now: u64, frame: Frame, pool: &mut FramePool) {
        if let Verdict::Arrives { frame, delay_ns, copy } = self.faults.decide(frame, pool) {
            self.hold(now.saturating_add(delay_ns), frame);
            if let Some((copy, delay_ns)) = copy {
                self.hold(now.saturating_add(delay_ns), copy);
            }
        }
    }

    fn hold(&mut self, due: u64, frame: Frame) {
        self.serial += 1;
        self.held.push(Reverse(Held { due, serial: self.serial, frame }));
    }

    fn due(&self) -> Option<u64> {
        self.held.peek().map(|held| held.0.due)
    }

    fn release(&mut self, now: u64) -> Option<Frame> {
        if self.due()? > now {
            return None;
        }
        self.held.pop().map(|held| held.0.frame)
    }
}

/// Most frames that wait in one direction because of a delay or because the inner link is full.
const MAX_HELD: usize = 4096;

/// A port with faults. Frames that are held back leave when their time has come and the port is used again: see
/// [`Port::next_due`].
pub struct Faulty<P> {
    inner: P,
    out: Direction,
    inward: Direction,
}

impl<P: Port> Faulty<P> {
    /// Faults at the rates `send` for what this end sends, and `recv` for what it receives. The same seed and the same
    /// calls give the same faults.
    pub fn new(inner: P, send: FaultRates, recv: FaultRates, seed: u64) -> Result<Faulty<P>, FaultError> {
        let out = Direction::new(send, seed)?;
        let inward = Direction::new(recv, seed ^ 0x5bf0_3635_dc82_1d9d)?;
        Ok(Faulty { inner, out, inward })
    }

    /// What has gone wrong in the two directions: sent, received.
    pub fn stats(&self) -> (&FaultStats, &FaultStats) {
        (self.out.faults.stats(), self.inward.faults.stats())
    }

    /// Passes on what is due. A full inner link keeps the rest for later.
    fn pass_on(&mut self, now: u64, pool: &mut FramePool) {
        while let Some(frame) = self.out.release(now) {
            match self.inner.send(now, frame, pool) {
                Ok(()) => {}
                Err(SendError::Full(frame)) => {
                    // First in line again: nothing else has the time 0.
                    self.out.held.push(Reverse(Held { due: 0, serial: 0, frame }));
                    return;
                }
                Err(SendError::Closed(frame)) => pool.put(frame),
            }
        }
    }
}

impl<P: Port> Port for Faulty<P> {
    fn send(&mut self, now_ns: u64, frame: Frame, pool: &mut FramePool) -> Result<(), SendError> {
        self.pass_on(now_ns, pool);
        if self.inner.is_closed() {
            return Err(SendError::Closed(frame));
        }
        if self.out.held.len() >= MAX_HELD {
            return Err(SendError::Full(frame));
        }
        self.out.take(now_ns, frame, pool);
        self.pass_on(now_ns, pool);
        Ok(())
    }

    fn recv(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<Frame> {
        self.pass_on(now_ns, pool);
        while self.inward.held.len() < MAX_HELD
            && let Some(frame) = self.inner.recv(now_ns, pool)
        {
            self.inward.take(now_ns, frame, pool);
        }
        self.inward.release(now_ns)
    }

    fn is_closed(&self) -> bool {
        self.inner.is_closed() && self.inward.held.is_empty()
    }

    fn next_due(&self) -> Option<u64> {
        // What the system does not take has no time: the descriptor says when.
        let out = if self.inner.is_blocked() { None } else { self.out.due() };
        [out, self.inward.due(), self.inner.next_due()].into_iter().flatten().min()
    }

    fn faults(&self) -> u64 {
        let made = |d: &Direction| {
            let s = d.faults.stats();
            s.lost + s.duplicated + s.reordered + s.corrupted
        };
        made(&self.out) + made(&self.inward) + self.inner.faults()
    }

    fn flush(&mut self, now_ns: u64, pool: &mut FramePool) {
        self.pass_on(now_ns, pool);
        self.inner.flush(now_ns, pool);
    }

    fn waiting(&self) -> usize {
        self.inner.waiting()
    }

    crate::port::forward!(inner, holding frames);
}
