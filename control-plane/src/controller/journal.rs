//! The store: what flows there are, and which change was under way, one line of JSON each, so that a controller that
//! starts anew knows both. The cost of a change does not depend on how many flows there are; a start writes the file anew.

use super::model::Flow;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What is wrong with the store.
#[derive(Debug, thiserror::Error)]
#[error("the controller's journal {}: {source}", path.display())]
pub struct JournalError {
    /// The file.
    pub path: PathBuf,
    /// What the system says, or which line is damaged.
    pub source: io::Error,
}

#[derive(Debug, Serialize, Deserialize)]
enum Line {
    /// A change begins: what the flow is to become if it cannot be completed, as decided before anything was touched.
    Begin { name: String, fallback: Option<Flow> },
    /// What the flow is now; `None`: it is gone.
    End { name: String, flow: Option<Flow> },
}

/// What a journal says.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Flows by name.
    pub flows: BTreeMap<String, Flow>,
    /// Flows whose change was not completed, with what they were before it; `flows` has what they are to be. They are unfinished
    /// until it is said what they are.
    pub unfinished: BTreeMap<String, Option<Flow>>,
}

/// An open journal; without a file it remembers nothing.
#[derive(Debug)]
pub struct Journal {
    file: Option<(PathBuf, File)>,
}

impl Journal {
    /// One that remembers nothing, for a system that lives and dies with its controller.
    pub fn none() -> Self {
        Journal { file: None }
    }

    /// Reads what `path` says, if it exists, and begins it anew with just that.
    ///
    /// # Errors
    /// When it can't be read or written. A last line that was cut off is no error: what it would have said did not happen.
    pub fn open(path: &Path) -> Result<(Self, Recovered), JournalError> {
        let fail = |source| JournalError { path: path.to_owned(), source };
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(fail(e)),
        };
        let recovered = read(&text).map_err(fail)?;
        let fresh = path.with_extension("new");
        let mut file = File::create(&fresh).map_err(fail)?;
        for (name, flow) in &recovered.flows {
            if !recovered.unfinished.contains_key(name) {
                let line = Line::End { name: name.clone(), flow: Some(flow.clone()) };
                write(&mut file, &line).map_err(fail)?;
            }
        }
        for (name, was) in &recovered.unfinished {
            let fallback = recovered.flows.get(name).cloned();
            for line in [
                Line::End { name: name.clone(), flow: was.clone() },
                Line::Begin { name: name.clone(), fallback },
            ] {
                write(&mut file, &line).map_err(fail)?;
            }
        }
        std::fs::rename(&fresh, path).map_err(fail)?;
        let file = OpenOptions::new().append(true).open(path).map_err(fail)?;
        Ok((Journal { file: Some((path.to_owned(), file)) }, recovered))
    }

    /// A change of flow `name` begins; unless it ends, the flow is to be `fallback`.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn begin(&mut self, name: &str, fallback: Option<&Flow>) -> Result<(), JournalError> {
        self.append(&Line::Begin { name: name.into(), fallback: fallback.cloned() })
    }

    /// A change of flow `name` has ended: this is what it is now.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn end(&mut self, name: &str, flow: Option<&Flow>) -> Result<(), JournalError> {
        self.append(&Line::End { name: name.into(), flow: flow.cloned() })
    }

    fn append(&mut self, line: &Line) -> Result<(), JournalError> {
        let Some((path, file)) = &mut self.file else { return Ok(()) };
        let fail = |source| JournalError { path: path.clone(), source };
        let whole = file.metadata().map_err(fail)?.len();
        write(file, line).map_err(|source| {
            // What a full disk took of the line goes again, or the next one would be behind half a line.
            let _ = file.set_len(whole);
            fail(source)
        })
    }
}

fn write(file: &mut File, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    // In one call, so that no other line can come between.
    file.write_all(&text)
}

