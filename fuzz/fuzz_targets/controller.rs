//! What clients say to the controller: see `zsr_tests::fuzz::controller`.
#![no_main]

use zsr_tests::fuzz;

libfuzzer_sys::fuzz_target!(init: fuzz::write_seeds("controller"), |bytes: &[u8]| fuzz::controller(bytes));
