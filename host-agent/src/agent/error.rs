//! Why the agent refused.

use crate::memory::MemoryRefusal;
use crate::nic::{NicError, NicErrorKind};
use zsr_ring::{AttachError, GeometryError, NotInRing, RingError};

/// The agent refused. Every message names the ring.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// There is one already.
    #[error("ring `{0}` exists already: destroy it first, or choose another name")]
    Exists(String),
    /// There is none.
    #[error("no ring is called `{0}` on this host")]
    NotFound(String),
    /// The name cannot be used.
    #[error("`{}` cannot be a ring's name: expected 1 to 255 bytes without control characters", .0.escape_debug())]
    Name(String),
    /// The sizes are against the rules.
    #[error("ring `{name}`: {source}")]
    Geometry {
        /// The ring.
        name: String,
        /// The fault of the sizes.
        source: GeometryError,
    },
    /// An argument is missing or out of range.
    #[error("ring `{name}`: {message}")]
    Argument {
        /// The ring.
        name: String,
        /// The fault, and what was expected.
        message: String,
    },
    /// No memory.
    #[error("ring `{name}`: {source}")]
    Memory {
        /// The ring.
        name: String,
        /// The fault of the ring.
        source: RingError,
    },
    /// No memory of the kind asked for.
    #[error("ring `{name}`: {source}")]
    Device {
        /// The ring.
        name: String,
        /// Why not, and what to do.
        source: MemoryRefusal,
    },
    /// The ring's memory is gone.
    #[error("ring `{name}`: {trouble}")]
    Lost {
        /// The ring.
        name: String,
        /// The failure and its device, and what to do.
        trouble: String,
    },
    /// The agent's own limit.
    #[error(
        "ring `{name}` needs {need} B, but of the {limit} B that this agent gives to rings only {left} B are \
         left: destroy rings, or raise the limit"
    )]
    Limit {
        /// The ring.
        name: String,
        /// Bytes needed.
        need: u64,
        /// Bytes left.
        left: u64,
        /// The limit.
        limit: u64,
    },
    /// Not in this state.
    #[error("ring `{name}` is {state}: {advice}")]
    State {
        /// The ring.
        name: String,
        /// The queue pair's state.
        state: &'static str,
        /// The remedy.
        advice: &'static str,
    },
    /// Items that are not in the ring like that.
    #[error("ring `{name}`: {source}")]
    Items {
        /// The ring.
        name: String,
        /// The fault of the items.
        source: NotInRing,
    },
    /// The NIC refused.
    #[error("ring `{name}`: {source}")]
    Nic {
        /// The ring.
        name: String,
        /// The NIC's refusal.
        source: NicError,
    },
    /// No handle.
    #[error("ring `{name}`: {source}")]
    Attach {
        /// The ring.
        name: String,
        /// Why not.
        source: AttachError,
    },
    /// Held for a change of its flow.
    #[error(
        "ring `{0}` takes no program now: a member of its flow is being taken out, and the ring with it; try again in a moment"
    )]
    Held(String),
    /// The agent is going down.
    #[error("the agent is shutting down")]
    ShuttingDown,
}

impl From<AgentError> for tonic::Status {
    fn from(error: AgentError) -> Self {
        use tonic::Code;
        let code = match &error {
            AgentError::Exists(_) => Code::AlreadyExists,
            AgentError::NotFound(_) => Code::NotFound,
            AgentError::Name(_) | AgentError::Geometry { .. } | AgentError::Argument { .. } => {
                Code::InvalidArgument
            }
            AgentError::Memory { .. } | AgentError::Limit { .. } => Code::ResourceExhausted,
            AgentError::State { .. }
            | AgentError::Held(_)
            | AgentError::Attach { .. }
            | AgentError::Items { .. }
            | AgentError::Lost { .. }
            | AgentError::Device { .. } => Code::FailedPrecondition,
            AgentError::Nic { source, .. } => match source.kind {
                NicErrorKind::Exhausted => Code::ResourceExhausted,
                NicErrorKind::Invalid => Code::InvalidArgument,
                NicErrorKind::Stopped => Code::Unavailable,
                NicErrorKind::Other => Code::Internal,
            },
            AgentError::ShuttingDown => Code::Unavailable,
        };
        Self::new(code, error.to_string())
    }
}
