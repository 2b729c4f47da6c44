//! Why the controller refused, or could not do, what it was asked.

use super::alloc::Exhausted;
use super::journal::JournalError;
use crate::p4::ClientError;
use crate::plan::PlanError;
use zsr_records::Fault;

/// What kind of refusal: which gRPC status it is (`controller.proto` in crates/api).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A name is taken, a member is there already.
    Exists,
    /// No object has that name.
    NotFound,
    /// A value is against the rules.
    Invalid,
    /// Not now.
    NotNow,
    /// Not now: a transfer waits for somebody who does not answer.
    Stuck,
    /// No room.
    Full,
    /// Switch or agent did not answer.
    Unavailable,
    /// The journal can't be written.
    Unwritten,
    /// The switch's program can't do that.
    Unsupported,
    /// Controller and program do not fit.
    Internal,
}

/// A refusal: the message names the object and says what to do. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// What kind.
    pub kind: Kind,
    /// For people.
    pub message: String,
}

impl Refusal {
    /// A refusal of this kind.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Refusal { kind, message: message.into() }
    }
}

impl From<Fault> for Refusal {
    fn from(e: Fault) -> Self {
        Refusal::new(Kind::Invalid, e.to_string())
    }
}

impl From<Exhausted> for Refusal {
    fn from(e: Exhausted) -> Self {
        Refusal::new(Kind::Full, e.to_string())
    }
}

impl From<PlanError> for Refusal {
    fn from(e: PlanError) -> Self {
        Refusal::new(Kind::Internal, e.to_string())
    }
}

impl From<ClientError> for Refusal {
    fn from(e: ClientError) -> Self {
        Refusal::new(Kind::Unavailable, e.to_string())
    }
}

impl From<JournalError> for Refusal {
    fn from(e: JournalError) -> Self {
        Refusal::new(Kind::Unwritten, format!("{e}; nothing was changed: make it writable, and ask again"))
    }
}

impl From<Refusal> for tonic::Status {
    fn from(refusal: Refusal) -> Self {
        use tonic::Code;
        let code = match refusal.kind {
            Kind::Exists => Code::AlreadyExists,
            Kind::NotFound => Code::NotFound,
            Kind::Invalid => Code::InvalidArgument,
            Kind::NotNow | Kind::Stuck => Code::FailedPrecondition,
            Kind::Full => Code::ResourceExhausted,
            Kind::Unavailable | Kind::Unwritten => Code::Unavailable,
            Kind::Unsupported => Code::Unimplemented,
            Kind::Internal => Code::Internal,
        };
        tonic::Status::new(code, refusal.message)
    }
}
