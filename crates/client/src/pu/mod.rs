//! Processing units in processes of their own: attach to a ring of a running agent, push or pop there through the handles
//! of [`zsr_ring`], and leave. No async runtime is needed.
//!
//! ```no_run
//! use zsr::{Cancel, pu};
//!
//! let socket = "/run/user/1000/zsr/demo/programs-0".as_ref();
//! let mut ring = pu::attach_producer(socket, "orders.h1.h2", Cancel::new())?;
//! let item = vec![0; ring.spec().item_size() as usize];
//! ring.push(&item)?;
//! ring.close();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The socket of the topology's first host is `programs-0`; `zsr ring list --json` says it for each ring.
//!
//! The connection to the agent is open for as long as the handle lives, and is how the agent knows: a process that dies is
//! noticed at once, and what it had pushed is delivered. A handle that is [detached](Producer::detach) leaves the ring to
//! the next program. An agent that dies takes its NIC with it: rings are aborted then, and pushes and pops say so.

mod attach;
mod lease;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zsr_ring::memory::MemoryError;
use zsr_ring::{AttachError, Cancel, Consumer, GeometryError, Producer, Ring, RingError, Role};

/// A program could not attach to a ring.
#[derive(Debug, thiserror::Error)]
pub enum PuError {
    /// No agent there.
    #[error("no agent answers at {}: {source}; is the system up?", socket.display())]
    Connect {
        /// The agent's socket.
        socket: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The connection broke.
    #[error("the agent at {} went away: {source}", socket.display())]
    Lost {
        /// The agent's socket.
        socket: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The agent refused; the message names the ring.
    #[error("{0}")]
    Refused(String),
    /// What the agent answered makes no sense.
    #[error("the agent at {} answered with something else than a ring: {reason}", socket.display())]
    Protocol {
        /// The agent's socket.
        socket: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The agent's ring has a shape that there is not.
    #[error("ring `{ring}`: {source}")]
    Geometry {
        /// The ring.
        ring: String,
        /// What is wrong.
        source: GeometryError,
    },
    /// The memory can't be mapped.
    #[error("ring `{ring}`: {source}")]
    Memory {
        /// The ring.
        ring: String,
        /// What is wrong.
        source: MemoryError,
    },
    /// It is in a GPU's memory, which this process can't map.
    #[error(
        "ring `{ring}` is in a GPU's own memory, and only a program with that GPU can have it (docs/gpu.md): {reason}"
    )]
    Gpu {
        /// The ring.
        ring: String,
        /// The GPU, what is wrong, and what to do.
        reason: String,
    },
    /// The memory holds no such ring.
    #[error("ring `{ring}`: {source}")]
    Ring {
        /// The ring.
        ring: String,
        /// What is wrong.
        source: RingError,
    },
    /// No handle.
    #[error("ring `{ring}`: {source}")]
    Attach {
        /// The ring.
        ring: String,
        /// Why not.
        source: AttachError,
    },
}

/// The pushing handle of producer ring `ring` of the agent that listens at `socket`. `cancel` ends its blocking calls.
///
/// # Errors
/// [`PuError`]: no agent, no such ring, taken by another program, closed, aborted.
pub fn attach_producer(socket: &Path, ring: &str, cancel: Cancel) -> Result<Producer, PuError> {
    let (joined, bell) = attach::join(socket, ring, Role::Producer)?;
    let fail = |source| PuError::Attach { ring: ring.to_owned(), source };
    let mut producer = joined.attach_producer(cancel).map_err(fail)?;
    if let Some(bell) = bell {
        producer.set_doorbell(Box::new(bell));
    }
    Ok(producer)
}

/// The popping handle of consumer ring `ring` of the agent that listens at `socket`. `cancel` ends its blocking calls.
///
/// # Errors
/// As [`attach_producer`].
pub fn attach_consumer(socket: &Path, ring: &str, cancel: Cancel) -> Result<Consumer, PuError> {
    let (joined, _) = attach::join(socket, ring, Role::Consumer)?;
    joined.attach_consumer(cancel).map_err(|source| PuError::Attach { ring: ring.to_owned(), source })
}

/// Ring `ring` of the agent that listens at `socket`, for a unit that reads and writes its memory itself. It is this program's until the
/// last of its references is gone. Nothing rings its doorbell.
///
/// # Errors
/// As [`attach_producer`].
pub fn hold(socket: &Path, ring: &str, role: Role) -> Result<Arc<Ring>, PuError> {
    Ok(attach::join(socket, ring, role)?.0)
}
