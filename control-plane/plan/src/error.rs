//! Refusals and failures of the controller's operations.

use crate::dataplane::PlanError;
use crate::dataplane::alloc::Exhausted;
use zsr_records::Fault;

/// The kind of a refusal, which decides the gRPC status (`controller.proto` in crates/api).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// A name is taken, a member is there already.
    Exists,
    /// No object has that name.
    NotFound,
    /// A value is against the rules.
    Invalid,
    /// The operation is not possible now.
    NotNow,
    /// The operation is not possible now: a transfer waits for a member that does not answer.
    Stuck,
    /// No room.
    Full,
    /// Switch or agent did not answer.
    Unavailable,
    /// The journal can't be written.
    Unwritten,
    /// The switch's program does not support the operation.
    Unsupported,
    /// Controller and program do not fit.
    Internal,
}

/// A refusal: the message names the object and says what to do. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ControllerError {
    /// The refusal's kind.
    pub kind: ErrorKind,
    /// The refusal's text, for people.
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
