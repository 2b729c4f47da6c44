//! Why the controller refused, or could not do, what it was asked.

use crate::dataplane::PlanError;
use crate::dataplane::alloc::Exhausted;
use zsr_records::Fault;

/// What kind of refusal: which gRPC status it is (`controller.proto` in crates/api).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
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
pub struct ControllerError {
    /// What kind.
    pub kind: ErrorKind,
    /// For people.
    pub message: String,
}

impl ControllerError {
    /// A refusal of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        ControllerError { kind, message: message.into() }
    }
}

impl From<Fault> for ControllerError {
    fn from(e: Fault) -> Self {
        ControllerError::new(ErrorKind::Invalid, e.to_string())
    }
}

impl From<Exhausted> for ControllerError {
    fn from(e: Exhausted) -> Self {
        ControllerError::new(ErrorKind::Full, e.to_string())
    }
}

impl From<PlanError> for ControllerError {
    fn from(e: PlanError) -> Self {
        ControllerError::new(ErrorKind::Internal, e.to_string())
    }
}
