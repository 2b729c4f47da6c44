//! What every end of a link can do.

use std::os::fd::BorrowedFd;

use thiserror::Error;
use zsr_wire::{Frame, FramePool};

use crate::error::LinkError;

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

/// One end of a link. No call blocks. `now_ns` is the caller's time, which must not go backwards; `pool` is where
/// buffers that a link needs or no longer needs come from and go to.
pub trait Port {
    /// Sends one frame. A link of the system's may keep it until [`Port::flush`], to send many with one call.
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

    /// Hands what [`Port::send`] has gathered to the system. Nothing to do where frames leave at once.
    fn flush(&mut self, _now_ns: u64, _pool: &mut FramePool) {}

    /// Readable when frames have arrived; `None` if this port is no descriptor of the system's and must be asked. Poll
    /// level-triggered: one look may leave frames behind.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether frames come without the system's knowledge, as through shared memory. Such a port must be asked for them
    /// also while [`Port::fd`] is not readable, and before a sleep with [`Port::may_sleep`].
    fn is_polled(&self) -> bool {
        false
    }

    /// Deals with what made [`Port::fd`] readable, where that is not only frames.
    fn attend(&mut self, _now_ns: u64) {}

    /// Has [`Port::fd`] become readable with the next frame. `false`: frames are there already, do not sleep. Holds until
    /// the next [`Port::recv`].
    fn may_sleep(&mut self) -> bool {
        true
    }

    /// Whether frames wait for the system to take them: flush when [`Port::fd`] becomes writable, or at [`Port::next_due`]
    /// where the port [is polled](Port::is_polled).
    fn is_blocked(&self) -> bool {
        false
    }

    /// Frames that wait here after [`Port::flush`]: those that the system did not take. 0 where it keeps the queue.
    fn waiting(&self) -> usize {
        0
    }

    /// Frames that were taken by [`Port::send`], or came in, and were given up: no peer, too long, damaged by the
    /// system. Not those that a wrapper loses on purpose, which are [`Port::faults`].
    fn lost(&self) -> u64 {
        0
    }

    /// What has gone wrong since the last call, for people, once per event and not per frame: an interface that is
    /// down, a link that the system refuses to use. The port goes on by itself when the cause is gone.
    fn trouble(&mut self) -> Option<LinkError> {
        None
    }

    /// Whether the last trouble that was told has not gone yet.
    fn is_troubled(&self) -> bool {
        false
    }
}

/// The methods of [`Port`] that a wrapper of a port leaves to the port `$inner`, a place in `$self`: all but `send` and `recv`, or, of a wrapper
/// that holds frames back, those about the system's end of the link. A new method of [`Port`] belongs in here.
macro_rules! forward {
    ($self:ident, $inner:expr) => {
        fn is_closed(&$self) -> bool {
            $inner.is_closed()
        }

        fn next_due(&$self) -> Option<u64> {
            $inner.next_due()
        }

        fn faults(&$self) -> u64 {
            $inner.faults()
        }

        fn flush(&mut $self, now_ns: u64, pool: &mut zsr_wire::FramePool) {
            $inner.flush(now_ns, pool);
        }

        fn waiting(&$self) -> usize {
            $inner.waiting()
        }

        $crate::port::forward!($self, $inner, holding frames);
    };
    ($self:ident, $inner:expr, holding frames) => {
        fn fd(&$self) -> Option<std::os::fd::BorrowedFd<'_>> {
            $inner.fd()
        }

        fn is_polled(&$self) -> bool {
            $inner.is_polled()
        }

        fn attend(&mut $self, now_ns: u64) {
            $inner.attend(now_ns);
        }

        fn may_sleep(&mut $self) -> bool {
            $inner.may_sleep()
        }

        fn is_blocked(&$self) -> bool {
            $inner.is_blocked()
        }

        fn lost(&$self) -> u64 {
            $inner.lost()
        }

        fn trouble(&mut $self) -> Option<$crate::error::LinkError> {
            $inner.trouble()
        }

        fn is_troubled(&$self) -> bool {
            $inner.is_troubled()
        }
    };
}
pub(crate) use forward;

impl<P: Port + ?Sized> Port for Box<P> {
    fn send(&mut self, now_ns: u64, frame: Frame, pool: &mut FramePool) -> Result<(), SendError> {
        (**self).send(now_ns, frame, pool)
    }

    fn recv(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<Frame> {
        (**self).recv(now_ns, pool)
    }

    forward!(self, **self);
}
