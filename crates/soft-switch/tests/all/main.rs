//! The tests of this crate in one program. The test that counts allocations is a program of its own.

mod copies;
mod drops;
mod handle;
mod headers;
mod hostile;
mod metadata;
mod stf;
#[path = "../support/mod.rs"]
mod support;
mod tables;
mod traced;
