//! Room in a producer's ring, as a buffer that can be written.

use std::ffi::c_int;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::producer::Producer;

/// Fills `view` with `length` bytes at `begin`, which live as long as `owner`.
///
/// # Safety
/// `view` is Python's to fill, and the bytes are there.
pub(crate) unsafe fn export(
    owner: &Bound<'_, PyAny>,
    begin: usize,
    length: usize,
    read_only: bool,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    // SAFETY: Python checks the flags, and takes a reference to the owner.
    let done = unsafe {
        ffi::PyBuffer_FillInfo(
            view,
            owner.as_ptr(),
            begin as *mut _,
            length as isize,
            c_int::from(read_only),
            flags,
        )
    };
    if done == 0 { Ok(()) } else { Err(PyErr::fetch(owner.py())) }
}

/// Room in the ring. Its memory can be reached until it is published or forgotten.
#[pyclass]
pub(crate) struct Place {
    producer: Py<Producer>,
    begin: usize,
    length: usize,
    exports: usize,
    over: bool,
}

impl Place {
    pub(crate) fn new(producer: Py<Producer>, begin: usize, length: usize) -> Self {
        Place { producer, begin, length, exports: 0, over: false }
    }
}

#[pymethods]
impl Place {
    fn __len__(&self) -> usize {
        self.length
    }

    #[getter]
    fn address(&self) -> usize {
        self.begin
    }

    /// Pushes the first `used` bytes.
    fn publish(&mut self, py: Python<'_>, used: usize) -> PyResult<()> {
        self.forget(py)?;
        self.producer.get().publish(py, used)
    }

    /// Nothing is pushed.
    fn forget(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.exports > 0 {
            let text = "arrays or memoryviews of the room in the ring are still there: delete them before it is pushed";
            return Err(PyBufferError::new_err(text));
        }
        if self.over {
            return Err(crate::errors::over(py));
        }
        self.over = true;
        self.producer.get().unpin();
        Ok(())
    }

    /// # Safety
    /// Python's.
    unsafe fn __getbuffer__(slf: &Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let (begin, length) = {
            let place = slf.borrow();
            if place.over {
                return Err(PyBufferError::new_err("the room in the ring was pushed"));
            }
            (place.begin, place.length)
        };
        // SAFETY: the producer is not closed while it is pinned.
        unsafe { export(slf.as_any(), begin, length, false, view, flags) }?;
        slf.borrow_mut().exports += 1;
        Ok(())
    }

    /// # Safety
    /// Python's.
    unsafe fn __releasebuffer__(&mut self, _view: *mut ffi::Py_buffer) {
        self.exports -= 1;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Nobody has its memory: each export has a reference.
        if !self.over {
            self.producer.get().unpin();
        }
    }
}
