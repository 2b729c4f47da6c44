//! The tests of this crate in one program.

mod baseline;
mod btree;
mod papers;
mod shuffles;
