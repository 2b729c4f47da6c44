//! A port behind a queue: how many frames wait in it, and how many leave it per second, can be changed at any time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use zsr_wire::{Frame, FramePool};

use crate::port::{Port, SendError};

const NS_PER_S: u64 = 1_000_000_000;
/// How late a frame may leave without making the next one late, nanoseconds.
const LATE_NS: u64 = 1_000_000;
/// Frames that wait behind a rate if nobody has said how many.
const DEPTH: usize = 64;

/// The settings of a queue. Whoever holds them changes them, from any thread.
#[derive(Debug)]
pub struct QueueSettings {
    depth: AtomicUsize,
    rate: AtomicU64,
}

impl Default for QueueSettings {
    /// Frames leave as fast as they can.
    fn default() -> Self {
        QueueSettings { depth: AtomicUsize::new(usize::MAX), rate: AtomicU64::new(0) }
    }
}

impl QueueSettings {
    /// Lets so many frames wait at most. One that comes when as many wait is lost. Until this is called, 64 wait behind a rate, and any number
    /// without one.
    pub fn set_depth(&self, frames: usize) {
        self.depth.store(frames, Ordering::Relaxed);
    }

    /// Lets so many frames leave per second at most; 0: any.
    pub fn set_rate(&self, frames_per_s: u64) {
        self.rate.store(frames_per_s, Ordering::Relaxed);
    }
}

/// A port behind a queue of what is sent. Frames that it loses count as [`Port::faults`].
pub struct Queued<P> {
    inner: P,
    settings: Arc<QueueSettings>,
    frames: VecDeque<Frame>,
    /// When the last frame left, in nanoseconds.
    left_ns: Option<u64>,
    /// Behind the queue, when it was last flushed: what was sent since then is only gathered there.
    behind: usize,
    lost: u64,
}

impl<P: Port> Queued<P> {
    /// `inner` behind a queue with these settings.
    pub fn new(inner: P, settings: Arc<QueueSettings>) -> Queued<P> {
        Queued { inner, settings, frames: VecDeque::new(), left_ns: None, behind: 0, lost: 0 }
    }

    /// When the next frame may leave, at the rate that holds now.
    fn free_ns(&self) -> u64 {
        let rate = self.settings.rate.load(Ordering::Relaxed);
        let apart = NS_PER_S.checked_div(rate);
        apart.and_then(|apart| Some(self.left_ns? + apart)).unwrap_or(0)
    }

    /// Passes on what may leave.
    fn pass_on(&mut self, now: u64, pool: &mut FramePool) {
        while let Some(frame) = self.frames.pop_front() {
            let free = self.free_ns();
            if free > now {
                self.frames.push_front(frame);
                return;
            }
            match self.inner.send(now, frame, pool) {
                Ok(()) => {}
                Err(SendError::Full(frame)) => {
                    self.frames.push_front(frame);
                    return;
                }
                Err(SendError::Closed(frame)) => pool.put(frame),
            }
            // One that leaves late does not make the next one late.
            self.left_ns = Some(free.max(now.saturating_sub(LATE_NS)));
        }
    }
}

impl<P: Port> Port for Queued<P> {
    fn send(&mut self, now_ns: u64, frame: Frame, pool: &mut FramePool) -> Result<(), SendError> {
        let rate = self.settings.rate.load(Ordering::Relaxed);
        // What a rate has let go is not in the queue any more.
        let waiting = self.frames.len() + if rate == 0 { self.behind } else { 0 };
        let depth = match self.settings.depth.load(Ordering::Relaxed) {
            usize::MAX if rate > 0 => DEPTH,
            depth => depth,
        };
        if waiting >= depth {
            self.lost += 1;
            pool.put(frame);
            return Ok(());
        }
        if self.frames.is_empty() && rate == 0 {
            return self.inner.send(now_ns, frame, pool);
        }
        self.frames.push_back(frame);
        self.pass_on(now_ns, pool);
        Ok(())
    }

    fn recv(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<Frame> {
        self.inner.recv(now_ns, pool)
    }

    fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    fn next_due(&self) -> Option<u64> {
        // What the system does not take has no time: the descriptor says when.
        let waits = !self.frames.is_empty() && !self.inner.is_blocked();
        [waits.then(|| self.free_ns()), self.inner.next_due()].into_iter().flatten().min()
    }

    fn faults(&self) -> u64 {
        self.lost + self.inner.faults()
    }

    fn flush(&mut self, now_ns: u64, pool: &mut FramePool) {
        self.pass_on(now_ns, pool);
        self.inner.flush(now_ns, pool);
        self.behind = self.inner.waiting();
    }

    fn waiting(&self) -> usize {
        self.frames.len() + self.behind
    }

    crate::port::forward!(self, self.inner, holding frames);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::memory_link;

    fn frame(n: u8) -> Frame {
        Frame::copy_from(&[n; 60]).expect("a short frame")
    }

    /// Sends `n` frames at time 0, and says when which of them arrive until `until`, in steps of a millisecond.
    fn arrivals(settings: &Arc<QueueSettings>, n: u8, until_ms: u64) -> (Vec<(u64, u8)>, u64) {
        let (near, mut far) = memory_link(64);
        let mut near = Queued::new(near, settings.clone());
        let (mut pool, mut got) = (FramePool::with_frames(4), Vec::new());
        for i in 0..n {
            assert!(near.send(0, frame(i), &mut pool).is_ok());
        }
        for ms in 0..until_ms {
            near.flush(ms * 1_000_000, &mut pool);
            while let Some(frame) = far.recv(ms * 1_000_000, &mut pool) {
                got.push((ms, frame.bytes()[0]));
            }
        }
        (got, near.faults())
    }

    #[test]
    fn frames_leave_at_the_rate_and_wait_up_to_the_depth() {
        let settings = Arc::new(QueueSettings::default());
        assert_eq!(arrivals(&settings, 5, 1), ((0..5).map(|n| (0, n)).collect(), 0), "no limit");
        settings.set_rate(100);
        assert_eq!(arrivals(&settings, 5, 1000), ((0..5).map(|n| (10 * u64::from(n), n)).collect(), 0));
        assert_eq!(arrivals(&settings, 70, 1).1, 70 - 65, "64 wait behind a rate");
        settings.set_depth(2);
        // The first leaves at once, two wait, and two are lost.
        assert_eq!(arrivals(&settings, 5, 1000), (vec![(0, 0), (10, 1), (20, 2)], 2));
        settings.set_depth(0);
        assert_eq!(arrivals(&settings, 5, 1000), (vec![], 5));
    }

    #[test]
    fn a_limit_that_is_lifted_lets_all_go() {
        let settings = Arc::new(QueueSettings::default());
        settings.set_rate(1);
        let (near, mut far) = memory_link(64);
        let mut near = Queued::new(near, settings.clone());
        let mut pool = FramePool::with_frames(4);
        (0..4).for_each(|n| assert!(near.send(0, frame(n), &mut pool).is_ok()));
        assert_eq!((near.waiting(), near.next_due()), (3, Some(NS_PER_S)));
        settings.set_rate(10);
        assert_eq!(near.next_due(), Some(NS_PER_S / 10), "a rate holds at once");
        settings.set_rate(0);
        assert_eq!(near.next_due(), Some(0));
        near.flush(1, &mut pool);
        assert_eq!(near.waiting(), 0);
        assert_eq!(std::iter::from_fn(|| far.recv(1, &mut pool)).count(), 4);
    }
}
