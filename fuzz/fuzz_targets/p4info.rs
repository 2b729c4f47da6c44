//! P4Info in text: see `zsr_tests::fuzz::p4info`.
#![no_main]

use zsr_tests::fuzz;

libfuzzer_sys::fuzz_target!(init: fuzz::write_seeds("p4info"), |bytes: &[u8]| fuzz::p4info(bytes));
