//! Rows that no item can hold, in pieces: the sender cuts the messages of one row, and the receiver puts them together in memory of its own.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use arrow_buffer::{Buffer, MutableBuffer};

/// Bytes of the messages of a row, at most.
pub(crate) const LONGEST: usize = 1 << 30;
/// Bytes in front of a piece's own: the row's number, how many bytes the row has, and where the piece begins in it.
pub(crate) const PIECE: usize = 24;
/// How many rows may have come in part. A row of a sender that has died stays until the schema ends.
const UNFINISHED: usize = 4096;

/// Numbers of the rows of one sender that go in pieces: no two senders have the same, but for chance.
pub(crate) struct Numbers(u64);

impl Default for Numbers {
    fn default() -> Self {
        Numbers(RandomState::new().hash_one(0))
    }
}

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        self.0
    }
}

/// Writes to `out` the piece of `row` that begins at `at`, as long as `out` has room.
pub(crate) fn write(out: &mut [u8], number: u64, row: &[u8], at: usize) {
    let (head, body) = out.split_at_mut(PIECE);
    for (field, value) in head.chunks_exact_mut(8).zip([number, row.len() as u64, at as u64]) {
        field.copy_from_slice(&value.to_le_bytes());
    }
    body.copy_from_slice(&row[at..at + body.len()]);
}

/// Rows that have come in part.
#[derive(Default)]
pub(crate) struct Pieces {
    /// The bytes of each, as far as they came, and how many came.
    rows: HashMap<u64, (MutableBuffer, usize)>,
}

impl Pieces {
    /// Takes a piece. Gives the messages of its row when that is whole.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn add(&mut self, piece: &[u8]) -> Result<Option<Buffer>, String> {
        let Some((head, body)) = piece.split_first_chunk::<PIECE>() else {
            return Err(format!("a piece of a row has {} B, of which {PIECE} are needed", piece.len()));
        };
        let field = |number: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&head[8 * number..][..8]);
            u64::from_le_bytes(bytes)
        };
        let (number, len, at) = (field(0), field(1), field(2));
        let end = at.checked_add(body.len() as u64).filter(|end| *end <= len);
        let Some(end) = end.filter(|_| len <= LONGEST as u64 && !body.is_empty()) else {
            return Err(format!("a piece of {} B at byte {at} of a row of {len} B", body.len()));
        };
        let (len, at, end) = (len as usize, at as usize, end as usize);
        if self.rows.len() >= UNFINISHED && !self.rows.contains_key(&number) {
            return Err(format!("pieces of more than {UNFINISHED} rows came, none of which is whole"));
        }
        let (bytes, came) = self.rows.entry(number).or_default();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes.as_slice_mut()[at..end].copy_from_slice(body);
        *came += body.len();
        if *came < len {
            return Ok(None);
        }
        let sound = *came == len && bytes.len() == len;
        let row = self.rows.remove(&number).filter(|_| sound);
        let (bytes, _) = row.ok_or_else(|| format!("pieces of a row of {len} B overlap"))?;
        Ok(Some(bytes.into()))
    }

    /// Forgets all of them.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(number: u64, row: &[u8], at: usize, len: usize) -> Vec<u8> {
        let mut out = vec![0; PIECE + len];
        write(&mut out, number, row, at);
        out
    }

    #[test]
    fn rows_come_together_from_pieces_in_any_order() {
        let rows: [Vec<u8>; 2] = [(0..200).collect(), (50..250).collect()];
        let mut pieces = Pieces::default();
        for (at, len) in [(64, 64), (0, 64)] {
            for (number, row) in rows.iter().enumerate() {
                assert_eq!(pieces.add(&piece(number as u64, row, at, len)), Ok(None));
            }
        }
        for (number, row) in rows.iter().enumerate() {
            let whole = pieces.add(&piece(number as u64, row, 128, 72)).unwrap().unwrap();
            assert_eq!(whole.as_slice(), row);
        }
        assert!(pieces.rows.is_empty());
    }

    #[test]
    fn what_is_no_piece_is_an_error_and_takes_no_memory() {
        let mut pieces = Pieces::default();
        let row = [7; 100];
        let mut long = piece(1, &row, 0, 10);
        long[8..16].copy_from_slice(&(LONGEST as u64 + 1).to_le_bytes());
        let mut far = piece(1, &row, 0, 10);
        far[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
        for bad in [vec![0; PIECE - 1], piece(1, &row, 0, 0), long, far] {
            assert!(pieces.add(&bad).is_err(), "{bad:?}");
        }
        assert!(pieces.rows.is_empty());
        // The same one again and again.
        assert_eq!(pieces.add(&piece(1, &row, 0, 60)), Ok(None));
        assert!(pieces.add(&piece(1, &row, 0, 60)).is_err());
        assert!(pieces.rows.is_empty());
    }
}
