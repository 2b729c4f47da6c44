//! Items of a consumer's ring, read as segments: see `zsr_tests::fuzz::segments`.
#![no_main]

use zsr_tests::fuzz;

libfuzzer_sys::fuzz_target!(init: fuzz::write_seeds("segments"), |bytes: &[u8]| fuzz::segments(bytes));
