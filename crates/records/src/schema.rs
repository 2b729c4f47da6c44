//! Typed tuples: the items of a flow that has a schema. The switch does not look at them. Programs find the schema with
//! the flow, so that both sides agree on what its bytes mean.
//!
//! Where all columns have a width, a tuple is their bytes one behind the other, without gaps, numbers least significant
//! byte first. So every tuple of the flow has the same size. Else a tuple is a line of text with a delimiter between
//! columns.

use std::fmt;

use crate::columns::{COLUMN_TYPE_HELP, column_type, fixed_width, type_name};
use crate::fault::Fault;
use crate::key::columns;
use crate::model::{Column, Content, FileFormat, Routing};
use crate::routing::check_routing;
use crate::rows::Style;
use crate::value;
use crate::words::{NAME_HELP, is_name, shorten};

/// Most bytes of a schema as it is written.
const MAX_TEXT: usize = 16 << 10;

/// The columns of a flow's tuples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    columns: Vec<Column>,
    size: Option<u32>,
}

/// A text is no schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}: expected {expected}")]
pub struct SchemaTextError {
    message: String,
    expected: String,
}

/// A line or tuple does not go with its schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TupleError {
    /// More or fewer columns.
    #[error("it has {}, the schema {wanted} ({schema})", columns(*.found))]
    Columns {
        /// Columns of the line.
        found: usize,
        /// Columns of the schema.
        wanted: usize,
        /// The schema.
        schema: String,
    },
    /// Something that its column can't hold.
    #[error("column `{column}`: `{found}` is not {wanted}")]
    Value {
        /// The column's name.
        column: String,
        /// The text that is there, shortened.
        found: String,
        /// The values that could be there.
        wanted: String,
    },
    /// More or fewer bytes.
    #[error("it has {found} B, tuples of ({schema}) have {wanted}")]
    Size {
        /// Bytes of the tuple.
        found: usize,
        /// Bytes of the schema's tuples.
        wanted: u32,
        /// The schema.
        schema: String,
    },
    /// Bytes that would be taken for the end of a column or line.
    #[error(
        "column `{column}` holds the delimiter or the end of a line: take --csv, another --delimiter, or tuples as bytes with --record-size {size}"
    )]
    NoText {
        /// The column's name.
        column: String,
        /// Bytes of a tuple.
        size: u32,
    },
}

impl Schema {
    /// `NAME: TYPE, NAME: TYPE, ...`; types are those of topologies: `i8` to `i64`, `u8` to `u64`, `f32`, `f64`,
    /// `bytes(N)`, and without a width `decimal`, `date` and `text`.
    ///
    /// # Errors
    /// The fault of the text.
    pub fn parse(text: &str) -> Result<Self, SchemaTextError> {
        let wrong = |message: String, expected: &str| SchemaTextError { message, expected: expected.into() };
        if text.len() > MAX_TEXT {
            return Err(wrong(format!("a schema of {} B", text.len()), "at most 16 KiB"));
        }
        let mut columns: Vec<Column> = Vec::new();
        for part in text.split(',') {
            let Some((name, kind)) = part.split_once(':') else {
                let help = "NAME: TYPE, ... (such as `id: u64, note: bytes(16)`)";
                return Err(wrong(format!("`{}` is no column", part.trim()), help));
            };
            let (name, kind) = (name.trim(), kind.trim());
            if !is_name(name) {
                return Err(wrong(format!("`{name}` is no name of a column"), NAME_HELP));
            }
            if columns.iter().any(|c| c.name == name) {
                return Err(wrong(format!("two columns are called `{name}`"), "each name once"));
            }
            let Some(kind) = column_type(kind) else {
                let message = format!("column `{name}`: `{kind}` is no type");
                return Err(wrong(message, COLUMN_TYPE_HELP));
            };
            columns.push(Column { name: name.to_owned(), kind });
        }
        let size = columns.iter().map(|c| fixed_width(c.kind)).sum::<Option<u64>>();
        match size.map(u32::try_from) {
            Some(Err(_)) => Err(wrong("tuples of more than 4 GiB".into(), "tuples that fit into an item")),
            size => Ok(Schema { columns, size: size.and_then(Result::ok) }),
        }
    }

    /// The schema of columns that a topology has checked.
    pub fn of(columns: &[Column]) -> Self {
        let size = columns.iter().map(|c| fixed_width(c.kind)).sum::<Option<u64>>();
        Schema { columns: columns.to_vec(), size: size.and_then(|s| u32::try_from(s).ok()) }
    }

