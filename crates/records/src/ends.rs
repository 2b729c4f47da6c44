//! Where rows of CSV end, and what stands in them that RFC 4180 does not allow.

use memchr::{memchr, memchr_iter, memchr3, memrchr};

/// The mark with which a text may say that it is UTF-8. It stands at the beginning, and is part of no column.
pub const BOM: &[u8] = b"\xef\xbb\xbf";

/// The kind of a breach of RFC 4180.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Something behind the quote that ends a column.
    Behind,
    /// A quote that is not closed.
    Open,
    /// A carriage return that neither stands between quotes nor in front of a line feed.
    Return,
    /// Another encoding.
    Utf16,
}

/// Something in a row that RFC 4180 does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    kind: Kind,
    /// How many bytes of the row are in front of it.
    at: usize,
    /// How many bytes of the row are in front of the quote that opened the column.
    opened: usize,
}

/// Where something is, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The line, from 1.
    pub line: u64,
    /// Which character of the line, from 1.
    pub column: usize,
    /// The breach, and what to do about it.
    pub what: String,
}

/// How text is taken that is not allowed.
const LENIENT: &str = "--lenient (in a topology `lenient: true`)";

impl Broken {
    /// In words. `row` holds at least the row's bytes up to there; the first of them is in line `line`.
    pub fn tell(&self, row: &[u8], line: u64) -> Told {
        let (opened_line, opened_column) = place(row, self.opened, line);
        let (line, column) = place(row, self.at, line);
        let what = match self.kind {
            Kind::Behind => format!(
                "this quote ends the field that begins at line {opened_line}, column {opened_column}, and text follows. A quote within a \
                 quoted field is doubled, and behind the field comes the delimiter or the end of the line; {LENIENT} takes the text as \
                 part of the field"
            ),
            Kind::Open => {
                format!("a quote is opened, and the input ends before it is closed; {LENIENT} closes it at the end")
            }
            Kind::Return => format!(
                "a carriage return without a line feed behind it. Lines end with LF, or CR and LF, and other carriage returns stand \
                 between quotes; {LENIENT} takes it as text"
            ),
            Kind::Utf16 => "the input begins with the byte order mark of UTF-16: expected UTF-8, or another text whose quotes, delimiters \
                            and line ends are single bytes (`iconv -f UTF-16 -t UTF-8` makes it so)"
                .into(),
        };
        Told { line, column, what }
    }
}

/// Line and character of the byte behind the first `at` of `row`, which begins in line `line`.
fn place(row: &[u8], at: usize, line: u64) -> (u64, usize) {
    let before = &row[..at.min(row.len())];
    let lines = memchr_iter(b'\n', before).count() as u64;
    let begin = memrchr(b'\n', before).map_or(0, |feed| feed + 1);
    let here = &before[begin..];
    // No editor shows the mark.
    let here = if begin == 0 { here.strip_prefix(BOM).unwrap_or(here) } else { here };
    let characters = here.iter().filter(|b| **b & 0xc0 != 0x80).count();
    (line + lines, characters + 1)
}

/// Where a row has got to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In front of a column.
    Start,
    /// In a column without quotes.
    Text,
    /// Behind a carriage return there.
    TextReturn,
    /// Between quotes.
    Quoted,
    /// Behind a quote that ends the column, or is the first of two.
    Closed,
    /// Behind a carriage return there.
    ClosedReturn,
}

/// How much of a mark that a text may begin with has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// So many bytes of [`BOM`].
    Utf8(usize),
    /// The first byte of that of UTF-16.
    Utf16(u8),
    /// The beginning is over.
    Over,
}

/// Finds the ends of rows, and in them what RFC 4180 does not allow. Each line feed that does not stand between quotes ends a
/// row, also one without anything ([`row`](crate::rows::row)). A quote in a column that does not begin with one is text.
#[derive(Clone, Debug)]
pub struct RowEnds {
    delimiter: u8,
    lenient: bool,
    mark: Mark,
    state: State,
    /// Bytes of the row before what is fed next.
    length: usize,
    /// How many bytes of the row are in front of the last quote that has opened a column.
    opened: usize,
    /// How much was taken nevertheless, and the first of it, in the rows since somebody has asked.
    taken: Option<(u64, Broken)>,
}

