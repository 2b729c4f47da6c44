//! What programs say to an agent: see `zsr_tests::fuzz::programs`.
#![no_main]

use zsr_tests::fuzz;

libfuzzer_sys::fuzz_target!(init: fuzz::write_seeds("programs"), |bytes: &[u8]| fuzz::programs(bytes));
