//! What every end of a link can do.

use thiserror::Error;
use zsr_wire::{Frame, FramePool};

/// A frame that was not sent. It comes back, so that it can be tried again.
#[derive(Debug, Error)]
pub enum SendError {
    /// The link has no room now; try again later.
    #[error("the link's queue is full: receive on the other end, or send later")]
    Full(Frame),
    /// The other end is gone for good.
    #[error("the other end of the link is closed")]
    Closed(Frame),
}

impl SendError {
    /// The frame that was not sent.
    pub fn into_frame(self) -> Frame {
        match self {
            SendError::Full(frame) | SendError::Closed(frame) => frame,
        }
    }
}

/// One end of a link. Neither call blocks. `now_ns` is the caller's time, which must not go backwards; `pool` is where
/// buffers that a link needs or no longer needs come from and go to.
pub trait Port {
    /// Sends one frame.
    fn send(&mut self, now_ns: u64, frame: Frame, pool: &mut FramePool) -> Result<(), SendError>;

    /// The next frame that has arrived, if there is one.
    fn recv(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<Frame>;

    /// Whether the other end is gone and everything it sent has been received.
    fn is_closed(&self) -> bool;

    /// When this port should be looked at again though nothing has arrived (a frame is held back until then); `None`
    /// if at no particular time.
    fn next_due(&self) -> Option<u64> {
        None
    }

    /// Faults that this port has made so far, in both directions: frames lost, duplicated, held back, damaged.
    fn faults(&self) -> u64 {
        0
    }
}

impl<P: Port + ?Sized> Port for Box<P> {
    fn send(&mut self, now_ns: u64, frame: Frame, pool: &mut FramePool) -> Result<(), SendError> {
        (**self).send(now_ns, frame, pool)
    }

    fn recv(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<Frame> {
        (**self).recv(now_ns, pool)
    }

    fn is_closed(&self) -> bool {
        (**self).is_closed()
    }

    fn next_due(&self) -> Option<u64> {
        (**self).next_due()
    }

    fn faults(&self) -> u64 {
        (**self).faults()
    }
}
