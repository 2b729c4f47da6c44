//! Many streams over one flow.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, TryLockError};

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zsr::Wait;
use zsr::streams::{InStream, InStreams, Next, OutStream, OutStreams, StreamError, StreamOptions};

use crate::errors::{busy, over, raised, raised_as};
use crate::options::{attach, wait_for};
use crate::producer::bytes;

fn failed(py: Python<'_>, error: StreamError) -> PyErr {
    match error {
        StreamError::Program(e) => raised(py, e),
        e => raised_as(py, e.kind(), &e.to_string()),
    }
}

/// What one call at a time is with, until its last call.
struct Held<T>(Mutex<Option<T>>);

impl<T> Held<T> {
    fn new(inner: T) -> Self {
        Held(Mutex::new(Some(inner)))
    }

    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Option<T>>> {
        match self.0.try_lock() {
            Ok(inner) => Ok(inner),
            Err(TryLockError::Poisoned(e)) => Ok(e.into_inner()),
            Err(TryLockError::WouldBlock) => Err(busy(py)),
        }
    }

    fn with<R>(&self, py: Python<'_>, work: impl FnOnce(&mut T) -> PyResult<R>) -> PyResult<R> {
        work(self.lock(py)?.as_mut().ok_or_else(|| over(py))?)
    }

    /// The last call; none if there was one.
    fn end(&self, py: Python<'_>, work: impl FnOnce(T) -> Result<(), StreamError> + Send) -> PyResult<()>
    where
        T: Send,
    {
        match self.lock(py)?.take() {
            Some(inner) => py.detach(|| work(inner)).map_err(|e| failed(py, e)),
            None => Ok(()),
        }
    }
}

/// What was found in time, or that there is no more.
fn some<T>(next: Next<T>) -> Option<Option<T>> {
    match next {
        Next::Some(found) => Some(Some(found)),
        Next::Nothing => None,
        Next::End => Some(None),
    }
}

/// Streams from one producer of a flow.
#[pyclass(subclass, frozen)]
pub(crate) struct StreamProducer(Held<OutStreams>);

#[pymethods]
impl StreamProducer {
    #[new]
    #[pyo3(signature = (flow, answers, *, member=None, system=None, controller=None, certificate=None))]
    fn new(
        py: Python<'_>,
        flow: &str,
        answers: &str,
        member: Option<String>,
        system: Option<&str>,
        controller: Option<&str>,
        certificate: Option<PathBuf>,
    ) -> PyResult<Self> {
        let (contact, program) = attach(py, system, controller, certificate, member, None, None)?;
        let options = StreamOptions { program, ..StreamOptions::default() };
        let out = py.detach(|| OutStreams::attach(contact, flow, answers, &options));
        Ok(StreamProducer(Held::new(out.map_err(|e| failed(py, e))?)))
    }

    #[getter]
    fn consumers(&self, py: Python<'_>) -> PyResult<usize> {
        self.0.with(py, |out| Ok(out.consumers()))
    }

    fn start(&self, py: Python<'_>, name: PyBuffer<u8>, consumer: usize) -> PyResult<Outgoing> {
        let name = bytes(&name)?;
        let stream =
            self.0.with(py, |out| py.detach(|| out.open(name, consumer)).map_err(|e| failed(py, e)))?;
        Ok(Outgoing(Held::new(stream)))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.end(py, OutStreams::close)
    }

    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.0.end(py, |out| {
            drop(out);
            Ok(())
        })
    }
}

/// A stream that goes out.
#[pyclass(frozen)]
pub(crate) struct Outgoing(Held<OutStream>);

#[pymethods]
impl Outgoing {
    /// Whether the record was taken in time.
    #[pyo3(signature = (record, timeout=None))]
    fn put(&self, py: Python<'_>, record: PyBuffer<u8>, timeout: Option<f64>) -> PyResult<bool> {
        let record = bytes(&record)?;
        let taken = self.0.with(py, |stream| {
            let attempt = |wait: Wait| {
                let taken = match wait {
                    Wait::No => stream.try_push(record)?,
                    wait => stream.push_timeout(record, wait.at_most().unwrap_or_default())?,
                };
                Ok(taken.then_some(()))
            };
            wait_for(py, timeout, attempt, failed)
        })?;
        Ok(taken.is_some())
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.0.with(py, |stream| py.detach(|| stream.flush()).map_err(|e| failed(py, e)))
    }

    fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.0.end(py, OutStream::end)
    }

    fn abort(&self, py: Python<'_>, why: &str) -> PyResult<()> {
        self.0.end(py, |stream| stream.abort(why))
    }
}

/// Streams that come to one consumer of a flow.
#[pyclass(subclass, frozen)]
pub(crate) struct StreamConsumer(Held<InStreams>);

#[pymethods]
impl StreamConsumer {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    #[pyo3(signature = (flow, answers, *, window=None, most=None, member=None, system=None, controller=None, certificate=None))]
    fn new(
        py: Python<'_>,
        flow: &str,
        answers: &str,
        window: Option<u32>,
        most: Option<usize>,
        member: Option<String>,
        system: Option<&str>,
        controller: Option<&str>,
        certificate: Option<PathBuf>,
    ) -> PyResult<Self> {
        let (contact, program) = attach(py, system, controller, certificate, member, None, None)?;
        let usual = StreamOptions::default();
        let options = StreamOptions {
            window: window.unwrap_or(usual.window),
            most: most.unwrap_or(usual.most),
            program,
        };
        let come = py.detach(|| InStreams::attach(contact, flow, answers, &options));
        Ok(StreamConsumer(Held::new(come.map_err(|e| failed(py, e))?)))
    }

    /// `None`: not in time. An empty list: there is no more.
    #[pyo3(signature = (timeout=None))]
    fn next_stream(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Vec<Incoming>>> {
        let next = self.0.with(py, |come| {
            let attempt = |wait: Wait| Ok(some(come.accept_timeout(wait.at_most().unwrap_or_default())?));
            wait_for(py, timeout, attempt, failed)
        })?;
        Ok(next.map(|stream| stream.into_iter().map(|stream| Incoming(Held::new(stream))).collect()))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.end(py, |come| {
            drop(come);
            Ok(())
        })
    }
}

/// A stream that comes in.
#[pyclass(frozen)]
pub(crate) struct Incoming(Held<InStream>);

#[pymethods]
impl Incoming {
    #[getter]
    fn name<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.0.with(py, |stream| Ok(PyBytes::new(py, stream.name())))
    }

    /// `None`: not in time. An empty list: the stream has ended.
    #[pyo3(signature = (timeout=None))]
    fn next_record<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<Option<Vec<Bound<'py, PyBytes>>>> {
        let next = self.0.with(py, |stream| {
            let attempt = |wait: Wait| {
                Ok(some(match wait {
                    Wait::No => stream.try_pop()?,
                    wait => stream.pop_timeout(wait.at_most().unwrap_or_default())?,
                }))
            };
            wait_for(py, timeout, attempt, failed)
        })?;
        Ok(next.map(|record| record.into_iter().map(|record| PyBytes::new(py, &record)).collect()))
    }

    #[pyo3(signature = (why=None))]
    fn cancel(&self, py: Python<'_>, why: Option<String>) -> PyResult<()> {
        self.0.end(py, |stream| {
            match why {
                Some(why) => stream.cancel(&why),
                None => drop(stream),
            }
            Ok(())
        })
    }
}
