//! Row numbers in registered memory, for who pushes a layout and for the NIC that follows it.

use std::ptr::NonNull;

use super::{At, Regions};

/// The largest row number of [`Rows::Every`](super::Rows::Every), whose `frequency` is not 0.
pub(super) fn last_of_every(start: u64, period: u64, frequency: u64, count: u32) -> u128 {
    let last = u128::from(count.saturating_sub(1));
    let (period, frequency) = (u128::from(period), u128::from(frequency));
    u128::from(start) + last / frequency * period + last % frequency
}

/// Number `n` of a list. It is read once, as the program may change it between a check and its use.
///
/// # Safety
/// The list has so many numbers, of `width` bytes each, 4 or 8.
pub(super) unsafe fn number(list: NonNull<u8>, n: usize, width: usize) -> u64 {
    // SAFETY: by contract.
    unsafe {
        let at = list.as_ptr().add(n * width);
        match width {
            4 => u32::from_ne_bytes(at.cast::<[u8; 4]>().read_volatile()).into(),
            _ => u64::from_ne_bytes(at.cast::<[u8; 8]>().read_volatile()),
        }
    }
}

/// A bitmap in registered memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bits {
    bits: NonNull<u8>,
    len: u32,
    /// A byte, and how many bits are set in front of it: about where the last READ response ended.
    begun: (u32, u32),
}

impl Bits {
    /// `len` bits at `bits`.
    ///
    /// # Safety
    /// They are there as long as this value is used.
    pub(super) unsafe fn at(bits: NonNull<u8>, len: u32) -> Self {
        Self { bits, len, begun: (0, 0) }
    }

    /// Bits of one byte, without those behind the end.
    fn byte(&self, n: u32) -> u8 {
        // SAFETY: it is there, by the contract of `at`.
        let byte = unsafe { self.bits.as_ptr().add(n as usize).read_volatile() };
        match self.len - n * 8 {
            8.. => byte,
            left => byte & ((1 << left) - 1),
        }
    }

    /// How many bits are set.
    pub(super) fn count(&self) -> u32 {
        let words = self.len / 64;
        let word = |n: u32| {
            // SAFETY: as in `byte`; all 64 bits are there.
            let word = unsafe { self.bits.as_ptr().add(8 * n as usize).cast::<[u8; 8]>().read_volatile() };
            u64::from_ne_bytes(word).count_ones()
        };
        let whole: u32 = (0..words).map(word).sum();
        whole + (words * 8..self.len.div_ceil(8)).map(|n| self.byte(n).count_ones()).sum::<u32>()
    }

    /// Calls `take` with the number of each bit that is set, behind the first `skip` of them, as long as it wants more.
    pub(super) fn each_from(&mut self, skip: u32, mut take: impl FnMut(u32) -> bool) {
        if skip < self.begun.1 {
            self.begun = (0, 0);
        }
        let mut skip = skip - self.begun.1;
        for n in self.begun.0..self.len.div_ceil(8) {
            let mut byte = self.byte(n);
            let set = byte.count_ones();
            if set <= skip {
                skip -= set;
                byte = 0;
            }
            while byte != 0 {
                let bit = byte.trailing_zeros();
                byte &= byte - 1;
                if skip > 0 {
                    skip -= 1;
                } else if !take(n * 8 + bit) {
                    return;
                }
            }
            self.begun = (n + 1, self.begun.1 + set);
        }
    }
}

/// Where `at` is, if `bytes` bytes at `at` plus `row` times `stride` are in its region.
pub(super) fn place(regions: &Regions, at: At, row: u128, stride: u64, bytes: u64) -> Option<NonNull<u8>> {
    let memory = regions.get(at.region as usize)?;
    let end = row.checked_mul(stride.into())?.checked_add(u128::from(at.offset) + u128::from(bytes))?;
    if end > memory.len() as u128 {
        return None;
    }
    // SAFETY: not behind the region's end.
    Some(unsafe { memory.base().add(at.offset as usize) })
}
