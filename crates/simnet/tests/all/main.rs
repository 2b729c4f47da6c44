//! The tests of this crate in one program.

mod network;
mod two_nics;
