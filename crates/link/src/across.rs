//! A link between two loops in threads of their own. Frames move without being copied, and no system call is made while both are awake.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use zsr_wire::{Frame, FramePool};

use crate::memory::{MemoryPort, thread_link};
use crate::port::{Port, SendError};
use crate::wake::Waker;

/// A loop, as the other end of its link sees it.
struct Side {
    asleep: AtomicBool,
    waker: Waker,
}

/// One end.
pub struct LoopPort {
    inner: MemoryPort,
    mine: Arc<Side>,
    other: Arc<Side>,
    /// Frames were sent since the last flush.
    sent: bool,
    /// When to look whether the other end has taken frames, which it does not tell.
    look_at: Option<u64>,
}

/// How long frames may wait for the other end before it is looked at again, nanoseconds.
const LOOK_NS: u64 = 50_000;

/// A link that holds up to `capacity` frames in each direction, and its two ends: the first for the loop with the waker `a`, the second for
/// that with `b`.
pub fn loop_link(capacity: usize, a: &Waker, b: &Waker) -> (LoopPort, LoopPort) {
    let side = |waker: &Waker| Arc::new(Side { asleep: AtomicBool::new(false), waker: waker.clone() });
    let (of_a, of_b) = (side(a), side(b));
    let (at_a, at_b) = thread_link(capacity);
    (
        LoopPort { inner: at_a, mine: of_a.clone(), other: of_b.clone(), sent: false, look_at: None },
        LoopPort { inner: at_b, mine: of_b, other: of_a, sent: false, look_at: None },
    )
}

impl Port for LoopPort {
    #[inline]
    fn send(&mut self, now_ns: u64, frame: Frame, pool: &mut FramePool) -> Result<(), SendError> {
        self.sent = true;
        self.inner.send(now_ns, frame, pool)
    }

    #[inline]
    fn recv(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<Frame> {
        if self.mine.asleep.load(Ordering::Relaxed) {
            self.mine.asleep.store(false, Ordering::Relaxed);
        }
        self.inner.recv(now_ns, pool)
    }

    fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    fn next_due(&self) -> Option<u64> {
        self.look_at
    }

    fn flush(&mut self, now_ns: u64, _pool: &mut FramePool) {
        self.look_at = (self.inner.sent_and_waiting() > 0).then_some(now_ns + LOOK_NS);
        if !std::mem::take(&mut self.sent) {
            return;
        }
        // Either the other end sees the frames before it sleeps, or it is seen asleep here.
        fence(Ordering::SeqCst);
        if self.other.asleep.load(Ordering::Relaxed) && self.other.asleep.swap(false, Ordering::Relaxed) {
            self.other.waker.wake();
        }
    }

    fn is_polled(&self) -> bool {
        true
    }

    fn may_sleep(&mut self) -> bool {
        self.mine.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.inner.is_empty()
    }

    fn waiting(&self) -> usize {
        self.inner.sent_and_waiting()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Node;
    use crate::port_loop::{LoopConfig, PortLoop};

    /// Sends back what comes in.
    struct Echo;

    impl Node for Echo {
        fn handle(
            &mut self,
            _: u64,
            port: u16,
            frame: Frame,
            _: &mut FramePool,
            out: &mut Vec<(u16, Frame)>,
        ) {
            out.push((port, frame));
        }

        fn work(&mut self, _: u64, _: &mut FramePool, _: &mut Vec<(u16, Frame)>) -> usize {
            0
        }

        fn next_due(&self) -> Option<u64> {
            None
        }
    }

    /// A loop whose far end takes nothing for a while pauses, and goes on by itself when there is room again.
    #[test]
    fn a_full_link_does_not_stop_its_loop_for_good() {
        const FRAMES: u32 = 3000;
        let wakers = [Waker::new().unwrap(), Waker::new().unwrap()];
        let (mut near, far) = loop_link(1024, &wakers[0], &wakers[1]);
        let mut echo = PortLoop::new(Echo, &wakers[1], LoopConfig::default()).unwrap();
        echo.add_port(1, Box::new(far)).unwrap();
        let thread = echo.spawn("echo").unwrap();
        let mut pool = FramePool::with_frames(64);
        let (mut sent, mut back) = (0u32, 0u32);
        while back < FRAMES {
            // Fewer than the link holds, so none is lost, and more than the loop lets wait.
            while sent < FRAMES && sent - back < 1000 {
                let mut frame = pool.take();
                frame.append(&sent.to_be_bytes());
                near.send(0, frame, &mut pool).expect("room");
                near.flush(0, &mut pool);
                sent += 1;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
            while let Some(frame) = near.recv(0, &mut pool) {
                assert_eq!(frame.bytes(), back.to_be_bytes());
                pool.put(frame);
                back += 1;
            }
        }
        assert!(thread.stop().error.is_none());
    }

    /// A loop that sleeps between frames is woken for each, and none is lost: 20,000 frames go there and back one by one, and in bursts.
    #[test]
    fn a_sleeping_loop_is_woken_and_no_frame_is_lost() {
        let (near_waker, far_waker) = (Waker::new().unwrap(), Waker::new().unwrap());
        let (mut near, far) = loop_link(256, &near_waker, &far_waker);
        let spin = std::time::Duration::ZERO;
        let mut echo = PortLoop::new(Echo, &far_waker, LoopConfig { spin, ..LoopConfig::default() }).unwrap();
        echo.add_port(1, Box::new(far)).unwrap();
        let thread = echo.spawn("echo").unwrap();
        let mut pool = FramePool::with_frames(64);
        let (mut next, mut back) = (0u32, 0u32);
        while back < 20_000 {
            let burst = 1 + next % 7;
            for _ in 0..burst {
                let mut frame = pool.take();
                frame.append(&next.to_be_bytes());
                near.send(0, frame, &mut pool).expect("room for a burst");
                next += 1;
            }
            near.flush(0, &mut pool);
            while back < next {
                match near.recv(0, &mut pool) {
                    Some(frame) => {
                        assert_eq!(frame.bytes(), back.to_be_bytes());
                        pool.put(frame);
                        back += 1;
                    }
                    None => std::thread::yield_now(),
                }
            }
        }
        let end = thread.stop();
        assert!(end.error.is_none() && end.stats.sleeps > 0, "{:?}", end.stats);
    }
}
