//! The journal: the flows, and the changes under way, one line of JSON each, so that a controller that starts anew
//! knows both. The cost of a change does not depend on the number of flows; a start rewrites the whole journal.

use crate::ledger::store::{FileStore, Store};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::watch;
use zsr_plan::dataplane::model::Flow;
use zsr_plan::error::{ControllerError, ErrorKind};

/// Lines that are written at once.
const AT_ONCE: usize = 1000;

/// Errors of the journal.
#[derive(Debug, thiserror::Error)]
#[error("the controller's journal {}: {source}", path.display())]
pub struct JournalError {
    /// Path of the file.
    pub path: PathBuf,
    /// The system's error, or the number of the damaged line.
    pub source: io::Error,
}

impl From<JournalError> for ControllerError {
    fn from(e: JournalError) -> Self {
        ControllerError::new(
            ErrorKind::Unwritten,
            format!("{e}; nothing was changed: make it writable, and ask again"),
        )
    }
}

#[derive(Debug, Serialize, Deserialize)]
enum Line {
    /// A change begins. `fallback` is what the flow becomes if the change cannot be completed, as decided before
    /// anything was touched.
    Begin { name: String, fallback: Option<Flow> },
    /// The flow's value from now on; `None`: it is gone.
    End { name: String, flow: Option<Flow> },
    /// The cookie of the pipeline that the switch was given, if it keeps one.
    Program { cookie: Option<u64> },
}

impl Line {
    fn text(&self) -> io::Result<Vec<u8>> {
        let mut text = serde_json::to_vec(self)?;
        text.push(b'\n');
        Ok(text)
    }
}

/// The contents of a journal.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Flows by name.
    pub flows: BTreeMap<String, Flow>,
    /// Flows whose change was not completed, with their values before it; `flows` has the values that they are to get.
    /// They stay unfinished until the journal has their outcome.
    pub unfinished: BTreeMap<String, Option<Flow>>,
    /// The cookie of the pipeline that the switch was given, if it keeps one.
    pub cookie: Option<u64>,
}

/// An open journal; without a store it remembers nothing.
#[derive(Debug)]
pub struct Journal {
    store: Option<Box<dyn Store>>,
    /// Lines that hold although they could not be written: by flow, and (`None`) of the program. They are written
    /// before all other lines.
    owed: BTreeMap<Option<String>, Line>,
    /// Length of the longest line that was refused, as long as no line of that length has been written since.
    refused: usize,
    /// The reason why the owed lines could not be written.
    trouble: watch::Sender<Option<String>>,
}

impl Journal {
    /// A journal that keeps nothing, for a system that lives and dies with its controller.
    pub fn none() -> Self {
        Journal { store: None, owed: BTreeMap::new(), refused: 0, trouble: watch::channel(None).0 }
    }

    /// Reads the file at `path`, if it exists, and rewrites it with its present contents only.
    ///
    /// # Errors
    /// When the file can't be read or written, or a line is damaged. A last line that was cut off, if only by its line
    /// end, is no error: its change did not happen.
    pub fn open(path: &Path) -> Result<(Self, Recovered), JournalError> {
        Self::on(Box::new(FileStore::new(path)))
    }

