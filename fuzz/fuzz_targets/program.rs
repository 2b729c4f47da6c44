//! Compiled programs (bmv2 JSON): see `zsr_tests::fuzz::program`.
#![no_main]

use zsr_tests::fuzz;

libfuzzer_sys::fuzz_target!(init: fuzz::write_seeds("program"), |bytes: &[u8]| fuzz::program(bytes));
