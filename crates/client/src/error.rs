//! What a program at a flow's rings is told when it can't go on.

use std::fmt;
use std::time::Duration;

use zsr_records::SchemaTextError;
use zsr_ring::segment::{SegmentFault, SegmentPushError, SegmentReadError, SegmentSetupError};
use zsr_ring::{PopError, PushError};

use crate::place::PlaceError;
use crate::pu::PuError;
use crate::reach::Elsewhere;
use crate::session::ClientError;

/// A program could not push, pop or meet others.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// No system.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The controller.
    #[error(transparent)]
    Controller(#[from] ClientError),
    /// A ring.
    #[error(transparent)]
    Ring(#[from] PuError),
    /// The flow has no such member.
    #[error("flow `{flow}` has no such member `{member}`")]
    NoMember {
        /// The flow.
        flow: String,
        /// The member asked for.
        member: String,
    },
    /// Rings are shared memory, and those of the flow's members are not on this machine.
    #[error(
        "flow `{flow}`: nothing of it is on this machine (`{here}`): {}; rings are shared memory, so start the program there, with \
         --controller HOST:PORT if the controller is not there, too",
        .members.iter().map(Elsewhere::to_string).collect::<Vec<_>>().join(", ")
    )]
    Elsewhere {
        /// The flow.
        flow: String,
        /// This machine's host name.
        here: String,
        /// The members.
        members: Vec<Elsewhere>,
    },
    /// An agent that has not been met since the controller started.
    #[error(
        "flow `{flow}`: the agent of host `{host}` ({agent}) has not said where its programs attach: it does not answer the controller"
    )]
    NoAgent {
        /// The flow.
        flow: String,
        /// The host.
        host: String,
        /// The host's agent, as a URI.
        agent: String,
    },
    /// The program's records are not the flow's.
    #[error("flow `{flow}` has tuples ({schema}), {size}: not records of {asked} B")]
    Tuples {
        /// The flow.
        flow: String,
        /// What it carries.
        schema: String,
        /// How many bytes these have.
        size: String,
        /// What the program wants to push.
        asked: u32,
    },
    /// The flow's schema is not known to this version.
    #[error("flow `{flow}`: {why}")]
    Schema {
        /// The flow.
        flow: String,
        /// What is not known.
        why: SchemaTextError,
    },
    /// Records do not fit into the flow's items.
    #[error(transparent)]
    Records(#[from] SegmentSetupError),
    /// A push.
    #[error(transparent)]
    Push(#[from] SegmentPushError),
    /// A pop. Popping may go on after a fault or a gap.
    #[error(transparent)]
    Pop(#[from] SegmentReadError),
    /// The flow has failed, as its consumer learns.
    #[error("flow `{flow}` has failed: {reason}")]
    Failed {
        /// The flow.
        flow: String,
        /// Why.
        reason: String,
    },
    /// The flow has failed, or the program's member is not in it any more.
    #[error("flow `{flow}`: {why}")]
    Ended {
        /// The flow.
        flow: String,
        /// What became of it.
        why: String,
    },
    /// Records that were pushed before are lost; the flow goes on, and so can its program.
    #[error("flow `{flow}`: {}", .lost.iter().map(Lost::to_string).collect::<Vec<_>>().join("; "))]
    Lost {
        /// The flow.
        flow: String,
        /// With whom.
        lost: Vec<Lost>,
    },
    /// At a barrier.
    #[error("barrier `{name}`: not all {participants} participants came within {} s", .after.as_secs_f64())]
    Alone {
        /// The barrier.
        name: String,
        /// Who had to come.
        participants: u32,
        /// How long was waited.
        after: Duration,
    },
    /// The function that chooses a consumer.
    #[error("{0}")]
    Route(String),
}

/// Records that nobody has taken out of a ring before it left its flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The ring.
    pub ring: String,
    /// To whom; empty for flows in which all consumers share the producer's one ring.
    pub consumer: String,
    /// How many.
    pub records: u64,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} records that were pushed ", self.records)?;
        if !self.consumer.is_empty() {
            write!(f, "to consumer `{}` ", self.consumer)?;
        }
        write!(f, "are lost: ring `{}` was taken out of it before they were", self.ring)
    }
}

impl ProgramError {
    /// Whether a [`Cancel`](zsr_ring::Cancel) has ended the call.
    pub fn is_cancelled(&self) -> bool {
        matches!(
            self,
            ProgramError::Push(SegmentPushError::Ring(PushError::Cancelled))
                | ProgramError::Pop(SegmentReadError::Ring(PopError::Cancelled))
        )
    }
}

impl From<SegmentFault> for ProgramError {
    fn from(fault: SegmentFault) -> Self {
        ProgramError::Pop(fault.into())
    }
}
