//! Whether layouts for several consumers divide a table among them.

use super::rows::{Bits, number, place};
use super::{Layout, LayoutError, Regions, Rows};

/// Checks that each of the `rows` first rows of a table is in exactly one of `layouts`, and no other row is. Takes time and memory for
/// each row, a bit of memory.
///
/// # Errors
/// [`LayoutError::Twice`], [`LayoutError::Missing`], [`LayoutError::NoSuchRow`]; what [`Rows`] name is not in `regions`.
pub fn divides(layouts: &[Layout], rows: u32, regions: &Regions) -> Result<(), LayoutError> {
    let mut seen = vec![0_u64; rows.div_ceil(64) as usize];
    for (layout, of) in layouts.iter().enumerate() {
        each(&of.rows, regions, |row| {
            let word = usize::try_from(row / 64).ok().filter(|_| row < u64::from(rows));
            let word = word.and_then(|word| seen.get_mut(word));
            let word = word.ok_or(LayoutError::NoSuchRow { layout, row, rows })?;
            let bit = 1 << (row % 64);
            if *word & bit != 0 {
                return Err(LayoutError::Twice { layout, row });
            }
            *word |= bit;
            Ok(())
        })?;
    }
    let missing = (0..rows).find(|row| seen[(row / 64) as usize] >> (row % 64) & 1 == 0);
    missing.map_or(Ok(()), |row| Err(LayoutError::Missing { row }))
}

/// Calls `take` with the number of each row, in order.
fn each(
    rows: &Rows,
    regions: &Regions,
    mut take: impl FnMut(u64) -> Result<(), LayoutError>,
) -> Result<(), LayoutError> {
    super::encode::check_rows(rows, regions)?;
    match *rows {
        Rows::Every { start, period, frequency, count } => (0..u64::from(count)).try_for_each(|n| {
            let row = (n / frequency).saturating_mul(period).saturating_add(n % frequency);
            take(row.saturating_add(start))
        }),
        Rows::Chosen { start, at, bits } => {
            let Some(at) = place(regions, at, 0, 1, u64::from(bits).div_ceil(8)) else { return Ok(()) };
            let mut done = Ok(());
            // SAFETY: the bitmap is in its region.
            unsafe { Bits::at(at, bits) }.each_from(0, |bit| {
                done = take(start.saturating_add(bit.into()));
                done.is_ok()
            });
            done
        }
        Rows::Listed { at, width, count } => {
            let Some(list) = place(regions, at, 0, 1, u64::from(width) * u64::from(count)) else {
                return Ok(());
            };
            // SAFETY: the list is in its region, and its numbers are 4 or 8 bytes wide, as was checked above.
            (0..count as usize).try_for_each(|n| take(unsafe { number(list, n, width as usize) }))
        }
    }
}
