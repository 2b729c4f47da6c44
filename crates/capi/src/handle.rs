//! What a caller holds: a box that one thread at a time is in, and arguments that are looked at before they are used.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use zsr::{To, Wait};

use crate::fault::{Fault, call, invalid};
use crate::status::zsr_status::{self, *};

/// Something that C holds by a pointer.
pub(crate) struct Handle<T> {
    busy: AtomicBool,
    /// A call in it has panicked.
    broken: AtomicBool,
    inner: UnsafeCell<T>,
}

/// A call that is in a handle, and over when it is dropped, also by a panic.
pub(crate) struct Entered<'h, T>(&'h Handle<T>);

impl<T> Entered<'_, T> {
    /// What is in the handle.
    ///
    /// # Safety
    /// It is not used when the call is over, and asked for once.
    pub(crate) unsafe fn inside<'i>(&mut self) -> &'i mut T {
        // SAFETY: `busy` lets one thread in at a time, and the rest is the caller's.
        unsafe { &mut *self.0.inner.get() }
    }
}

impl<T> Drop for Entered<'_, T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Ordering::Relaxed);
        }
        self.0.busy.store(false, Ordering::Release);
    }
}

impl<T> Handle<T> {
    pub(crate) fn new(inner: T) -> Self {
        Handle { busy: AtomicBool::new(false), broken: AtomicBool::new(false), inner: UnsafeCell::new(inner) }
    }

    /// A call with it.
    pub(crate) fn enter(&self) -> Result<Entered<'_, T>, Fault> {
        let entered = self.enter_to_end()?;
        if self.broken.load(Ordering::Relaxed) {
            let text = "a call with this handle has failed in libzsr itself: it can only be ended";
            return Err(Fault { status: ZSR_ERROR_INTERNAL, text: text.into() });
        }
        Ok(entered)
    }

    fn enter_to_end(&self) -> Result<Entered<'_, T>, Fault> {
        if self.busy.swap(true, Ordering::Acquire) {
            let text = "another thread is in a call with this handle: a handle takes one call at a time";
            return Err(Fault { status: ZSR_ERROR_BUSY, text: text.into() });
        }
        Ok(Entered(self))
    }
}

/// A call with a handle.
pub(crate) fn with<T>(
    handle: Option<&Handle<T>>,
    work: impl FnOnce(&mut T) -> Result<zsr_status, Fault>,
) -> zsr_status {
    call(|| {
        let mut entered = handle.ok_or_else(|| invalid("the handle is null"))?.enter()?;
        // SAFETY: asked for once, and the call ends behind `work`.
        work(unsafe { entered.inside() })
    })
}

/// The last call with a handle, which takes it.
///
/// # Safety
/// `handle` is null, or was made by [`Box::into_raw`] and not ended.
pub(crate) unsafe fn end<T, H>(
    handle: *mut H,
    inside: impl FnOnce(&H) -> &Handle<T>,
    out: impl FnOnce(H) -> Handle<T>,
    work: impl FnOnce(T) -> Result<zsr_status, Fault>,
) -> zsr_status {
    call(|| {
        // SAFETY: null, or a handle, by contract.
        let lives = unsafe { handle.as_ref() }.ok_or_else(|| invalid("the handle is null"))?;
        // A second thread that comes while this one is here finds it busy.
        std::mem::forget(inside(lives).enter_to_end()?);
        // SAFETY: it was made by `Box::into_raw`, and no other call is in it.
        let handle = out(*unsafe { Box::from_raw(handle) });
        work(handle.inner.into_inner())
    })
}

/// What a pointer points to.
///
/// # Safety
/// `pointer` is null, or points to a `T` that nobody else writes during the call.
pub(crate) unsafe fn at<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Fault> {
    check(pointer, name)?;
    // SAFETY: neither null nor out of line; the rest is the caller's.
    Ok(unsafe { &*pointer })
}

/// Where a result goes.
///
/// # Safety
/// `pointer` is null, or points to room for a `T`.
pub(crate) unsafe fn put<T>(pointer: *mut T, name: &str, value: T) -> Result<(), Fault> {
    check(pointer, name)?;
    // SAFETY: neither null nor out of line; the rest is the caller's.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Refuses pointers that can't be.
pub(crate) fn check<T>(pointer: *const T, name: &str) -> Result<(), Fault> {
    if pointer.is_null() {
        return Err(invalid(format!("{name} is null")));
    }
    if !pointer.is_aligned() {
        return Err(invalid(format!("{name} is not aligned to {} B", align_of::<T>())));
    }
    Ok(())
}

/// Refuses a struct whose first word, its size, is not that of this library's; it was not begun with `init`.
///
/// # Safety
/// `pointer` is null, or points to as many bytes as its first word says.
pub(crate) unsafe fn check_size<T>(pointer: *const T, name: &str, init: &str) -> Result<(), Fault> {
    check(pointer, name)?;
    // SAFETY: its size is its first word, which is there whatever the version.
    let (size, known) = (unsafe { pointer.cast::<usize>().read() }, size_of::<T>());
    if size == known {
        return Ok(());
    }
    let text = format!(
        "{name}.size is {size}, expected {known}: begin with {init} of the zsr.h that came with this library"
    );
    Err(Fault { status: ZSR_ERROR_ABI, text })
}

/// A text that may be missing.
///
/// # Safety
/// `text` is null, or ends with a zero byte.
pub(crate) unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<Option<&'a str>, Fault> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: not null; the zero byte is the caller's.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map(Some).map_err(|e| invalid(format!("{name} is not UTF-8: {e}")))
}

/// Bytes that may be none.
///
/// # Safety
/// `data` points to `length` bytes that nobody writes during the call, or `length` is 0.
pub(crate) unsafe fn bytes<'a>(data: *const u8, length: usize, name: &str) -> Result<&'a [u8], Fault> {
    if length == 0 {
        return Ok(&[]);
    }
    check(data, name)?;
    fits(length, name)?;
    // SAFETY: not null, and no longer than memory can be; the rest is the caller's.
    Ok(unsafe { std::slice::from_raw_parts(data, length) })
}

/// Refuses lengths that no memory has.
pub(crate) fn fits(length: usize, name: &str) -> Result<(), Fault> {
    if isize::try_from(length).is_err() {
        return Err(invalid(format!("{name} of {length} B: there is no memory of that length")));
    }
    Ok(())
}

/// Microseconds of patience.
pub(crate) fn wait(timeout_us: i64) -> Wait {
    match u64::try_from(timeout_us) {
        Ok(0) => Wait::No,
        Ok(us) => Wait::For(Duration::from_micros(us)),
        Err(_) => Wait::Forever,
    }
}

/// ZSR_TO_KEY.
const TO_KEY: i32 = -1;

/// To which consumer.
pub(crate) fn to(consumer: i32) -> Result<To, Fault> {
    match usize::try_from(consumer) {
        Ok(number) => Ok(To::Consumer(number)),
        Err(_) if consumer == TO_KEY => Ok(To::Key),
        Err(_) => Err(invalid(format!("{consumer} is no consumer: expected ZSR_TO_KEY, or a number from 0"))),
    }
}
