//! P4Info in text: see `zsr_tests::fuzz::p4info`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zsr_tests::fuzz::p4info(bytes));
