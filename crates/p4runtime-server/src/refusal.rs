//! Why something was refused, and how that travels: per update as p4.v1.Error, per call as a gRPC status.

use p4runtime_proto::google::rpc;
use p4runtime_proto::p4::v1 as pb;
use prost::{Message, Name};
use tonic::{Code, Status};

use zsr_soft_switch::ControlError;
use zsr_soft_switch::SwitchStopped;

/// One refused update, request or stream message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub code: Code,
    pub message: String,
}

/// The result of most functions of this module.
pub(super) type Outcome<T> = Result<T, Refusal>;

impl Refusal {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }

    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(Code::PermissionDenied, message)
    }

    pub fn out_of_range(message: impl Into<String>) -> Self {
        Self::new(Code::OutOfRange, message)
    }

    pub fn unimplemented(message: impl Into<String>) -> Self {
        Self::new(Code::Unimplemented, message)
    }

    /// The refusal with the place in front of the message.
    pub fn at(mut self, place: impl std::fmt::Display) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// [`at`](Self::at) a place that there may be.
    pub fn at_some(self, place: Option<String>) -> Self {
        match place {
            Some(place) => self.at(place),
            None => self,
        }
    }

    fn to_error(&self) -> pb::Error {
        pb::Error { canonical_code: self.code as i32, message: self.message.clone(), ..pb::Error::default() }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        Status::new(refusal.code, refusal.message)
    }
}

impl From<SwitchStopped> for Refusal {
    fn from(stopped: SwitchStopped) -> Self {
        Refusal::new(Code::Unavailable, stopped.to_string())
    }
}

impl From<ControlError> for Refusal {
    fn from(error: ControlError) -> Self {
        let code = match &error {
            ControlError::NotFound { .. } | ControlError::NoEntry { .. } => Code::NotFound,
            ControlError::Duplicate { .. } => Code::AlreadyExists,
            ControlError::Const { .. } => Code::PermissionDenied,
            ControlError::Full { .. } => Code::ResourceExhausted,
            ControlError::TooWide { .. } => Code::OutOfRange,
            ControlError::InUse { .. } => Code::FailedPrecondition,
            ControlError::KeyCount { .. }
            | ControlError::KeyKind { .. }
            | ControlError::BadKey { .. }
            | ControlError::Priority(_)
            | ControlError::WrongAction { .. }
            | ControlError::ParamCount { .. }
            | ControlError::WrongEntryAction(_)
            | ControlError::NotAvailable(_)
            | ControlError::Invalid(_) => Code::InvalidArgument,
        };
        Refusal::new(code, error.to_string())
    }
}

/// The status of a Write or Read of which at least one element was refused: UNKNOWN, with one p4.v1.Error per
/// element in the details (specification, "Error Reporting").
pub(super) fn batch_status(summary: &str, outcomes: &[Outcome<()>]) -> Result<(), Status> {
    let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    if failed == 0 {
        return Ok(());
    }
    let refused = |(index, outcome): (usize, &'_ Outcome<()>)| Some((index, outcome.as_ref().err()?.clone()));
    // Of a batch that was taken back, the one that is at fault.
    let first = outcomes
        .iter()
        .enumerate()
        .filter_map(refused)
        .min_by_key(|(index, refusal)| (refusal.code == Code::Aborted, *index));
    let message = match first {
        Some((index, refusal)) => format!(
            "{summary}: {failed} of {} refused, number {} with {}: {}",
            outcomes.len(),
            index + 1,
            name(refusal.code),
            refusal.message
        ),
        None => summary.to_owned(),
    };
    let details = outcomes.iter().map(|outcome| {
        let error = outcome.as_ref().err().map(Refusal::to_error).unwrap_or_default();
        prost_types::Any {
            type_url: format!("type.googleapis.com/{}", pb::Error::full_name()),
            value: error.encode_to_vec(),
        }
    });
    let status =
        rpc::Status { code: Code::Unknown as i32, message: message.clone(), details: details.collect() };
    Err(Status::with_details(Code::Unknown, message, status.encode_to_vec().into()))
}

/// As the specification writes it.
fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_its_error() {
        assert!(batch_status("x", &[Ok(()), Ok(())]).is_ok());
        let status = batch_status("write", &[Ok(()), Err(Refusal::not_found("gone"))]).unwrap_err();
        assert_eq!(status.code(), Code::Unknown);
        assert!(status.message().contains("1 of 2") && status.message().contains("gone"), "{status}");
        let details = rpc::Status::decode(status.details()).unwrap();
        assert_eq!((details.code, details.message.as_str()), (2, status.message()));
        let errors: Vec<_> =
            details.details.iter().map(|any| pb::Error::decode(&any.value[..]).unwrap()).collect();
        assert_eq!(details.details[0].type_url, "type.googleapis.com/p4.v1.Error");
        assert_eq!(errors[0], pb::Error::default());
        assert_eq!((errors[1].canonical_code, errors[1].message.as_str()), (5, "gone"));
    }
}
