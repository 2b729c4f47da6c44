//! A NIC's view of an item: its bytes are gathered from where the layout says, or scattered to there.

use std::ptr::NonNull;

use super::rows::{Bits, last_of_every, number, place};
use super::{At, Column, FIXED, MOST_BITS, MOST_COLUMNS, PER_COLUMN, Regions};
use crate::segment::{HEADER_LEN, Header, LAYOUT};

/// A layout that a NIC does not follow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutFault {
    /// No sound description.
    #[error("its layout makes no sense: {0}")]
    Nonsense(&'static str),
    /// It names memory that there is not.
    #[error("its layout names {0}, which is not in registered memory")]
    Outside(String),
    /// The bitmap has changed since the item was pushed.
    #[error(
        "its bitmap chooses {found} rows, and chose {pushed} when it was pushed: it was changed too early"
    )]
    Changed {
        /// Rows now.
        found: u32,
        /// Rows when the item was pushed.
        pushed: u32,
    },
}

/// An item with a layout, checked. It is good as long as the regions are there.
#[derive(Debug)]
pub struct Laid {
    /// As it lies in the ring.
    begin: [u64; HEADER_LEN / 8],
    header: [u8; HEADER_LEN],
    count: u32,
    row_size: usize,
    rows: RowNumbers,
    columns: Vec<Placed>,
}

/// A column whose memory was looked up.
#[derive(Debug, Clone, Copy)]
struct Placed {
    base: NonNull<u8>,
    stride: usize,
    width: usize,
}

// SAFETY: its pointers are into regions, which are reached from any thread.
unsafe impl Send for Laid {}

#[derive(Debug, Clone, Copy)]
enum RowNumbers {
    Every {
        start: u64,
        period: u64,
        frequency: u64,
    },
    Chosen {
        start: u64,
        bits: Bits,
    },
    /// Numbers from `limit` on are outside of some column.
    Listed {
        list: NonNull<u8>,
        width: usize,
        limit: u64,
    },
}

impl Laid {
    /// The layout of an item, whose bytes are read by `word`, eight at a time, each once: the number of the word says which.
    /// `None`: the item is plain.
    ///
    /// # Errors
    /// [`LayoutFault`].
    pub fn of(
        item_size: usize,
        mut word: impl FnMut(usize) -> u64,
        regions: &Regions,
    ) -> Result<Option<Self>, LayoutFault> {
        let Some((laid, claimed)) = Self::decoded(item_size, &mut word, regions)? else { return Ok(None) };
        match claimed as usize == laid.room() {
            true => Ok(Some(laid)),
            false => Err(LayoutFault::Nonsense("the number of bytes")),
        }
    }

    /// As [`of`](Self::of), of an item whose layout a consumer has [placed](super::Places): its records have to fit the layout's rows.
    ///
    /// # Errors
    /// [`LayoutFault`].
    pub fn placed(
        item_size: usize,
        mut word: impl FnMut(usize) -> u64,
        regions: &Regions,
    ) -> Result<Option<Self>, LayoutFault> {
        let Some((laid, claimed)) = Self::decoded(item_size, &mut word, regions)? else { return Ok(None) };
        match claimed as usize <= laid.room() {
            true => Ok(Some(laid)),
            false => Err(LayoutFault::Nonsense("more bytes than its rows take")),
        }
    }

