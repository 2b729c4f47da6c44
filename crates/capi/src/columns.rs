//! A flow's schema as C reads it.

use std::ffi::{CString, c_char};

use zsr::{ColumnType, Schema, fixed_width};

use crate::fault::Fault;
use crate::handle::put;
use crate::status::zsr_status::{self, *};

/// Type of a column.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum zsr_type {
    /// A signed integer of `width` bytes.
    ZSR_TYPE_INT = 0,
    /// An unsigned integer of `width` bytes.
    ZSR_TYPE_UINT = 1,
    /// A floating point number of `width` bytes.
    ZSR_TYPE_FLOAT = 2,
    /// `width` bytes.
    ZSR_TYPE_BYTES = 3,
    /// A decimal number as text.
    ZSR_TYPE_DECIMAL = 4,
    /// A day as text, YYYY-MM-DD.
    ZSR_TYPE_DATE = 5,
    /// Text.
    ZSR_TYPE_TEXT = 6,
}

use zsr_type::*;

/// A column of a flow's records. Numbers have their least significant byte first, and there are no gaps between columns.
#[repr(C)]
pub struct zsr_column {
    /// The column's name.
    pub name: *const c_char,
    /// The column's type.
    pub kind: zsr_type,
    /// Bytes; 0 for a column without a width: records are then lines of text, whose columns are divided by commas.
    pub width: u32,
    /// Bytes in front of it in a record; 0 where records are lines of text.
    pub offset: u32,
}

/// Texts that live as long as their handle.
pub(crate) struct Described {
    pub(crate) member: CString,
    pub(crate) schema: CString,
    pub(crate) columns: Vec<zsr_column>,
    /// The names that the columns point to.
    _names: Vec<CString>,
}

impl Described {
    pub(crate) fn new(member: &str, schema: Option<&Schema>) -> Self {
        // Neither names of members nor schemas have zero bytes.
        let text = |text: &str| CString::new(text).unwrap_or_default();
        let (mut names, mut columns, mut offset) = (Vec::new(), Vec::new(), 0);
        for column in schema.map_or(&[][..], Schema::columns) {
            let name = text(&column.name);
            let kind = match column.kind {
                ColumnType::Int(_) => ZSR_TYPE_INT,
                ColumnType::Uint(_) => ZSR_TYPE_UINT,
                ColumnType::Float(_) => ZSR_TYPE_FLOAT,
                ColumnType::Bytes(_) => ZSR_TYPE_BYTES,
                ColumnType::Decimal => ZSR_TYPE_DECIMAL,
                ColumnType::Date => ZSR_TYPE_DATE,
                ColumnType::Text => ZSR_TYPE_TEXT,
            };
            let width = fixed_width(column.kind).unwrap_or(0) as u32;
            let is_tuple = schema.is_some_and(|schema| schema.tuple_size().is_some());
            columns.push(zsr_column {
                name: name.as_ptr(),
                kind,
                width,
                offset: if is_tuple { offset } else { 0 },
            });
            names.push(name);
            offset += width;
        }
        let schema = schema.map(ToString::to_string).unwrap_or_default();
        Described { member: text(member), schema: text(&schema), columns, _names: names }
    }

    /// Puts the columns, and their number, where a caller wants them.
    ///
    /// # Safety
    /// `columns` is null, or points to room for a pointer, and `count` likewise for a number.
    pub(crate) unsafe fn put_columns(
        &self,
        columns: *mut *const zsr_column,
        count: *mut usize,
    ) -> Result<zsr_status, Fault> {
        // SAFETY: by contract.
        unsafe {
            put(columns, "columns", self.columns.as_ptr())?;
            put(count, "count", self.columns.len())?;
        }
        Ok(ZSR_OK)
    }
}
