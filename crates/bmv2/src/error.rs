//! What can go wrong with a bmv2.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a bmv2 can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Bmv2Error {
    /// No binary.
    #[error(
        "no `simple_switch_grpc` on PATH; install bmv2 (p4lang/behavioral-model, built with PI), or name the binary with ZSR_BMV2"
    )]
    NotInstalled,
    /// The binary does not start.
    #[error("cannot start {binary}: {source}")]
    Spawn {
        /// The binary.
        binary: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It ended, or never began to serve.
    #[error("{binary} {what}; its last words:\n{output}")]
    Failed {
        /// The binary.
        binary: PathBuf,
        /// What happened.
        what: String,
        /// The last lines that it wrote.
        output: String,
    },
    /// Its data plane can't be reached.
    #[error(
        "bmv2's data plane at {address}: {reason}; it has to be started with `-- --dp-grpc-server-addr {address}`"
    )]
    Dataplane {
        /// Where.
        address: SocketAddr,
        /// Why.
        reason: String,
    },
    /// Its thrift server refused, or is not there.
    #[error("bmv2's thrift server at {address}: {reason}")]
    Thrift {
        /// Where.
        address: SocketAddr,
        /// Why.
        reason: String,
    },
    /// Something of the machine's.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: std::io::Error,
    },
}
