//! Rings, memory backends, NIC backends and the agent daemon.
//!
//! - [`memory`]: what a ring can live in.
//! - [`ring`]: rings, and the handles that push and pop. Knows no NIC.
//! - [`segment`]: many small records in one item.
//! - [`nic`]: NICs as the agent needs them.
//! - [`agent`]: owner of a host's rings, and its gRPC service.
//! - [`pu`]: rings of a running agent, for programs in processes of their own.
//! - [`proto`]: the messages of that service, and its client.

// Some paths, sizes and times mean nothing to the model checker.
#![cfg_attr(loom, allow(dead_code))]

#[cfg(not(loom))]
pub mod agent;
#[cfg(not(loom))]
pub mod machine;
pub mod memory;
#[cfg(not(loom))]
pub mod nic;
#[cfg(not(loom))]
pub mod pu;
pub mod ring;
pub mod segment;

/// Messages, client and server of the service `zsr.agent.v1.Agent`; see `proto/zsr/agent/v1/agent.proto`.
#[cfg(not(loom))]
#[allow(missing_docs, clippy::all, reason = "generated")]
pub mod proto {
    tonic::include_proto!("zsr.agent.v1");
}
