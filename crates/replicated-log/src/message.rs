//! The messages in the two flows of a log. Numbers are little-endian.
//!
//! | flow | bytes |
//! | --- | --- |
//! | log | 0, incarnation (u64), number (u64), length of the member's name (u8), the name of the client's member, the command |
//! | log | 1, incarnation (u64), length (u8), the name of the replica that comes back, the name of that which is to send its state |
//! | answers | 0, incarnation (u64), number (u64), the answer |
//! | answers | 1, incarnation (u64), offset (u64), bytes of the whole state (u64), a piece of it |
//! | answers | 2, incarnation (u64), number (u64): the answer was too long, its bytes (u64) |
//!
//! An *incarnation* is a random number of a program, so that nobody takes what was meant for its predecessor.

/// The longest head of a message, with a member's name of 63 bytes.
pub(crate) const HEAD: usize = 1 + 8 + 8 + 1 + 63;

/// In the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    Command { incarnation: u64, number: u64, client: &'a str, command: &'a [u8] },
    Marker { incarnation: u64, replica: &'a str, donor: &'a str },
}

/// In the flow of answers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer<'a> {
    Said { incarnation: u64, number: u64, answer: &'a [u8] },
    Piece { incarnation: u64, offset: u64, total: u64, bytes: &'a [u8] },
    TooLong { incarnation: u64, number: u64, bytes: u64 },
}

impl<'a> Entry<'a> {
    pub(crate) fn write(&self) -> Vec<u8> {
        match *self {
            Entry::Command { incarnation, number, client, command } => {
                let head = [&[0][..], &incarnation.to_le_bytes(), &number.to_le_bytes()].concat();
                [&head, &name(client)[..], command].concat()
            }
            Entry::Marker { incarnation, replica, donor } => {
                [&[1], &incarnation.to_le_bytes()[..], &name(replica), donor.as_bytes()].concat()
            }
        }
    }

    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        match take(&mut rest, 1)? {
            [0] => {
                let (incarnation, number) = (word(&mut rest)?, word(&mut rest)?);
                Some(Entry::Command { incarnation, number, client: take_name(&mut rest)?, command: rest })
            }
            [1] => {
                let incarnation = word(&mut rest)?;
                let replica = take_name(&mut rest)?;
                Some(Entry::Marker { incarnation, replica, donor: std::str::from_utf8(rest).ok()? })
            }
            _ => None,
        }
    }
}

impl<'a> Answer<'a> {
    pub(crate) fn write(&self) -> Vec<u8> {
        let of = |kind: u8, words: &[u64], rest: &[u8]| {
            let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            [&[kind], &words[..], rest].concat()
        };
        match *self {
            Answer::Said { incarnation, number, answer } => of(0, &[incarnation, number], answer),
            Answer::Piece { incarnation, offset, total, bytes } => {
                of(1, &[incarnation, offset, total], bytes)
            }
            Answer::TooLong { incarnation, number, bytes } => of(2, &[incarnation, number, bytes], &[]),
        }
    }

    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        let kind = take(&mut rest, 1)?[0];
        let (incarnation, second) = (word(&mut rest)?, word(&mut rest)?);
        match kind {
            0 => Some(Answer::Said { incarnation, number: second, answer: rest }),
            1 => {
                let total = word(&mut rest)?;
                Some(Answer::Piece { incarnation, offset: second, total, bytes: rest })
            }
            2 if rest.len() == 8 => {
                Some(Answer::TooLong { incarnation, number: second, bytes: word(&mut rest)? })
            }
            _ => None,
        }
    }
}

fn name(name: &str) -> Vec<u8> {
    // Names of members have at most 63 bytes (controller.proto).
    [&[name.len() as u8], name.as_bytes()].concat()
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (first, behind) = rest.split_at_checked(len)?;
    *rest = behind;
    Some(first)
}

fn word(rest: &mut &[u8]) -> Option<u64> {
    take(rest, 8)?.try_into().ok().map(u64::from_le_bytes)
}

fn take_name<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let len = take(rest, 1)?[0];
    std::str::from_utf8(take(rest, len as usize)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let entries = [
            Entry::Command { incarnation: 1 << 63, number: 7, client: "c1", command: b"add 3" },
            Entry::Command { incarnation: 0, number: 0, client: "", command: b"" },
            Entry::Marker { incarnation: 5, replica: "r1", donor: "r2" },
        ];
        for entry in entries {
            assert_eq!(Entry::read(&entry.write()), Some(entry));
        }
        let answers = [
            Answer::Said { incarnation: 1, number: 2, answer: b"3" },
            Answer::Piece { incarnation: 1, offset: 2, total: 10, bytes: b"abc" },
            Answer::TooLong { incarnation: 1, number: 2, bytes: 1 << 40 },
        ];
        for answer in answers {
            assert_eq!(Answer::read(&answer.write()), Some(answer));
        }
    }

    #[test]
    fn pieces_and_foreign_bytes_are_no_messages() {
        let entry = Entry::Command { incarnation: 1, number: 7, client: "c1", command: b"" }.write();
        for len in 0..entry.len() {
            assert_eq!(Entry::read(&entry[..len]), None, "{len} bytes");
        }
        let piece = Answer::Piece { incarnation: 1, offset: 2, total: 10, bytes: b"" }.write();
        for len in 0..piece.len() {
            assert_eq!(Answer::read(&piece[..len]), None, "{len} bytes");
        }
        assert_eq!((Entry::read(&[9; 40]), Answer::read(&[9; 40])), (None, None));
        assert_eq!(Entry::read(&[&[0; 17][..], &[2, 0xff, 0xff]].concat()), None);
    }
}
