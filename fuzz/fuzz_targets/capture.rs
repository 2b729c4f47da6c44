//! What a process that owns a link streams to `zsr pcap`: see `zsr_tests::fuzz::capture`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zsr_tests::fuzz::capture(bytes));