    /// In their order.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Bytes of a tuple, if all have the same.
    pub fn tuple_size(&self) -> Option<u32> {
        self.size
    }

    /// Where records of the flow have what `routing` looks at: its columns by place, and what the records are.
    ///
    /// # Errors
    /// A column that there is not, bounds that do not go with `consumers`.
    pub fn resolve(
        &self,
        routing: &Routing,
        style: impl Into<Style>,
        consumers: usize,
    ) -> Result<(Routing, Content), Fault> {
        let Style { delimiter, quoted } = style.into();
        let format = match self.size {
            Some(record_size) => FileFormat::Binary { record_size },
            None => FileFormat::Delimited { delimiter, header: false, quoted },
        };
        let records = Content::Records(format);
        Ok((check_routing(routing, records, &self.columns, consumers)?, records))
    }

    /// The tuple that a line of text stands for, into `tuple`: a line again if tuples have no fixed size.
    ///
    /// # Errors
    /// [`TupleError`]; `tuple` is then of no use.
    pub fn encode(
        &self,
        line: &[u8],
        style: impl Into<Style>,
        tuple: &mut Vec<u8>,
    ) -> Result<(), TupleError> {
        tuple.clear();
        let style = style.into();
        let fields = style.columns(line);
        if fields.len() != self.columns.len() {
            let (found, wanted) = (fields.len(), self.columns.len());
            return Err(TupleError::Columns { found, wanted, schema: self.to_string() });
        }
        for (column, field) in self.columns.iter().zip(&fields) {
            value::encode(column.kind, field, tuple).map_err(|wanted| {
                let hint = if field.ends_with(b"\r") {
                    " (its line ends with CR and LF: read it with --csv)"
                } else {
                    ""
                };
                let wanted = format!("{wanted}{hint}");
                TupleError::Value { column: column.name.clone(), found: shorten(field), wanted }
            })?;
        }
        if self.size.is_none() {
            tuple.clear();
            tuple.extend_from_slice(line);
        }
        Ok(())
    }

