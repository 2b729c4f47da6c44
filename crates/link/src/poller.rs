//! Which descriptors are ready.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

use crate::error::LinkError;

/// Events that one look brings at most; the others come with the next.
const EVENTS: usize = 64;

/// A set of descriptors, each with a number, of which the ready ones are asked for.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
}

fn failed(what: &'static str) -> impl Fn(rustix::io::Errno) -> LinkError {
    move |e| LinkError::Poll { what, source: e.into() }
}

fn flags(write: bool) -> epoll::EventFlags {
    if write { epoll::EventFlags::IN | epoll::EventFlags::OUT } else { epoll::EventFlags::IN }
}

impl Poller {
    pub(crate) fn new() -> Result<Poller, LinkError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(failed("making an epoll instance"))?;
        Ok(Poller { epoll })
    }

    /// Readable when one of the set is.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    pub(crate) fn add(&self, fd: BorrowedFd<'_>, key: u64) -> Result<(), LinkError> {
        epoll::add(&self.epoll, fd, epoll::EventData::new_u64(key), flags(false))
            .map_err(failed("adding a descriptor to epoll"))
    }

    /// Whether to report the descriptor also when it is writable.
    pub(crate) fn watch_writable(&self, fd: BorrowedFd<'_>, key: u64, write: bool) -> Result<(), LinkError> {
        epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(key), flags(write))
            .map_err(failed("changing a descriptor in epoll"))
    }

    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) {
        // Fails only where it is not there.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Calls `f` with the number of each descriptor that is ready now, and whether it is writable.
    pub(crate) fn look(&self, mut f: impl FnMut(u64, bool)) -> Result<(), LinkError> {
        let none = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut events = [none; EVENTS];
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = match epoll::wait(&self.epoll, &mut events, Some(&zero)) {
            Ok(n) => n,
            Err(rustix::io::Errno::INTR) => 0,
            Err(e) => return Err(failed("waiting for frames")(e)),
        };
        for epoll::Event { flags, data } in events.into_iter().take(ready) {
            f(data.u64(), flags.contains(epoll::EventFlags::OUT));
        }
        Ok(())
    }

    /// Sleeps until one is ready or the time is over. Finer than epoll's own timeout, which counts milliseconds.
    pub(crate) fn sleep(&self, time: Option<Duration>) -> Result<(), LinkError> {
        // A duration beyond what the system counts is no limit.
        let time = time.and_then(|t| Timespec::try_from(t).ok());
        match poll(&mut [PollFd::from_borrowed_fd(self.epoll.as_fd(), PollFlags::IN)], time.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(failed("waiting for frames")(e)),
        }
    }
}
