//! Calls without a handle.

use std::ffi::c_char;
use std::time::Duration;

use crate::attach::{read, zsr_options};
use crate::fault::{Fault, call, invalid, last};
use crate::handle::text;
use crate::status::zsr_status::{self, *};

/// The ABI of this header. It grows when a program that was compiled with an older header no longer works.
pub const ZSR_ABI_VERSION: u32 = 1;

/// The ABI of the library that is loaded, which has to be ZSR_ABI_VERSION. Calls that take a zsr_options check that, too.
///
/// Ownership: nothing.
/// Blocks: no.
/// Threads: any.
/// Errors: none.
#[unsafe(no_mangle)]
pub extern "C" fn zsr_abi_version() -> u32 {
    ZSR_ABI_VERSION
}

/// The library's version, as `0.1.0`.
///
/// Ownership: the library's; never freed.
/// Blocks: no.
/// Threads: any.
/// Errors: none.
#[unsafe(no_mangle)]
pub extern "C" fn zsr_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// What the last error of this thread was, in words; an empty text if there was none. Calls that succeed leave it.
///
/// Ownership: the library's; valid until this thread's next call that fails, and until the thread ends.
/// Blocks: no.
/// Threads: any; each has its own.
/// Errors: none.
#[unsafe(no_mangle)]
pub extern "C" fn zsr_last_error() -> *const c_char {
    last()
}

/// The name of a status, as `ZSR_END`; `unknown` if it is none.
///
/// Ownership: the library's; never freed.
/// Blocks: no.
/// Threads: any.
/// Errors: none.
#[unsafe(no_mangle)]
pub extern "C" fn zsr_status_name(status: i32) -> *const c_char {
    const ALL: [(zsr_status, &std::ffi::CStr); 18] = [
        (ZSR_OK, c"ZSR_OK"),
        (ZSR_AGAIN, c"ZSR_AGAIN"),
        (ZSR_END, c"ZSR_END"),
        (ZSR_ERROR_INVALID, c"ZSR_ERROR_INVALID"),
        (ZSR_ERROR_ABI, c"ZSR_ERROR_ABI"),
        (ZSR_ERROR_BUSY, c"ZSR_ERROR_BUSY"),
        (ZSR_ERROR_CANCELLED, c"ZSR_ERROR_CANCELLED"),
        (ZSR_ERROR_NOT_FOUND, c"ZSR_ERROR_NOT_FOUND"),
        (ZSR_ERROR_CONTROLLER, c"ZSR_ERROR_CONTROLLER"),
        (ZSR_ERROR_RING, c"ZSR_ERROR_RING"),
        (ZSR_ERROR_SCHEMA, c"ZSR_ERROR_SCHEMA"),
        (ZSR_ERROR_SIZE, c"ZSR_ERROR_SIZE"),
        (ZSR_ERROR_ROUTE, c"ZSR_ERROR_ROUTE"),
        (ZSR_ERROR_ENDED, c"ZSR_ERROR_ENDED"),
        (ZSR_ERROR_LOST, c"ZSR_ERROR_LOST"),
        (ZSR_ERROR_DAMAGED, c"ZSR_ERROR_DAMAGED"),
        (ZSR_ERROR_INTERNAL, c"ZSR_ERROR_INTERNAL"),
        (ZSR_ERROR_SUM, c"ZSR_ERROR_SUM"),
    ];
    ALL.iter().find(|(known, _)| *known as i32 == status).map_or(c"unknown", |(_, name)| name).as_ptr()
}

/// Waits until `participants` programs, on any hosts of the system, wait at the barrier `name`. Of `options`, `system` and
/// `controller` count.
///
/// Ownership: all arguments stay the caller's. `options` may be NULL.
/// Blocks: until they are there, for at most `timeout_us` microseconds; below 0: as long as it takes.
/// Threads: any.
/// Errors: ZSR_AGAIN when they did not come in time; ZSR_ERROR_INVALID (others wait there for another number, too),
/// ZSR_ERROR_ABI, ZSR_ERROR_NOT_FOUND, ZSR_ERROR_CONTROLLER.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zsr_barrier(
    name: *const c_char,
    participants: u32,
    timeout_us: i64,
    options: *const zsr_options,
) -> zsr_status {
    call(|| {
        // SAFETY: the caller's promises: a text, and options.
        let (name, attach) = unsafe { (text(name, "name")?, read(options)?) };
        let name = name.ok_or_else(|| invalid("name is null"))?;
        let timeout = u64::try_from(timeout_us).ok().map(Duration::from_micros);
        match zsr::barrier(attach.contact, name, participants, timeout) {
            Ok(()) => Ok(ZSR_OK),
            Err(e) if e.kind() == zsr::ErrorKind::Alone => Ok(ZSR_AGAIN),
            Err(e) => Err(Fault::from(e)),
        }
    })
}
