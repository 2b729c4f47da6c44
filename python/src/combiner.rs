//! Aggregates by group.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use zsr::Schema;

use crate::errors::named;

/// Aggregates of tuples by group.
#[pyclass(subclass, frozen)]
pub(crate) struct Combiner(Mutex<zsr::Combiner>);

impl Combiner {
    fn lock(&self) -> MutexGuard<'_, zsr::Combiner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wrong(py: Python<'_>, why: &dyn std::fmt::Display) -> PyErr {
    named(py, "SchemaError", &why.to_string())
}

#[pymethods]
impl Combiner {
    #[new]
    fn new(py: Python<'_>, schema: &str, aggregates: &str, group_by: &str) -> PyResult<Self> {
        let schema = Schema::parse(schema).map_err(|e| wrong(py, &e))?;
        let combiner = zsr::Combiner::new(&schema, group_by, aggregates).map_err(|e| wrong(py, &e))?;
        Ok(Combiner(Mutex::new(combiner)))
    }

    /// Of the results.
    #[getter]
    fn schema(&self) -> String {
        self.lock().schema().to_string()
    }

    fn __len__(&self) -> usize {
        self.lock().len()
    }

    /// Takes rows that lie side by side.
    fn add(&self, py: Python<'_>, rows: PyBuffer<u8>) -> PyResult<()> {
        if !rows.is_c_contiguous() {
            return Err(PyBufferError::new_err("the rows do not lie side by side"));
        }
        let (begin, bytes) = (rows.buf_ptr() as usize, rows.len_bytes());
        let added = py.detach(|| {
            let rows: &[u8] = if bytes == 0 {
                &[]
            } else {
                // SAFETY: `rows` keeps the memory; a program that writes it meanwhile gets sums of what it has written.
                unsafe { std::slice::from_raw_parts(begin as *const u8, bytes) }
            };
            self.lock().add(rows)
        });
        added.map_err(|e| named(py, "SizeError", &e.to_string()))
    }

    /// The results as rows of `schema`, side by side.
    fn results(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        let results = self.lock().results();
        Ok(results.map_err(|e| named(py, "SumError", &e.to_string()))?.concat())
    }
}
