//! What a process that owns a link streams to `zsr pcap`: see `zsr_tests::fuzz::capture`.
#![no_main]

use zsr_tests::fuzz;

libfuzzer_sys::fuzz_target!(init: fuzz::write_seeds("capture"), |bytes: &[u8]| fuzz::capture(bytes));
