//! Keeping an ICRC valid when the headers in front of an untouched payload change.
//!
//! CRC-32 is affine over GF(2): the old trailer stays right if the CRC state after the new headers equals the state
//! after the old ones. The IPv4 identification and the UDP source port are free to choose and together have 32 bits.
//! The map from them to the CRC state has full rank for each layout here. So exactly one choice fits:
//!
//! ```text
//! (ident << 16 | sport) = M⁻¹ · (crc(old headers) ^ crc(new headers with ident = sport = 0))
//! ```
//!
//! M⁻¹ is applied with one 256-entry XOR table per byte of the difference.

use crate::icrc::{self, BASE};
use crate::ipv4;

/// Free bytes as offsets into the masked prefix (8 bytes of ones, IPv4, UDP, BTH, extension): identification, then
/// source port, most significant byte first.
const FREE_BYTES: [usize; 4] = [8 + 4, 8 + 5, 8 + 20, 8 + 21];

/// Header layout of the packet that is *sent*: what follows the BTH.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Nothing: MIDDLE and LAST packets.
    Plain,
    /// An AETH: READ responses FIRST, LAST and ONLY, and acknowledgements.
    Aeth,
    /// A RETH: WRITE FIRST and ONLY, and READ requests.
    Reth,
}

impl Layout {
    /// Every layout.
    pub const ALL: [Layout; 3] = [Layout::Plain, Layout::Aeth, Layout::Reth];

    /// Bytes between BTH and payload.
    pub const fn extension_len(self) -> usize {
        match self {
            Layout::Plain => 0,
            Layout::Aeth => 4,
            Layout::Reth => 16,
        }
    }
}

/// One step of the reflected CRC-32 register over a zero byte.
fn zero_byte(mut state: u32) -> u32 {
    for _ in 0..8 {
        state = state >> 1 ^ (0xedb8_8320 & (state & 1).wrapping_neg());
    }
    state
}

/// The effect of each free bit (ident, then sport, most significant first) on the CRC state after the headers.
fn columns(layout: Layout) -> [u32; 32] {
    let prefix = 8 + BASE + layout.extension_len();
    let mut columns = [0; 32];
    for (i, column) in columns.iter_mut().enumerate() {
        let mut state = 0x80 >> (i % 8);
        for _ in FREE_BYTES[i / 8]..prefix {
            state = zero_byte(state);
        }
        *column = state;
    }
    columns
}

/// Gauss-Jordan over GF(2). `rows[k]` is the set of free bits that flip CRC state bit `k` and nothing else.
fn inverse(columns: [u32; 32]) -> [u32; 32] {
    let mut work: [(u32, u32); 32] = std::array::from_fn(|i| (columns[i], 0x8000_0000 >> i));
    for bit in 0..32 {
        // The layouts are a closed set and a test inverts each, so a pivot is always found.
        let pivot = (bit..32).find(|&i| work[i].0 >> bit & 1 == 1).unwrap_or(bit);
        work.swap(bit, pivot);
        let row = work[bit];
        for (i, other) in work.iter_mut().enumerate() {
            if i != bit && other.0 >> bit & 1 == 1 {
                other.0 ^= row.0;
                other.1 ^= row.1;
            }
        }
    }
    work.map(|w| w.1)
}

/// The inverse map of a layout as four XOR tables: `tables[b][v]` is the answer, `ident << 16 | sport`, for a
/// difference of `v << (8 * b)`. The answer for any difference is the XOR of its four entries. Costs some
/// microseconds: compute once and keep.
pub fn xor_tables(layout: Layout) -> [[u32; 256]; 4] {
    let rows = inverse(columns(layout));
    let mut tables = [[0; 256]; 4];
    for (b, table) in tables.iter_mut().enumerate() {
        for (v, entry) in table.iter_mut().enumerate() {
            for bit in 0..8 {
                if v >> bit & 1 == 1 {
                    *entry ^= rows[8 * b + bit];
                }
            }
        }
    }
    tables
}

/// Chooses identification and source port so that a packet keeps the trailer of the packet that it came from.
#[derive(Clone)]
pub struct Rewriter {
    tables: Box<[[u32; 256]; 4]>,
    headers: usize,
}

impl Rewriter {
    /// For packets sent with `layout`. Allocates; keep it.
    pub fn new(layout: Layout) -> Rewriter {
        Rewriter { tables: Box::new(xor_tables(layout)), headers: BASE + layout.extension_len() }
    }

    /// The answer, `ident << 16 | sport`, for a difference of CRC states.
    #[inline]
    pub fn solve(&self, delta: u32) -> u32 {
        let [a, b, c, d] = delta.to_le_bytes();
        self.tables[0][usize::from(a)]
            ^ self.tables[1][usize::from(b)]
            ^ self.tables[2][usize::from(c)]
            ^ self.tables[3][usize::from(d)]
    }

    /// Sets identification, source port and IPv4 checksum of `new` (IPv4 header to the end of the extension). Then the
    /// trailer that belonged behind `old` headers and a payload belongs behind `new` and the same payload. `false`, and
    /// nothing changed, if `new` has not the length of the layout or `old` is shorter than IPv4, UDP and BTH.
    pub fn rewrite(&self, old: &[u8], new: &mut [u8]) -> bool {
        if new.len() != self.headers {
            return false;
        }
        let Some(old_state) = icrc::header_state(old) else { return false };
        new[4..6].fill(0);
        new[20..22].fill(0);
        let Some(new_state) = icrc::header_state(new) else { return false };
        let free = self.solve(old_state ^ new_state).to_be_bytes();
        new[4..6].copy_from_slice(&free[0..2]);
        new[20..22].copy_from_slice(&free[2..4]);
        new[10..12].fill(0);
        if let Some(header) = new.first_chunk::<{ ipv4::LEN }>() {
            let sum = ipv4::checksum(header);
            new[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        true
    }
}

impl std::fmt::Debug for Rewriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rewriter({} header bytes)", self.headers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_has_full_rank() {
        for layout in Layout::ALL {
            let columns = columns(layout);
            let rows = inverse(columns);
            for (k, row) in rows.iter().enumerate() {
                let effect =
                    (0..32).filter(|i| row << i >> 31 == 1).fold(0, |acc, i| acc ^ columns[i as usize]);
                assert_eq!(effect, 1 << k, "{layout:?}: row {k} flips exactly state bit {k}");
            }
        }
    }
}
