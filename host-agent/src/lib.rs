//! A host's NIC backends and the agent daemon that owns its rings.
//!
//! - [`nic`]: NICs as the agent needs them.
//! - [`agent`]: owner of a host's rings, and its gRPC service.

pub mod agent;
pub mod nic;
