//! Standard input, record by record.

use super::{CHUNK, Stop};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use zsr_records::rows::{self, BOM, Broken, RowEnds, Style, Told};
use zsr_ring::Cancel;

/// How often a wait for input looks for signals.
const SIGNALS: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// No item holds a longer record.
const LONGEST: usize = 1 << 20;

/// The end of a record.
#[derive(Clone, Debug)]
pub(super) enum Records {
    /// At a line feed, which is not part of the record. The last record may lack it.
    Lines,
    /// At a line feed that does not stand between quotes.
    Rows(RowEnds),
    /// After this number of bytes.
    Fixed(usize),
}

impl Records {
    pub(super) fn new(record_size: Option<u32>, style: Style, lenient: bool) -> Self {
        match record_size {
            Some(size) => Records::Fixed(size as usize),
            None if style.quoted => Records::Rows(RowEnds::new(style.delimiter, lenient)),
            None => Records::Lines,
        }
    }

    /// How many bytes of `chunk` belong to the record, which has `have` bytes already, and whether it ends with them.
    fn feed(&mut self, chunk: &[u8], have: usize) -> Result<(usize, bool), Broken> {
        match self {
            Records::Lines => match memchr::memchr(b'\n', chunk) {
                Some(at) => Ok((at + 1, true)),
                None => Ok((chunk.len(), false)),
            },
            Records::Rows(ends) => ends.feed(chunk),
            Records::Fixed(size) => {
                let used = chunk.len().min(*size - have);
                Ok((used, have + used == *size))
            }
        }
    }
}

/// Standard input.
pub(super) struct Input {
    from: BufReader<File>,
    records: Records,
    /// The record at hand, with its end.
    record: Vec<u8>,
    /// Number of records before it.
    number: u64,
    /// The line in which the row at hand begins, from 1.
    line: u64,
    /// The number of breaches of RFC 4180 that were taken, and the place of the first one.
    taken: Option<(u64, String)>,
    cancel: Cancel,
    is_first: bool,
}

impl Input {
    pub(super) fn new(from: File, records: Records, cancel: Cancel) -> Self {
        let from = BufReader::with_capacity(CHUNK, from);
        let record = Vec::new();
        Input { from, records, record, number: 0, line: 1, taken: None, cancel, is_first: true }
    }

    /// The warning about rows that RFC 4180 does not allow, and that were taken.
    pub(super) fn taken(&self) -> Option<String> {
        self.taken.as_ref().map(|(count, place)| rows::taken_text(*count, place))
    }

    /// The names in the first record, which does not count as a record.
    pub(super) fn header(&mut self, style: Style) -> Result<Vec<String>, Stop> {
        let header = self.next(&mut || Ok(()))?.map(|(header, _)| style.names(header));
        self.number = 0;
        header.ok_or_else(|| {
            Stop::Input("standard input is empty: expected a header that names its columns".into())
        })
    }

    /// The next record, and how many there were before it. `pause` is called again and again while there is none.
    pub(super) fn next(
        &mut self,
        pause: &mut dyn FnMut() -> Result<(), Stop>,
    ) -> Result<Option<(&[u8], u64)>, Stop> {
        self.record.clear();
        loop {
            self.wait(pause)?;
            let chunk = match self.from.fill_buf() {
                Ok(chunk) => chunk,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(Stop::Input(format!("standard input: {e}"))),
            };
            if chunk.is_empty() {
                if !self.may_end()? {
                    return Ok(None);
                }
                return Ok(self.cut().then(|| self.at_hand()));
            }
            let (used, ended) = match self.records.feed(chunk, self.record.len()) {
                Ok(fed) => fed,
                Err(broken) => {
                    self.record.extend_from_slice(chunk);
                    return Err(self.refused(&broken));
                }
            };
            self.record.extend_from_slice(&chunk[..used]);
            self.from.consume(used);
            if ended {
                if self.cut() {
                    return Ok(Some(self.at_hand()));
                }
                self.record.clear();
            } else if self.record.len() > LONGEST && !matches!(self.records, Records::Fixed(_)) {
                let open = match &self.records {
                    Records::Rows(ends) => ends.open(),
                    _ => None,
                };
                let quote = open.map_or(String::new(), |open| {
                    let Told { line, column, .. } = open.tell(&self.record, self.line);
                    format!("; a quote is open since line {line}, column {column}")
                });
                let number = self.number + 1;
                return Err(Stop::Input(format!(
                    "record {number} is longer than 1 MiB, which no item holds{quote}"
                )));
            }
        }
    }

    /// The record at hand.
    fn at_hand(&mut self) -> (&[u8], u64) {
        self.number += 1;
        (&self.record, self.number - 1)
    }

    /// The error for a row that RFC 4180 does not allow.
    fn refused(&self, broken: &Broken) -> Stop {
        let Told { line, column, what } = broken.tell(&self.record, self.line);
        Stop::Input(format!("line {line}, column {column}: {what}"))
    }