impl RowEnds {
    /// Finds rows from the beginning of a text whose columns this byte divides. `lenient`: breaches of RFC 4180 are no
    /// errors. Then the bytes behind quotes belong to their column, and are text, as is a carriage return. A quote that
    /// is not closed is closed where the input ends.
    pub fn new(delimiter: u8, lenient: bool) -> Self {
        let (mark, state) = (Mark::Utf8(0), State::Start);
        RowEnds { delimiter, lenient, mark, state, length: 0, opened: 0, taken: None }
    }

    /// As [`new`](Self::new), from any row: the first bytes are no mark.
    pub fn within(delimiter: u8, lenient: bool) -> Self {
        RowEnds { mark: Mark::Over, ..RowEnds::new(delimiter, lenient) }
    }

    /// How many bytes of `input` belong to the row, and whether its line feed is the last of them. `input` goes on
    /// where the last one ended.
    ///
    /// # Errors
    /// A breach of RFC 4180, unless it is taken nevertheless. There is nothing to be fed then.
    pub fn feed(&mut self, input: &[u8]) -> Result<(usize, bool), Broken> {
        let mut at = if self.mark == Mark::Over { 0 } else { self.begin(input)? };
        while let Some(&byte) = input.get(at) {
            match (self.state, byte) {
                (State::Start, b'"') => {
                    self.opened = self.length + at;
                    self.state = State::Quoted;
                    at += 1;
                }
                (State::Start | State::Text, _) => match self.text(input, at) {
                    (behind, true) => return Ok(self.end(behind)),
                    (behind, false) => at = behind,
                },
                (State::Quoted, _) => match memchr(b'"', &input[at..]) {
                    Some(quote) => (self.state, at) = (State::Closed, at + quote + 1),
                    None => at = input.len(),
                },
                (State::Closed | State::TextReturn | State::ClosedReturn, b'\n') => {
                    return Ok(self.end(at + 1));
                }
                (State::Closed, b'"') => (self.state, at) = (State::Quoted, at + 1),
                (State::Closed, b'\r') => (self.state, at) = (State::ClosedReturn, at + 1),
                (State::Closed, byte) if byte == self.delimiter => (self.state, at) = (State::Start, at + 1),
                (State::Closed, _) => self.take(Kind::Behind, self.length + at - 1)?,
                (State::TextReturn | State::ClosedReturn, _) => {
                    self.take(Kind::Return, self.length + at - 1)?;
                }
            }
        }
        self.length += input.len();
        Ok((input.len(), false))
    }

    /// Passes over text without quotes that begins at `from`. The text goes up to the row's end, to a quote that opens
    /// a column, or behind a carriage return. Says how far, and whether the row has ended.
    #[inline]
    fn text(&mut self, input: &[u8], from: usize) -> (usize, bool) {
        let mut at = from;
        while let Some(found) = memchr3(b'\n', b'\r', b'"', &input[at..]) {
            let here = at + found;
            at = here + 1;
            match input[here] {
                b'\n' => return (at, true),
                b'\r' if input.get(at) == Some(&b'\n') => return (at + 1, true),
                b'\r' => {
                    self.state = State::TextReturn;
                    return (at, false);
                }
                _ if here > from && input[here - 1] == self.delimiter => {
                    self.state = State::Start;
                    return (here, false);
                }
                _ => {}
            }
        }
        let divided = input.len() > from && input.last() == Some(&self.delimiter);
        self.state = if divided { State::Start } else { State::Text };
        (input.len(), false)
    }

