//! Checks a layout and writes it into an item.

use super::rows::{Bits, last_of_every, place};
use super::{At, FIXED, Layout, LayoutError, MOST_BITS, MOST_COLUMNS, PER_COLUMN, Piece, Regions, Rows};
use crate::segment::HEADER_LEN;

/// What an item's header has to say of its layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Encoded {
    /// Records.
    pub(crate) count: u32,
    /// Bytes of all records.
    pub(crate) used: u32,
}

/// Writes `layout` into `item` behind the place of its header. The agent knows the first of `regions` by the number `first`. Numbers
/// in lists are not looked at: the NIC checks each of them.
///
/// # Errors
/// [`LayoutError`]; then nothing was written.
pub(crate) fn encode(
    layout: &Layout,
    regions: &Regions,
    first: u32,
    item: &mut [u8],
) -> Result<Encoded, LayoutError> {
    let columns = layout.columns.len();
    if !(1..=MOST_COLUMNS).contains(&columns) {
        return Err(LayoutError::Columns(columns));
    }
    if let Some(column) = layout.columns.iter().position(|column| column.width == 0) {
        return Err(LayoutError::Width(column));
    }
    let needs = HEADER_LEN + 8 * (FIXED + PER_COLUMN * columns);
    if needs > item.len() {
        return Err(LayoutError::ItemTooSmall { columns, needs, item: item.len() });
    }
    check_rows(&layout.rows, regions)?;
    let (kind, count, numbers, source) = match layout.rows {
        Rows::Every { start, period, frequency, count } => (1, count, [start, period, frequency], None),
        Rows::Chosen { start, at, bits } => {
            // SAFETY: the bitmap is in its region, as was checked above.
            let set = place(regions, at, 0, 1, u64::from(bits).div_ceil(8))
                .map_or(0, |at| unsafe { Bits::at(at, bits) }.count());
            (2, set, [start, u64::from(bits), 0], Some(at))
        }
        Rows::Listed { at, width, count } => (3 | u64::from(width) << 16, count, [0; 3], Some(at)),
    };
    if count == 0 {
        return Err(LayoutError::Empty);
    }
    let (row_size, room) = (layout.row_size(), item.len() - HEADER_LEN);
    let used = row_size.saturating_mul(count.into());
    if used > room as u64 {
        return Err(LayoutError::TooLong { rows: count, row_size, room });
    }
    let last = last_row(&layout.rows);
    for (number, column) in layout.columns.iter().enumerate() {
        let what = Piece::Column(number, last);
        fits(regions, column.at, last.unwrap_or(0), column.stride, column.width.into(), what)?;
    }
    let at = source.unwrap_or(At { region: 0, offset: 0 });
    let fixed = [
        kind | (columns as u64) << 8,
        count.into(),
        numbers[0],
        numbers[1],
        numbers[2],
        (first + at.region).into(),
        at.offset,
    ];
    let of_columns = layout.columns.iter().flat_map(|column| {
        [column.at.offset, column.stride, u64::from(first + column.at.region) | u64::from(column.width) << 32]
    });
    let words = fixed.into_iter().chain(of_columns);
    item[HEADER_LEN..needs].chunks_exact_mut(8).zip(words).for_each(|(to, word)| {
        to.copy_from_slice(&word.to_le_bytes());
    });
    Ok(Encoded { count, used: used as u32 })
}

/// Whether a layout could be pushed into items of `item` bytes. Numbers in lists are not looked at.
///
/// # Errors
/// [`LayoutError`].
pub fn check(layout: &Layout, regions: &Regions, item: u32) -> Result<(), LayoutError> {
    encode(layout, regions, 0, &mut vec![0; item as usize]).map(drop)
}

/// Whether the rows make sense, and what they name is in memory. Numbers in lists are not looked at.
pub(super) fn check_rows(rows: &Rows, regions: &Regions) -> Result<(), LayoutError> {
    match *rows {
        Rows::Every { period, frequency, .. } if frequency == 0 || frequency > period => {
            Err(LayoutError::Period { frequency, period })
        }
        Rows::Every { .. } => Ok(()),
        Rows::Chosen { bits, .. } if bits > MOST_BITS => Err(LayoutError::Bits(bits)),
        Rows::Chosen { at, bits, .. } => fits(regions, at, 0, 1, u64::from(bits).div_ceil(8), Piece::Bitmap),
        Rows::Listed { width, .. } if width != 4 && width != 8 => Err(LayoutError::Listed(width)),
        Rows::Listed { at, width, count } => {
            fits(regions, at, 0, 1, u64::from(width) * u64::from(count), Piece::List)
        }
    }
}

/// The largest row number, where the layout says it. Of chosen rows, that of the last bit.
fn last_row(rows: &Rows) -> Option<u128> {
    match *rows {
        Rows::Every { start, period, frequency, count } => {
            Some(last_of_every(start, period, frequency, count))
        }
        Rows::Chosen { start, bits, .. } => Some(u128::from(start) + u128::from(bits.saturating_sub(1))),
        Rows::Listed { .. } => None,
    }
}

/// Whether `bytes` bytes at `at` plus `row` times `stride` are in the region.
fn fits(
    regions: &Regions,
    at: At,
    row: u128,
    stride: u64,
    bytes: u64,
    what: Piece,
) -> Result<(), LayoutError> {
    let At { region, offset } = at;
    let Some(memory) = regions.get(region as usize) else {
        return Err(LayoutError::NoRegion { what, region, registered: regions.len() });
    };
    let end = row.saturating_mul(stride.into()).saturating_add(u128::from(offset) + u128::from(bytes));
    match end.checked_sub(memory.len() as u128) {
        None | Some(0) => Ok(()),
        Some(past) => Err(LayoutError::Outside { what, region, len: memory.len(), past }),
    }
}
