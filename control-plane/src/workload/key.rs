//! Where the key of a tuple is.

use crate::topology::{FileFormat, KeyRef, Workload};

use super::route::KeyForm;

/// Finds the key in a tuple; producers and verifying consumers use the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyReader {
    place: KeyPlace,
    form: KeyForm,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyPlace {
    Whole,
    Column { index: usize, delimiter: u8 },
    Bytes { offset: usize, length: usize },
}

/// A tuple without a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Fewer columns than needed.
    #[error("it has {found} columns, the key is column {wanted}")]
    NoColumn {
        /// Columns in the tuple.
        found: usize,
        /// The key's number, from 1.
        wanted: usize,
    },
    /// Fewer bytes than needed.
    #[error("it has {found} bytes, the key ends at byte {wanted}")]
    TooShort {
        /// Bytes in the tuple.
        found: usize,
        /// Where the key ends.
        wanted: usize,
    },
}

impl KeyReader {
    /// The reader for `key` in the tuples of `workload`. Names of columns must have become numbers.
    pub fn new(key: &KeyRef, workload: &Workload) -> Self {
        let delimiter = match workload {
            Workload::File(input) => match input.format {
                FileFormat::Delimited { delimiter, .. } => delimiter,
                _ => b'|',
            },
            _ => b'|',
        };
        let binary = matches!(workload, Workload::File(i) if matches!(i.format, FileFormat::Binary { .. }));
        let place = match key {
            KeyRef::Whole | KeyRef::Name(_) => KeyPlace::Whole,
            KeyRef::Number(n) => KeyPlace::Column { index: (*n as usize).saturating_sub(1), delimiter },
            KeyRef::Bytes { offset, length } => {
                KeyPlace::Bytes { offset: *offset as usize, length: *length as usize }
            }
        };
        KeyReader { place, form: if binary { KeyForm::Binary } else { KeyForm::Text } }
    }

    /// How the key's bytes stand for a number.
    pub fn form(&self) -> KeyForm {
        self.form
    }

    /// The bytes of the key.
    ///
    /// # Errors
    /// When the tuple has too few columns or bytes.
    #[inline]
    pub fn key<'t>(&self, tuple: &'t [u8]) -> Result<&'t [u8], KeyError> {
        match self.place {
            KeyPlace::Whole => Ok(tuple),
            KeyPlace::Bytes { offset, length } => {
                let end = offset.saturating_add(length);
                tuple.get(offset..end).ok_or(KeyError::TooShort { found: tuple.len(), wanted: end })
            }
            KeyPlace::Column { index, delimiter } => {
                let mut start = 0;
                for column in 0.. {
                    let rest = tuple.get(start..).unwrap_or(&[]);
                    let end = memchr::memchr(delimiter, rest);
                    if column == index {
                        return Ok(&rest[..end.unwrap_or(rest.len())]);
                    }
                    match end {
                        Some(end) => start += end + 1,
                        None => return Err(KeyError::NoColumn { found: column + 1, wanted: index + 1 }),
                    }
                }
                Ok(&[])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::FileInput;

    fn reader(format: FileFormat, key: KeyRef) -> KeyReader {
        KeyReader::new(&key, &Workload::File(FileInput { path: "x".into(), format }))
    }

    #[test]
    fn columns() {
        let format = FileFormat::Delimited { delimiter: b',', header: false };
        let key = |n: u32, line: &'static str| reader(format, KeyRef::Number(n)).key(line.as_bytes());
        assert_eq!(key(1, "a,b,c"), Ok(&b"a"[..]));
        assert_eq!(key(3, "a,b,c"), Ok(&b"c"[..]));
        assert_eq!(key(2, "a,"), Ok(&b""[..]));
        assert_eq!(key(1, ""), Ok(&b""[..]));
        assert_eq!(key(4, "a,b,c"), Err(KeyError::NoColumn { found: 3, wanted: 4 }));
    }

    #[test]
    fn bytes() {
        let r = reader(FileFormat::Binary { record_size: 8 }, KeyRef::Bytes { offset: 4, length: 4 });
        assert_eq!(r.key(b"12345678"), Ok(&b"5678"[..]));
        assert_eq!(r.key(b"1234567"), Err(KeyError::TooShort { found: 7, wanted: 8 }));
        assert_eq!(r.form(), KeyForm::Binary);
    }
}