    /// Passes over what the text may begin with to say its encoding.
    fn begin(&mut self, input: &[u8]) -> Result<usize, Broken> {
        for (at, byte) in input.iter().enumerate() {
            self.mark = match (self.mark, *byte) {
                (Mark::Utf8(2), 0xbf) => {
                    self.mark = Mark::Over;
                    return Ok(at + 1);
                }
                (Mark::Utf8(have), byte) if byte == BOM[have] => Mark::Utf8(have + 1),
                (Mark::Utf8(0), byte @ (0xfe | 0xff)) => Mark::Utf16(byte),
                (Mark::Utf16(first), byte) if first ^ byte == 1 => {
                    return Err(Broken { kind: Kind::Utf16, at: 0, opened: 0 });
                }
                (mark, _) => {
                    // The bytes that came of another mark were text.
                    if mark != Mark::Utf8(0) {
                        self.state = State::Text;
                    }
                    self.mark = Mark::Over;
                    return Ok(at);
                }
            };
        }
        Ok(input.len())
    }

    fn end(&mut self, used: usize) -> (usize, bool) {
        (self.state, self.length) = (State::Start, 0);
        (used, true)
    }

    /// If that is taken nevertheless, the row goes on with text.
    fn take(&mut self, kind: Kind, at: usize) -> Result<(), Broken> {
        let broken = Broken { kind, at, opened: self.opened };
        if !self.lenient {
            return Err(broken);
        }
        let (before, first) = self.taken.unwrap_or((0, broken));
        self.taken = Some((before + 1, first));
        self.state = State::Text;
        Ok(())
    }

    /// The input ends here. Says whether a quote has to be added to the last row, which closes one.
    ///
    /// # Errors
    /// There is one that is not closed, and that is not taken.
    pub fn finish(&mut self) -> Result<bool, Broken> {
        match self.open() {
            Some(open) => self.take(open.kind, open.at).map(|()| true),
            None => Ok(false),
        }
    }

    /// The quote that is open.
    pub fn open(&self) -> Option<Broken> {
        let open = Broken { kind: Kind::Open, at: self.opened, opened: self.opened };
        (self.state == State::Quoted).then_some(open)
    }

    /// How much that RFC 4180 does not allow was taken since this was asked last, and the first of it. To be asked for each
    /// row, as only its bytes can tell where it is.
    #[inline]
    pub fn taken(&mut self) -> Option<(u64, Broken)> {
        self.taken.take()
    }
}

