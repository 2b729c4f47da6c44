//! The errors of a bmv2.

use std::net::SocketAddr;
use std::path::PathBuf;

use p4runtime_proto::Address;

fn advice(source: &std::io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::ENOEXEC) => {
            "; it is no program for this machine: name a simple_switch_grpc that was built for it"
        }
        Some(libc::EACCES) => "; it is no executable file",
        _ => "",
    }
}

fn last_words(output: &str) -> String {
    match output.trim() {
        "" => " without a word".to_owned(),
        words => format!("; its last words: {}", words.replace('\n', " / ")),
    }
}

/// Why a bmv2 can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Bmv2Error {
    /// No binary.
    #[error(
        "no `simple_switch_grpc` on PATH; install bmv2 (p4lang/behavioral-model, built with PI), or name the binary, to zsr up with --bmv2 PATH, elsewhere with the environment variable ZSR_BMV2"
    )]
    NotInstalled,
    /// The binary does not start.
    #[error("cannot start {}: {source}{}", binary.display(), advice(source))]
    Spawn {
        /// The binary.
        binary: PathBuf,
        /// The system's message.
        source: std::io::Error,
    },
    /// A program for other machines, or none at all.
    #[error("{} is no program for this machine: {what}; name a simple_switch_grpc that was built for it", binary.display())]
    Foreign {
        /// The binary.
        binary: PathBuf,
        /// The kind of the file.
        what: String,
    },
    /// bmv2 ended, or never began to serve.
    #[error("{} {what}{}", binary.display(), last_words(output))]
    Failed {
        /// The binary.
        binary: PathBuf,
        /// The failure, in words.
        what: String,
        /// The last lines that it wrote.
        output: String,
    },
    /// bmv2's data plane can't be reached.
    #[error(
        "bmv2's data plane at {address}: {reason}; it has to be started with `-- --dp-grpc-server-addr {address}`"
    )]
    Dataplane {
        /// The server's address.
        address: Address,
        /// The reason.
        reason: String,
    },
    /// bmv2 serves one at a time.
    #[error("bmv2's data plane at {address}: somebody else exchanges packets with it; end that first")]
    Taken {
        /// The server's address.
        address: Address,
    },
    /// bmv2's thrift server refused, or is not there.
    #[error("bmv2's thrift server at {address}: {reason}")]
    Thrift {
        /// The server's address.
        address: SocketAddr,
        /// The reason.
        reason: String,
    },
    /// A link.
    #[error(transparent)]
    Link(#[from] zsr_link::LinkError),
    /// Something of the machine's.
    #[error("{what}: {source}")]
    Io {
        /// The step that failed.
        what: &'static str,
        /// The system's message.
        source: std::io::Error,
    },
}
