//! Which rows of a batch go to whom: a hash of key columns, and the rows in the order of their targets.

use arrow_array::{Array, RecordBatch};
use arrow_buffer::bit_util;
use arrow_data::ArrayData;
use arrow_schema::DataType;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;

/// What a null is hashed as.
const NULL: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash of each row's values in `columns`. Equal values have equal hashes, whatever the batch, and whether they lie in a dictionary or
/// not; so have texts and bytes of all layouts, nulls among each other, and zeros and NaNs of either sign.
///
/// # Errors
/// [`Error::Key`]: no such column, or one of a nested type.
pub fn hash_rows(batch: &RecordBatch, columns: &[usize]) -> Result<Vec<u64>, Error> {
    let mut hashes = vec![0; batch.num_rows()];
    for &column in columns {
        let Some(array) = batch.columns().get(column) else {
            let what = format!("column {column}: the batch has {}", batch.num_columns());
            return Err(Error::Key { what });
        };
        add(&array.to_data(), &mut hashes)
            .map_err(|why| Error::Key { what: format!("column {column}: {why}") })?;
    }
    Ok(hashes)
}

/// The target of a row with this hash.
#[inline]
pub(crate) fn target(hash: u64, targets: usize) -> u32 {
    ((u128::from(hash) * targets as u128) >> 64) as u32
}

/// Mixes a value into a row's hash (the last steps of MurmurHash3).
#[inline]
fn mix(hash: u64, value: u64) -> u64 {
    let mut h = hash.rotate_left(23) ^ value;
    h = (h ^ h >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    h = (h ^ h >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ h >> 33
}

/// Mixes a column into the hashes.
fn add(data: &ArrayData, hashes: &mut [u64]) -> Result<(), String> {
    use DataType::*;
    let offset = data.offset();
    match data.data_type() {
        Null => each(data, hashes, |_| NULL),
        Boolean => {
            let bits = data.buffers()[0].as_slice();
            each(data, hashes, |row| u64::from(bit_util::get_bit(bits, offset + row)));
        }
        Float32 => {
            let values = data.buffer::<f32>(0);
            each(data, hashes, |row| float(f64::from(values[row])));
        }
        Float64 => {
            let values = data.buffer::<f64>(0);
            each(data, hashes, |row| float(values[row]));
        }
        Utf8 | Binary => {
            let (offsets, bytes) = (data.buffer::<i32>(0), data.buffers()[1].as_slice());
            each(data, hashes, |row| xxh3_64(&bytes[offsets[row] as usize..offsets[row + 1] as usize]));
        }
        LargeUtf8 | LargeBinary => {
            let (offsets, bytes) = (data.buffer::<i64>(0), data.buffers()[1].as_slice());
            each(data, hashes, |row| xxh3_64(&bytes[offsets[row] as usize..offsets[row + 1] as usize]));
        }
        Utf8View | BinaryView => {
            let views = data.buffer::<u128>(0);
            each(data, hashes, |row| {
                let (view, len) = (views[row].to_le_bytes(), views[row] as u32 as usize);
                if len <= 12 {
                    return xxh3_64(&view[4..4 + len]);
                }
                let (buffer, at) = ((views[row] >> 64) as u32 as usize, (views[row] >> 96) as u32 as usize);
                xxh3_64(&data.buffers()[1 + buffer][at..at + len])
            });
        }
        FixedSizeBinary(width) => {
            let (width, bytes) = (*width as usize, data.buffers()[0].as_slice());
            each(data, hashes, |row| xxh3_64(&bytes[(offset + row) * width..][..width]));
        }
        Dictionary(keys, _) => {
            let values = &data.child_data()[0];
            let mut of_values = vec![0; values.len()];
            // As if it stood in the column: what is mixed in is the value's own number, not its hash.
            numbers(values, &mut of_values)?;
            let (width, bytes) = (keys.primitive_width().unwrap_or(1), data.buffers()[0].as_slice());
            each(data, hashes, |row| of_values[word(bytes, offset + row, width) as usize]);
        }
        other => match other.primitive_width() {
            Some(width) => {
                let bytes = data.buffers()[0].as_slice();
                match width {
                    4 => each(data, hashes, |row| word(bytes, offset + row, 4)),
                    8 => each(data, hashes, |row| word(bytes, offset + row, 8)),
                    1 | 2 => each(data, hashes, |row| word(bytes, offset + row, width)),
                    _ => each(data, hashes, |row| xxh3_64(&bytes[(offset + row) * width..][..width])),
                }
            }
            None => return Err(format!("{other} is no type of a key")),
        },
    }
    Ok(())
}

/// What would be mixed in for each value, nulls included.
fn numbers(values: &ArrayData, numbers: &mut [u64]) -> Result<(), String> {
    // `mix` can be undone for a known hash; but a second set of functions is not worth that: values are hashed one by one from 0, and
    // rows that are in no dictionary are mixed with the same.
    let mut hashes = vec![0; values.len()];
    add(values, &mut hashes)?;
    for (number, hash) in numbers.iter_mut().zip(hashes) {
        *number = unmix(hash);
    }
    Ok(())
}

/// The value that was mixed into 0.
fn unmix(hash: u64) -> u64 {
    let mut h = hash ^ hash >> 33;
    h = h.wrapping_mul(0x9cb4_b2f8_1293_37db);
    h ^= h >> 33;
    h = h.wrapping_mul(0x4f74_430c_22a5_4005);
    h ^ h >> 33
}

/// Mixes the value of each row, or that of nulls, into its hash.
#[inline]
fn each(data: &ArrayData, hashes: &mut [u64], value: impl Fn(usize) -> u64) {
    match data.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => hashes.iter_mut().enumerate().for_each(|(row, hash)| *hash = mix(*hash, value(row))),
        Some(nulls) => hashes.iter_mut().enumerate().for_each(|(row, hash)| {
            *hash = mix(*hash, if nulls.is_null(row) { NULL } else { value(row) });
        }),
    }
}

/// A little-endian number of `width` bytes.
#[inline]
fn word(bytes: &[u8], at: usize, width: usize) -> u64 {
    let mut word = [0; 8];
    word[..width].copy_from_slice(&bytes[at * width..][..width]);
    u64::from_le_bytes(word)
}

fn float(value: f64) -> u64 {
    match value {
        0.0 => 0,
        value if value.is_nan() => f64::NAN.to_bits(),
        value => value.to_bits(),
    }
}

/// Rows in the order of their targets.
#[derive(Debug, Default)]
pub(crate) struct Scatter {
    /// Row numbers: those of target 0, then those of target 1, …; of one target in the batch's order.
    pub(crate) rows: Vec<u32>,
    /// Where each target's begin, and the end.
    pub(crate) begins: Vec<usize>,
}

impl Scatter {
    /// Puts `rows` in order, each of which goes to the target at its place in `to`, below `targets`.
    pub(crate) fn fill(&mut self, rows: &[u32], to: &[u32], targets: usize) {
        self.begins.clear();
        self.begins.resize(targets + 1, 0);
        to.iter().for_each(|target| self.begins[*target as usize + 1] += 1);
        for at in 0..targets {
            self.begins[at + 1] += self.begins[at];
        }
        let mut next = self.begins.clone();
        self.rows.clear();
        self.rows.resize(rows.len(), 0);
        for (row, target) in rows.iter().zip(to) {
            let next = &mut next[*target as usize];
            self.rows[*next] = *row;
            *next += 1;
        }
    }
}
