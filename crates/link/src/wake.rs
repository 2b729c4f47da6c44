//! Ends the sleep of a loop from other threads.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

use crate::error::LinkError;

/// Wakes the thread that waits for it. Clones wake the same.
#[derive(Debug, Clone)]
pub struct Waker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    fd: OwnedFd,
    raised: AtomicBool,
}

impl Waker {
    /// A waker that nobody waits for yet.
    ///
    /// # Errors
    /// [`LinkError::Poll`]: no descriptor left.
    pub fn new() -> Result<Waker, LinkError> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| LinkError::Poll { what: "making an eventfd", source: e.into() })?;
        Ok(Waker(Arc::new(Shared { fd, raised: AtomicBool::new(false) })))
    }

    /// Ends the current sleep, or the next if nobody sleeps. A system call only the first time before it is noticed.
    pub fn wake(&self) {
        if !self.0.raised.swap(true, Ordering::AcqRel) {
            // Can't fail: the counter is far from its limit, since it is written once per `clear`.
            let _ = rustix::io::write(&self.0.fd, &1u64.to_ne_bytes());
        }
    }

    /// Whether somebody has used it since [`Waker::clear`].
    pub(crate) fn is_raised(&self) -> bool {
        self.0.raised.load(Ordering::Relaxed)
    }

    /// Takes back all wakes so far, when the descriptor is readable; whatever they were for is looked at after this.
    pub(crate) fn clear(&self) {
        // Emptied before it is lowered: a wake in between finds it raised, need not write, and is looked at after this
        // call like the others.
        let _ = rustix::io::read(&self.0.fd, &mut [0u8; 8]);
        self.0.raised.swap(false, Ordering::AcqRel);
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
}
