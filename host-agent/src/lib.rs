//! Rings, memory backends, NIC backends and the agent daemon.
//!
//! - [`memory`]: what a ring can live in.
//! - [`ring`]: rings, and the handles that push and pop.

pub mod memory;
pub mod ring;
