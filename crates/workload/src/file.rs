//! Records of a file: lines or fixed-size records, a contiguous share for each producer.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use super::error::WorkloadError;
use zsr_records::rows::{self, BOM, Broken, RowEnds, Style, Told};

const CHUNK: usize = 256 << 10;

/// How records end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Division {
    /// At a line feed, which is not part of the record. The last line may lack it.
    Lines,
    /// At a line feed that does not stand between quotes. Empty lines are no records.
    Rows {
        /// The byte between columns.
        delimiter: u8,
        /// Whether rows are taken that RFC 4180 does not allow.
        lenient: bool,
    },
    /// After so many bytes.
    Fixed(usize),
}

/// Notes about quotes, for all who read shares of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quotes {
    /// Whether columns are looked at.
    pub columns: bool,
    /// Where a record is that has some, and is read without them; with them, something that RFC 4180 does not allow.
    pub place: Arc<OnceLock<String>>,
    /// How much of that was taken.
    pub taken: Arc<AtomicU64>,
}

/// A share of a file, record by record, through one buffer.
#[derive(Debug)]
pub(crate) struct Records {
    path: PathBuf,
    file: File,
    division: Division,
    /// Records of more bytes are refused.
    max: usize,
    item_size: u32,
    buffer: Vec<u8>,
    /// The unread part of `buffer`.
    start: usize,
    filled: usize,
    /// File offset of `buffer[start]`.
    offset: u64,
    /// Records that begin here or later are someone else's.
    end: u64,
    /// Offset of the record returned last.
    record: u64,
    at_eof: bool,
    /// Finds the ends of rows.
    rows: Option<RowEnds>,
    quotes: Quotes,
    /// Whether there was any quote in the file so far, and it is not known yet what it means.
    quoted: bool,
}

/// Opens a regular file.
pub(crate) fn open(path: &Path) -> Result<(File, u64), WorkloadError> {
    let fail = |cause| WorkloadError::Open { path: path.to_owned(), cause };
    // Looked at before opening: opening a pipe would wait for a writer.
    let kind = std::fs::metadata(path).map_err(fail)?.file_type();
    if !kind.is_file() {
        let what = if kind.is_dir() { "a folder" } else { "a pipe or device" };
        return Err(WorkloadError::NotAFile { path: path.to_owned(), what });
    }
    let file = File::open(path).map_err(fail)?;
    let size = file.metadata().map_err(fail)?.len();
    Ok((file, size))
}

impl Records {
    /// The records that begin in `from..end`. `from` is 0, a place behind a record, or for lines any
    /// place, whereupon the line that is cut there is skipped.
    pub fn new(
        path: &Path,
        division: Division,
        from: u64,
        end: u64,
        item_size: u32,
        max: usize,
    ) -> Result<Self, WorkloadError> {
        let (mut file, _) = open(path)?;
        file.seek(SeekFrom::Start(from)).map_err(|cause| WorkloadError::Read {
            path: path.to_owned(),
            offset: from,
            cause,
        })?;
        let mut records = Records {
            path: path.to_owned(),
            file,
            division,
            max,
            item_size,
            buffer: vec![0; CHUNK],
            start: 0,
            filled: 0,
            offset: from,
            end,
            record: from,
            at_eof: false,
            rows: match division {
                Division::Rows { delimiter, lenient } if from == 0 => Some(RowEnds::new(delimiter, lenient)),
                Division::Rows { delimiter, lenient } => Some(RowEnds::within(delimiter, lenient)),
                Division::Lines | Division::Fixed(_) => None,
            },
            quotes: Quotes::default(),
            quoted: false,
        };
        if division == Division::Lines && from > 0 {
            records.skip_line_cut_before(from)?;
        }
        Ok(records)
    }

    /// The records, with notes about quotes taken on the way.
    pub fn watching(mut self, quotes: Quotes) -> Self {
        self.quotes = quotes;
        self
    }