/// Bytes, since a line may be cut off within a character.
fn read(text: &[u8]) -> io::Result<Recovered> {
    let mut out = Recovered::default();
    let mut open = BTreeMap::new();
    let mut lines = text.split_inclusive(|&b| b == b'\n').enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let parsed = match serde_json::from_slice(line) {
            Ok(parsed) => parsed,
            Err(_) if lines.peek().is_none() && !line.ends_with(b"\n") => break,
            Err(e) => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, format!("line {}: {e}", number + 1)));
            }
        };
        match parsed {
            Line::Begin { name, fallback } => {
                open.insert(name, fallback);
            }
            Line::End { name, flow } => {
                open.remove(&name);
                set(&mut out.flows, name, flow);
            }
        }
    }
    for (name, fallback) in open {
        out.unfinished.insert(name.clone(), out.flows.get(&name).cloned());
        set(&mut out.flows, name, fallback);
    }
    Ok(out)
}

fn set(flows: &mut BTreeMap<String, Flow>, name: String, flow: Option<Flow>) {
    match flow {
        Some(flow) => flows.insert(name, flow),
        None => flows.remove(&name),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::model::FlowKind;
    use crate::controller::settings::Settings;

    fn flow(name: &str) -> Flow {
        Flow {
            name: name.into(),
            number: 1,
            kind: FlowKind::Shuffle,
            item_size: 64,
            ring_size: 4096,
            mtu: 1024,
            owner: String::new(),
            settings: Settings::of_items(64),
            routing: "hash".into(),
            schema: "id: u64, note: bytes(8)".into(),
            producers: Vec::new(),
            consumers: Vec::new(),
            version: 1,
            failed: None,
        }
    }

    #[test]
    fn what_was_written_is_read_and_what_was_begun_falls_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (mut journal, found) = Journal::open(&path).unwrap();
        assert!(found.flows.is_empty());
        journal.begin("a", None).unwrap();
        journal.end("a", Some(&flow("a"))).unwrap();
        journal.end("gone", Some(&flow("gone"))).unwrap();
        journal.begin("gone", None).unwrap();
        let changed = Flow { version: 2, ..flow("a") };
        journal.begin("a", Some(&flow("a"))).unwrap();
        drop(journal);
        for _ in 0..2 {
            let (mut journal, found) = Journal::open(&path).unwrap();
            assert_eq!(found.flows.values().cloned().collect::<Vec<_>>(), [flow("a")]);
            journal.begin("b", None).unwrap();
        }
        let (mut journal, found) = Journal::open(&path).unwrap();
        let was = [("a", Some(flow("a"))), ("b", None), ("gone", Some(flow("gone")))];
        assert_eq!(found.unfinished, was.map(|(name, flow)| (name.to_owned(), flow)).into());
        journal.end("a", Some(&changed)).unwrap();
        ["b", "gone"].into_iter().for_each(|name| journal.end(name, None).unwrap());
        let found = Journal::open(&path).unwrap().1;
        assert_eq!((found.flows["a"].clone(), found.unfinished.len()), (changed, 0));
    }

    #[test]
    fn a_last_line_that_was_cut_off_did_not_happen_wherever_the_cut_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (mut journal, _) = Journal::open(&path).unwrap();
        journal.end("a", Some(&flow("a"))).unwrap();
        let before = std::fs::metadata(&path).unwrap().len() as usize;
        let failed = Flow { failed: Some("a link’s end".into()), ..flow("b") };
        journal.end("b", Some(&failed)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for cut in before..whole.len() - 1 {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let (_, found) = Journal::open(&path).unwrap();
            assert_eq!(found.flows.keys().collect::<Vec<_>>(), ["a"], "cut at {cut}");
        }
        std::fs::write(&path, &whole).unwrap();
        assert_eq!(Journal::open(&path).unwrap().1.flows["b"], failed);
    }

    #[test]
    fn without_a_file_nothing_is_remembered() {
        let mut journal = Journal::none();
        journal.begin("a", None).unwrap();
        journal.end("a", Some(&flow("a"))).unwrap();
    }
}
