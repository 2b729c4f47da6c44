//! The tests of this crate in one program.

mod memif;
mod port_loop;
mod tap;
mod unix;
mod wrappers;