/// The message about `count` things that were taken, of which one is at `place`.
pub fn taken_text(count: u64, place: &str) -> String {
    let (things, were) = if count == 1 { ("thing", "was") } else { ("things", "were") };
    format!(
        "{count} {things} that RFC 4180 does not allow {were} taken as text (--lenient), for example at {place}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Style, row};
    use proptest::prelude::*;

    const CSV: Style = Style { delimiter: b',', quoted: true };

    /// The rows and breaches that were found in a text.
    #[derive(Debug, PartialEq, Eq)]
    struct Found {
        rows: Vec<Vec<u8>>,
        /// How much was taken that RFC 4180 does not allow.
        taken: u64,
        /// The breach that ended it.
        told: Option<Told>,
    }

    /// Reads a text that comes in pieces of `piece` bytes.
    fn read(text: &[u8], piece: usize, lenient: bool) -> Found {
        let mut ends = RowEnds::new(b',', lenient);
        let (mut found, mut open, mut line) =
            (Found { rows: Vec::new(), taken: 0, told: None }, Vec::new(), 1);
        for chunk in text.chunks(piece.max(1)) {
            let mut rest = chunk;
            while !rest.is_empty() {
                let (used, ended) = match ends.feed(rest) {
                    Ok(fed) => fed,
                    Err(broken) => {
                        open.extend_from_slice(rest);
                        found.told = Some(broken.tell(&open, line));
                        return found;
                    }
                };
                open.extend_from_slice(&rest[..used]);
                rest = &rest[used..];
                if ended {
                    line += memchr_iter(b'\n', &open).count() as u64;
                    found.taken += ends.taken().map_or(0, |(count, _)| count);
                    found.rows.extend(row(&open).map(<[u8]>::to_vec));
                    open.clear();
                }
            }
        }
        match ends.finish() {
            Ok(close) => open.extend(close.then_some(b'"')),
            Err(broken) => found.told = Some(broken.tell(&open, line)),
        }
        found.taken += ends.taken().map_or(0, |(count, _)| count);
        found.rows.extend(row(&open).map(<[u8]>::to_vec));
        found
    }

    /// Rows as the crate csv reads them, which takes everything.
    fn theirs(text: &[u8]) -> Vec<Vec<Vec<u8>>> {
        let mut reader = csv::ReaderBuilder::new();
        reader.has_headers(false).flexible(true);
        let rows = reader.from_reader(text).into_byte_records();
        rows.map(|row| row.unwrap().iter().map(<[u8]>::to_vec).collect()).collect()
    }

    fn columns(rows: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
        rows.iter()
            .map(|row| CSV.columns(row).into_iter().map(std::borrow::Cow::into_owned).collect())
            .collect()
    }

    #[test]
    fn python_allows_the_same() {
        let verdicts: Vec<bool> = include_str!("ends/strict.hex")
            .chars()
            .filter_map(|digit| digit.to_digit(16))
            .flat_map(|digit| [8, 4, 2, 1].map(|bit| digit & bit != 0))
            .collect();
        let mut texts = vec![String::new()];
        let mut last = 0..1;
        for _ in 0..6 {
            let longer = |n: usize| ["a", "\"", ",", "\n", "\r\n"].map(|piece| texts[n].clone() + piece);
            let next: Vec<String> = last.clone().flat_map(longer).collect();
            last = texts.len()..texts.len() + next.len();
            texts.extend(next);
        }
        assert_eq!(texts.len().next_multiple_of(4), verdicts.len());
        for (text, allowed) in texts.iter().zip(verdicts) {
            let strict = read(text.as_bytes(), usize::MAX, false);
            assert_eq!(strict.told.is_none(), allowed, "{text:?}: {strict:?}");
        }
    }

    #[test]
    fn what_is_not_allowed_is_told_with_its_place() {
        let refused: [(&[u8], u64, usize, &str); 14] = [
            (b"1,\"John, Doe,25\n3,\"Bob\",35\n", 2, 3, "begins at line 1, column 3"),
            (b"a,b\n\n\"1\"2,b\n", 3, 3, "begins at line 3, column 1"),
            ("\u{feff}\"\u{e9}\"x\n".as_bytes(), 1, 3, "begins at line 1, column 1"),
            (b"1,a\r\n2,\"b\n\n", 2, 3, "a quote is opened"),
            (b"\"", 1, 1, "a quote is opened"),
            (b"\"a\"\"", 1, 1, "a quote is opened"),
            (b"1,a\r2,b\r", 1, 4, "a carriage return"),
            (b"1,a\r\r\n", 1, 4, "a carriage return"),
            (b"1,\"a\"\r2\n", 1, 6, "a carriage return"),
            (b"\r\r", 1, 1, "a carriage return"),
            (b"\"a\" ,b", 1, 3, "text follows"),
            (b"\"a\"\"\"b", 1, 5, "text follows"),
            (b"\xff\xfei\0d\0\n\0", 1, 1, "UTF-16"),
            (b"\xfe\xff\0i\0d\0\n", 1, 1, "UTF-16"),
        ];
        for (text, line, column, what) in refused {
            for piece in 1..=text.len() {
                let told = read(text, piece, false).told.unwrap_or_else(|| panic!("{}", text.escape_ascii()));
                assert_eq!((told.line, told.column), (line, column), "{}: {told:?}", text.escape_ascii());
                assert!(told.what.contains(what), "{}: {told:?}", text.escape_ascii());
            }
            // Another encoding is no broken row.
            let lenient = read(text, 1, true);
            assert_eq!(lenient.told.is_some(), what == "UTF-16", "{lenient:?}");
            assert!(lenient.told.is_some() || lenient.taken > 0, "{}: {lenient:?}", text.escape_ascii());
        }
    }

    #[test]
    fn what_is_taken_is_counted() {
        type Case<'a> = (&'a [u8], u64, &'a [&'a [u8]]);
        let taken: [Case<'_>; 5] = [
            (b"1,\"John, Doe,25\n3,\"Bob\",35\n", 1, &[b"1,\"John, Doe,25\n3,\"Bob\",35"]),
            (b"1,\"a\"b\"c\"\n\"d\" ,\"e\"f\n", 3, &[b"1,\"a\"b\"c\"", b"\"d\" ,\"e\"f"]),
            (b"1,\"a\n", 1, &[b"1,\"a\n\""]),
            (b"1\r2\r\n\"a\"\r\r\n", 2, &[b"1\r2\r", b"\"a\"\r\r"]),
            (b"a \"b\",5\"\n", 0, &[b"a \"b\",5\""]),
        ];
        for (text, count, rows) in taken {
            let found = read(text, 2, true);
            assert_eq!((found.taken, &found.told), (count, &None), "{}", text.escape_ascii());
            assert_eq!(found.rows, rows, "{}", text.escape_ascii());
        }
        // A column that has begun as one without quotes goes on as one.
        let columns = columns(&read(b"1,\"John, Doe,25\n3,\"Bob\",35\n", 99, true).rows);
        assert_eq!(columns, [[&b"1"[..], b"John, Doe,25\n3,Bob\"", b"35"]]);
    }

    #[test]
    fn empty_lines_are_no_rows_wherever_they_are() {
        for text in [
            "1,a\n\n2,b\n",
            "\n\n1,a\n2,b\n\n",
            "1,a\r\n2,b\r\n\r\n",
            "\r\n1,a\n\r\n\n2,b\n\n\r\n",
            "1,a\n2,b\n\r",
        ] {
            for piece in 1..=text.len() {
                let found = read(text.as_bytes(), piece, false);
                assert!(found.told.is_none(), "{text:?}: {found:?}");
                assert_eq!(columns(&found.rows), [[b"1", b"a"], [b"2", b"b"]], "{text:?}");
            }
        }
    }

    #[test]
    fn a_byte_order_mark_is_one_at_the_beginning_only() {
        let text = b"\xef\xbb\xbf\"a\nb\"\nc";
        assert_eq!(read(text, 2, false).rows.len(), 2, "the quote opens a column");
        assert_eq!(RowEnds::within(b',', false).feed(text), Ok((6, true)), "here it does not");
        for text in
            [&b"\xef\xbb\"a\nb\"\nc"[..], b"\xef\xbb\xbf\xef\xbb\xbf\"a\nb\"\nc", b"\xef", b"\xff\"a\nb\"\n"]
        {
            let whole = read(text, text.len(), false);
            assert_eq!(
                whole.rows,
                text.strip_suffix(b"\n")
                    .unwrap_or(text)
                    .split(|b| *b == b'\n')
                    .map(<[u8]>::to_vec)
                    .collect::<Vec<_>>()
            );
        }
    }

    proptest! {
        // The crate csv is the judge: of what the columns of a text are.
        #[test]
        fn rows_and_columns_are_those_of_the_crate_csv(
            text in proptest::collection::vec(
                prop_oneof![Just("\""), Just(","), Just("\n"), Just("\r\n"), Just("a"), Just(" "), Just("\0")], 0..60),
            piece in 1usize..9,
        ) {
            let text = text.concat().into_bytes();
            let lenient = read(&text, piece, true);
            prop_assert_eq!(columns(&lenient.rows), theirs(&text));
            let strict = read(&text, piece, false);
            prop_assert_eq!(strict.told.is_some(), lenient.taken > 0);
            if strict.told.is_none() {
                prop_assert_eq!(strict, lenient);
            }
        }

        #[test]
        fn it_is_the_same_in_any_pieces(
            text in proptest::collection::vec(proptest::sample::select(vec![
                &b"\""[..], b",", b"\n", b"\r", b"a", b"\xc3\xa9", BOM, b"\xff", b"\xfe", b"\xef",
            ]), 0..60),
            piece in 1usize..9, lenient: bool,
        ) {
            let text = text.concat();
            prop_assert_eq!(read(&text, piece, lenient), read(&text, text.len(), lenient));
        }
    }
}
