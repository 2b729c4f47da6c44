//! The controller's store: see `zsr_tests::fuzz::journal`.
#![no_main]

use zsr_tests::fuzz;

libfuzzer_sys::fuzz_target!(init: fuzz::write_seeds("journal"), |bytes: &[u8]| fuzz::journal(bytes));