    /// As [`open`](Self::open), on any store.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub fn on(mut store: Box<dyn Store>) -> Result<(Self, Recovered), JournalError> {
        let begun = store.read().and_then(|text| {
            let recovered = read(&text)?;
            store.replace(&anew(&recovered)?)?;
            Ok(recovered)
        });
        let recovered = begun.map_err(|source| JournalError { path: store.path().to_owned(), source })?;
        Ok((Journal { store: Some(store), ..Journal::none() }, recovered))
    }

    /// The name of the disk that a change waits for while it writes.
    pub fn disk(&self) -> String {
        self.store.as_ref().map(|s| format!("the disk of {}", s.path().display())).unwrap_or_default()
    }

    /// The reason why the journal can't be written, as long as it can't.
    pub fn trouble(&self) -> watch::Receiver<Option<String>> {
        self.trouble.subscribe()
    }

    /// A change of flow `name` begins; unless it ends, the flow is to be `fallback`.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn begin(&mut self, name: &str, fallback: Option<&Flow>) -> Result<(), JournalError> {
        self.append(Line::Begin { name: name.into(), fallback: fallback.cloned() })
    }

    /// As [`begin`](Self::begin), of several flows, in one write.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn begin_all<'f>(
        &mut self,
        changes: impl Iterator<Item = (&'f str, Option<&'f Flow>)>,
    ) -> Result<(), JournalError> {
        self.append_all(
            changes.map(|(name, flow)| Line::Begin { name: name.into(), fallback: flow.cloned() }),
        )
    }

    /// As [`end`](Self::end), of flows that are there, in one write.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn end_all<'f>(&mut self, flows: impl Iterator<Item = &'f Flow>) -> Result<(), JournalError> {
        self.append_all(flows.map(|f| Line::End { name: f.name.clone(), flow: Some(f.clone()) }))
    }

    /// A change of flow `name` has ended: `flow` is its value now.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn end(&mut self, name: &str, flow: Option<&Flow>) -> Result<(), JournalError> {
        self.append(Line::End { name: name.into(), flow: flow.cloned() })
    }

    /// Flow `name` has this value now, whether that can be written yet or not.
    pub fn note(&mut self, name: &str, flow: Option<&Flow>) {
        self.owe(Some(name.into()), Line::End { name: name.into(), flow: flow.cloned() });
    }

    /// Flow `name` is gone, as its change was to end. Nobody waits for the disk: if a power cut takes the line, the
    /// flow is deleted again.
    pub fn deleted(&mut self, name: &str) {
        let line = Line::End { name: name.into(), flow: None };
        let at_once = self.owed.is_empty() && self.store.is_some();
        let written =
            at_once && line.text().is_ok_and(|text| self.put(&text, |store, text| store.add(text)).is_ok());
        if !written {
            self.note(name, None);
        }
    }

    /// As [`note`](Self::note), of many flows that are there, in one write.
    pub fn note_all<'f>(&mut self, flows: impl Iterator<Item = &'f Flow>) {
        if self.store.is_none() {
            return;
        }
        for flow in flows {
            let line = Line::End { name: flow.name.clone(), flow: Some(flow.clone()) };
            self.owed.insert(Some(flow.name.clone()), line);
        }
        // Lines that are left are tried again.
        let _ = self.pay();
    }

    /// The switch was given a pipeline with this cookie, whether it can be written yet or not.
    pub fn note_program(&mut self, cookie: Option<u64>) {
        self.owe(None, Line::Program { cookie });
    }

    /// From now on no switch holds what the journal says: the controller gives up a switch that may come back.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn forget_program(&mut self) -> Result<(), JournalError> {
        if self.store.is_none() {
            return Ok(());
        }
        self.append(Line::Program { cookie: None })
    }

    fn owe(&mut self, about: Option<String>, line: Line) {
        if self.store.is_some() {
            self.owed.insert(about, line);
            // What is left is tried again.
            let _ = self.pay();
        }
    }

    /// Writes the owed lines, if that is possible now.
    pub fn try_again(&mut self) {
        if self.pay().is_ok() && self.refused > 0 {
            // As long as the refused line; a line of spaces has no meaning.
            let mut blank = vec![b' '; self.refused];
            blank[self.refused - 1] = b'\n';
            let _ = self.write(&blank);
        }
    }

    fn append(&mut self, line: Line) -> Result<(), JournalError> {
        self.append_all(std::iter::once(line))
    }

    fn append_all(&mut self, lines: impl Iterator<Item = Line>) -> Result<(), JournalError> {
        self.pay()?;
        let mut text = Vec::new();
        for line in lines {
            text.extend(line.text().map_err(|source| self.failed(source))?);
        }
        if text.is_empty() { Ok(()) } else { self.write(&text) }
    }

    fn pay(&mut self) -> Result<(), JournalError> {
        while !self.owed.is_empty() {
            // Many lines wait for the disk once; a line by itself may fit where many do not.
            let many = self.owed.len().min(AT_ONCE);
            let written = match self.pay_some(many) {
                Err(_) if many > 1 => self.pay_some(1),
                done => done,
            };
            written?;
        }
        Ok(())
    }

    /// Writes the first so many lines that are owed.
    fn pay_some(&mut self, many: usize) -> Result<(), JournalError> {
        let mut text = Vec::new();
        for line in self.owed.values().take(many) {
            text.extend(line.text().map_err(|source| self.failed(source))?);
        }
        self.write(&text)?;
        for _ in 0..many {
            self.owed.pop_first();
        }
        Ok(())
    }

    fn write(&mut self, text: &[u8]) -> Result<(), JournalError> {
        self.put(text, |store, text| store.append(text))
    }

    fn put(
        &mut self,
        text: &[u8],
        put: fn(&mut dyn Store, &[u8]) -> io::Result<()>,
    ) -> Result<(), JournalError> {
        let Some(store) = &mut self.store else { return Ok(()) };
        match waiting(|| put(&mut **store, text)) {
            Ok(()) if text.len() < self.refused => Ok(()),
            Ok(()) => {
                self.refused = 0;
                self.trouble.send_if_modified(|trouble| trouble.take().is_some());
                Ok(())
            }
            Err(source) => {
                self.refused = self.refused.max(text.len());
                let e = self.failed(source);
                let why = Some(e.to_string());
                self.trouble.send_if_modified(|trouble| {
                    let is_news = *trouble != why;
                    trouble.clone_from(&why);
                    is_news
                });
                Err(e)
            }
        }
    }

    fn failed(&self, source: io::Error) -> JournalError {
        let path = self.store.as_ref().map(|s| s.path().to_owned()).unwrap_or_default();
        JournalError { path, source }
    }
}

