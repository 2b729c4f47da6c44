//! Errors on their way to the caller: a status, and a text that waits for the thread's question. No panic gets through.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use zsr::ProgramError;

use crate::status::zsr_status::{self, *};

/// Why a call has failed.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) status: zsr_status,
    pub(crate) text: String,
}

impl From<ProgramError> for Fault {
    fn from(error: ProgramError) -> Self {
        Fault { status: error.kind().into(), text: error.to_string() }
    }
}

/// A mistake of the caller's.
pub(crate) fn invalid(text: impl Into<String>) -> Fault {
    Fault { status: ZSR_ERROR_INVALID, text: text.into() }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// What is said of a panic: what it says itself was printed where it happened.
const PANIC: &str = "libzsr has a bug: it has panicked, and has said where on standard error";

/// Runs `work`, and keeps the text of its error for the thread.
pub(crate) fn call(work: impl FnOnce() -> Result<zsr_status, Fault>) -> zsr_status {
    let fault = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(status)) => return status,
        Ok(Err(fault)) => fault,
        Err(_) => Fault { status: ZSR_ERROR_INTERNAL, text: PANIC.into() },
    };
    keep(fault.text);
    fault.status
}

fn keep(text: String) {
    let mut bytes = text.into_bytes();
    bytes.retain(|b| *b != 0);
    let text = CString::new(bytes).unwrap_or_default();
    // A thread that is ending has nobody to ask.
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
}

/// The text of the thread's last error.
pub(crate) fn last() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn said() -> String {
        // SAFETY: `last` gives a string that lives until the thread's next error.
        unsafe { CStr::from_ptr(last()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn a_panic_is_an_error_and_texts_are_the_threads_own() {
        assert_eq!(said(), "");
        assert_eq!(call(|| panic!("on purpose")), ZSR_ERROR_INTERNAL);
        assert_eq!(said(), PANIC);
        assert_eq!(call(|| Err(invalid("with a \0 in it"))), ZSR_ERROR_INVALID);
        // What goes well leaves the text.
        assert_eq!(call(|| Ok(ZSR_AGAIN)), ZSR_AGAIN);
        assert_eq!(said(), "with a  in it");
        assert_eq!(std::thread::spawn(said).join().expect("the thread"), "");
    }
}
