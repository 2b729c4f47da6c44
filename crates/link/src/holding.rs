//! A port that holds frames back, in both directions.

use zsr_wire::{Frame, FramePool};

use crate::port::{Port, SendError};

/// The frames of one direction that are held back, and until when.
pub trait Lane {
    /// Takes a frame that comes at `now`.
    fn take(&mut self, now: u64, frame: Frame, pool: &mut FramePool);

    /// Takes a frame again that could not be passed on, as the next one.
    fn put_back(&mut self, frame: Frame);

    /// When the next frame is to be passed on, if there is one.
    fn due(&self) -> Option<u64>;

    /// The next frame.
    fn pop(&mut self) -> Option<Frame>;

    /// Whether there is no room for another frame.
    fn is_full(&self, now: u64) -> bool;

    /// Frames that wait for their turn, and are not on their way yet.
    fn waiting(&self, _now: u64) -> usize {
        0
    }

    /// Frames to which something was done.
    fn faults(&self) -> u64 {
        0
    }
}

/// A port behind two lanes. Frames are passed on when their time has come and the port is used again: see [`Port::next_due`].
pub struct Holding<P, L> {
    inner: P,
    pub(crate) out: L,
    pub(crate) inward: L,
    /// Outward, when it was last flushed.
    waiting: usize,
}

impl<P: Port, L: Lane> Holding<P, L> {
    pub(crate) fn behind(inner: P, out: L, inward: L) -> Self {
        Holding { inner, out, inward, waiting: 0 }
    }

    /// Passes on what is due. A full inner link keeps the rest for later.
    fn pass_on(&mut self, now: u64, pool: &mut FramePool) {
        while let Some(frame) = release(&mut self.out, now) {
            match self.inner.send(now, frame, pool) {
                Ok(()) => {}
                Err(SendError::Full(frame)) => {
                    self.out.put_back(frame);
                    return;
                }
                Err(SendError::Closed(frame)) => pool.put(frame),
            }
        }
    }
}

fn release(lane: &mut impl Lane, now: u64) -> Option<Frame> {
    lane.due().filter(|due| *due <= now)?;
    lane.pop()
}

impl<P: Port, L: Lane> Port for Holding<P, L> {
    fn send(&mut self, now_ns: u64, frame: Frame, pool: &mut FramePool) -> Result<(), SendError> {
        self.pass_on(now_ns, pool);
        if self.inner.is_closed() {
            return Err(SendError::Closed(frame));
        }
        if self.out.is_full(now_ns) {
            return Err(SendError::Full(frame));
        }
        self.out.take(now_ns, frame, pool);
        self.pass_on(now_ns, pool);
        Ok(())
    }

    fn recv(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<Frame> {
        self.pass_on(now_ns, pool);
        while !self.inward.is_full(now_ns)
            && let Some(frame) = self.inner.recv(now_ns, pool)
        {
            self.inward.take(now_ns, frame, pool);
        }
        release(&mut self.inward, now_ns)
    }

    fn is_closed(&self) -> bool {
        self.inner.is_closed() && self.inward.due().is_none()
    }

    fn next_due(&self) -> Option<u64> {
        // What the system does not take has no time: the descriptor says when.
        let out = if self.inner.is_blocked() { None } else { self.out.due() };
        [out, self.inward.due(), self.inner.next_due()].into_iter().flatten().min()
    }

    fn faults(&self) -> u64 {
        self.out.faults() + self.inward.faults() + self.inner.faults()
    }

    fn flush(&mut self, now_ns: u64, pool: &mut FramePool) {
        self.pass_on(now_ns, pool);
        self.inner.flush(now_ns, pool);
        self.waiting = self.out.waiting(now_ns);
    }

    fn waiting(&self) -> usize {
        self.waiting + self.inner.waiting()
    }

    crate::port::forward!(self, self.inner, holding frames);
}
