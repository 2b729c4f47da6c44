//! The pushing end of a flow.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use zsr::layouts::Registered as Memory;
use zsr::{Cancel, FlowProducer, Options, ProgramError};

use crate::errors::{busy, over, raised};
use crate::layouts::{Array, Registered, layout};
use crate::options::{attach, patience, to, wait};
use crate::place::Place;

/// The pushing side of one member of a flow.
#[pyclass(subclass, frozen)]
pub(crate) struct Producer {
    inner: Mutex<Option<FlowProducer>>,
    /// Room in its ring can be written: nothing else is done meanwhile.
    pinned: AtomicBool,
    member: String,
    schema: Option<String>,
    record_size: Option<u32>,
    registered: Vec<Memory>,
}

impl Producer {
    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Option<FlowProducer>>> {
        if self.pinned.load(Ordering::Relaxed) {
            let text = "room in the ring is reserved: push it, or forget it, before anything else";
            return Err(PyBufferError::new_err(text));
        }
        match self.inner.try_lock() {
            Ok(inner) => Ok(inner),
            Err(TryLockError::Poisoned(e)) => Ok(e.into_inner()),
            Err(TryLockError::WouldBlock) => Err(busy(py)),
        }
    }

    /// A call with the producer, for which there is one.
    fn with<T>(&self, py: Python<'_>, work: impl FnOnce(&mut FlowProducer) -> PyResult<T>) -> PyResult<T> {
        work(self.lock(py)?.as_mut().ok_or_else(|| over(py))?)
    }

    pub(crate) fn publish(&self, py: Python<'_>, used: usize) -> PyResult<()> {
        self.with(py, |producer| producer.publish(used).map_err(|e| raised(py, e)))
    }

    pub(crate) fn unpin(&self) {
        self.pinned.store(false, Ordering::Relaxed);
    }

    /// The last call.
    fn end(
        &self,
        py: Python<'_>,
        work: impl FnOnce(FlowProducer) -> Result<(), ProgramError> + Send,
    ) -> PyResult<()> {
        match self.lock(py)?.take() {
            Some(producer) => py.detach(|| work(producer)).map_err(|e| raised(py, e)),
            None => Ok(()),
        }
    }
}

/// An item that was laid out.
#[pyclass(frozen)]
pub(crate) struct Ticket(zsr::Ticket);

/// The bytes of a buffer.
pub(crate) fn bytes(buffer: &PyBuffer<u8>) -> PyResult<&[u8]> {
    if !buffer.is_c_contiguous() {
        return Err(PyBufferError::new_err("records have to lie side by side in memory"));
    }
    if buffer.len_bytes() == 0 {
        return Ok(&[]);
    }
    // SAFETY: the buffer is held, and its bytes are contiguous. A program that changes them from another thread during a push
    // pushes what it has made of them.
    Ok(unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast(), buffer.len_bytes()) })
}

#[pymethods]
impl Producer {
    #[new]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    #[pyo3(signature = (flow, *, member=None, system=None, controller=None, certificate=None, record_size=None, schema=None, registered=Vec::new()))]
    fn new(
        py: Python<'_>,
        flow: &str,
        member: Option<String>,
        system: Option<&str>,
        controller: Option<&str>,
        certificate: Option<PathBuf>,
        record_size: Option<u32>,
        schema: Option<&str>,
        registered: Vec<Py<Registered>>,
    ) -> PyResult<Self> {
        let (contact, options) = attach(py, system, controller, certificate, member, record_size, schema)?;
        let registered: Vec<Memory> = registered.iter().map(|memory| memory.get().memory.clone()).collect();
        let options = Options { registered, ..options };
        let attached = py.detach(|| FlowProducer::attach(contact, flow, &options));
        let inner = attached.map_err(|e| raised(py, e))?;
        Ok(Producer {
            member: inner.member().to_owned(),
            schema: inner.schema().map(ToString::to_string),
            record_size: inner.record_size(),
            inner: Mutex::new(Some(inner)),
            pinned: AtomicBool::new(false),
            registered: options.registered,
        })
    }

    #[getter]
    fn member(&self) -> &str {
        &self.member
    }

    #[getter]
    fn schema(&self) -> Option<&str> {
        self.schema.as_deref()
    }

    #[getter]
    fn record_size(&self) -> Option<u32> {
        self.record_size
    }

