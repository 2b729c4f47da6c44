//! What is said between a system's parts: programs and commands to the controller, the controller to agents, programs to
//! agents. The text is in `proto/`, and says what every call and field means; `cargo xtask proto` makes the code of it.
//!
//! - [`controller`][]: `zsr.controller.v1.Controller`.
//! - [`agent`][]: `zsr.agent.v1.Agent`, and the messages of [`program`].
//! - [`program`][]: between an agent and programs that attach to its rings.
//! - [`machine`][]: which machine somebody is on.
//!
//! Clients are always there, servers' traits with the feature `server`.

#![forbid(unsafe_code)]

pub mod machine;
pub mod program;

/// Messages and client of the service `zsr.controller.v1.Controller`; see `proto/zsr/controller/v1`.
#[allow(missing_docs, clippy::all, reason = "generated")]
pub mod controller {
    include!("generated/zsr.controller.v1.rs");
}

/// Messages and client of the service `zsr.agent.v1.Agent`; see `proto/zsr/agent/v1/agent.proto`.
#[allow(missing_docs, clippy::all, reason = "generated")]
pub mod agent {
    include!("generated/zsr.agent.v1.rs");
}
