//! Standard streams that were closed when the process began. Rust's runtime opens /dev/null in their place before `main`: a program
//! that reads or writes records would take an end of input that is none, and throw away what it has popped.

use std::sync::atomic::{AtomicBool, Ordering};

static NO_INPUT: AtomicBool = AtomicBool::new(false);
static NO_OUTPUT: AtomicBool = AtomicBool::new(false);

/// Notes which are closed. Called before Rust's runtime begins.
pub fn note_closed_streams() {
    let is_closed = |stream| rustix::io::fcntl_getfd(stream).is_err();
    NO_INPUT.store(is_closed(rustix::stdio::stdin()), Ordering::Relaxed);
    NO_OUTPUT.store(is_closed(rustix::stdio::stdout()), Ordering::Relaxed);
}

/// What to say if standard input is closed.
pub(super) fn no_input() -> Option<String> {
    let text = "standard input is closed, so there is nothing to push: for a stream that ends at once, give it < /dev/null";
    NO_INPUT.load(Ordering::Relaxed).then(|| text.to_owned())
}

/// What to say if standard output is closed.
pub(super) fn no_output() -> Option<String> {
    let text = "standard output is closed: nothing is taken out of the flow; to throw records away, give it > /dev/null";
    NO_OUTPUT.load(Ordering::Relaxed).then(|| text.to_owned())
}
