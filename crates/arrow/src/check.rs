//! Whether a message of rows can be read: what it says is looked at before the Arrow library reads it, which trusts lengths and places.
//! What buffers hold is left to that library's own validation.

use arrow_ipc::{Buffer, FieldNode, RecordBatch};
use arrow_schema::{DataType, UnionMode};
use flatbuffers::VectorIter;

/// The most rows of a message, and of any array in it.
const ROWS: i64 = i32::MAX as i64;
/// What buffers begin at.
const ALIGNMENT: usize = 8;

/// Goes through `batch`, whose columns have `types`, and whose body has `body` bytes.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check<'t>(
    batch: RecordBatch<'_>,
    types: impl IntoIterator<Item = &'t DataType>,
    body: usize,
) -> Result<(), String> {
    if batch.compression().is_some() {
        return Err("it is compressed, which is not known here".to_owned());
    }
    if !(0..=ROWS).contains(&batch.length()) {
        return Err(format!("it has {} rows", batch.length()));
    }
    let (Some(nodes), Some(buffers)) = (batch.nodes(), batch.buffers()) else {
        return Err("it has no arrays".to_owned());
    };
    let variadic = batch.variadicBufferCounts().map(|counts| counts.iter());
    let mut walk = Walk { nodes: nodes.iter(), buffers: buffers.iter(), variadic, body };
    types.into_iter().try_for_each(|data_type| walk.array(data_type))
}

struct Walk<'b> {
    nodes: VectorIter<'b, FieldNode>,
    buffers: VectorIter<'b, Buffer>,
    variadic: Option<VectorIter<'b, i64>>,
    body: usize,
}

impl Walk<'_> {
    fn array(&mut self, data_type: &DataType) -> Result<(), String> {
        use DataType::*;
        let (rows, nulls) = self.node()?;
        match data_type {
            Null => return Ok(()),
            RunEndEncoded(ends, values) => {
                self.array(ends.data_type())?;
                return self.array(values.data_type());
            }
            Union(fields, mode) => {
                self.items(rows, 1)?;
                if *mode == UnionMode::Dense {
                    self.items(rows, 4)?;
                }
                return fields.iter().try_for_each(|(_, field)| self.array(field.data_type()));
            }
            _ => self.buffer(if nulls > 0 { rows.div_ceil(8) } else { 0 }, 1)?,
        };
        match data_type {
            Boolean => self.buffer(rows.div_ceil(8), 1).map(|_| ()),
            Utf8 | Binary => self.bytes(rows, 4),
            LargeUtf8 | LargeBinary => self.bytes(rows, 8),
            Utf8View | BinaryView => {
                self.items(rows, 16)?;
                let count = self.variadic.as_mut().and_then(Iterator::next);
                let count = count.ok_or("the number of a view column's buffers is missing")?;
                if !(0..=self.buffers.len() as i64).contains(&count) {
                    return Err(format!("a view column is said to have {count} buffers"));
                }
                (0..count).try_for_each(|_| self.buffer(0, 1).map(|_| ()))
            }
            List(field) | Map(field, _) => {
                self.offsets(rows, 4)?;
                self.array(field.data_type())
            }
            LargeList(field) => {
                self.offsets(rows, 8)?;
                self.array(field.data_type())
            }
            ListView(field) => {
                self.items(rows, 4)?;
                self.items(rows, 4)?;
                self.array(field.data_type())
            }
            LargeListView(field) => {
                self.items(rows, 8)?;
                self.items(rows, 8)?;
                self.array(field.data_type())
            }
            FixedSizeList(field, _) => self.array(field.data_type()),
            Struct(fields) => fields.iter().try_for_each(|field| self.array(field.data_type())),
            Dictionary(keys, _) => self.items(rows, keys.primitive_width().unwrap_or(1)),
            // Some writers count what fills up to the alignment.
            FixedSizeBinary(width) => self.buffer(rows.saturating_mul(*width as usize), 1).map(|_| ()),
            other => self.items(rows, other.primitive_width().unwrap_or(1)),
        }
    }

    /// Rows, and nulls among them.
    fn node(&mut self) -> Result<(usize, usize), String> {
        let node = self.nodes.next().ok_or("an array is missing")?;
        let (rows, nulls) = (node.length(), node.null_count());
        if (0..=ROWS).contains(&rows) && (0..=rows).contains(&nulls) {
            Ok((rows as usize, nulls as usize))
        } else {
            Err(format!("an array has {rows} rows, {nulls} of them null"))
        }
    }

    /// A buffer of at least `least` bytes, and of whole items of `width`. Says how many it has.
    fn buffer(&mut self, least: usize, width: usize) -> Result<usize, String> {
        let buffer = self.buffers.next().ok_or("a buffer is missing")?;
        let place = (usize::try_from(buffer.offset()), usize::try_from(buffer.length()));
        match place {
            (Ok(offset), Ok(len))
                if offset.checked_add(len).is_some_and(|end| end <= self.body)
                    && offset.is_multiple_of(ALIGNMENT)
                    && len.is_multiple_of(width)
                    && len >= least =>
            {
                Ok(len)
            }
            _ => Err(format!(
                "a buffer of {} B, of which {least} are needed, in whole items of {width}, lies at byte {} of {}",
                buffer.length(),
                buffer.offset(),
                self.body
            )),
        }
    }

    /// At least so many items.
    fn items(&mut self, rows: usize, width: usize) -> Result<(), String> {
        self.buffer(rows.saturating_mul(width), width.max(1)).map(|_| ())
    }

    /// Offsets, which an array without rows need not have.
    fn offsets(&mut self, rows: usize, width: usize) -> Result<(), String> {
        self.items(if rows > 0 { rows + 1 } else { 0 }, width)
    }

    fn bytes(&mut self, rows: usize, width: usize) -> Result<(), String> {
        self.offsets(rows, width)?;
        self.buffer(0, 1).map(|_| ())
    }
}
