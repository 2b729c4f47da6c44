//! What is in the memory of rings, at both ends: see `zsr_tests::fuzz::rings`.
#![no_main]

use zsr_tests::fuzz;

libfuzzer_sys::fuzz_target!(init: fuzz::write_seeds("rings"), |bytes: &[u8]| fuzz::rings(bytes));
