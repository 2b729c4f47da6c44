//! What is said to an agent: see `zsr_tests::fuzz::agent`.
#![no_main]

use zsr_tests::fuzz;

libfuzzer_sys::fuzz_target!(init: fuzz::write_seeds("agent"), |bytes: &[u8]| fuzz::agent(bytes));
