//! Errors of the crate as exceptions of the package, with the same texts.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use zsr::{ErrorKind, ProgramError};

/// The exception that is `error`.
pub(crate) fn raised(py: Python<'_>, error: impl Into<ProgramError>) -> PyErr {
    let error = error.into();
    raised_as(py, error.kind(), &error.to_string())
}

/// The exception of this kind.
pub(crate) fn raised_as(py: Python<'_>, kind: ErrorKind, text: &str) -> PyErr {
    let name = match kind {
        ErrorKind::NotFound => "NotFound",
        ErrorKind::Controller => "ControllerError",
        ErrorKind::Ring => "RingError",
        ErrorKind::Schema => "SchemaError",
        ErrorKind::Size => "SizeError",
        ErrorKind::Route => "RouteError",
        ErrorKind::Cancelled | ErrorKind::Ended => "Ended",
        ErrorKind::Lost => "Lost",
        ErrorKind::Damaged => "Damaged",
        ErrorKind::Misuse => "Misuse",
        ErrorKind::Alone => "TimedOut",
        ErrorKind::Stream => "StreamError",
    };
    named(py, name, text)
}

/// The exception of this name.
pub(crate) fn named(py: Python<'_>, name: &str, text: &str) -> PyErr {
    let made = py.import("zsr._errors").and_then(|m| m.getattr(name)?.call1((text,)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(_) => PyRuntimeError::new_err(text.to_owned()),
    }
}

/// Another thread is in a call.
pub(crate) fn busy(py: Python<'_>) -> PyErr {
    named(py, "Misuse", "another thread is in a call with this object: it takes one call at a time")
}

/// It was closed or left.
pub(crate) fn over(py: Python<'_>) -> PyErr {
    named(py, "Misuse", "it is closed")
}
