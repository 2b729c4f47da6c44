//! Standard streams that were closed when the process began. Rust's runtime opens /dev/null in their place before
//! `main`. So a program that reads records would see an end of input, and a program that writes records would throw
//! them away.

use std::sync::atomic::{AtomicBool, Ordering};

static NO_INPUT: AtomicBool = AtomicBool::new(false);
static NO_OUTPUT: AtomicBool = AtomicBool::new(false);

/// Notes the closed streams. Called before Rust's runtime begins.
pub fn note_closed_streams() {
    let is_closed = |stream| rustix::io::fcntl_getfd(stream).is_err();
    NO_INPUT.store(is_closed(rustix::stdio::stdin()), Ordering::Relaxed);
    NO_OUTPUT.store(is_closed(rustix::stdio::stdout()), Ordering::Relaxed);
}

/// The error for standard input that is closed.
pub(super) fn no_input() -> Option<String> {
    let text = "standard input is closed, so there is nothing to push: for a stream that ends at once, give it < /dev/null";
    NO_INPUT.load(Ordering::Relaxed).then(|| text.to_owned())
}

/// The error for standard output that is closed.
pub(super) fn no_output() -> Option<String> {
    let text = "standard output is closed: nothing is taken out of the flow; to throw records away, give it > /dev/null";
    NO_OUTPUT.load(Ordering::Relaxed).then(|| text.to_owned())
}
