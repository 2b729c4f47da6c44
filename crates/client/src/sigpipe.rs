//! Writing to a connection that the other side has closed raises SIGPIPE. Programs in Rust ignore that; others end by it, and what
//! a library writes must not end them. So threads that write to controllers and agents block it meanwhile.

use std::mem::MaybeUninit;
use std::ptr;

/// While it lives, SIGPIPE does not reach this thread; what comes meanwhile is dropped.
pub(crate) struct Blocked {
    before: libc::sigset_t,
    /// It was blocked or pending: nothing is to be undone.
    was: bool,
}

fn only_pipe() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the set is initialized by the first call.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGPIPE);
        set.assume_init()
    }
}

fn has_pipe(set: &libc::sigset_t) -> bool {
    // SAFETY: a set that was initialized.
    unsafe { libc::sigismember(set, libc::SIGPIPE) == 1 }
}

/// Blocks it for this thread.
pub(crate) fn block() -> Blocked {
    let (mut before, mut pending) = (only_pipe(), only_pipe());
    // SAFETY: all are sets that were initialized.
    unsafe {
        libc::sigpending(&mut pending);
        libc::pthread_sigmask(libc::SIG_BLOCK, &only_pipe(), &mut before);
    }
    Blocked { was: has_pipe(&before) || has_pipe(&pending), before }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        if self.was {
            return;
        }
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: sets that were initialized; what was raised by a write of this thread is pending for it.
        unsafe {
            libc::sigtimedwait(&only_pipe(), ptr::null_mut(), &at_once);
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::write;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_write_to_nobody_ends_nothing() {
        let (one, other) = UnixStream::pair().expect("a pair");
        drop(other);
        // As in a program in C.
        // SAFETY: the default action is a valid one, and what was before is set again.
        let ignored = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let blocked = block();
        assert_eq!(write(&one, b"x"), Err(rustix::io::Errno::PIPE));
        // A second one inside leaves the work to the first.
        drop(block());
        drop(blocked);
        let mut now = only_pipe();
        // SAFETY: a set that was initialized.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &mut now) };
        assert!(!has_pipe(&now));
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGPIPE, ignored) };
    }
}
