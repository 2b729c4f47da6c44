//! Records of flows that carry streams, all numbers little-endian. docs/streams.md has the format.

/// Bytes in front of what a record carries: kind, 3 zeros, a number of 4 bytes, the stream's number of 8 bytes.
pub(super) const HEADER: usize = 16;
/// What a record counts for beside its bytes. It bounds the memory of streams of small records.
pub(super) const RECORD: u64 = 64;
/// What a sender may send of a stream before it has heard anything of it.
pub(super) const FIRST_CREDIT: u64 = 64 << 10;
/// Most bytes of a record that travel at once: longer records travel in pieces, so that each fits the first credit.
pub(super) const PIECE: usize = 32 << 10;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A stream begins. The number is the length of the sender's name in the flow of answers, which follows; then comes the stream's name.
    Open = 0,
    /// A record of a stream, or its last piece.
    Record = 1,
    /// A piece of a record; more follow.
    Piece = 2,
    /// The stream has ended well.
    End = 3,
    /// The sender has given the stream up; its reason follows.
    Abort = 4,
    /// An answer: the sender may send so many more.
    Credit = 5,
    /// An answer: the receiver wants no more; its reason follows.
    Cancel = 6,
}

const KINDS: [Kind; 7] =
    [Kind::Open, Kind::Record, Kind::Piece, Kind::End, Kind::Abort, Kind::Credit, Kind::Cancel];

/// A record that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) kind: Kind,
    pub(super) number: u32,
    pub(super) stream: u64,
    pub(super) body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Reads a record.
    ///
    /// # Errors
    /// Why it is none of a flow of streams.
    pub(super) fn read(record: &'a [u8]) -> Result<Self, String> {
        let Some((header, body)) = record.split_first_chunk::<HEADER>() else {
            return Err(format!("a record of {} B is too short for a header of {HEADER} B", record.len()));
        };
        let [kind, zeros @ .., n0, n1, n2, n3, _, _, _, _, _, _, _, _] = header;
        let kind = KINDS.get(usize::from(*kind)).filter(|_| zeros == &[0; 3]);
        let &kind =
            kind.ok_or_else(|| format!("a record begins with {:02x?}, which no stream has", &header[..4]))?;
        let number = u32::from_le_bytes([*n0, *n1, *n2, *n3]);
        let stream = header.last_chunk().map_or(0, |stream| u64::from_le_bytes(*stream));
        Ok(Frame { kind, number, stream, body })
    }

    /// The header of this record.
    pub(super) fn header(&self) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[0] = self.kind as u8;
        header[4..8].copy_from_slice(&self.number.to_le_bytes());
        header[8..].copy_from_slice(&self.stream.to_le_bytes());
        header
    }

    /// The header and the body.
    pub(super) fn bytes(&self) -> Vec<u8> {
        [&self.header(), self.body].concat()
    }
}

/// A reason as it travels: not longer than a record can be.
pub(super) fn reason(why: &str) -> &[u8] {
    let mut most = why.len().min(200);
    while !why.is_char_boundary(most) {
        most -= 1;
    }
    &why.as_bytes()[..most]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written_and_others_are_refused() {
        for kind in KINDS {
            let frame = Frame { kind, number: 7, stream: 1 << 40, body: b"rows" };
            let bytes = frame.bytes();
            assert_eq!(Frame::read(&bytes), Ok(frame));
            assert_eq!(bytes[0], kind as u8);
            for short in 0..HEADER {
                assert!(Frame::read(&bytes[..short]).is_err());
            }
        }
        for (at, value) in [(0, 7), (0, 255), (1, 1), (3, 1)] {
            let mut bytes = Frame { kind: Kind::Open, number: 0, stream: 0, body: b"" }.bytes();
            bytes[at] = value;
            assert!(Frame::read(&bytes).is_err(), "byte {at} is {value}");
        }
        assert_eq!(reason(&"ä".repeat(150)).len(), 200);
        assert_eq!(reason(&format!("a{}", "ä".repeat(150))).len(), 199);
    }
}
