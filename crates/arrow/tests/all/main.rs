//! The tests of this crate in one program.

mod common;
mod hostile;
mod lending;
mod round_trip;
