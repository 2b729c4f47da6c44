//! Text in columns: where a record ends, and where its columns are, with and without the quotes of RFC 4180.
//!
//! Without quotes, a record is a line without its line feed, and a delimiter always divides. With quotes, a record is a
//! row of CSV: the text between quotes may hold delimiters, line ends and, doubled, quotes. Either way a record keeps
//! its bytes as they were read. Quotes stay, and so does a carriage return in front of the line feed, which belongs to
//! no column of a row.

use std::borrow::Cow;
use std::cell::RefCell;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator, WriteResult, WriterBuilder};

pub use crate::ends::{BOM, Broken, RowEnds, Told, taken_text};

/// The message about quotes that nobody has asked to be read as such.
pub const QUOTES_HELP: &str = "there is a quote: without --csv (in a topology: format: csv) quotes are text like any other, and delimiters and line ends \
     between them divide";

/// How text divides into columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// The byte between columns.
    pub delimiter: u8,
    /// Whether quotes protect delimiters and line ends.
    pub quoted: bool,
}

impl From<u8> for Style {
    /// Without quotes.
    fn from(delimiter: u8) -> Self {
        Style { delimiter, quoted: false }
    }
}

fn reader(delimiter: u8) -> Reader {
    // A carriage return alone ends nothing, so that no byte of it is lost.
    ReaderBuilder::new().delimiter(delimiter).terminator(Terminator::Any(b'\n')).build()
}

/// A row as [`RowEnds`] finds it, without its own line feed; `None` if there is nothing else, which is no row.
#[inline]
pub fn row(bytes: &[u8]) -> Option<&[u8]> {
    let row = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    (!row.is_empty() && row != b"\r").then_some(row)
}

/// The columns of a row, whose reader and buffers are used again.
struct Fields {
    delimiter: u8,
    reader: Reader,
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Fields {
    fn new(delimiter: u8) -> Self {
        Fields { delimiter, reader: reader(delimiter), bytes: vec![0; 1024], ends: vec![0; 64] }
    }

    /// Reads `row`; how many columns it has.
    fn read(&mut self, row: &[u8]) -> usize {
        self.reader.reset();
        let row = row.strip_suffix(b"\r").unwrap_or(row);
        let (mut used, mut written, mut count) = (0, 0, 0);
        // The first bytes of a row are text, also where they look like the mark that a file may begin with.
        let mut input = if row.starts_with(BOM) { &row[..1] } else { row };
        loop {
            // Behind the row an empty input says that it has ended.
            let (result, read, wrote, ended) =
                self.reader.read_record(input, &mut self.bytes[written..], &mut self.ends[count..]);
            (used, written, count) = (used + read, written + wrote, count + ended);
            input = &row[used..];
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => self.bytes.resize(self.bytes.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
                ReadRecordResult::Record | ReadRecordResult::End => return count,
            }
        }
    }

    fn column(&self, index: usize) -> &[u8] {
        let begin = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.bytes[begin..self.ends[index]]
    }
}

thread_local! {
    static FIELDS: RefCell<Option<Fields>> = const { RefCell::new(None) };
}

/// Calls `look` with the columns of a row with quotes: how many there are, and each by its index.
fn with_fields<T>(row: &[u8], delimiter: u8, look: impl FnOnce(usize, &dyn Fn(usize) -> Vec<u8>) -> T) -> T {
    FIELDS.with_borrow_mut(|fields| {
        let fields = match fields {
            Some(fields) if fields.delimiter == delimiter => fields,
            other => other.insert(Fields::new(delimiter)),
        };
        let count = fields.read(row);
        let fields = &*fields;
        look(count, &|index| fields.column(index).to_vec())
    })
}

impl Style {
    /// Whether delimiter and quotes can be told apart, and lines from what they hold.
    ///
    /// # Errors
    /// They can't, in words.
    pub fn check(&self) -> Result<(), String> {
        match self.delimiter {
            b'"' | b'\r' | b'\n' if self.quoted => {
                Err("the delimiter of CSV is neither a quote nor the end of a line".into())
            }
            _ => Ok(()),
        }
    }

