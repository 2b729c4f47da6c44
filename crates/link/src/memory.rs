//! A link in memory: two single-producer single-consumer queues for frames, and, between threads, two that bring
//! buffers home.
//!
//! Frames move without being copied. Where both ends share a pool, as in one thread, that is all. Between threads with
//! a pool each, buffers drift from whoever sends more to whoever receives more; there a receiver whose pool holds more
//! than it needs sends empty buffers back, so that a steady state allocates nothing.

use rtrb::{Consumer, Producer, PushError, RingBuffer};
use zsr_wire::{Frame, FramePool};

use crate::port::{Port, SendError};

/// Buffers that a receiver keeps before it sends any home.
const KEEP: usize = 64;

/// One end of a link in memory.
pub struct MemoryPort {
    out: Producer<Frame>,
    inward: Consumer<Frame>,
    /// Empty buffers: out, and in.
    home: Option<(Producer<Frame>, Consumer<Frame>)>,
}

impl MemoryPort {
    /// Whether nothing has arrived.
    pub(crate) fn is_empty(&self) -> bool {
        self.inward.is_empty()
    }

    /// Frames that were sent and that the other end has not received.
    pub(crate) fn sent_and_waiting(&self) -> usize {
        self.out.buffer().capacity() - self.out.slots()
    }
}

/// A link that holds up to `capacity` frames (at least 1) in each direction, and its two ends, which share a pool.
pub fn memory_link(capacity: usize) -> (MemoryPort, MemoryPort) {
    let capacity = capacity.max(1);
    let (a_out, b_in) = RingBuffer::new(capacity);
    let (b_out, a_in) = RingBuffer::new(capacity);
    (MemoryPort { out: a_out, inward: a_in, home: None }, MemoryPort { out: b_out, inward: b_in, home: None })
}

/// As [`memory_link`], for two ends that have a pool each, in threads of their own.
pub fn thread_link(capacity: usize) -> (MemoryPort, MemoryPort) {
    let (mut a, mut b) = memory_link(capacity);
    let (a_out, b_in) = RingBuffer::new(capacity.max(1));
    let (b_out, a_in) = RingBuffer::new(capacity.max(1));
    a.home = Some((a_out, a_in));
    b.home = Some((b_out, b_in));
    (a, b)
}

impl Port for MemoryPort {
    #[inline]
    fn send(&mut self, _now_ns: u64, frame: Frame, pool: &mut FramePool) -> Result<(), SendError> {
        if self.out.is_abandoned() {
            return Err(SendError::Closed(frame));
        }
        if let Some((_, empties)) = &mut self.home
            && let Ok(empty) = empties.pop()
        {
            pool.put(empty);
        }
        self.out.push(frame).map_err(|PushError::Full(frame)| SendError::Full(frame))
    }

    #[inline]
    fn recv(&mut self, _now_ns: u64, pool: &mut FramePool) -> Option<Frame> {
        let frame = self.inward.pop().ok()?;
        if let Some((empties, _)) = &mut self.home {
            while pool.available() > KEEP {
                if let Err(PushError::Full(empty)) = empties.push(pool.take()) {
                    pool.put(empty);
                    break;
                }
            }
        }
        Some(frame)
    }

    fn is_closed(&self) -> bool {
        // In this order: what was sent before the end went away is seen.
        self.inward.is_abandoned() && self.inward.is_empty()
    }
}

impl std::fmt::Debug for MemoryPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemoryPort({} frames wait)", self.inward.slots())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(n: u32, pool: &mut FramePool) -> Frame {
        let mut f = pool.take();
        f.append(&n.to_be_bytes());
        f
    }

    #[test]
    fn frames_arrive_in_order_and_a_full_link_says_so() {
        let mut pool = FramePool::default();
        let (mut a, mut b) = memory_link(4);
        assert!(b.recv(0, &mut pool).is_none());
        for n in 0..4 {
            a.send(0, frame(n, &mut pool), &mut pool).unwrap();
        }
        let refused = a.send(0, frame(4, &mut pool), &mut pool).unwrap_err();
        assert!(matches!(refused, SendError::Full(_)));
        assert_eq!(refused.into_frame().bytes(), 4u32.to_be_bytes(), "the frame comes back");
        for n in 0..4u32 {
            assert_eq!(b.recv(0, &mut pool).unwrap().bytes(), n.to_be_bytes());
        }
        assert!(b.recv(0, &mut pool).is_none());
    }

    #[test]
    fn a_closed_end_is_noticed_after_what_it_sent() {
        let mut pool = FramePool::default();
        let (mut a, mut b) = memory_link(4);
        a.send(0, frame(7, &mut pool), &mut pool).unwrap();
        drop(a);
        assert!(!b.is_closed());
        assert_eq!(b.recv(0, &mut pool).unwrap().bytes(), 7u32.to_be_bytes());
        assert!(b.is_closed());
        assert!(matches!(b.send(0, frame(1, &mut pool), &mut pool), Err(SendError::Closed(_))));
    }

    #[test]
    fn between_threads_buffers_come_home() {
        const FRAMES: u32 = 20_000;
        let (mut a, mut b) = thread_link(32);
        let receiver = std::thread::spawn(move || {
            let mut pool = FramePool::default();
            let mut next = 0u32;
            while !b.is_closed() {
                match b.recv(0, &mut pool) {
                    Some(f) => {
                        assert_eq!(f.bytes(), next.to_be_bytes());
                        next += 1;
                        pool.put(f);
                    }
                    None => std::thread::yield_now(),
                }
            }
            (next, pool.available())
        });
        let mut pool = FramePool::with_frames(8);
        for n in 0..FRAMES {
            let mut f = frame(n, &mut pool);
            while let Err(refused) = a.send(0, f, &mut pool) {
                f = refused.into_frame();
                std::thread::yield_now();
            }
        }
        drop(a);
        let (received, kept) = receiver.join().unwrap();
        assert_eq!(received, FRAMES);
        // At the end nobody empties the way home any more; then as many may stay as the link and the way home hold.
        assert!(kept <= KEEP + 1 + 2 * 32, "{kept} buffers stayed with the receiver");
    }
}
