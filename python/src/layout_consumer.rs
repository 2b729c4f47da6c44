//! The popping end of a flow whose records come to where the program wants them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use pyo3::prelude::*;
use zsr::layouts::{Came, LayoutConsumer as Inner, Registered as Memory};
use zsr::{Options, Wait};

use crate::errors::{busy, over, raised};
use crate::layouts::{Array, Registered, layout};
use crate::options::{attach, wait};

/// The popping side of one member of a flow, which says where records go before they come.
#[pyclass(subclass, frozen)]
pub(crate) struct LayoutConsumer {
    inner: Mutex<Option<Inner>>,
    ended: AtomicBool,
    member: String,
    registered: Vec<Memory>,
}

/// What of an item has come: its producer, its records, their bytes, and those that had no place.
type Item = (u32, u32, u32, Vec<u8>);

impl LayoutConsumer {
    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Option<Inner>>> {
        match self.inner.try_lock() {
            Ok(inner) => Ok(inner),
            Err(TryLockError::Poisoned(e)) => Ok(e.into_inner()),
            Err(TryLockError::WouldBlock) => Err(busy(py)),
        }
    }
}

#[pymethods]
impl LayoutConsumer {
    #[new]
    #[pyo3(signature = (flow, registered, *, member=None, system=None, controller=None, certificate=None))]
    fn new(
        py: Python<'_>,
        flow: &str,
        registered: Vec<Py<Registered>>,
        member: Option<String>,
        system: Option<&str>,
        controller: Option<&str>,
        certificate: Option<PathBuf>,
    ) -> PyResult<Self> {
        let (contact, options) = attach(py, system, controller, certificate, member, None, None)?;
        let registered: Vec<Memory> = registered.iter().map(|memory| memory.get().memory.clone()).collect();
        let options = Options { registered, ..options };
        let inner = py.detach(|| Inner::attach(contact, flow, &options)).map_err(|e| raised(py, e))?;
        Ok(LayoutConsumer {
            member: inner.member().to_owned(),
            inner: Mutex::new(Some(inner)),
            ended: AtomicBool::new(false),
            registered: options.registered,
        })
    }

    #[getter]
    fn member(&self) -> &str {
        &self.member
    }

    #[getter]
    fn ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    #[getter]
    fn placed(&self, py: Python<'_>) -> PyResult<(usize, usize)> {
        let mut inner = self.lock(py)?;
        Ok(inner.as_mut().ok_or_else(|| over(py))?.placed())
    }

    /// Whether there was room for one more layout.
    #[pyo3(signature = (columns, kind, count, by))]
    fn put_place(
        &self,
        py: Python<'_>,
        columns: Vec<Array>,
        kind: &str,
        count: u32,
        by: Option<Array>,
    ) -> PyResult<bool> {
        let layout = layout(columns, kind, count, by, &self.registered)?;
        let mut inner = self.lock(py)?;
        inner.as_mut().ok_or_else(|| over(py))?.place(&layout).map_err(|e| raised(py, e))
    }

    /// The next item; none in time, or the end of the stream, which `ended` tells.
    #[pyo3(signature = (timeout=None))]
    fn take(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Item>> {
        let mut inner = self.lock(py)?;
        let consumer = inner.as_mut().ok_or_else(|| over(py))?;
        let came = wait(py, timeout, |wait| {
            let came = match wait {
                Wait::No => consumer.try_pop()?,
                Wait::For(time) => consumer.pop_timeout(time)?,
                Wait::Forever => consumer.pop()?.map_or(Came::End, Came::Item),
            };
            Ok((came != Came::Nothing).then_some(came))
        })?;
        Ok(match came {
            Some(Came::Item(item)) => Some((item.producer, item.records, item.bytes, item.rest)),
            Some(Came::End) => {
                self.ended.store(true, Ordering::Relaxed);
                None
            }
            Some(Came::Nothing) | None => None,
        })
    }

    /// Leaves what was not popped to the next program.
    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(consumer) = self.lock(py)?.take() {
            py.detach(|| consumer.leave());
        }
        Ok(())
    }
}

impl Drop for LayoutConsumer {
    fn drop(&mut self) {
        if let Some(consumer) = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            consumer.leave();
        }
    }
}
