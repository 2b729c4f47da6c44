//! The tests of this crate in one program. The model checker, and a limit on memory, have programs of their own.
#![cfg(not(feature = "loom"))]

mod ring_oracle;
mod ring_threads;
mod segments;
