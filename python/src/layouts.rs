//! Memory that stays where it is, and layouts of it.

use std::ffi::c_int;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use zsr::layouts::{Column, Layout, Registered as Memory, Rows, find};

use crate::place::export;

/// Memory that a NIC on this machine can read and write.
#[pyclass(frozen)]
pub(crate) struct Registered {
    pub(crate) memory: Memory,
}

#[pymethods]
impl Registered {
    #[new]
    fn new(length: usize) -> PyResult<Self> {
        let memory = Memory::allocate(length).map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok(Registered { memory })
    }

    fn __len__(&self) -> usize {
        self.memory.len()
    }

    /// # Safety
    /// Python's.
    unsafe fn __getbuffer__(slf: &Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let memory = &slf.get().memory;
        // SAFETY: the memory lives as long as the object, to which each export has a reference.
        unsafe { export(slf.as_any(), memory.as_ptr() as usize, memory.len(), false, view, flags) }
    }
}

/// An array in this process: address of its first element, bytes from element to element, and of each.
#[derive(FromPyObject)]
pub(crate) struct Array(usize, u64, u32);

/// The layout of arrays that lie in `regions`: the kind of rows, how many there are, and the array that chooses them, if one does.
pub(crate) fn layout(
    columns: Vec<Array>,
    kind: &str,
    count: u32,
    by: Option<Array>,
    regions: &[Memory],
) -> PyResult<Layout> {
    let at = |address: usize, what: &str| {
        find(regions, address as *const u8).ok_or_else(|| {
            PyValueError::new_err(format!(
                "{what} is not in memory that the program has registered: make it in a Registered, and name that when you attach"
            ))
        })
    };
    let rows = match (kind, by) {
        ("all", None) => Rows::all(0, count),
        ("chosen", Some(Array(bits, ..))) => Rows::Chosen { start: 0, at: at(bits, "chosen")?, bits: count },
        ("rows", Some(Array(list, _, width))) => Rows::Listed { at: at(list, "rows")?, width, count },
        _ => return Err(PyValueError::new_err(format!("no such rows: {kind}"))),
    };
    let column = |(n, Array(address, stride, width)): (usize, Array)| {
        Ok(Column { at: at(address, &format!("column {n}"))?, stride, width })
    };
    let columns = columns.into_iter().enumerate().map(column).collect::<PyResult<Vec<Column>>>()?;
    Ok(Layout::new(rows, columns))
}
