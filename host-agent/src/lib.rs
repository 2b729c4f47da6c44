//! A host's NIC backends and the agent daemon that owns its rings.
//!
//! - [`nic`]: NICs as the agent needs them.
//! - [`agent`]: owner of a host's rings, and its gRPC service.
//! - [`pu`]: rings of a running agent, for programs in processes of their own.

pub mod agent;
pub mod nic;
pub mod pu;
