//! What clients say to the switch's P4Runtime server: see `zsr_tests::fuzz::p4runtime`.
#![no_main]

use zsr_tests::fuzz;

libfuzzer_sys::fuzz_target!(init: fuzz::write_seeds("p4runtime"), |bytes: &[u8]| fuzz::p4runtime(bytes));
