//! Requests to valgrind's tool callgrind, which counts instructions. Without valgrind they do nothing. The example
//! `transports` of crates/datafusion, which is a workspace of its own, has this file, too.

/// Callgrind's requests, from its header callgrind.h.
const BASE: usize = (b'C' as usize) << 24 | (b'T' as usize) << 16;
const ZERO_STATS: usize = BASE + 1;
const TOGGLE_COLLECT: usize = BASE + 2;
const DUMP_STATS_AT: usize = BASE + 3;
const START_INSTRUMENTATION: usize = BASE + 4;
const STOP_INSTRUMENTATION: usize = BASE + 5;

/// Carries out a request: rotations that add up to nothing, and an exchange of a register with itself, which valgrind
/// knows.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[inline(always)]
fn request(number: usize, argument: usize) {
    let arguments = [number, argument, 0, 0, 0, 0];
    // SAFETY: the rotations by 3 + 13 + 61 + 51 = 128 leave rdi as it was, and the exchange changes nothing. Valgrind
    // reads the arguments and returns a result in rdx.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") 0usize => _,
            in("rdi") 0usize,
        );
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn request(_number: usize, _argument: usize) {}

/// Counts the instructions of `f`, if callgrind was started with `--collect-atstart=no`.
#[inline]
pub fn counted<T>(f: impl FnOnce() -> T) -> T {
    request(TOGGLE_COLLECT, 0);
    let done = f();
    request(TOGGLE_COLLECT, 0);
    done
}

/// Writes what was counted since the last call into a file of its own, with this text in it.
pub fn dump(what: &std::ffi::CStr) {
    request(DUMP_STATS_AT, what.as_ptr().addr());
}

/// Counts from now on, if callgrind was started with `--instr-atstart=no`, until [`stop`].
pub fn start() {
    request(START_INSTRUMENTATION, 0);
}

/// Counts no more, and runs faster for it.
pub fn stop() {
    request(STOP_INSTRUMENTATION, 0);
}

/// Forgets what was counted.
pub fn zero() {
    request(ZERO_STATS, 0);
}
