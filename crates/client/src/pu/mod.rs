//! Processing units in processes of their own: attach to a ring of a running agent, push or pop there through the handles
//! of [`zsr_ring`], and leave. No async runtime is needed.
//!
//! ```
//! use zsr::{Cancel, pu};
//!
//! # let flow = zsr::testing::shuffle(1, 1).named("orders").start()?;
//! # let system = flow.place();
//! let socket = system.programs(0);
//! let mut ring = pu::attach_producer(&socket, "orders.p0.c0", Cancel::new())?;
//! let item = vec![0; ring.spec().item_size() as usize];
//! ring.push(&item)?;
//! ring.close();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `system` is a [`Place`](crate::Place). The socket of the topology's first host is `programs-0` there; `zsr ring list --json` says it for each ring.
//!
//! In a system with certificates an agent lets nobody attach without leave of the controller, which knows programs by theirs:
//! [`Session::pass`](crate::session::Session::pass) and [`attach_producer_by`].
//!
//! The connection to the agent is open for as long as the handle lives, and is how the agent knows: a process that dies is
//! noticed at once, and what it had pushed is delivered. A handle that is [detached](Producer::detach) leaves the ring to
//! the next program. An agent that dies takes its NIC with it: rings are aborted then, and pushes and pops say so.

mod attach;
mod lease;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::layouts::Registered;
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
    /// The agent refused for want of a [`Pass`]; the message names the ring.
    #[error("{0}")]
    NoPass(String),
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

/// Leave to attach to one ring, once and within a minute, which a system's controller gives.
#[derive(Clone)]
pub struct Pass(pub(crate) Vec<u8>);

impl std::fmt::Debug for Pass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pass")
    }
}

/// The pushing handle of producer ring `ring` of the agent that listens at `socket`. `cancel` ends its blocking calls.
///
/// # Errors
/// [`PuError`]: no agent, no such ring, taken by another program, closed, aborted.
pub fn attach_producer(socket: &Path, ring: &str, cancel: Cancel) -> Result<Producer, PuError> {
    attach_producer_by(None, socket, ring, cancel)
}

/// As [`attach_producer`], by a pass.
///
/// # Errors
/// As [`attach_producer`].
pub fn attach_producer_by(
    pass: Option<&Pass>,
    socket: &Path,
    ring: &str,
    cancel: Cancel,
) -> Result<Producer, PuError> {
    attach_producer_with(pass, &[], socket, ring, cancel).map(|(producer, _)| producer)
}

/// As [`attach_producer_by`], with memory that items name in layouts. Says by which number layouts name the first region, if the ring's
/// items may be layouts.
///
/// # Errors
/// As [`attach_producer`]; [`PuError::Refused`]: the ring has no layouts.
pub fn attach_producer_with(
    pass: Option<&Pass>,
    registered: &[Registered],
    socket: &Path,
    ring: &str,
    cancel: Cancel,
) -> Result<(Producer, Option<u32>), PuError> {
    let joined = attach::join(socket, ring, Role::Producer, pass, registered)?;
    let fail = |source| PuError::Attach { ring: ring.to_owned(), source };
    let mut producer = joined.ring.attach_producer(cancel).map_err(fail)?;
    if let Some(bell) = joined.bell {
        producer.set_doorbell(Box::new(bell));
    }
    Ok((producer, joined.layouts))
}

/// The popping handle of consumer ring `ring` of the agent that listens at `socket`. `cancel` ends its blocking calls.
///
/// # Errors
/// As [`attach_producer`].
pub fn attach_consumer(socket: &Path, ring: &str, cancel: Cancel) -> Result<Consumer, PuError> {
    attach_consumer_by(None, socket, ring, cancel)
}

/// As [`attach_consumer`], by a pass.
///
/// # Errors
/// As [`attach_producer`].
pub fn attach_consumer_by(
    pass: Option<&Pass>,
    socket: &Path,
    ring: &str,
    cancel: Cancel,
) -> Result<Consumer, PuError> {
    attach_consumer_with(pass, &[], socket, ring, cancel).map(|(consumer, _)| consumer)
}

/// As [`attach_consumer_by`], with memory that layouts of items name. Says by which number layouts name the first region, if the ring's
/// items may have layouts.
///
/// # Errors
/// As [`attach_producer_with`].
pub fn attach_consumer_with(
    pass: Option<&Pass>,
    registered: &[Registered],
    socket: &Path,
    ring: &str,
    cancel: Cancel,
) -> Result<(Consumer, Option<u32>), PuError> {
    let joined = attach::join(socket, ring, Role::Consumer, pass, registered)?;
    let fail = |source| PuError::Attach { ring: ring.to_owned(), source };
    Ok((joined.ring.attach_consumer(cancel).map_err(fail)?, joined.layouts))
}

/// Ring `ring` of the agent that listens at `socket`, for a unit that reads and writes its memory itself. It is this program's until the
/// last of its references is gone. Nothing rings its doorbell.
///
/// # Errors
/// As [`attach_producer`].
pub fn hold(socket: &Path, ring: &str, role: Role) -> Result<Arc<Ring>, PuError> {
    hold_by(None, socket, ring, role)
}

/// As [`hold`], by a pass.
///
/// # Errors
/// As [`attach_producer`].
pub fn hold_by(pass: Option<&Pass>, socket: &Path, ring: &str, role: Role) -> Result<Arc<Ring>, PuError> {
    Ok(attach::join(socket, ring, role, pass, &[])?.ring)
}