    /// The layout, and how many bytes of records the item's header claims.
    fn decoded(
        item_size: usize,
        word: &mut dyn FnMut(usize) -> u64,
        regions: &Regions,
    ) -> Result<Option<(Self, u32)>, LayoutFault> {
        // Smaller items may end before their first word does.
        if item_size < HEADER_LEN {
            return Ok(None);
        }
        let first = word(0);
        if !Header::says_layout(first) {
            return Ok(None);
        }
        let begin = std::array::from_fn(|n| if n == 0 { first } else { word(n) });
        let mut header = [0; HEADER_LEN];
        header.chunks_exact_mut(8).zip(begin).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
        header[5] &= !LAYOUT;
        let mut next = {
            let mut at = HEADER_LEN / 8;
            move || {
                at += 1;
                if at * 8 <= item_size { word(at - 1) } else { 0 }
            }
        };
        let fixed: [u64; FIXED] = std::array::from_fn(|_| next());
        let (kind, columns) = (fixed[0] & 0xff, (fixed[0] >> 8 & 0xff) as usize);
        let width = (fixed[0] >> 16) as usize;
        let [_, count, start, period, frequency, region, offset] = fixed;
        let Ok(count) = u32::try_from(count) else { return Err(LayoutFault::Nonsense("the number of rows")) };
        if columns == 0 || HEADER_LEN + 8 * (FIXED + PER_COLUMN * columns) > item_size {
            return Err(LayoutFault::Nonsense("the number of columns"));
        }
        debug_assert!(columns <= MOST_COLUMNS);
        let described = (0..columns).map(|_| {
            let [offset, stride, both] = std::array::from_fn(|_| next());
            Column { at: At { region: both as u32, offset }, stride, width: (both >> 32) as u32 }
        });
        let described: Vec<Column> = described.collect();
        let row_size: u64 = described.iter().map(|column| u64::from(column.width)).sum();
        let room = (item_size - HEADER_LEN) as u64;
        let claimed = u32::from_le_bytes([header[24], header[25], header[26], header[27]]);
        if row_size == 0 || row_size > room || count == 0 || row_size * u64::from(count) > room {
            return Err(LayoutFault::Nonsense("more rows than an item takes"));
        }
        let source = At { region: region as u32, offset };
        let (rows, last) = match kind {
            1 if frequency > 0 && frequency <= period => (
                RowNumbers::Every { start, period, frequency },
                last_of_every(start, period, frequency, count),
            ),
            2 => {
                let len = u32::try_from(period).ok().filter(|len| *len <= MOST_BITS);
                let len = len.ok_or(LayoutFault::Nonsense("the length of the bitmap"))?;
                let bits = place(regions, source, 0, 1, u64::from(len).div_ceil(8))
                    .ok_or_else(|| LayoutFault::Outside("its bitmap".to_owned()))?;
                // SAFETY: all of them are in the region.
                let bits = unsafe { Bits::at(bits, len) };
                let last = u128::from(start) + u128::from(len.max(1) - 1);
                (RowNumbers::Chosen { start, bits }, last)
            }
            3 if width == 4 || width == 8 => {
                let list = place(regions, source, 0, 1, width as u64 * u64::from(count))
                    .ok_or_else(|| LayoutFault::Outside("its list of rows".to_owned()))?;
                (RowNumbers::Listed { list, width, limit: u64::MAX }, 0)
            }
            _ => return Err(LayoutFault::Nonsense("the kind of rows")),
        };
        let mut laid = Self { begin, header, count, row_size: row_size as usize, rows, columns: Vec::new() };
        for (number, column) in described.iter().enumerate() {
            let base = place(regions, column.at, last, column.stride, column.width.into())
                .ok_or_else(|| LayoutFault::Outside(format!("column {number}")))?;
            let placed = Placed { base, stride: column.stride as usize, width: column.width as usize };
            laid.columns.push(placed);
            if let RowNumbers::Listed { limit, .. } = &mut laid.rows
                && let Some(memory) = regions.get(column.at.region as usize)
            {
                // Row 0 fits, as was checked above.
                let behind = memory.len() as u64 - column.at.offset - u64::from(column.width);
                *limit = (*limit).min(behind.checked_div(column.stride).map_or(u64::MAX, |most| most + 1));
            }
        }
        if let RowNumbers::Chosen { bits, .. } = &laid.rows {
            let found = bits.count();
            if found != count {
                return Err(LayoutFault::Changed { found, pushed: count });
            }
        }
        Ok(Some((laid, claimed)))
    }

