//! The tests of this crate in one program. The test that counts allocations is a program of its own.

#[path = "../common/mod.rs"]
mod common;
mod random;
mod reorder;
mod requester;
mod responder;
mod send;
mod vlan;
