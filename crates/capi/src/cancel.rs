//! A token that ends blocking calls from another thread.

use std::panic::{AssertUnwindSafe, catch_unwind};

use zsr::Cancel;

use crate::fault::call;
use crate::handle::at;
use crate::status::zsr_status::{self, *};

/// Ends blocking calls of all handles that were attached with it.
pub struct zsr_cancel(pub(crate) Cancel);

/// Makes a cancel.
///
/// Ownership: the caller's, until zsr_cancel_free().
/// Blocks: no.
/// Threads: any.
/// Errors: returns NULL when there is no memory.
#[unsafe(no_mangle)]
pub extern "C" fn zsr_cancel_new() -> *mut zsr_cancel {
    let new = || Box::into_raw(Box::new(zsr_cancel(Cancel::new())));
    catch_unwind(new).unwrap_or(std::ptr::null_mut())
}

/// Ends all blocking calls of handles that were attached with this cancel, now and from now on: they return
/// ZSR_ERROR_CANCELLED.
///
/// Ownership: `cancel` stays the caller's.
/// Blocks: no. It takes a lock, so a signal handler must not call it; a thread that waits for signals may.
/// Threads: any, also several at once.
/// Errors: ZSR_ERROR_INVALID if `cancel` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_cancel_trigger(cancel: *const zsr_cancel) -> zsr_status {
    call(|| {
        // SAFETY: the caller's promise: null, or a cancel that was not freed.
        unsafe { at(cancel, "cancel") }?.0.cancel();
        Ok(ZSR_OK)
    })
}

/// Frees a cancel. Handles that were attached with it go on.
///
/// Ownership: takes `cancel`, which may be NULL.
/// Blocks: no.
/// Threads: any, but not while another call has this cancel.
/// Errors: none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_cancel_free(cancel: *mut zsr_cancel) {
    if !cancel.is_null() {
        // SAFETY: the caller's promise: it came from zsr_cancel_new() and was not freed.
        let free = || drop(unsafe { Box::from_raw(cancel) });
        // Nothing to tell, and nobody to tell it.
        let _ = catch_unwind(AssertUnwindSafe(free));
    }
}
