//! Whether layouts for several consumers divide a table among them.

use super::{At, Layout, LayoutError, Regions, Rows};

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
    let read = |at: At, offset: u64, width: u32| {
        let mut bytes = [0; 8];
        let memory = &regions[at.region as usize];
        for (n, byte) in bytes.iter_mut().take(width as usize).enumerate() {
            // SAFETY: what the rows name is in the region, as was checked above; nobody has a reference into it.
            *byte = unsafe { memory.base().as_ptr().add((at.offset + offset) as usize + n).read_volatile() };
        }
        u64::from_le_bytes(bytes)
    };
    match *rows {
        Rows::Every { start, period, frequency, count } => (0..u64::from(count)).try_for_each(|n| {
            let row = (n / frequency).saturating_mul(period).saturating_add(n % frequency);
            take(row.saturating_add(start))
        }),
        Rows::Chosen { start, at, bits } => (0..u64::from(bits))
            .filter(|bit| read(at, bit / 8, 1) >> (bit % 8) & 1 == 1)
            .try_for_each(|bit| take(start.saturating_add(bit))),
        Rows::Listed { at, width, count } => (0..u64::from(count)).try_for_each(|n| {
            // Numbers are in this machine's order.
            let number = read(at, n * u64::from(width), width);
            take(if cfg!(target_endian = "little") {
                number
            } else {
                number.swap_bytes() >> (64 - 8 * width)
            })
        }),
    }
}