    /// Moves to the first line that begins at `from` or later.
    fn skip_line_cut_before(&mut self, from: u64) -> Result<(), WorkloadError> {
        self.file.seek(SeekFrom::Start(from - 1)).map_err(|cause| WorkloadError::Read {
            path: self.path.clone(),
            offset: from - 1,
            cause,
        })?;
        self.offset = from - 1;
        loop {
            let unread = &self.buffer[self.start..self.filled];
            if let Some(n) = memchr::memchr(b'\n', unread) {
                self.advance(n + 1);
                return Ok(());
            }
            let all = unread.len();
            self.advance(all);
            if self.at_eof {
                return Ok(());
            }
            self.fill()?;
        }
    }

    /// The next record.
    ///
    /// # Errors
    /// When the file can't be read, ends within a record, or has a record longer than allowed.
    #[inline]
    pub fn next(&mut self) -> Result<Option<&[u8]>, WorkloadError> {
        if self.offset >= self.end {
            return Ok(None);
        }
        let mut searched = 0;
        loop {
            let unread = &self.buffer[self.start..self.filled];
            let found = match self.division {
                Division::Fixed(size) => (unread.len() >= size).then_some((size, size)),
                Division::Lines => memchr::memchr(b'\n', &unread[searched..])
                    .map(|n| (searched + n, searched + n + 1))
                    .or((self.at_eof && !unread.is_empty()).then_some((unread.len(), unread.len()))),
                Division::Rows { .. } => match self.row_end(searched)? {
                    Some(step) => {
                        let Some(row) = rows::row(&self.buffer[self.start..self.start + step]) else {
                            // An empty line.
                            self.advance(step);
                            searched = 0;
                            if self.offset >= self.end {
                                return Ok(None);
                            }
                            continue;
                        };
                        Some((row.len(), step))
                    }
                    None => None,
                },
            };
            if let Some((length, step)) = found {
                self.record = self.offset;
                if length > self.max {
                    return Err(self.too_long(length.to_string()));
                }
                let start = self.start;
                self.advance(step);
                if self.quoted
                    && Style::looks_quoted(&self.buffer[start..start + length], self.quotes.columns)
                {
                    // Another producer may have been first.
                    let _ = self.quotes.place.set(self.place());
                    self.quoted = false;
                }
                return Ok(Some(&self.buffer[start..start + length]));
            }
            let unread = &self.buffer[self.start..self.filled];
            searched = unread.len();
            if self.at_eof {
                // Only a file that shrank since it was measured gets here with bytes left.
                return Ok(None);
            }
            // Up to there the end is looked for, so that the message can tell the length.
            if searched > self.max && searched >= CHUNK {
                self.record = self.offset;
                return Err(self.too_long(format!("more than {searched}")));
            }
            self.fill()?;
        }
    }

    /// Where the row ends that begins with the unread bytes, of which `searched` were looked at.
    fn row_end(&mut self, searched: usize) -> Result<Option<usize>, WorkloadError> {
        let unread = &self.buffer[self.start + searched..self.filled];
        let Some(rows) = &mut self.rows else { return Ok(None) };
        let end = match rows.feed(unread) {
            Err(broken) => return Err(self.broken(&broken)),
            Ok((used, true)) => searched + used,
            Ok(_) if !self.at_eof || self.start == self.filled => return Ok(None),
            Ok(_) => {
                match rows.finish() {
                    Err(broken) => return Err(self.broken(&broken)),
                    Ok(false) => {}
                    Ok(true) => {
                        self.buffer.truncate(self.filled);
                        self.buffer.push(b'"');
                        self.filled += 1;
                    }
                }
                self.filled - self.start
            }
        };
        if let Some((count, first)) = self.rows.as_mut().and_then(RowEnds::taken) {
            self.quotes.taken.fetch_add(count, Relaxed);
            self.quotes.place.get_or_init(|| self.told(&first).0);
        }
        Ok(Some(end))
    }

    /// Where something in the row is that begins with the unread bytes, and what.
    fn told(&self, broken: &Broken) -> (String, String) {
        let path = self.path.display();
        let lines = count_lines(&self.path, self.offset);
        let row = &self.buffer[self.start..self.filled];
        let Told { line, column, what } = broken.tell(row, lines.unwrap_or(0) + 1);
        let place = match lines {
            Some(_) => format!("{path}:{line}:{column}"),
            None => format!("{path}: record at byte {}", self.offset),
        };
        (place, what)
    }

