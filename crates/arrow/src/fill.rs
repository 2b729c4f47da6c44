//! What a buffer of a message is made of, and how it gets into the ring's memory: once, from where it lies.

use arrow_buffer::{Buffer, NullBuffer, bit_mask, bit_util};

use crate::rows::Rows;

/// Offsets of a variable-length array, of either width.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Offsets<'a> {
    Small(&'a [i32]),
    Large(&'a [i64]),
}

impl Offsets<'_> {
    #[inline]
    pub(crate) fn at(&self, row: usize) -> usize {
        match self {
            Offsets::Small(offsets) => offsets[row] as usize,
            Offsets::Large(offsets) => offsets[row] as usize,
        }
    }

    /// From the begin of row `start` to the end of the last of `len` rows.
    #[inline]
    pub(crate) fn range(&self, start: usize, len: usize) -> (usize, usize) {
        let begin = self.at(start);
        (begin, self.at(start + len) - begin)
    }

    pub(crate) fn width(&self) -> usize {
        if matches!(self, Offsets::Small(_)) { 4 } else { 8 }
    }
}

/// The views of a view array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Views<'a> {
    /// From the array's offset on.
    pub(crate) views: &'a [u128],
    pub(crate) nulls: Option<&'a NullBuffer>,
    pub(crate) buffers: &'a [Buffer],
}

/// The longest string that lies in its view.
const INLINE: u32 = 12;

impl Views<'_> {
    /// The view of `row`, and its bytes if they lie elsewhere. A null is as good as empty.
    #[inline(always)]
    fn at(&self, row: usize) -> (u128, Option<&[u8]>) {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return (0, None);
        }
        let view = self.views[row];
        let len = view as u32;
        if len <= INLINE {
            return (view, None);
        }
        let (buffer, offset) = ((view >> 64) as u32 as usize, (view >> 96) as u32 as usize);
        (view, Some(&self.buffers[buffer][offset..offset + len as usize]))
    }

    pub(crate) fn bytes_elsewhere(&self, rows: &Rows<'_>) -> usize {
        let mut bytes = 0;
        rows.each_row(|row| bytes += self.at(row).1.map_or(0, <[u8]>::len));
        bytes
    }
}

/// Where a buffer's bytes come from. Rows count from the begin of `from`, whose offset is taken off already.
#[derive(Debug)]
pub(crate) enum Fill<'a> {
    /// Items of `width` bytes.
    Items { from: &'a [u8], width: usize, rows: Rows<'a> },
    /// Bits, from bit `offset` on.
    Bits { from: &'a [u8], offset: usize, rows: Rows<'a> },
    /// Offsets of the rows' lengths, from 0.
    Offsets { from: Offsets<'a>, rows: Rows<'a> },
    /// What these offsets delimit.
    Values { from: &'a [u8], offsets: Offsets<'a>, rows: Rows<'a> },
    /// Views into one buffer.
    Views { from: Views<'a>, rows: Rows<'a> },
    /// That buffer.
    ViewBytes { from: Views<'a>, rows: Rows<'a> },
    /// Made for this message.
    Made(Vec<u8>),
}

