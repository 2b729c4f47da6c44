//! A link inside one process: a queue in each direction.

use crate::Port;
use zsr_wire::{Frame, FramePool};

/// One end of a link made by [`memory_link`].
pub struct MemoryPort {
    tx: rtrb::Producer<Frame>,
    rx: rtrb::Consumer<Frame>,
}

/// A link whose ends may be on different threads; each direction holds up to `depth` frames.
pub fn memory_link(depth: usize) -> (MemoryPort, MemoryPort) {
    let (a_tx, b_rx) = rtrb::RingBuffer::new(depth);
    let (b_tx, a_rx) = rtrb::RingBuffer::new(depth);
    (MemoryPort { tx: a_tx, rx: a_rx }, MemoryPort { tx: b_tx, rx: b_rx })
}

impl Port for MemoryPort {
    #[inline]
    fn send(&mut self, _now_ns: u64, frame: Frame, _pool: &mut FramePool) -> Result<(), Frame> {
        self.tx.push(frame).map_err(|rtrb::PushError::Full(frame)| frame)
    }

    #[inline]
    fn recv(&mut self, _now_ns: u64, _pool: &mut FramePool) -> Option<Frame> {
        self.rx.pop().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_arrive_in_order_and_a_full_link_gives_them_back() {
        let mut pool = FramePool::default();
        let (mut a, mut b) = memory_link(2);
        for text in [b"one", b"two"] {
            a.send(0, Frame::copy_from(text).unwrap(), &mut pool).unwrap();
        }
        let back = a.send(0, Frame::copy_from(b"three").unwrap(), &mut pool).unwrap_err();
        assert_eq!(back.bytes(), b"three");
        assert_eq!(b.recv(0, &mut pool).unwrap().bytes(), b"one");
        assert_eq!(b.recv(0, &mut pool).unwrap().bytes(), b"two");
        assert!(b.recv(0, &mut pool).is_none());
        b.send(0, back, &mut pool).unwrap();
        assert_eq!(a.recv(0, &mut pool).unwrap().bytes(), b"three");
    }
}