    fn broken(&self, broken: &Broken) -> WorkloadError {
        let (place, what) = self.told(broken);
        WorkloadError::Broken { place, what }
    }

    fn too_long(&self, length: String) -> WorkloadError {
        let open = self.rows.as_ref().and_then(RowEnds::open);
        let open =
            open.map_or(String::new(), |open| format!(" (a quote is open since {})", self.told(&open).0));
        let (place, item_size, max) = (self.place(), self.item_size, self.max);
        WorkloadError::RecordTooLong { place, open, length, item_size, max }
    }

    fn advance(&mut self, bytes: usize) {
        self.start += bytes;
        self.offset += bytes as u64;
    }

    /// Reads on, behind what is unread.
    fn fill(&mut self) -> Result<(), WorkloadError> {
        self.buffer.copy_within(self.start..self.filled, 0);
        self.filled -= self.start;
        self.start = 0;
        if self.filled == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        loop {
            match self.file.read(&mut self.buffer[self.filled..]) {
                Ok(n) => {
                    self.at_eof = n == 0;
                    let fresh = &self.buffer[self.filled..self.filled + n];
                    self.quoted |= self.division == Division::Lines
                        && self.quotes.place.get().is_none()
                        && memchr::memchr(b'"', fresh).is_some();
                    self.filled += n;
                    return Ok(());
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(cause) => {
                    let offset = self.offset + self.filled as u64;
                    return Err(WorkloadError::Read { path: self.path.clone(), offset, cause });
                }
            }
        }
    }

    /// Where the record returned last is: `FILE:LINE` or file and record number.
    pub fn place(&self) -> String {
        let path = self.path.display();
        match self.division {
            Division::Fixed(size) => {
                format!("{path}: record {} (byte {})", self.record / size.max(1) as u64 + 1, self.record)
            }
            // Line numbers cost a pass over the file, which only a message is worth.
            Division::Lines | Division::Rows { .. } => match count_lines(&self.path, self.record) {
                Some(lines) => format!("{path}:{}", lines + 1),
                None => format!("{path}: byte {}", self.record),
            },
        }
    }
}

/// Line feeds before `offset`.
fn count_lines(path: &Path, offset: u64) -> Option<u64> {
    let mut file = File::open(path).ok()?.take(offset);
    let mut buffer = vec![0; CHUNK];
    let mut lines = 0;
    loop {
        match file.read(&mut buffer).ok()? {
            0 => return Some(lines),
            n => lines += memchr::memchr_iter(b'\n', &buffer[..n]).count() as u64,
        }
    }
}

/// The names of the columns, which are the first record, and where the next one begins.
pub(crate) fn header(
    path: &Path,
    division: Division,
    style: Style,
    quotes: &Quotes,
) -> Result<(Vec<String>, u64), WorkloadError> {
    let (_, size) = open(path)?;
    let begin = if style.quoted { mark(path)? } else { 0 };
    let mut records = Records::new(path, division, begin, size, 0, CHUNK)?.watching(quotes.clone());
    let names = records.next()?.map(|header| style.names(header));
    let names = names.ok_or_else(|| WorkloadError::NoHeader { path: path.to_owned() })?;
    Ok((names, records.offset))
}

/// How long the mark is that the file begins with, if it does.
pub(crate) fn mark(path: &Path) -> Result<u64, WorkloadError> {
    let (file, _) = open(path)?;
    let mut begin = Vec::with_capacity(BOM.len());
    let read = file.take(BOM.len() as u64).read_to_end(&mut begin);
    read.map_err(|cause| WorkloadError::Read { path: path.to_owned(), offset: 0, cause })?;
    Ok(if begin == BOM { BOM.len() as u64 } else { 0 })
}

/// Where each of `parts` shares of a file of rows begins, and the end. Only reading the file from its begin tells which
/// line feeds stand between quotes.
pub(crate) fn cuts(
    path: &Path,
    division: Division,
    (first, size): (u64, u64),
    parts: usize,
    item_size: u32,
    max: usize,
) -> Result<Vec<u64>, WorkloadError> {
    let mut cuts = vec![first];
    if parts > 1 {
        let target = |part: usize| {
            first + (u128::from(size.saturating_sub(first)) * part as u128 / parts as u128) as u64
        };
        let mut records = Records::new(path, division, first, size, item_size, max)?;
        while cuts.len() < parts && records.next()?.is_some() {
            while cuts.len() < parts && records.record >= target(cuts.len()) {
                cuts.push(records.record);
            }
        }
    }
    cuts.resize(parts + 1, size);
    Ok(cuts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shares(path: &Path, division: Division, cuts: &[u64]) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for pair in cuts.windows(2) {
            let mut records = Records::new(path, division, pair[0], pair[1], 0, 1000).unwrap();
            while let Some(record) = records.next().unwrap() {
                all.push(record.to_vec());
            }
        }
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn shares_hold_each_line_once_and_in_order(
            text in proptest::collection::vec(prop_oneof![3 => Just(b'\n'), 7 => any::<u8>()], 0..200),
            parts in 1u64..6,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("x");
            std::fs::write(&path, &text).unwrap();
            let size = text.len() as u64;
            let cuts: Vec<u64> = (0..=parts).map(|p| size * p / parts).collect();
            let mut lines: Vec<Vec<u8>> = text.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
            if lines.last().is_some_and(Vec::is_empty) {
                lines.pop();
            }
            prop_assert_eq!(shares(&path, Division::Lines, &cuts), lines);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        // The crate csv is the judge: of what the rows are.
        #[test]
        fn shares_hold_each_row_once_and_in_order(
            text in proptest::collection::vec(
                prop_oneof![
                    4 => Just("a"), 2 => Just(","), 1 => Just("\"b\n\""), 1 => Just("\n"), 1 => Just("\r\n"),
                    1 => Just("\u{feff}"), 1 => Just("\"")
                ], 0..60),
            parts in 1usize..6,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("x");
            let text = text.concat();
            std::fs::write(&path, &text).unwrap();
            let (first, size) = (mark(&path).unwrap(), text.len() as u64);
            let (division, style) =
                (Division::Rows { delimiter: b',', lenient: true }, Style { delimiter: b',', quoted: true });
            let cuts = cuts(&path, division, (first, size), parts, 0, 1000).unwrap();
            prop_assert_eq!(cuts.len(), parts + 1);
            let rows = shares(&path, division, &cuts);
            let found: Vec<Vec<Vec<u8>>> =
                rows.iter().map(|row| style.columns(row).into_iter().map(|c| c.into_owned()).collect()).collect();
            let mut theirs = csv::ReaderBuilder::new();
            theirs.has_headers(false).flexible(true);
            let theirs = theirs.from_reader(text.as_bytes()).into_byte_records();
            let wanted: Vec<Vec<Vec<u8>>> =
                theirs.map(|row| row.unwrap().iter().map(<[u8]>::to_vec).collect()).collect();
            prop_assert_eq!(found, wanted);
        }
    }

    #[test]
    fn long_lines_are_refused_with_their_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, format!("short\n{}\n", "y".repeat(2000))).unwrap();
        let mut records = Records::new(&path, Division::Lines, 0, 2007, 64, 36).unwrap();
        assert_eq!(records.next().unwrap(), Some(&b"short"[..]));
        let text = records.next().unwrap_err().to_string();
        assert!(text.contains("x:2: the record is 2000 bytes long"), "{text}");
        assert!(text.contains("at most 36"), "{text}");
    }

    #[test]
    fn a_line_longer_than_the_buffer_is_read_when_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let line = "z".repeat(3 * CHUNK);
        std::fs::write(&path, format!("{line}\nend")).unwrap();
        let mut records = Records::new(&path, Division::Lines, 0, u64::MAX, 0, 1 << 20).unwrap();
        assert_eq!(records.next().unwrap().map(<[u8]>::len), Some(line.len()));
        assert_eq!(records.next().unwrap(), Some(&b"end"[..]));
        assert_eq!(records.next().unwrap(), None);
    }

    #[test]
    fn folders_and_missing_files() {
        let folder = tempfile::tempdir().unwrap();
        assert!(open(folder.path()).unwrap_err().to_string().contains("is a folder"));
        assert!(open(&folder.path().join("no")).unwrap_err().to_string().contains("cannot open the input"));
    }
}
