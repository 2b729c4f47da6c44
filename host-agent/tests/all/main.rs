//! The tests of this crate in one program.

mod agent;
mod common;
mod gpu;
mod memory;
mod programs;
