//! Errors of a topology, with line and column.

use std::fmt;
use std::path::{Path, PathBuf};

/// A place in a topology file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Line, from 1. 0 means the file as a whole.
    pub line: u32,
    /// Column in characters, from 1. 0 means the file as a whole.
    pub column: u32,
    /// How many characters the text at this place has, for the marker under it.
    pub width: u32,
}

/// An error in a topology: its place, the fault, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The place in the file.
    pub place: Place,
    /// The fault. The message names the object and the value.
    pub message: String,
    /// The values that would have been accepted.
    pub expected: String,
}

/// All errors of one topology file, in the order of their places.
///
/// The text form has one block per error: `FILE:LINE:COLUMN: error: MESSAGE`, the line with a marker
/// under the place, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostics {
    file: PathBuf,
    lines: Vec<String>,
    list: Vec<Diagnostic>,
    left_out: usize,
}

/// More errors than this are counted, not listed: nobody reads them, and a hostile file could have millions.
const MAX_LISTED: usize = 500;
/// Source lines are shown up to this many characters.
const MAX_SHOWN: usize = 160;

impl Diagnostics {
    /// Sorts `list` by place, drops repeats and remembers the source lines that the text form quotes.
    pub(crate) fn new(file: &Path, source: &str, mut list: Vec<Diagnostic>) -> Self {
        list.sort_by_key(|d| (d.place.line, d.place.column));
        list.dedup();
        let left_out = list.len().saturating_sub(MAX_LISTED);
        list.truncate(MAX_LISTED);
        let last = list.last().map_or(0, |d| d.place.line as usize);
        let lines = source.lines().take(last).map(str::to_owned).collect();
        Diagnostics { file: file.to_owned(), lines, list, left_out }
    }

    /// An error that concerns the file as a whole.
    pub(crate) fn whole_file(file: &Path, message: impl Into<String>, expected: impl Into<String>) -> Self {
        let one = Diagnostic { place: Place::default(), message: message.into(), expected: expected.into() };
        Diagnostics::new(file, "", vec![one])
    }

    /// The errors, ordered by place; at most 500.
    pub fn list(&self) -> &[Diagnostic] {
        &self.list
    }

    /// How many errors there are, with those beyond the listed ones.
    pub fn count(&self) -> usize {
        self.list.len() + self.left_out
    }

    /// The file they are in, as the caller named it.
    pub fn file(&self) -> &Path {
        &self.file
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        for (n, d) in self.list.iter().enumerate() {
            if n > 0 {
                writeln!(f)?;
            }
            if d.place.line == 0 {
                write!(f, "{file}: error: {}", d.message)?;
            } else {
                write!(f, "{file}:{}:{}: error: {}", d.place.line, d.place.column.max(1), d.message)?;
                self.excerpt(f, d.place)?;
            }
            if !d.expected.is_empty() {
                write!(f, "\n    expected: {}", d.expected)?;
            }
        }
        if self.left_out > 0 {
            write!(f, "\n{file}: {} more errors are not listed", self.left_out)?;
        }
        Ok(())
    }
}

impl Diagnostics {
    /// The source line and a marker under the place.
    fn excerpt(&self, f: &mut fmt::Formatter<'_>, place: Place) -> fmt::Result {
        let Some(line) = self.lines.get(place.line as usize - 1) else { return Ok(()) };
        if line.trim().is_empty() {
            return Ok(());
        }
        let column = place.column.max(1) as usize;
        // Tabs and control characters would move the marker.
        let clean: String =
            line.chars().take(MAX_SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
        write!(f, "\n    {clean}")?;
        if column <= MAX_SHOWN {
            let room = clean.chars().count().saturating_sub(column - 1).max(1);
            let marks = (place.width.max(1) as usize).min(room);
            write!(f, "\n    {}{}", " ".repeat(column - 1), "^".repeat(marks))?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}