    /// Whether this is what an item says that has these words: it says so by its producer's number and its own.
    pub fn is_of(&self, mut word: impl FnMut(usize) -> u64) -> bool {
        self.begin.iter().enumerate().all(|(n, begin)| word(n) == *begin)
    }

    /// Bytes of all rows.
    pub fn room(&self) -> usize {
        self.row_size * self.count as usize
    }

    /// Puts the item's bytes from `from` on into `out`: header, records, and zeros behind them.
    ///
    /// # Errors
    /// [`LayoutFault`]: a number in a list, or a bitmap, that has changed.
    pub fn read(&mut self, from: usize, mut out: &mut [u8]) -> Result<(), LayoutFault> {
        if let Some(header) = self.header.get(from..) {
            let (to, rest) = out.split_at_mut(header.len().min(out.len()));
            to.copy_from_slice(&header[..to.len()]);
            out = rest;
        }
        let skip = from.saturating_sub(HEADER_LEN);
        let (records, behind) = out.split_at_mut(self.room().saturating_sub(skip).min(out.len()));
        behind.fill(0);
        // SAFETY: `records` may be written.
        unsafe { self.each_byte::<GATHER>(skip, records.as_mut_ptr(), records.len()) }
    }

    /// Puts `records` where the rows are, from byte `skip` of all rows on. What is behind the last row is left out. Nobody may have a
    /// reference into the rows' memory.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn write(&mut self, skip: usize, records: &[u8]) -> Result<(), LayoutFault> {
        let len = self.room().saturating_sub(skip).min(records.len());
        // SAFETY: nothing is written through the pointer.
        unsafe { self.each_byte::<SCATTER>(skip, records.as_ptr().cast_mut(), len) }
    }

    /// Copies bytes of the rows from byte `skip` on to, or from, the `len` bytes at `flat`.
    ///
    /// # Safety
    /// These bytes can be read, and written if they are gathered.
    unsafe fn each_byte<const DIRECTION: bool>(
        &mut self,
        skip: usize,
        flat: *mut u8,
        len: usize,
    ) -> Result<(), LayoutFault> {
        if len == 0 {
            return Ok(());
        }
        let (first, within) = (skip / self.row_size, skip % self.row_size);
        let rows = (within + len).div_ceil(self.row_size);
        let mut copier = Copier::<DIRECTION>::new(&self.columns, self.row_size, within, flat, len);
        match &mut self.rows {
            &mut RowNumbers::Every { start, period, frequency } => {
                let (mut group, mut member) = (first as u64 / frequency, first as u64 % frequency);
                for _ in 0..rows {
                    // Rows go round where all of them have the same bytes, by a stride of 0. Others are in memory.
                    let row = start.wrapping_add(group.wrapping_mul(period)).wrapping_add(member);
                    copier.row(row as usize);
                    member += 1;
                    if member == frequency {
                        (group, member) = (group + 1, 0);
                    }
                }
            }
            RowNumbers::Chosen { start, bits } => {
                let mut left = rows;
                bits.each_from(first as u32, |bit| {
                    copier.row(start.wrapping_add(bit.into()) as usize);
                    left -= 1;
                    left > 0
                });
                if left > 0 {
                    return Err(LayoutFault::Changed { found: self.count - left as u32, pushed: self.count });
                }
            }
            &mut RowNumbers::Listed { list, width, limit } => {
                for n in first..first + rows {
                    // SAFETY: the list has `count` numbers in its region, and the rows asked for are among them.
                    let row = unsafe { number(list, n, width) };
                    if row >= limit {
                        return Err(LayoutFault::Outside(format!("row {row}, number {n} of its list")));
                    }
                    copier.row(row as usize);
                }
            }
        }
        copier.copy();
        Ok(())
    }
}

/// From the rows to bytes side by side.
const GATHER: bool = false;
/// From bytes side by side to the rows.
const SCATTER: bool = true;

