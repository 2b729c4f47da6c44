//! Packets at the switch: see `zsr_tests::fuzz::switch`.
#![no_main]

use zsr_tests::fuzz;

libfuzzer_sys::fuzz_target!(init: fuzz::write_seeds("switch"), |bytes: &[u8]| fuzz::switch(bytes));
