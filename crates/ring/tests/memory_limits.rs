//! Rings for which there is no memory are refused, with the figures, before anything is killed.
//!
//! The limit below holds for the whole process, so this file has one test only.
#![cfg(not(feature = "loom"))]

use zsr_ring::memory::HostMemory;
use zsr_ring::{Ring, RingSpec, Role};

#[test]
fn no_memory_is_an_error_that_says_what_to_do() {
    // More than there is: refused by looking, not by trying.
    let bytes = 64usize << 40;
    let error = HostMemory::anonymous(bytes).expect_err("64 TiB").to_string();
    assert!(error.contains(&bytes.to_string()) && error.contains("make rings smaller"), "{error}");

    // A limit on address space.
    let spec = RingSpec::new(64, 256 << 20).expect("powers of two");
    let limit = libc::rlimit { rlim_cur: 128 << 20, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: passes a valid structure.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) }, 0);
    let error = Ring::allocate(Role::Producer, spec).expect_err("over the limit").to_string();
    assert!(error.contains("268439552") && error.contains("ulimit -v"), "{error}");
}
