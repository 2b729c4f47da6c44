//! The tests of this crate in one program.

mod common;
mod icrc_vectors;
mod round_trip;
