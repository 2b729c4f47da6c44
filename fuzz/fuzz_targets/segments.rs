//! Items of a consumer's ring, read as segments: see `zsr_tests::fuzz::segments`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zsr_tests::fuzz::segments(bytes));
