//! Text in columns: where a record ends, and where its columns are, with and without the quotes of RFC 4180.
//!
//! Without quotes, a record is a line without its line feed, and a delimiter always divides. With quotes, a record is a row of
//! CSV: what stands between quotes may hold delimiters, line ends and, doubled, quotes. Either way a record keeps its bytes as
//! they were read: quotes stay, and so does a carriage return in front of the line feed, which belongs to no column of a row.

use std::borrow::Cow;
use std::cell::RefCell;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator, WriteResult, WriterBuilder};

/// What a text may begin with to say that it is UTF-8. It is part of no column.
pub const BOM: &[u8] = b"\xef\xbb\xbf";
/// What is said of quotes that nobody has asked to be read as such.
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

/// Finds the ends of rows.
#[derive(Clone, Debug)]
pub struct RowEnds {
    reader: Box<Reader>,
    /// How much of the mark that a text may begin with has come; all of it: the beginning is over.
    mark: usize,
}

impl RowEnds {
    /// Of rows whose columns this byte divides.
    pub fn new(delimiter: u8) -> Self {
        let mut ends = RowEnds { reader: Box::new(reader(delimiter)), mark: 0 };
        // The reader would look for the mark in the first piece of the input only: an empty line ends its beginning.
        ends.pass(b"\n");
        ends
    }

    /// How many bytes of `input`, which goes on where the last one ended, belong to the row, and whether its line feed is the
    /// last of them.
    pub fn feed(&mut self, input: &[u8]) -> (usize, bool) {
        let mut mark = 0;
        while self.mark < BOM.len() && mark < input.len() {
            if input[mark] != BOM[self.mark] {
                // It was text.
                let begun = std::mem::replace(&mut self.mark, BOM.len());
                self.pass(&BOM[..begun]);
                break;
            }
            (self.mark, mark) = (self.mark + 1, mark + 1);
        }
        let (used, ended) = self.pass(&input[mark..]);
        (mark + used, ended)
    }

    fn pass(&mut self, input: &[u8]) -> (usize, bool) {
        // The columns are not looked at here.
        let (mut fields, mut ends) = ([0; 512], [0; 32]);
        let mut used = 0;
        while used < input.len() {
            let (result, read, _, _) = self.reader.read_record(&input[used..], &mut fields, &mut ends);
            used += read;
            match result {
                ReadRecordResult::Record => return (used, true),
                ReadRecordResult::InputEmpty | ReadRecordResult::End => break,
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {}
            }
        }
        (used, false)
    }

    /// Whether the row may end where the input does: not between quotes.
    pub fn may_end(&mut self) -> bool {
        self.feed(b"\n").1
    }
}

/// A row as [`RowEnds`] finds it, without the empty lines in front and its own line feed; `None` if there is nothing else.
pub fn row(bytes: &[u8]) -> Option<&[u8]> {
    let row = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let begin = row.iter().position(|b| *b != b'\n')?;
    let row = &row[begin..];
    (row != b"\r").then_some(row)
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

/// What `look` makes of the columns of a row with quotes: how many there are, and each by its index.
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

    /// What of a record without quotes is columns.
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

    /// Whether a record, read without quotes, may be a piece of CSV: where `columns` are looked at, any quote says so, else
    /// one that is not closed.
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

    /// The rows of a text that comes in pieces of `piece` bytes.
    fn rows(text: &[u8], piece: usize) -> (Vec<Vec<u8>>, bool) {
        let mut ends = RowEnds::new(b',');
        let (mut all, mut open) = (Vec::new(), Vec::new());
        for chunk in text.chunks(piece.max(1)) {
            let mut rest = chunk;
            while !rest.is_empty() {
                let (used, ended) = ends.feed(rest);
                open.extend_from_slice(&rest[..used]);
                rest = &rest[used..];
                if ended {
                    all.extend(row(&open).map(<[u8]>::to_vec));
                    open.clear();
                }
            }
        }
        let sound = open.is_empty() || ends.may_end();
        all.extend(row(&open).map(<[u8]>::to_vec));
        (all, sound)
    }

    fn columns(row: &[u8]) -> Vec<Vec<u8>> {
        CSV.columns(row).into_iter().map(Cow::into_owned).collect()
    }

    #[test]
    fn quotes_protect_delimiters_line_ends_and_quotes() {
        let text = b"a,\"b,c\"\r\n\r\n\n\"x\ny\",\"say \"\"hi\"\"\"\nlast";
        let (found, sound) = rows(text, 3);
        let wanted: [&[u8]; 3] = [b"a,\"b,c\"\r", b"\"x\ny\",\"say \"\"hi\"\"\"", b"last"];
        assert!(sound && found == wanted, "{found:?}");
        assert_eq!(columns(&found[0]), [&b"a"[..], b"b,c"]);
        assert_eq!(columns(&found[1]), [&b"x\ny"[..], b"say \"hi\""]);
        assert_eq!(CSV.column(&found[0], 1).unwrap().as_ref(), b"b,c");
        assert_eq!(CSV.column(b"p,q\r", 1).unwrap().as_ref(), b"q");
        assert_eq!(CSV.column(&found[0], 2), Err(2));
        assert!(!rows(b"a,\"b\nc", 2).1, "the quote is not closed");
    }

    #[test]
    fn a_byte_order_mark_is_one_in_any_pieces() {
        for text in [
            &b"\xef\xbb\xbf\"a\nb\"\nc"[..],
            b"\xef\xbb\"a\nb\"\nc",
            b"\xef\xbb\xbf\xef\xbb\xbf\"a\nb\"\nc",
            b"\xef",
        ] {
            let whole = rows(text, text.len());
            for piece in 1..text.len() {
                assert_eq!(rows(text, piece), whole, "{} in pieces of {piece}", text.escape_ascii());
            }
        }
        assert_eq!(rows(b"\xef\xbb\xbf\"a\nb\"\nc", 2).0.len(), 2, "the quote opens a column");
    }

    #[test]
    fn a_header_has_no_byte_order_mark() {
        assert_eq!(CSV.names(b"\xef\xbb\xbf\"id\", name\r"), ["id", "name"]);
        assert_eq!(Style::from(b';').names(b"\xef\xbb\xbfid;\"a b\"\r"), ["id", "a b"]);
    }

    proptest! {
        // The crate csv is the judge: of what the columns of a text are.
        #[test]
        fn rows_and_columns_are_those_of_the_crate_csv(
            text in proptest::collection::vec(
                prop_oneof![Just("\""), Just(","), Just("\n"), Just("\r\n"), Just("a"), Just(" ")], 0..60),
            piece in 1usize..9,
        ) {
            let text = text.concat().into_bytes();
            let mut theirs = csv::ReaderBuilder::new();
            theirs.has_headers(false).flexible(true);
            let mut wanted: Vec<Vec<Vec<u8>>> = Vec::new();
            for record in theirs.from_reader(&text[..]).byte_records() {
                wanted.push(record.unwrap().iter().map(<[u8]>::to_vec).collect());
            }
            let (found, sound) = rows(&text, piece);
            prop_assume!(sound);
            let found: Vec<_> = found.iter().map(|row| columns(row)).collect();
            prop_assert_eq!(found, wanted);
        }

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
