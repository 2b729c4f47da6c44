//! A host's NIC backends and the agent daemon that owns its rings.
//!
//! - [`nic`]: NICs as the agent needs them.
//! - [`memory`]: who makes the memory of rings.
//! - [`agent`]: owner of a host's rings, and its gRPC service.

pub mod agent;
pub mod memory;
pub mod nic;
