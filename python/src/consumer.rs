//! The popping end of a flow.

use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use zsr::{FlowConsumer, HeldBatch, Popped, ProgramError, Urgent, Wait, most_urgent};

use crate::errors::{busy, over, raised};
use crate::options::{attach, wait};
use crate::place::export;

/// A batch on its way from one thread to another.
struct Sent(HeldBatch);

// SAFETY: its pointer is only followed while the batch is held, from whichever thread.
unsafe impl Send for Sent {}

/// A consumer, and batches of it that Python still has.
struct Shared {
    inner: Mutex<Option<FlowConsumer>>,
    /// Batches that Python has let go of, to be given back by whoever is next at the consumer.
    done: Mutex<Vec<Sent>>,
    /// How many Python has.
    out: AtomicUsize,
    /// It leaves with the last of them.
    leaving: AtomicBool,
}

impl Shared {
    fn done(&self) -> MutexGuard<'_, Vec<Sent>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Option<FlowConsumer>>> {
        match self.inner.try_lock() {
            Ok(inner) => Some(inner),
            Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn give_back(&self, consumer: &mut FlowConsumer) {
        for held in std::mem::take(&mut *self.done()) {
            consumer.give_back(&held.0);
        }
    }

    /// Python has let go of a batch.
    fn let_go(&self, held: HeldBatch) {
        self.done().push(Sent(held));
        let last = self.out.fetch_sub(1, Ordering::AcqRel) == 1;
        // Whoever is in a call gives it back.
        let Some(mut inner) = self.try_lock() else { return };
        if let Some(consumer) = inner.as_mut() {
            self.give_back(consumer);
        }
        if last && self.leaving.load(Ordering::Relaxed) {
            leave(&mut inner);
        }
    }
}

fn leave(inner: &mut Option<FlowConsumer>) {
    if let Some(consumer) = inner.take() {
        consumer.leave();
    }
}

/// Records in the ring.
#[pyclass(frozen)]
pub(crate) struct Held {
    shared: Arc<Shared>,
    held: Mutex<Option<Sent>>,
    exports: AtomicUsize,
    begin: usize,
    bytes: usize,
    #[pyo3(get)]
    records: usize,
    #[pyo3(get)]
    record_size: Option<u32>,
}

#[pymethods]
impl Held {
    /// Gives their memory back.
    fn release(&self) -> PyResult<()> {
        if self.exports.load(Ordering::Relaxed) > 0 {
            let text =
                "arrays or memoryviews of the batch are still there: delete them, or copy what is needed";
            return Err(PyBufferError::new_err(text));
        }
        self.let_go();
        Ok(())
    }

    #[getter]
    fn address(&self) -> usize {
        self.begin
    }