/// Rows that are copied together, column by column.
const TOGETHER: usize = 64;

/// Copies rows to bytes side by side, or the other way.
struct Copier<'c, const DIRECTION: bool> {
    columns: &'c [Placed],
    row_size: usize,
    /// Bytes of the first row that are not wanted.
    skip: usize,
    /// Bytes side by side that are still to be copied.
    flat: *mut u8,
    left: usize,
    /// Whole rows that are not copied yet.
    waiting: [usize; TOGETHER],
    waits: usize,
}

impl<'c, const DIRECTION: bool> Copier<'c, DIRECTION> {
    fn new(columns: &'c [Placed], row_size: usize, skip: usize, flat: *mut u8, left: usize) -> Self {
        Self { columns, row_size, skip, flat, left, waiting: [0; TOGETHER], waits: 0 }
    }

    /// A row whose number was checked.
    #[inline]
    fn row(&mut self, number: usize) {
        if self.skip > 0 || self.left < self.row_size * (self.waits + 1) {
            self.copy();
            return self.part_of_row(number);
        }
        self.waiting[self.waits] = number;
        self.waits += 1;
        if self.waits == TOGETHER {
            self.copy();
        }
    }

    /// Copies the rows that wait.
    fn copy(&mut self) {
        let rows = &self.waiting[..self.waits];
        let mut flat = self.flat;
        for column in self.columns {
            // SAFETY: the rows' elements are in their region, and `left` bytes are at `flat`, at least so many as the rows have.
            unsafe {
                match column.width {
                    4 => column.copy::<u32, DIRECTION>(rows, flat, self.row_size),
                    8 => column.copy::<u64, DIRECTION>(rows, flat, self.row_size),
                    width => rows.iter().enumerate().for_each(|(n, row)| {
                        let element = column.base.as_ptr().add(row * column.stride);
                        copy::<DIRECTION>(element, flat.add(n * self.row_size), width);
                    }),
                }
                flat = flat.add(column.width);
            }
        }
        let bytes = self.row_size * self.waits;
        // SAFETY: as above.
        self.flat = unsafe { self.flat.add(bytes) };
        self.left -= bytes;
        self.waits = 0;
    }

    /// A row of which only the end or the begin is wanted.
    fn part_of_row(&mut self, number: usize) {
        for column in self.columns {
            let skipped = self.skip.min(column.width);
            self.skip -= skipped;
            let wanted = (column.width - skipped).min(self.left);
            // SAFETY: as in `copy`, for a part of the element.
            unsafe {
                copy::<DIRECTION>(
                    column.base.as_ptr().add(number * column.stride + skipped),
                    self.flat,
                    wanted,
                );
                self.flat = self.flat.add(wanted);
            }
            self.left -= wanted;
        }
    }
}

/// Copies `len` bytes between an element of a row and its place among bytes side by side.
///
/// # Safety
/// Both can be read, and that in the direction written. They don't overlap.
#[inline]
unsafe fn copy<const DIRECTION: bool>(element: *mut u8, flat: *mut u8, len: usize) {
    // SAFETY: by contract.
    unsafe {
        match DIRECTION {
            SCATTER => std::ptr::copy_nonoverlapping(flat, element, len),
            GATHER => std::ptr::copy_nonoverlapping(element, flat, len),
        }
    }
}

impl Placed {
    /// Copies elements of `rows`, of the width of `T`, to or from `flat` and every `apart` bytes behind it.
    ///
    /// # Safety
    /// All of them are in the region, and so many bytes are at `flat`.
    #[inline]
    unsafe fn copy<T: Copy, const DIRECTION: bool>(&self, rows: &[usize], flat: *mut u8, apart: usize) {
        for (n, row) in rows.iter().enumerate() {
            // SAFETY: by contract.
            unsafe {
                let element = self.base.as_ptr().add(row * self.stride);
                copy::<DIRECTION>(element, flat.add(n * apart), size_of::<T>());
            }
        }
    }
}
