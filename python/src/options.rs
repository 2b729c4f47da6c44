//! What a program says when it attaches, and how long it waits.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use zsr::{Contact, Options, ProgramError, Schema, To, Wait};

use crate::errors::{named, raised};

/// How long Python's signals wait at most.
const SLICE: Duration = Duration::from_millis(50);

/// Where the controller is, and what the program says.
pub(crate) fn attach(
    py: Python<'_>,
    system: Option<&str>,
    controller: Option<&str>,
    certificate: Option<PathBuf>,
    member: Option<String>,
    record_size: Option<u32>,
    schema: Option<&str>,
) -> PyResult<(Contact, Options)> {
    let contact = Contact::find(controller, certificate.as_deref(), system)
        .map_err(|e| raised(py, ProgramError::from(e)))?;
    let schema = schema.map(Schema::parse).transpose();
    let schema = schema.map_err(|e| named(py, "SchemaError", &format!("schema: {e}")))?;
    Ok((contact, Options { member, record_size, schema, ..Options::default() }))
}

/// The consumer that is asked for.
pub(crate) fn to(consumer: Option<usize>) -> To {
    consumer.map_or(To::Key, To::Consumer)
}

/// Seconds of patience; none: for ever.
pub(crate) fn patience(timeout: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(seconds) = timeout else { return Ok(None) };
    if seconds.is_nan() || seconds < 0.0 {
        return Err(PyValueError::new_err(format!("a timeout of {seconds} s: expected at least 0, or None")));
    }
    // What no clock counts is for ever.
    Ok(Duration::try_from_secs_f64(seconds).ok())
}

/// Calls `attempt` until it has done something, the time is over, or a signal's handler has raised. The first time it does not
/// wait; then it waits without the interpreter's lock, in slices.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    timeout: Option<f64>,
    attempt: impl FnMut(Wait) -> Result<Option<T>, ProgramError> + Send,
) -> PyResult<Option<T>> {
    wait_in_slices(py, timeout, attempt, raised, false)
}

/// As [`wait`], always without the interpreter's lock, with errors that `failed` makes exceptions of.
pub(crate) fn wait_for<T: Send, E: Send>(
    py: Python<'_>,
    timeout: Option<f64>,
    attempt: impl FnMut(Wait) -> Result<Option<T>, E> + Send,
    failed: impl Fn(Python<'_>, E) -> PyErr,
) -> PyResult<Option<T>> {
    wait_in_slices(py, timeout, attempt, failed, true)
}

fn wait_in_slices<T: Send, E: Send>(
    py: Python<'_>,
    timeout: Option<f64>,
    mut attempt: impl FnMut(Wait) -> Result<Option<T>, E> + Send,
    failed: impl Fn(Python<'_>, E) -> PyErr,
    unlocked: bool,
) -> PyResult<Option<T>> {
    let end = patience(timeout)?.and_then(|time| Instant::now().checked_add(time));
    let mut slice = Wait::No;
    loop {
        let done = match slice {
            Wait::No if !unlocked => attempt(slice),
            _ => py.detach(|| attempt(slice)),
        };
        if let Some(done) = done.map_err(|e| failed(py, e))? {
            return Ok(Some(done));
        }
        py.check_signals()?;
        let left = end.map_or(SLICE, |end| end.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Ok(None);
        }
        slice = Wait::For(left.min(SLICE));
    }
}

/// Waits until `participants` programs, on any hosts of the system, wait at the barrier `name`.
#[pyfunction]
#[pyo3(signature = (name, participants, *, timeout=None, system=None, controller=None, certificate=None))]
pub(crate) fn barrier(
    py: Python<'_>,
    name: &str,
    participants: u32,
    timeout: Option<f64>,
    system: Option<&str>,
    controller: Option<&str>,
    certificate: Option<PathBuf>,
) -> PyResult<()> {
    let (contact, _) = attach(py, system, controller, certificate, None, None, None)?;
    let time = patience(timeout)?;
    py.detach(|| zsr::barrier(contact, name, participants, time)).map_err(|e| raised(py, e))
}