    /// # Safety
    /// Python's.
    unsafe fn __getbuffer__(slf: &Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let held = slf.get();
        if held.held.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            return Err(PyBufferError::new_err("the batch was released"));
        }
        // SAFETY: the memory is there until the batch is let go of, and nobody writes it.
        unsafe { export(slf.as_any(), held.begin, held.bytes, true, view, flags) }?;
        held.exports.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// # Safety
    /// Python's.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.exports.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Held {
    fn let_go(&self) {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(held) = held {
            self.shared.let_go(held.0);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Nobody has its memory: each export has a reference.
        self.let_go();
    }
}

/// The popping side of one member of a flow.
#[pyclass(subclass, frozen)]
pub(crate) struct Consumer {
    shared: Arc<Shared>,
    ended: AtomicBool,
    member: String,
    schema: Option<String>,
}

impl Consumer {
    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Option<FlowConsumer>>> {
        self.shared.try_lock().ok_or_else(|| busy(py))
    }
}

/// What has come.
enum Came {
    Batch(Sent),
    End,
}

fn take(consumer: &mut FlowConsumer, newest: bool, wait: Wait) -> Result<Option<Came>, ProgramError> {
    let popped = match (newest, wait) {
        (false, Wait::No) => consumer.try_pop()?,
        (false, Wait::For(time)) => consumer.pop_timeout(time)?,
        (false, Wait::Forever) => consumer.pop()?.map_or(Popped::End, Popped::Batch),
        (true, Wait::No) => consumer.pop_newest_timeout(Duration::ZERO)?,
        (true, Wait::For(time)) => consumer.pop_newest_timeout(time)?,
        (true, Wait::Forever) => consumer.pop_newest()?.map_or(Popped::End, Popped::Batch),
    };
    Ok(match popped {
        Popped::Batch(batch) => Some(Came::Batch(Sent(batch.hold()))),
        Popped::Nothing => None,
        Popped::End => Some(Came::End),
    })
}

#[pymethods]
impl Consumer {
    #[new]
    #[pyo3(signature = (flow, *, member=None, system=None, controller=None, certificate=None, schema=None))]
    fn new(
        py: Python<'_>,
        flow: &str,
        member: Option<String>,
        system: Option<&str>,
        controller: Option<&str>,
        certificate: Option<PathBuf>,
        schema: Option<&str>,
    ) -> PyResult<Self> {
        let (contact, options) = attach(py, system, controller, certificate, member, None, schema)?;
        let attached = py.detach(|| FlowConsumer::attach(contact, flow, &options));
        let inner = attached.map_err(|e| raised(py, e))?;
        let (member, schema) = (inner.member().to_owned(), inner.schema().map(ToString::to_string));
        let shared = Arc::new(Shared {
            inner: Mutex::new(Some(inner)),
            done: Mutex::default(),
            out: AtomicUsize::new(0),
            leaving: AtomicBool::new(false),
        });
        Ok(Consumer { shared, ended: AtomicBool::new(false), member, schema })
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
    fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// The next records, or the newest ones; none in time, or the end of the stream, which `ended` tells.
    #[pyo3(signature = (timeout=None, newest=false))]
    fn take(&self, py: Python<'_>, timeout: Option<f64>, newest: bool) -> PyResult<Option<Held>> {
        let mut inner = self.lock(py)?;
        if self.shared.leaving.load(Ordering::Relaxed) {
            return Err(over(py));
        }
        let consumer = inner.as_mut().ok_or_else(|| over(py))?;
        let came = wait(py, timeout, |wait| {
            self.shared.give_back(consumer);
            take(consumer, newest, wait)
        })?;
        Ok(match came {
            Some(Came::Batch(sent)) => {
                self.shared.out.fetch_add(1, Ordering::Relaxed);
                Some(Held {
                    shared: self.shared.clone(),
                    begin: sent.0.begin as usize,
                    bytes: sent.0.bytes,
                    records: sent.0.records,
                    record_size: sent.0.record_size,
                    held: Mutex::new(Some(sent)),
                    exports: AtomicUsize::new(0),
                })
            }
            Some(Came::End) => {
                self.ended.store(true, Ordering::Relaxed);
                None
            }
            None => None,
        })
    }

    /// Leaves; if arrays of its batches are still there, with the last of them.
    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        let mut inner = self.lock(py)?;
        let Some(consumer) = inner.as_mut() else { return Ok(()) };
        self.shared.give_back(consumer);
        self.shared.leaving.store(true, Ordering::Relaxed);
        if self.shared.out.load(Ordering::Acquire) == 0
            && let Some(consumer) = inner.take()
        {
            py.detach(|| consumer.leave());
        }
        Ok(())
    }

    /// The place of the first of these consumers that has records; none in time, or, if it is their number, the end of all streams.
    #[staticmethod]
    #[pyo3(signature = (consumers, timeout=None))]
    fn first(
        py: Python<'_>,
        consumers: Vec<Bound<'_, Consumer>>,
        timeout: Option<f64>,
    ) -> PyResult<Option<usize>> {
        let entered = consumers.iter().map(|consumer| consumer.get().lock(py)).collect::<PyResult<Vec<_>>>();
        let (mut entered, mut flows) = (entered?, Vec::new());
        for (consumer, inner) in consumers.iter().zip(&mut entered) {
            let shared = &consumer.get().shared;
            let flow = inner.as_mut().filter(|_| !shared.leaving.load(Ordering::Relaxed));
            let flow = flow.ok_or_else(|| over(py))?;
            shared.give_back(flow);
            flows.push(Some(flow));
        }
        let count = flows.len();
        wait(py, timeout, |wait| {
            Ok(match most_urgent(&mut flows, wait.at_most()).map_err(|(_, e)| e)? {
                Urgent::At(at) => Some(at),
                Urgent::Nothing => None,
                Urgent::End => Some(count),
            })
        })
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let Some(mut inner) = self.shared.try_lock() else { return };
        if let Some(consumer) = inner.as_mut() {
            self.shared.give_back(consumer);
        }
        self.shared.leaving.store(true, Ordering::Relaxed);
        if self.shared.out.load(Ordering::Acquire) == 0 {
            leave(&mut inner);
        }
    }
}
