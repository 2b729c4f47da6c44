//! Frames on their way to a socket: gathered, so that one system call takes many, and kept while the system has no room.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::sockopt;
use zsr_wire::{Frame, FramePool};

use crate::mmsg::{self, BATCH};
use crate::port::SendError;

/// Frames that wait at most in this process for the system to take them.
const QUEUE: usize = 1024;
/// What the system is asked to let wait, bytes.
const BUFFER: usize = 8 << 20;

/// Asks the system to let many frames wait at `socket`: beyond its limit only with privileges, without them as much as
/// it grants.
pub(crate) fn enlarge(socket: impl AsFd) {
    if sockopt::set_socket_send_buffer_size_force(&socket, BUFFER).is_err() {
        let _ = sockopt::set_socket_send_buffer_size(&socket, BUFFER);
    }
}

/// The frames that wait at one port.
pub(crate) struct Outbox {
    frames: VecDeque<Frame>,
    blocked: bool,
    lost: u64,
}

/// A port with an outbox.
pub(crate) trait Sender {
    /// Where its frames wait.
    fn outbox(&mut self) -> &mut Outbox;

    /// Hands to the system what waits, and deals with what it refuses.
    fn send_queue(&mut self, now: u64, pool: &mut FramePool);
}

/// Takes a frame, and hands over what waits once that is worth a call.
pub(crate) fn send(
    port: &mut impl Sender,
    now: u64,
    frame: Frame,
    pool: &mut FramePool,
) -> Result<(), SendError> {
    if port.outbox().frames.len() >= QUEUE {
        port.send_queue(now, pool);
        if port.outbox().frames.len() >= QUEUE {
            return Err(SendError::Full(frame));
        }
    }
    let out = port.outbox();
    out.frames.push_back(frame);
    if out.frames.len() >= BATCH && !out.blocked {
        port.send_queue(now, pool);
    }
    Ok(())
}

/// The methods of [`Port`](crate::Port) that are alike for ports with an outbox, which have `socket` and `out`.
macro_rules! port_of_socket {
    () => {
        fn send(&mut self, now_ns: u64, frame: Frame, pool: &mut FramePool) -> Result<(), SendError> {
            $crate::outbox::send(self, now_ns, frame, pool)
        }

        fn is_closed(&self) -> bool {
            // A peer or an interface may always come back.
            false
        }

        fn flush(&mut self, now_ns: u64, pool: &mut FramePool) {
            self.send_queue(now_ns, pool);
        }

        fn fd(&self) -> Option<BorrowedFd<'_>> {
            Some(self.socket.as_fd())
        }

        fn is_blocked(&self) -> bool {
            self.out.is_blocked()
        }

        fn waiting(&self) -> usize {
            self.out.len()
        }

        fn lost(&self) -> u64 {
            self.out.lost()
        }
    };
}
pub(crate) use port_of_socket;

impl Outbox {
    pub(crate) fn new() -> Outbox {
        Outbox { frames: VecDeque::with_capacity(QUEUE), blocked: false, lost: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Frames that wait.
    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Whether the system had no room when it was last asked.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Frames given up.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Whoever hands over starts anew: the system may have room again.
    pub(crate) fn unblock(&mut self) {
        self.blocked = false;
    }

    /// Hands over until nothing waits or the system has no room. An error is about the first frame that still waits.
    pub(crate) fn hand_over(&mut self, socket: BorrowedFd<'_>, pool: &mut FramePool) -> io::Result<()> {
        while !self.frames.is_empty() {
            match mmsg::send(socket, self.frames.iter()) {
                Ok(sent) => self.frames.drain(..sent).for_each(|frame| pool.put(frame)),
                Err(e) => match e.raw_os_error() {
                    Some(libc::EAGAIN) => {
                        self.blocked = true;
                        return Ok(());
                    }
                    Some(libc::EINTR) => {}
                    _ => return Err(e),
                },
            }
        }
        Ok(())
    }

    /// Gives up the first frame.
    pub(crate) fn lose_first(&mut self, pool: &mut FramePool) {
        if let Some(frame) = self.frames.pop_front() {
            self.lost += 1;
            pool.put(frame);
        }
    }

    /// Gives up all frames.
    pub(crate) fn lose_all(&mut self, pool: &mut FramePool) {
        while !self.frames.is_empty() {
            self.lose_first(pool);
        }
    }

    /// Counts a frame of the other direction that was given up.
    pub(crate) fn count_lost(&mut self, frames: u64) {
        self.lost += frames;
    }
}