impl Fill<'_> {
    /// Writes all of it to `out`, which is as long as it is.
    pub(crate) fn write(&self, out: &mut [u8]) {
        match self {
            Fill::Made(bytes) => out.copy_from_slice(bytes),
            Fill::Items { from, width, rows } => items(from, *width, rows, out),
            Fill::Bits { from, offset, rows } => bits(from, *offset, rows, out),
            Fill::Offsets { from: Offsets::Small(from), rows } => {
                lengths(rows, out, |row| from[row + 1].wrapping_sub(from[row]), i32::wrapping_add);
            }
            Fill::Offsets { from: Offsets::Large(from), rows } => {
                lengths(rows, out, |row| from[row + 1].wrapping_sub(from[row]), i64::wrapping_add);
            }
            Fill::Values { from, offsets: Offsets::Small(offsets), rows } => {
                values(from, rows, out, |row| offsets[row] as usize);
            }
            Fill::Values { from, offsets: Offsets::Large(offsets), rows } => {
                values(from, rows, out, |row| offsets[row] as usize);
            }
            Fill::Views { from, rows } => {
                let (mut out, mut offset) = (out.as_chunks_mut::<16>().0.iter_mut(), 0u32);
                rows.each_row(|row| {
                    let Some(out) = out.next() else { return };
                    let (view, elsewhere) = from.at(row);
                    let view = match elsewhere {
                        // Length and prefix stay; the bytes are in buffer 0.
                        Some(_) => u128::from(view as u64) | u128::from(offset) << 96,
                        None => view,
                    };
                    offset += elsewhere.map_or(0, |bytes| bytes.len() as u32);
                    *out = view.to_le_bytes();
                });
            }
            Fill::ViewBytes { from, rows } => {
                let mut at = 0;
                rows.each_row(|row| {
                    if let Some(bytes) = from.at(row).1 {
                        out[at..at + bytes.len()].copy_from_slice(bytes);
                        at += bytes.len();
                    }
                });
            }
        }
    }
}

fn items(from: &[u8], width: usize, rows: &Rows<'_>, out: &mut [u8]) {
    if let Rows::Picked(picked) = rows {
        match width {
            1 => return gather::<1>(from, picked, out),
            2 => return gather::<2>(from, picked, out),
            4 => return gather::<4>(from, picked, out),
            8 => return gather::<8>(from, picked, out),
            16 => return gather::<16>(from, picked, out),
            _ => {}
        }
    }
    let mut at = 0;
    rows.each(|start, len| {
        let bytes = len * width;
        out[at..at + bytes].copy_from_slice(&from[start * width..][..bytes]);
        at += bytes;
    });
}

fn gather<const W: usize>(from: &[u8], picked: &[u32], out: &mut [u8]) {
    let from = from.as_chunks::<W>().0;
    for (out, row) in out.as_chunks_mut::<W>().0.iter_mut().zip(picked) {
        *out = from[*row as usize];
    }
}

#[inline]
fn values(from: &[u8], rows: &Rows<'_>, mut out: &mut [u8], offset: impl Fn(usize) -> usize) {
    rows.each(|start, len| {
        let value = &from[offset(start)..offset(start + len)];
        let (here, rest) = std::mem::take(&mut out).split_at_mut(value.len());
        here.copy_from_slice(value);
        out = rest;
    });
}

fn bits(from: &[u8], offset: usize, rows: &Rows<'_>, out: &mut [u8]) {
    if let Rows::Picked(picked) = rows {
        for (out, picked) in out.iter_mut().zip(picked.chunks(8)) {
            let bit = |row: u32| u8::from(bit_util::get_bit(from, offset + row as usize));
            *out = picked.iter().enumerate().fold(0, |byte, (at, row)| byte | bit(*row) << at);
        }
        return;
    }
    out.fill(0);
    let mut at = 0;
    rows.each(|start, len| {
        if len == 1 {
            if bit_util::get_bit(from, offset + start) {
                bit_util::set_bit(out, at);
            }
        } else {
            bit_mask::set_bits(out, from, at, offset + start, len);
        }
        at += len;
    });
}

/// Sums of lengths, from 0.
fn lengths<O: Default + Copy + bytemuck::NoUninit>(
    rows: &Rows<'_>,
    out: &mut [u8],
    length: impl Fn(usize) -> O,
    add: impl Fn(O, O) -> O,
) {
    let (mut sum, mut out) = (O::default(), out.chunks_exact_mut(size_of::<O>()));
    let mut put = |sum: &O| {
        if let Some(out) = out.next() {
            out.copy_from_slice(bytemuck::bytes_of(sum));
        }
    };
    put(&sum);
    rows.each_row(|row| {
        sum = add(sum, length(row));
        put(&sum);
    });
}
