//! TPC-H rows, each producer generating its own part.

use std::fmt::Write;

use tpchgen::generators::{LineItemGenerator, LineItemGeneratorIterator};

/// Rows of `lineitem` per unit of scale, for progress only.
const ROWS_PER_SCALE: f64 = 6_001_215.0;

/// About how many rows a scale factor makes.
pub(crate) fn estimate(scale: f64) -> u64 {
    (ROWS_PER_SCALE * scale) as u64
}

/// Makes the 300 MB of text that comments are cut from, once; it takes about a second, which is no part of
/// moving data.
pub(crate) fn prepare() {
    tpchgen::text::TextPool::get_or_init_default();
}

/// One part of `lineitem`, row by row as text in `tbl` form.
pub(crate) struct Rows {
    rows: LineItemGeneratorIterator<'static>,
    line: String,
    part: usize,
    count: u64,
}

impl Rows {
    /// Part `part` (from 0) of `parts`. Parts are contiguous ranges of orders, so the parts one after the
    /// other are the whole table.
    pub fn new(scale: f64, part: usize, parts: usize) -> Self {
        let number = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
        let generator = LineItemGenerator::new(scale, number(part + 1), number(parts.max(1)));
        Rows { rows: generator.iter(), line: String::with_capacity(256), part, count: 0 }
    }

    /// The next row without line end.
    #[inline]
    pub fn next(&mut self) -> Option<&[u8]> {
        let row = self.rows.next()?;
        self.line.clear();
        // Writing to a String can't fail.
        let _ = write!(self.line, "{row}");
        self.count += 1;
        Some(self.line.as_bytes())
    }

    /// Where the row returned last is.
    pub fn place(&self) -> String {
        format!("lineitem, part {}, row {}", self.part + 1, self.count)
    }
}
