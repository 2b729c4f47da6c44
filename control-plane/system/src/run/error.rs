//! Reasons why a run failed. Each message says what to do.

use zsr_controller::StartError;
use zsr_plan::error::ControllerError;
use zsr_plan::p4::{ArtifactError, SchemaError};
use zsr_switch::ClientError;

/// The reason why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The compiled program can't be used.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// Program and controller do not fit.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The controller does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The controller refused something.
    #[error(transparent)]
    Refused(#[from] ControllerError),
    /// The controller and the switch.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// There is no switch.
    #[error(transparent)]
    Switch(#[from] crate::parts::SwitchError),
    /// A link's faults.
    #[error(transparent)]
    Fault(#[from] zsr_link::FaultError),
    /// A capture.
    #[error(transparent)]
    Capture(#[from] zsr_link::CaptureError),
    /// More or fewer switches than one.
    #[error("the topology has {count} switches; a run takes exactly one")]
    Switches {
        /// Number of switches.
        count: usize,
    },
    /// A part of the topology that one process can't have.
    #[error("{what}, and everything is inside one process here; bring it up with: zsr up {}", file.display())]
    NeedsProcesses {
        /// The part.
        what: String,
        /// The topology's file.
        file: std::path::PathBuf,
    },
    /// A link's port number is one that the program uses itself.
    #[error("link `{link}` uses port {port}; ports from 500 on belong to the switch")]
    ReservedPort {
        /// The link.
        link: String,
        /// The link's port.
        port: u32,
    },
    /// The P4Runtime server has no port.
    #[error("switch `{switch}`: {source}")]
    Listen {
        /// The switch.
        switch: String,
        /// The address, and what the system says.
        source: zsr_p4runtime_server::BindError,
    },
    /// A certificate of the P4Runtime server or of the controller.
    #[error(transparent)]
    Identity(#[from] zsr_tls::IdentityError),
    /// A host's NIC or agent.
    #[error("host `{host}`: {reason}")]
    Host {
        /// The host.
        host: String,
        /// The error.
        reason: String,
    },
    /// An agent refused something about a ring.
    #[error("host `{host}`, ring `{ring}`: {reason}")]
    Agent {
        /// The host.
        host: String,
        /// The ring.
        ring: String,
        /// The agent's words.
        reason: String,
    },
    /// A verilated design does not start.
    #[error("{of}: {reason}")]
    Design {
        /// The endpoint whose design it is.
        of: String,
        /// The program, and its error.
        reason: String,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: String,
        /// The system's error.
        source: std::io::Error,
    },
}