/// Does work that waits for a disk, which may take many seconds on a busy machine. The runtime goes on with its other
/// tasks meanwhile.
fn waiting<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// The text of a journal with these contents and nothing else.
fn anew(recovered: &Recovered) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut say = |line: Line| {
        out.extend(line.text()?);
        Ok::<_, io::Error>(())
    };
    if recovered.cookie.is_some() {
        say(Line::Program { cookie: recovered.cookie })?;
    }
    for (name, flow) in &recovered.flows {
        if !recovered.unfinished.contains_key(name) {
            say(Line::End { name: name.clone(), flow: Some(flow.clone()) })?;
        }
    }
    for (name, was) in &recovered.unfinished {
        say(Line::End { name: name.clone(), flow: was.clone() })?;
        let fallback = recovered.flows.get(name).cloned();
        say(Line::Begin { name: name.clone(), fallback })?;
    }
    Ok(out)
}

/// Takes bytes, since a line may be cut off within a character.
fn read(text: &[u8]) -> io::Result<Recovered> {
    let mut out = Recovered::default();
    let mut open = BTreeMap::new();
    for (number, line) in text.split_inclusive(|&b| b == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        if !line.ends_with(b"\n") {
            tracing::warn!(
                "line {} of the journal, its last one, was cut off: its change did not happen",
                number + 1
            );
            break;
        }
        let parsed = match serde_json::from_slice(line) {
            Ok(parsed) => parsed,
            Err(e) => {
                let advice = "repair it, with a line end behind each line, or take the file away: the flows that it names are then gone";
                let what = format!("line {} is damaged: {e}; {advice}", number + 1);
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
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
            Line::Program { cookie } => out.cookie = cookie,
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
    use std::sync::{Arc, Mutex};
    use zsr_plan::dataplane::model::FlowKind;
    use zsr_topology::Settings;

    fn flow(name: &str) -> Flow {
        Flow {
            name: name.into(),
            number: 1,
            kind: FlowKind::Shuffle,
            item_size: 64,
            lanes: 1,
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
            adrift_workers: Default::default(),
            lost: Vec::new(),
            held: Default::default(),
            told: Vec::new(),
            past_batch: 0,
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
        journal.end_all([flow("gone"), flow("goes")].iter()).unwrap();
        journal.begin_all(["gone", "goes", "comes"].into_iter().map(|name| (name, None))).unwrap();
        let changed = Flow { version: 2, ..flow("a") };
        journal.begin("a", Some(&flow("a"))).unwrap();
        drop(journal);
        for _ in 0..2 {
            let (mut journal, found) = Journal::open(&path).unwrap();
            assert_eq!(found.flows.values().cloned().collect::<Vec<_>>(), [flow("a")]);
            journal.begin("b", None).unwrap();
        }
        let (mut journal, found) = Journal::open(&path).unwrap();
        let was = [
            ("a", Some(flow("a"))),
            ("b", None),
            ("comes", None),
            ("goes", Some(flow("goes"))),
            ("gone", Some(flow("gone"))),
        ];
        assert_eq!(found.unfinished, was.map(|(name, flow)| (name.to_owned(), flow)).into());
        journal.end("a", Some(&changed)).unwrap();
        ["b", "comes", "goes", "gone"].into_iter().for_each(|name| journal.end(name, None).unwrap());
        let found = Journal::open(&path).unwrap().1;
        assert_eq!((found.flows["a"].clone(), found.unfinished.len()), (changed, 0));
    }

    #[test]
    fn rings_of_an_older_journal_are_where_their_hosts_say() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        // As version 0.1 wrote it, before rings had a memory of their own.
        let ring = r#"{"name":"a.h1","host":"h1","declared":false,"owner":"","size":4096,"start":0,"ids":{"id":1,"worker":1,"is_producer":false,"member":0,"data":{"index":0,"qpn":1,"psn":2},"poll":{"index":1,"qpn":2,"psn":2},"secret":7},"address":null}"#;
        let mut line: serde_json::Value =
            serde_json::to_value(Line::End { name: "a".into(), flow: Some(flow("a")) }).unwrap();
        line["End"]["flow"]["consumers"] = serde_json::json!([{"name": "h1", "host": "h1", "rings": [serde_json::from_str::<serde_json::Value>(ring).unwrap()]}]);
        std::fs::write(&path, format!("{line}\n")).unwrap();
        let (mut journal, mut found) = Journal::open(&path).unwrap();
        let mut old = found.flows.remove("a").unwrap();
        assert_eq!(old.consumers[0].rings[0].memory, None);

        old.consumers[0].rings[0].memory = Some("gpu:1:host".parse().unwrap());
        journal.end("a", Some(&old)).unwrap();
        assert_eq!(Journal::open(&path).unwrap().1.flows["a"], old);
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
        for cut in before..whole.len() {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let (_, found) = Journal::open(&path).unwrap();
            assert_eq!(found.flows.keys().collect::<Vec<_>>(), ["a"], "cut at {cut}");
        }
        std::fs::write(&path, &whole).unwrap();
        assert_eq!(Journal::open(&path).unwrap().1.flows["b"], failed);
    }

    #[test]
    fn a_damaged_line_before_the_last_one_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (mut journal, _) = Journal::open(&path).unwrap();
        ["a", "b", "c"].into_iter().for_each(|name| journal.end(name, Some(&flow(name))).unwrap());
        let mut text = std::fs::read(&path).unwrap();
        let second = text.iter().position(|b| *b == b'\n').unwrap() + 5;
        text[second] = 0;
        std::fs::write(&path, &text).unwrap();
        let said = Journal::open(&path).unwrap_err().to_string();
        assert!(said.contains("line 2 is damaged") && said.contains(path.to_str().unwrap()), "{said}");
        assert_eq!(std::fs::read(&path).unwrap(), text, "it is left as it was");
    }

    #[test]
    fn what_was_written_is_there_for_good() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (mut journal, _) = Journal::open(&path).unwrap();
        journal.note_program(Some(7));
        journal.end("a", Some(&flow("a"))).unwrap();
        for _ in 0..2 {
            let (_, found) = Journal::open(&path).unwrap();
            assert_eq!((found.cookie, found.flows.len()), (Some(7), 1));
        }
    }

    /// A store with room for so many bytes, which counts how often the disk is waited for.
    #[derive(Debug)]
    struct Small(Arc<Mutex<Disk>>);

    #[derive(Debug)]
    struct Disk {
        text: Vec<u8>,
        room: usize,
        appended: usize,
    }

    impl Small {
        fn new(room: usize) -> Self {
            Small(Arc::new(Mutex::new(Disk { text: Vec::new(), room, appended: 0 })))
        }

        fn same(&self) -> Box<dyn Store> {
            Box::new(Small(self.0.clone()))
        }

        fn disk(&self) -> std::sync::MutexGuard<'_, Disk> {
            self.0.lock().unwrap()
        }
    }

    impl Store for Small {
        fn path(&self) -> &Path {
            Path::new("small")
        }

        fn read(&mut self) -> io::Result<Vec<u8>> {
            Ok(self.disk().text.clone())
        }

        fn replace(&mut self, text: &[u8]) -> io::Result<()> {
            self.disk().text = text.to_vec();
            Ok(())
        }

        fn append(&mut self, line: &[u8]) -> io::Result<()> {
            let mut disk = self.disk();
            if disk.text.len() + line.len() > disk.room {
                return Err(io::ErrorKind::StorageFull.into());
            }
            disk.text.extend_from_slice(line);
            disk.appended += 1;
            Ok(())
        }

        fn add(&mut self, line: &[u8]) -> io::Result<()> {
            self.append(line)?;
            self.disk().appended -= 1;
            Ok(())
        }
    }

    #[test]
    fn what_could_not_be_written_is_written_first_when_there_is_room() {
        let small = Small::new(100);
        let (mut journal, _) = Journal::on(small.same()).unwrap();
        let trouble = journal.trouble();
        journal.begin("a", None).unwrap();
        assert!(journal.end("a", Some(&flow("a"))).unwrap_err().to_string().contains("small"));
        assert!(trouble.borrow().is_some());
        // A short line fits, and is no sign that there is room.
        journal.note("a", None);
        assert!(trouble.borrow().is_some());
        journal.note("b", Some(&flow("b")));
        journal.try_again();
        assert!(journal.begin("c", None).is_err(), "nothing begins that may not be written");
        small.disk().room = 1 << 20;
        journal.try_again();
        assert_eq!(*trouble.borrow(), None);
        let found = Journal::on(small.same()).unwrap().1;
        assert_eq!(found.flows.keys().collect::<Vec<_>>(), ["b"]);
        assert!(found.unfinished.is_empty());
    }

    #[test]
    fn the_disk_is_waited_for_once_for_many_flows() {
        let store = Small::new(usize::MAX);
        let (mut journal, _) = Journal::on(store.same()).unwrap();
        let flows: Vec<Flow> = (0..AT_ONCE).map(|n| flow(&format!("f{n}"))).collect();
        journal.note_all(flows.iter());
        assert_eq!(store.disk().appended, 1);
        let found = Journal::on(store.same()).unwrap().1;
        assert!(found.flows.len() == AT_ONCE && flows.iter().all(|f| found.flows[&f.name] == *f));
    }

    #[test]
    fn the_disk_is_not_waited_for_when_a_flow_is_gone() {
        let store = Small::new(usize::MAX);
        let (mut journal, _) = Journal::on(store.same()).unwrap();
        journal.end("a", Some(&flow("a"))).unwrap();
        journal.begin("a", None).unwrap();
        let kept = store.disk().text.clone();
        journal.deleted("a");
        assert_eq!(store.disk().appended, 2);
        let found = Journal::on(store.same()).unwrap().1;
        assert!(found.flows.is_empty() && found.unfinished.is_empty());
        // Without that line.
        store.disk().text = kept;
        let found = Journal::on(store.same()).unwrap().1;
        assert!(found.flows.is_empty() && found.unfinished.contains_key("a"));
    }

    /// A store whose disk writes when it is told to.
    #[derive(Debug)]
    struct Slow(std::sync::mpsc::Receiver<()>);

    impl Store for Slow {
        fn path(&self) -> &Path {
            Path::new("slow")
        }

        fn read(&mut self) -> io::Result<Vec<u8>> {
            Ok(Vec::new())
        }

        fn replace(&mut self, _text: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn append(&mut self, _line: &[u8]) -> io::Result<()> {
            // Long enough for a busy machine: the test's sender does not come if the runtime stands still.
            self.0.recv_timeout(std::time::Duration::from_secs(20)).map_err(io::Error::other)
        }
    }

    #[test]
    fn a_slow_disk_holds_up_nobody_else() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let (begins, begun) = tokio::sync::oneshot::channel();
        let written = runtime.block_on(async {
            let change = tokio::spawn(async move {
                let (mut journal, _) = Journal::on(Box::new(Slow(told))).unwrap();
                begins.send(()).unwrap();
                journal.begin("a", None)
            });
            begun.await.unwrap();
            tokio::spawn(async move { tell.send(()) });
            change.await.unwrap()
        });
        written.unwrap();
    }

    #[test]
    fn without_a_file_nothing_is_remembered() {
        let mut journal = Journal::none();
        journal.begin("a", None).unwrap();
        journal.end("a", Some(&flow("a"))).unwrap();
    }
}