    /// The line of text that stands for a tuple, appended to `line`.
    ///
    /// # Errors
    /// [`TupleError`]; `line` is then as before.
    pub fn decode(
        &self,
        tuple: &[u8],
        style: impl Into<Style>,
        line: &mut Vec<u8>,
    ) -> Result<(), TupleError> {
        let style = style.into();
        let Some(size) = self.size else {
            line.extend_from_slice(tuple);
            return Ok(());
        };
        if tuple.len() != size as usize {
            return Err(TupleError::Size { found: tuple.len(), wanted: size, schema: self.to_string() });
        }
        let (mut rest, mut texts, mut ends) = (tuple, Vec::with_capacity(2 * tuple.len()), Vec::new());
        for column in &self.columns {
            let (bytes, behind) = rest.split_at(fixed_width(column.kind).unwrap_or(0) as usize);
            rest = behind;
            let begin = texts.len();
            value::decode(column.kind, bytes, &mut texts);
            if !style.quoted && texts[begin..].iter().any(|b| *b == style.delimiter || *b == b'\n') {
                return Err(TupleError::NoText { column: column.name.clone(), size });
            }
            ends.push((begin, texts.len()));
        }
        style.write(ends.into_iter().map(|(begin, end)| &texts[begin..end]), line);
        Ok(())
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, column) in self.columns.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{}: {}", column.name, type_name(column.kind))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn schema(text: &str) -> Schema {
        Schema::parse(text).unwrap()
    }

    #[test]
    fn a_schema_is_written_as_it_is_read() {
        let s = schema("id:u64 , price: f64,note : bytes( 6 ),d: i16");
        assert_eq!(s.to_string(), "id: u64, price: f64, note: bytes(6), d: i16");
        assert_eq!(s.tuple_size(), Some(24));
        assert_eq!(schema(&s.to_string()), s);
        assert_eq!(schema("a: u8, b: text").tuple_size(), None);
    }

    #[test]
    fn what_is_no_schema_says_why() {
        let why = |text: &str| Schema::parse(text).unwrap_err().to_string();
        assert!(why("").contains("`` is no column"), "{}", why(""));
        assert!(why("a: u8,").contains("is no column"));
        assert!(why("a: u7").contains("column `a`: `u7` is no type: expected i8 to i64"));
        assert!(why("a: u8, a: i8").contains("two columns are called `a`"));
        assert!(why("1a: u8").contains("`1a` is no name"));
        let wide: Vec<String> = (0..5000).map(|n| format!("c{n}: bytes(1048576)")).collect();
        assert!(why(&wide.join(",")).contains("a schema of"));
    }

    #[test]
    fn a_line_becomes_a_tuple_and_a_line_again() {
        let s = schema("id: u32, d: i16, f: f32, note: bytes(5)");
        let mut tuple = Vec::new();
        s.encode(b"7,-2,0.5,abc", b',', &mut tuple).unwrap();
        assert_eq!(tuple, b"\x07\0\0\0\xfe\xff\0\0\0\x3fabc\0\0");
        let mut line = b"> ".to_vec();
        s.decode(&tuple, b'|', &mut line).unwrap();
        assert_eq!(line, b"> 7|-2|0.5|abc");
    }

    #[test]
    fn what_does_not_go_with_the_schema_says_where() {
        let s = schema("id: u8, note: bytes(2)");
        let why = |line: &[u8]| s.encode(line, b',', &mut Vec::new()).unwrap_err().to_string();
        assert_eq!(why(b"256,ab"), "column `id`: `256` is not a whole number from 0 to 255");
        assert_eq!(why(b"-1,ab"), "column `id`: `-1` is not a whole number from 0 to 255");
        assert_eq!(why(b"1,abc"), "column `note`: `abc` is not at most 2 B long");
        assert_eq!(why(b"1"), "it has 1 column, the schema 2 (id: u8, note: bytes(2))");
        assert_eq!(why(b"1,a,b"), "it has 3 columns, the schema 2 (id: u8, note: bytes(2))");
        let mut line = b"x".to_vec();
        assert!(matches!(
            s.decode(b"abcd", b',', &mut line),
            Err(TupleError::Size { found: 4, wanted: 3, .. })
        ));
        assert!(matches!(s.decode(b"\x01a,", b',', &mut line), Err(TupleError::NoText { .. })));
        assert_eq!(line, b"x");
    }

    #[test]
    fn columns_without_a_width_stay_text_and_are_checked() {
        let s = schema("d: date, price: decimal, note: text");
        let mut tuple = Vec::new();
        s.encode(b"2026-02-28|-3.50|what a note", b'|', &mut tuple).unwrap();
        assert_eq!(tuple, b"2026-02-28|-3.50|what a note");
        for line in [
            "2026-02-29|1|",
            "2026-2-1|1|",
            "2026-13-01|1|",
            "2026-01-01|1.234|",
            "2026-01-01||",
            "2026-01-01|.|",
        ] {
            assert!(s.encode(line.as_bytes(), b'|', &mut tuple).is_err(), "{line}");
        }
    }

    #[test]
    fn keys_are_found_by_name() {
        let s = schema("id: u32, d: i16");
        let of = |text: &str, consumers| {
            let routing = crate::parse_routing(text).unwrap();
            s.resolve(&routing, b',', consumers).map(|(r, _)| format!("{:?}", r.key()))
        };
        assert_eq!(of("hash(d)", 2).unwrap(), "Bytes { offset: 4, length: 2 }");
        assert!(of("hash(x)", 2).unwrap_err().message.contains("there is no column 'x'"));
        assert!(of("range(d, [1, 2])", 2).is_err());
    }

    proptest! {
        #[test]
        fn every_tuple_of_numbers_comes_back(a: u64, b: i64, c: f64, d: f32, e: i8, f: u16) {
            let s = schema("a: u64, b: i64, c: f64, d: f32, e: i8, f: u16");
            let line = format!("{a};{b};{c};{d};{e};{f}");
            let (mut tuple, mut again) = (Vec::new(), Vec::new());
            s.encode(line.as_bytes(), b';', &mut tuple).unwrap();
            prop_assert_eq!(tuple.len(), 31);
            s.decode(&tuple, b';', &mut again).unwrap();
            prop_assert_eq!(String::from_utf8(again).unwrap(), line);
        }

        #[test]
        fn no_line_and_no_tuple_panics(line: Vec<u8>, text in ".{0,60}") {
            let _ = Schema::parse(&text);
            let s = schema("a: i32, b: bytes(3), c: f32");
            let (mut tuple, mut out) = (Vec::new(), Vec::new());
            let _ = s.encode(&line, b',', &mut tuple);
            let _ = s.decode(&line, b',', &mut out);
            let _ = schema("d: date, p: decimal").encode(&line, b',', &mut tuple);
        }
    }
}
