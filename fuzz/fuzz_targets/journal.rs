//! The controller's store: see `zsr_tests::fuzz::journal`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zsr_tests::fuzz::journal(bytes));
