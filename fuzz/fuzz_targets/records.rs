//! Schemas, routing functions, rows: see `zsr_tests::fuzz::records`.
#![no_main]

use zsr_tests::fuzz;

libfuzzer_sys::fuzz_target!(init: fuzz::write_seeds("records"), |bytes: &[u8]| fuzz::records(bytes));
