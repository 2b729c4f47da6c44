//! What a program at a flow's rings is told when it can't go on.

use std::fmt;
use std::time::Duration;

use zsr_records::{SchemaTextError, TupleError};
use zsr_ring::layout::{LayoutError, PlacedError};
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
    /// The program takes the flow's records for something else.
    #[error("flow `{flow}` has {}, the program expects tuples ({asked})", what(schema))]
    OtherSchema {
        /// The flow.
        flow: String,
        /// What it carries; empty: it does not say.
        schema: String,
        /// What the program expects.
        asked: String,
    },
    /// The program pushes many records at once, and they have no size.
    #[error(
        "flow `{flow}` does not say how many bytes its records have: records can be pushed side by side by a program that attaches          with a record size"
    )]
    NoSize {
        /// The flow.
        flow: String,
    },
    /// Something is published for which there is no room.
    #[error("flow `{flow}`: nothing is reserved: a reservation ends with the next call")]
    NotReserved {
        /// The flow.
        flow: String,
    },
    /// A consumer has popped all there is in its ring, and given nothing back.
    #[error("flow `{flow}`: the whole ring of {items} items is held: give batches back before popping more")]
    AllHeld {
        /// The flow.
        flow: String,
        /// How many items the ring has.
        items: u32,
    },
    /// The flow's schema is not known to this version.
    #[error("flow `{flow}`: {why}")]
    Schema {
        /// The flow.
        flow: String,
        /// What is not known.
        why: SchemaTextError,
    },
    /// Records are no tuples that a [`Combiner`](zsr_records::Combiner) takes.
    #[error("flow `{flow}`: what comes can't be combined: {why}")]
    Combine {
        /// The flow.
        flow: String,
        /// Why.
        why: TupleError,
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
    /// A layout that is to be [placed](crate::layouts::LayoutConsumer::place) makes no sense.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// No layout is placed for the next item, or the layout can't be followed any more. The item stays in the ring.
    #[error("flow `{flow}`: {why}")]
    NotPlaced {
        /// The flow.
        flow: String,
        /// Why not.
        why: PlacedError,
    },
    /// A flow whose consumers can't have layouts.
    #[error("flow `{flow}`: its consumers can't place layouts, since {why}")]
    NoLayouts {
        /// The flow.
        flow: String,
        /// Why not, and what to do.
        why: &'static str,
    },
    /// The environment says nonsense of [stamps](crate::Options::stamp_every).
    #[error(
        "ZSR_STAMP_EVERY is `{0}`: expected a number such as 64, which stamps one item in 64, or 0 for none"
    )]
    Stamps(String),
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

/// Of what kind a [`ProgramError`] is: what a program can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// No such system, flow or member, or none on this machine.
    NotFound,
    /// The controller, or a host's agent, does not answer or refuses.
    Controller,
    /// The ring can't be had.
    Ring,
    /// The flow's records are not what the program takes them for.
    Schema,
    /// A record has a size that it can't have.
    Size,
    /// There is no consumer for a record.
    Route,
    /// A [`Cancel`](zsr_ring::Cancel) has ended the call.
    Cancelled,
    /// The flow is over for this program.
    Ended,
    /// Records that were pushed before are lost; the flow goes on.
    Lost,
    /// What came is damaged or out of order; popping may go on.
    Damaged,
    /// The call makes no sense, or does not go with those before it.
    Misuse,
    /// Others did not come in time.
    Alone,
    /// A stream was cancelled by its receiver, or given up by its sender. Other streams go on.
    Stream,
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

fn what(schema: &str) -> String {
    if schema.is_empty() { "no schema".to_owned() } else { format!("tuples ({schema})") }
}

impl ProgramError {
    /// Of what kind it is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            ProgramError::Place(_)
            | ProgramError::NoMember { .. }
            | ProgramError::Elsewhere { .. }
            | ProgramError::Controller(
                ClientError::Place(_) | ClientError::Refused { code: tonic::Code::NotFound, .. },
            ) => ErrorKind::NotFound,
            ProgramError::Controller(_) | ProgramError::NoAgent { .. } => ErrorKind::Controller,
            ProgramError::Ring(_) => ErrorKind::Ring,
            ProgramError::Tuples { .. }
            | ProgramError::OtherSchema { .. }
            | ProgramError::Schema { .. }
            | ProgramError::NoSize { .. }
            | ProgramError::Combine { .. }
            | ProgramError::Records(_) => ErrorKind::Schema,
            ProgramError::NotReserved { .. }
            | ProgramError::AllHeld { .. }
            | ProgramError::Layout(_)
            | ProgramError::NotPlaced { .. }
            | ProgramError::NoLayouts { .. }
            | ProgramError::Stamps(_)
            | ProgramError::Push(SegmentPushError::Layout(_)) => ErrorKind::Misuse,
            error if error.is_cancelled() => ErrorKind::Cancelled,
            ProgramError::Push(
                SegmentPushError::RecordTooLong { .. } | SegmentPushError::TupleSize { .. },
            ) => ErrorKind::Size,
            ProgramError::Pop(SegmentReadError::Fault(_) | SegmentReadError::Sequence { .. }) => {
                ErrorKind::Damaged
            }
            ProgramError::Push(_)
            | ProgramError::Pop(_)
            | ProgramError::Failed { .. }
            | ProgramError::Ended { .. } => ErrorKind::Ended,
            ProgramError::Lost { .. } => ErrorKind::Lost,
            ProgramError::Alone { .. } => ErrorKind::Alone,
            ProgramError::Route(_) => ErrorKind::Route,
        }
    }

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
