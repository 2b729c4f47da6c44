//! Rings, memory backends, NIC backends and the agent daemon.
//!
//! - [`memory`]: what a ring can live in.
//! - [`ring`]: rings, and the handles that push and pop.
//! - [`segment`]: many small records in one item.

pub mod memory;
pub mod ring;
pub mod segment;