    /// Removes bytes that are not part of the record. Returns whether any are left: empty lines are records, empty rows
    /// are not.
    fn cut(&mut self) -> bool {
        if let Records::Rows(ends) = &mut self.records {
            if let Some((count, first)) = ends.taken() {
                let (record, line) = (&self.record, self.line);
                let place = || {
                    let Told { line, column, .. } = first.tell(record, line);
                    (0, format!("line {line}, column {column}"))
                };
                self.taken.get_or_insert_with(place).0 += count;
            }
            self.line += memchr::memchr_iter(b'\n', &self.record).count() as u64;
        }
        if !matches!(self.records, Records::Fixed(_)) && self.record.last() == Some(&b'\n') {
            self.record.pop();
        }
        if let Records::Rows(..) = self.records {
            if std::mem::take(&mut self.is_first) && self.record.starts_with(BOM) {
                self.record.drain(..BOM.len());
            }
            return rows::row(&self.record).is_some();
        }
        true
    }

    /// At the end of the input: whether there is a last record.
    fn may_end(&mut self) -> Result<bool, Stop> {
        let have = self.record.len();
        match &mut self.records {
            _ if have == 0 => Ok(false),
            Records::Lines => Ok(true),
            Records::Rows(ends) => match ends.finish() {
                Ok(close) => {
                    self.record.extend(close.then_some(b'"'));
                    Ok(true)
                }
                Err(broken) => Err(self.refused(&broken)),
            },
            Records::Fixed(size) => {
                Err(Stop::Input(format!("standard input ends with {have} of {size} B of a record")))
            }
        }
    }

    /// Waits until a read does not block. Records that were pushed before are on their way by then.
    fn wait(&mut self, pause: &mut dyn FnMut() -> Result<(), Stop>) -> Result<(), Stop> {
        let ready = |time: Timespec| {
            let mut look = [PollFd::new(self.from.get_ref(), PollFlags::IN)];
            // An interrupted look is repeated, any other error is for the read to tell.
            !matches!(poll(&mut look, Some(&time)), Ok(0) | Err(rustix::io::Errno::INTR))
        };
        let looked = Timespec { tv_sec: 0, tv_nsec: 0 };
        if !self.from.buffer().is_empty() || ready(looked) {
            return if self.cancel.is_cancelled() { Err(Stop::Quietly) } else { Ok(()) };
        }
        while !self.cancel.is_cancelled() {
            // Again and again, since a consumer that leaves waits for its producers.
            pause()?;
            if ready(SIGNALS) {
                return Ok(());
            }
        }
        Err(Stop::Quietly)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    const CSV: Style = Style { delimiter: b',', quoted: true };

    type Read = Vec<(u64, Vec<u8>)>;

    fn input(bytes: &[u8], records: Records) -> Input {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        Input::new(file, records, Cancel::new())
    }

    fn read(bytes: &[u8], records: Records) -> (bool, Read) {
        let mut input = input(bytes, records);
        let mut all = Vec::new();
        loop {
            match input.next(&mut || Ok(())) {
                Ok(Some((record, number))) => all.push((number, record.to_vec())),
                Ok(None) => return (true, all),
                Err(_) => return (false, all),
            }
        }
    }

    #[test]
    fn lines_lose_their_line_feed_only() {
        let (well, got) = read(b"one\r\n\ntwo\xff\nlast", Records::Lines);
        let wanted: [&[u8]; 4] = [b"one\r", b"", b"two\xff", b"last"];
        assert!(well && got.iter().map(|(_, r)| r.as_slice()).eq(wanted), "{got:?}");
    }

    #[test]
    fn records_of_one_size_may_not_be_cut_off() {
        let bytes: Vec<u8> = (0..=255).collect();
        let (well, got) = read(&bytes, Records::Fixed(64));
        assert!(well && got.len() == 4 && got[3] == (3, bytes[192..].to_vec()));
        let (well, got) = read(&bytes[..100], Records::Fixed(64));
        assert!(!well && got.len() == 1);
    }

    #[test]
    fn rows_end_behind_their_quotes() {
        let text = b"\xef\xbb\xbfid,note\r\n1,\"a\nb\"\r\n\r\n2,c";
        let (well, got) = read(text, Records::new(None, CSV, false));
        let wanted: [&[u8]; 3] = [b"id,note\r", b"1,\"a\nb\"\r", b"2,c"];
        assert!(well && got.iter().map(|(_, r)| r.as_slice()).eq(wanted), "{got:?}");
        assert!(!read(b"1,\"a\n", Records::new(None, CSV, false)).0, "the quote is not closed");
        for text in ["1,a\n2,b\n\n", "1,a\r\n\r\n2,b\r\n\r\n", "\n1,a\n\n2,b"] {
            let (well, got) = read(text.as_bytes(), Records::new(None, CSV, false));
            assert!(well && got.len() == 2 && got[1].0 == 1 && got[1].1.starts_with(b"2,b"), "{got:?}");
        }
        let mut input = input(text, Records::new(None, CSV, false));
        assert_eq!(input.header(CSV).ok().unwrap(), ["id", "note"]);
        assert_eq!(input.next(&mut || Ok(())).ok().flatten().unwrap(), (&b"1,\"a\nb\"\r"[..], 0));
    }

    #[test]
    fn a_line_that_no_item_holds_is_not_read_to_its_end() {
        let (well, got) = read(&vec![b'x'; 2 * LONGEST], Records::Lines);
        assert!(!well && got.is_empty());
    }
}
