//! A host's NIC backends and the agent daemon that owns its rings.
//!
//! - [`nic`]: NICs as the agent needs them.
//! - [`agent`]: owner of a host's rings, and its gRPC service.
//! - [`pu`]: rings of a running agent, for programs in processes of their own.
//! - [`proto`]: the messages of that service, and its client.

pub mod agent;
pub mod machine;
pub mod nic;
pub mod pu;

/// Messages, client and server of the service `zsr.agent.v1.Agent`; see `proto/zsr/agent/v1/agent.proto`.
#[allow(missing_docs, clippy::all, reason = "generated")]
pub mod proto {
    tonic::include_proto!("zsr.agent.v1");
}
