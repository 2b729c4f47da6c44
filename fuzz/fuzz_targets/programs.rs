//! What programs say to an agent: see `zsr_tests::fuzz::programs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zsr_tests::fuzz::programs(bytes));
