//! Where the key of a tuple is.

use std::borrow::Cow;

use crate::columns::fixed_width;
use crate::model::{Column, ColumnType, Content, FileFormat, KeyRef};
use crate::route::KeyForm;
use crate::rows::Style;

/// Finds the key in a tuple; producers and verifying consumers use the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyReader {
    place: KeyPlace,
    form: KeyForm,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyPlace {
    Whole,
    Column { index: usize, style: Style },
    Bytes { offset: usize, length: usize },
}

/// So many columns, in words.
pub(crate) fn columns(count: usize) -> String {
    format!("{count} column{}", if count == 1 { "" } else { "s" })
}

/// A tuple without a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Fewer columns than needed.
    #[error("it has {}, the key is column {wanted}", columns(*.found))]
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
    /// The reader for `key` in the records of a flow, which have the columns `schema`, if that is known. Names of columns
    /// must have become numbers.
    pub fn new(key: &KeyRef, content: Content, schema: &[Column]) -> Self {
        let style = match content {
            Content::Records(FileFormat::Delimited { delimiter, quoted, .. }) => Style { delimiter, quoted },
            _ => Style::from(b'|'),
        };
        let binary = matches!(content, Content::Records(FileFormat::Binary { .. }));
        let place = match key {
            KeyRef::Whole | KeyRef::Name(_) => KeyPlace::Whole,
            KeyRef::Number(n) => KeyPlace::Column { index: (*n as usize).saturating_sub(1), style },
            KeyRef::Bytes { offset, length } => {
                KeyPlace::Bytes { offset: *offset as usize, length: *length as usize }
            }
        };
        let form = match key {
            _ if !binary => KeyForm::Text,
            KeyRef::Bytes { offset, length } if is_signed(*offset, *length, schema) => KeyForm::Signed,
            _ => KeyForm::Binary,
        };
        KeyReader { place, form }
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
    pub fn key<'t>(&self, tuple: &'t [u8]) -> Result<Cow<'t, [u8]>, KeyError> {
        match self.place {
            KeyPlace::Whole => Ok(Cow::Borrowed(tuple)),
            KeyPlace::Bytes { offset, length } => {
                let end = offset.saturating_add(length);
                let bytes = tuple.get(offset..end).map(Cow::Borrowed);
                bytes.ok_or(KeyError::TooShort { found: tuple.len(), wanted: end })
            }
            KeyPlace::Column { index, style } => {
                style.column(tuple, index).map_err(|found| KeyError::NoColumn { found, wanted: index + 1 })
            }
        }
    }
}

/// Whether these bytes are a column of signed numbers.
fn is_signed(offset: u32, length: u32, schema: &[Column]) -> bool {
    let mut begin = 0;
    schema.iter().any(|column| {
        let width = fixed_width(column.kind).unwrap_or(0);
        let here = begin == u64::from(offset) && width == u64::from(length);
        begin += width;
        here && matches!(column.kind, ColumnType::Int(_))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(format: FileFormat, key: KeyRef) -> KeyReader {
        KeyReader::new(&key, Content::Records(format), &[])
    }

    #[test]
    fn columns() {
        let format = FileFormat::Delimited { delimiter: b',', header: false, quoted: false };
        let key = |n: u32, line: &'static str| reader(format, KeyRef::Number(n)).key(line.as_bytes());
        assert_eq!(key(1, "a,b,c"), Ok(Cow::Borrowed(&b"a"[..])));
        assert_eq!(key(3, "a,b,c"), Ok(Cow::Borrowed(&b"c"[..])));
        assert_eq!(key(2, "a,"), Ok(Cow::Borrowed(&b""[..])));
        assert_eq!(key(1, ""), Ok(Cow::Borrowed(&b""[..])));
        assert_eq!(key(4, "a,b,c"), Err(KeyError::NoColumn { found: 3, wanted: 4 }));
    }

    #[test]
    fn bytes() {
        let r = reader(FileFormat::Binary { record_size: 8 }, KeyRef::Bytes { offset: 4, length: 4 });
        assert_eq!(r.key(b"12345678"), Ok(Cow::Borrowed(&b"5678"[..])));
        assert_eq!(r.key(b"1234567"), Err(KeyError::TooShort { found: 7, wanted: 8 }));
        assert_eq!(r.form(), KeyForm::Binary);
    }

    #[test]
    fn a_schema_tells_which_bytes_have_a_sign() {
        let column = |name: &str, kind| Column { name: name.into(), kind };
        let schema = [column("a", ColumnType::Uint(32)), column("b", ColumnType::Int(32))];
        let records = Content::Records(FileFormat::Binary { record_size: 8 });
        let form = |offset| KeyReader::new(&KeyRef::Bytes { offset, length: 4 }, records, &schema).form();
        assert_eq!((form(0), form(4), form(2)), (KeyForm::Binary, KeyForm::Signed, KeyForm::Binary));
    }
}
