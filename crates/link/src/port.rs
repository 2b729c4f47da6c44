//! One end of a link.

use zsr_wire::{Frame, FramePool};

/// One end of a link, as the node there sees it. Neither call blocks. Times are nanoseconds on the caller's clock; buffers
/// that a port consumes go to `pool`, and those it needs come from there.
pub trait Port: Send {
    /// Sends a frame towards the other end. Gives it back if the link has no room: try again later.
    fn send(&mut self, now_ns: u64, frame: Frame, pool: &mut FramePool) -> Result<(), Frame>;

    /// The next frame from the other end.
    fn recv(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<Frame>;

    /// When a frame that the port holds back becomes due, if it holds any: call [`recv`](Port::recv) again then.
    fn next_due(&self) -> Option<u64> {
        None
    }
}

impl<P: Port + ?Sized> Port for Box<P> {
    fn send(&mut self, now_ns: u64, frame: Frame, pool: &mut FramePool) -> Result<(), Frame> {
        (**self).send(now_ns, frame, pool)
    }

    fn recv(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<Frame> {
        (**self).recv(now_ns, pool)
    }

    fn next_due(&self) -> Option<u64> {
        (**self).next_due()
    }
}