    /// The columns of a record, in their order.
    pub fn columns<'r>(&self, record: &'r [u8]) -> Vec<Cow<'r, [u8]>> {
        if self.quoted && memchr::memchr(b'"', record).is_some() {
            return with_fields(record, self.delimiter, |count, column| {
                (0..count).map(|index| Cow::Owned(column(index))).collect()
            });
        }
        self.plain(record).split(|b| *b == self.delimiter).map(Cow::Borrowed).collect()
    }

    /// Column `index` of a record, from 0, or else how many it has.
    #[inline]
    ///
    /// # Errors
    /// How many columns the record has, if that is not enough.
    pub fn column<'r>(&self, record: &'r [u8], index: usize) -> Result<Cow<'r, [u8]>, usize> {
        if self.quoted && memchr::memchr(b'"', record).is_some() {
            if let Some(column) = self.in_place(record, index) {
                return Ok(Cow::Borrowed(column));
            }
            return with_fields(record, self.delimiter, |count, column| {
                if index < count { Ok(Cow::Owned(column(index))) } else { Err(count) }
            });
        }
        let mut rest = self.plain(record);
        for before in 0.. {
            let end = memchr::memchr(self.delimiter, rest);
            match end {
                _ if before == index => return Ok(Cow::Borrowed(&rest[..end.unwrap_or(rest.len())])),
                Some(end) => rest = &rest[end + 1..],
                None => return Err(before + 1),
            }
        }
        Err(0)
    }

    /// Column `index` of a record with quotes, where it lies there as it is: neither it nor a column before it has quotes within
    /// quotes.
    fn in_place<'r>(&self, record: &'r [u8], index: usize) -> Option<&'r [u8]> {
        let mut rest = self.plain(record);
        for before in 0..=index {
            let (column, behind) = match rest.strip_prefix(b"\"") {
                Some(quoted) => {
                    let end = memchr::memchr(b'"', quoted)?;
                    (&quoted[..end], &quoted[end + 1..])
                }
                None => rest.split_at(memchr::memchr(self.delimiter, rest).unwrap_or(rest.len())),
            };
            match behind.split_first() {
                None if before == index => return Some(column),
                Some((&byte, _)) if before == index && byte == self.delimiter => return Some(column),
                Some((&byte, behind)) if byte == self.delimiter => rest = behind,
                _ => return None,
            }
        }
        None
    }

    /// The part of a record without quotes that is columns.
    #[inline]
    fn plain<'r>(&self, record: &'r [u8]) -> &'r [u8] {
        if self.quoted { record.strip_suffix(b"\r").unwrap_or(record) } else { record }
    }

    /// The names in a header, the first record of a text.
    pub fn names(&self, header: &[u8]) -> Vec<String> {
        let header = header.strip_prefix(BOM).unwrap_or(header);
        let header = header.strip_suffix(b"\r").unwrap_or(header);
        let name = |column: &Cow<'_, [u8]>| {
            let text = String::from_utf8_lossy(column);
            let text = text.trim();
            if self.quoted { text.to_owned() } else { text.trim_matches('"').to_owned() }
        };
        self.columns(header).iter().map(name).collect()
    }

    /// Appends a record of these columns. Without quotes, nobody looks whether a column holds a delimiter.
    pub fn write<'c>(&self, columns: impl Iterator<Item = &'c [u8]>, out: &mut Vec<u8>) {
        let writer =
            WriterBuilder::new().delimiter(self.delimiter).terminator(Terminator::Any(b'\n')).build();
        let mut columns = columns.enumerate().peekable();
        while let Some((index, column)) = columns.next() {
            if index > 0 {
                out.push(self.delimiter);
            }
            // One that is empty and alone would be an empty line.
            let alone = index == 0 && column.is_empty() && columns.peek().is_none();
            if self.quoted && (alone || writer.should_quote(column)) {
                write_quoted(column, out);
            } else {
                out.extend_from_slice(column);
            }
        }
    }

    /// Whether a record, read without quotes, may be a piece of CSV. Where `columns` are looked at, any quote says so,
    /// else a quote that is not closed.
    #[inline]
    pub fn looks_quoted(record: &[u8], columns: bool) -> bool {
        if columns {
            memchr::memchr(b'"', record).is_some()
        } else {
            memchr::memchr_iter(b'"', record).count() % 2 == 1
        }
    }
}

fn write_quoted(column: &[u8], out: &mut Vec<u8>) {
    let begin = out.len();
    out.push(b'"');
    out.resize(begin + 1 + 2 * column.len(), 0);
    let (result, _, written) = csv_core::quote(column, &mut out[begin + 1..], b'"', b'"', true);
    debug_assert_eq!(result, WriteResult::InputEmpty);
    out.truncate(begin + 1 + written);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CSV: Style = Style { delimiter: b',', quoted: true };

    fn columns(row: &[u8]) -> Vec<Vec<u8>> {
        CSV.columns(row).into_iter().map(Cow::into_owned).collect()
    }

    #[test]
    fn quotes_protect_delimiters_line_ends_and_quotes() {
        let first = b"a,\"b,c\"\r";
        assert_eq!(columns(first), [&b"a"[..], b"b,c"]);
        assert_eq!(columns(b"\"x\ny\",\"say \"\"hi\"\"\""), [&b"x\ny"[..], b"say \"hi\""]);
        assert_eq!(CSV.column(first, 1).unwrap().as_ref(), b"b,c");
        assert_eq!(CSV.column(b"p,q\r", 1).unwrap().as_ref(), b"q");
        assert_eq!(CSV.column(first, 2), Err(2));
    }

    #[test]
    fn a_header_has_no_byte_order_mark() {
        assert_eq!(CSV.names(b"\xef\xbb\xbf\"id\", name\r"), ["id", "name"]);
        assert_eq!(Style::from(b';').names(b"\xef\xbb\xbfid;\"a b\"\r"), ["id", "a b"]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(fields in proptest::collection::vec(any::<Vec<u8>>(), 1..6)) {
            let mut line = Vec::new();
            CSV.write(fields.iter().map(Vec::as_slice), &mut line);
            line.push(b'\n');
            let mut theirs = csv::ReaderBuilder::new().has_headers(false).from_reader(&line[..]);
            let records: Vec<csv::ByteRecord> = theirs.byte_records().map(Result::unwrap).collect();
            prop_assert_eq!(records.len(), 1);
            prop_assert!(records[0].iter().eq(fields.iter().map(Vec::as_slice)));
            let row = row(&line).unwrap();
            prop_assert_eq!(columns(row), fields);
        }
    }
}
