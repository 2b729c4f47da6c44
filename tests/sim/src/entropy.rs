//! Random numbers of the process: they come from the seed, not from the kernel. The standard library's hash maps and
//! tokio's `select!` ask for them. So their order is a part of the schedule, and the same in every run of a seed.

use std::sync::atomic::{AtomicU64, Ordering};

static STATE: AtomicU64 = AtomicU64::new(0);

/// From now on, random numbers follow from `seed`.
pub fn seed(seed: u64) {
    STATE.store(seed, Ordering::Relaxed);
}

/// Replaces the C library's function, which the standard library would call.
///
/// # Safety
/// As getrandom(2): `buffer` has room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(buffer: *mut u8, len: usize, _flags: u32) -> isize {
    for at in 0..len {
        let state = STATE.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mixed = (state ^ (state >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        // SAFETY: the caller says that there is room.
        unsafe { *buffer.add(at) = (mixed >> 56) as u8 };
    }
    len as isize
}