    #[getter]
    fn consumers(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |producer| Ok(producer.consumers()))
    }

    /// Whether the record was taken in time.
    #[pyo3(signature = (record, to=None, timeout=None))]
    fn put(
        &self,
        py: Python<'_>,
        record: PyBuffer<u8>,
        to: Option<usize>,
        timeout: Option<f64>,
    ) -> PyResult<bool> {
        let (record, to) = (bytes(&record)?, self::to(to));
        let taken = self.with(py, |producer| {
            wait(py, timeout, |wait| Ok(producer.push_to(record, to, wait)?.then_some(())))
        })?;
        Ok(taken.is_some())
    }

    /// How many of the rows were taken in time.
    #[pyo3(signature = (rows, to=None, timeout=None))]
    fn put_rows(
        &self,
        py: Python<'_>,
        rows: PyBuffer<u8>,
        to: Option<usize>,
        timeout: Option<f64>,
    ) -> PyResult<usize> {
        let (mut rest, to) = (bytes(&rows)?, self::to(to));
        let size = self.record_size.unwrap_or(1) as usize;
        let mut taken = 0;
        self.with(py, |producer| {
            wait(py, timeout, |wait| {
                let now = producer.push_rows(rest, to, wait)?;
                taken += now;
                rest = &rest[now * size..];
                Ok(rest.is_empty().then_some(()))
            })
        })?;
        Ok(taken)
    }

    /// The ticket of an item whose records lie in these arrays; none: there was no room in time.
    #[pyo3(signature = (columns, kind, count, by, to=None, timeout=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn put_layout(
        &self,
        py: Python<'_>,
        columns: Vec<Array>,
        kind: &str,
        count: u32,
        by: Option<Array>,
        to: Option<usize>,
        timeout: Option<f64>,
    ) -> PyResult<Option<Ticket>> {
        let (layout, to) = (layout(columns, kind, count, by, &self.registered)?, self::to(to));
        let ticket =
            self.with(py, |producer| wait(py, timeout, |wait| producer.lay_out(&layout, to, wait)))?;
        Ok(ticket.map(Ticket))
    }

    /// Whether the item's memory may change.
    fn was_taken(&self, py: Python<'_>, ticket: &Ticket) -> PyResult<bool> {
        self.with(py, |producer| producer.was_taken(&ticket.0).map_err(|e| raised(py, e)))
    }

    /// Room for `length` bytes; none: not in time.
    #[pyo3(signature = (length, to=None, timeout=None))]
    fn reserve(
        slf: &Bound<'_, Self>,
        length: usize,
        to: Option<usize>,
        timeout: Option<f64>,
    ) -> PyResult<Option<Place>> {
        let (py, to) = (slf.py(), self::to(to));
        let room = slf.get().with(py, |producer| {
            wait(py, timeout, |wait| {
                let room = producer.reserve(length, to, wait)?;
                Ok(room.map(|room| (room.as_mut_ptr() as usize, room.len())))
            })
        })?;
        let Some((begin, length)) = room else { return Ok(None) };
        slf.get().pinned.store(true, Ordering::Relaxed);
        Ok(Some(Place::new(slf.clone().unbind(), begin, length)))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |producer| py.detach(|| producer.flush()).map_err(|e| raised(py, e)))
    }

    /// How many records still lie in its own rings when nothing has moved for so many seconds.
    #[pyo3(signature = (patience=None))]
    fn settle(&self, py: Python<'_>, patience: Option<f64>) -> PyResult<u64> {
        let end = self::patience(patience)?;
        let mut stood = (None, std::time::Instant::now());
        loop {
            // In slices, for signals.
            let held = self.with(py, |producer| {
                let slice = Duration::from_millis(50);
                let settled =
                    py.detach(|| producer.settle(end.map_or(slice, |end| end.min(slice)), &Cancel::new()));
                settled.map_err(|e| raised(py, e))
            })?;
            py.check_signals()?;
            let left: u64 = held.iter().map(|held| held.records).sum();
            if stood.0 != Some(left) {
                stood = (Some(left), std::time::Instant::now());
            }
            if held.is_empty() || end.is_some_and(|end| stood.1.elapsed() >= end) {
                return Ok(left);
            }
        }
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, FlowProducer::close)
    }

    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, FlowProducer::leave)
    }

    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, |producer| {
            drop(producer);
            Ok(())
        })
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        // Whoever forgets to close does not end the stream, and is not taken for one that has died.
        if let Some(producer) = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = producer.leave();
        }
    }
}
