//! Instructions, counted by callgrind. Outside of valgrind this does nothing.

use std::ffi::CString;

/// `CT` in the upper half, which is callgrind's, and the number of the request.
const REQUEST: usize = 0x4354_0000;
const DUMP_AT: usize = REQUEST + 3;
const START: usize = REQUEST + 4;
const STOP: usize = REQUEST + 5;

/// Counts from now on.
pub(crate) fn begin() {
    request(START, 0);
}

/// Writes what was counted to a file, with this text in it, and counts no more.
pub(crate) fn end(text: &str) {
    let text = CString::new(text).expect("no zero byte");
    request(DUMP_AT, text.as_ptr() as usize);
    request(STOP, 0);
}

#[cfg(target_arch = "x86_64")]
fn request(number: usize, argument: usize) {
    let arguments = [number, argument, 0, 0, 0, 0];
    // SAFETY: valgrind knows these instructions (valgrind.h) and reads the six words. A processor rotates a register by 128 bits in all, and
    // exchanges one with itself: nothing but flags is changed.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            in("rax") &arguments, inout("rdx") 0usize => _,
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn request(_number: usize, _argument: usize) {}
