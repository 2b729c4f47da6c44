//! Compiled programs (bmv2 JSON): see `zsr_tests::fuzz::program`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zsr_tests::fuzz::program(bytes));
