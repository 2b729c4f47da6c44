//! The C ABI of the crate `zsr`. What programs see is `include/zsr.h`, which is made of this crate by `cargo xtask header`;
//! `include/zsr.hpp` makes C++ of it.
//!
//! Every function looks at its pointers first, catches panics, says with a status how it went, and leaves the text of an error
//! for the thread that called it ([`fault`]).

#![deny(unsafe_op_in_unsafe_fn)]
// What a caller has to keep to stands in each function's text, in words for C.
#![allow(clippy::missing_safety_doc)]
#![allow(non_camel_case_types, reason = "names of C")]

mod attach;
mod batch;
mod cancel;
mod columns;
mod combiner;
mod consumer;
mod fault;
mod general;
mod handle;
mod layout_consumer;
mod layouts;
mod producer;
mod rings;
mod status;
mod streams;

pub use attach::zsr_options;
pub use batch::zsr_batch;
pub use cancel::zsr_cancel;
pub use columns::{zsr_column, zsr_type};
pub use combiner::zsr_combiner;
pub use consumer::zsr_consumer;
pub use layout_consumer::{zsr_arrived, zsr_layout_consumer};
pub use layouts::{zsr_layout, zsr_layout_column, zsr_registered, zsr_ticket};
pub use producer::zsr_producer;
pub use rings::{zsr_ring, zsr_rings};
pub use status::zsr_status;
pub use streams::{zsr_in_stream, zsr_in_streams, zsr_out_stream, zsr_out_streams};

#[cfg(test)]
mod tests {
    const HEADER: &str = include_str!("../include/zsr.h");

    #[test]
    fn the_header_says_the_same_things_of_every_function() {
        let functions: Vec<&str> =
            HEADER.split("\n\n").filter(|part| part.contains("\nzsr_") || part.contains(" zsr_")).collect();
        let functions: Vec<_> =
            functions.iter().filter(|part| part.starts_with("//") && part.ends_with(");")).collect();
        assert!(functions.len() > 30, "{}", functions.len());
        for function in functions {
            for said in ["\n// Ownership: ", "\n// Blocks: ", "\n// Threads: ", "\n// Errors: "] {
                assert!(function.contains(said), "{said} is missing:\n{function}");
            }
            assert!(
                !function.contains("timeout_us)")
                    || function.contains("microseconds")
                    || function.contains(" as zsr_")
            );
        }
    }
}
