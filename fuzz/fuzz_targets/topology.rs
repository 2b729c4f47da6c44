//! Topology files: see `zsr_tests::fuzz::topology`.
#![no_main]

use zsr_tests::fuzz;

libfuzzer_sys::fuzz_target!(init: fuzz::write_seeds("topology"), |bytes: &[u8]| fuzz::topology(bytes));
