//! Topology files: see `zsr_tests::fuzz::topology`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zsr_tests::fuzz::topology(bytes));
