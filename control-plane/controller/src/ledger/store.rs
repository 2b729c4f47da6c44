//! Where the journal is kept.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Bytes that outlive the controller and a power cut: written bytes are safe when a call returns.
pub trait Store: fmt::Debug + Send {
    /// The store's name for people.
    fn path(&self) -> &Path;

    /// All bytes that were written; empty if nothing ever was.
    ///
    /// # Errors
    /// The system's error; so for all calls.
    fn read(&mut self) -> io::Result<Vec<u8>>;

    /// Puts `text` in the place of all that is there, whole or not at all.
    fn replace(&mut self, text: &[u8]) -> io::Result<()>;

    /// Adds `line` at the end, whole or not at all; if the power fails meanwhile, perhaps a part of it.
    fn append(&mut self, line: &[u8]) -> io::Result<()>;

    /// As [`append`](Self::append), but without waiting for the disk: until the next call, a power cut may take the
    /// line.
    fn add(&mut self, line: &[u8]) -> io::Result<()> {
        self.append(line)
    }
}

/// A file.
#[derive(Debug)]
pub struct FileStore {
    path: PathBuf,
    file: Option<File>,
}

impl FileStore {
    /// The file at `path`, which need not exist yet.
    pub fn new(path: &Path) -> Self {
        FileStore { path: path.to_owned(), file: None }
    }

    fn file(&mut self) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => OpenOptions::new().append(true).create(true).open(&self.path)?,
        };
        Ok(self.file.insert(file))
    }

    /// Adds `line` whole or not at all, and calls `kept` to make it last.
    fn write(&mut self, line: &[u8], kept: fn(&File) -> io::Result<()>) -> io::Result<()> {
        let file = self.file()?;
        let whole = file.metadata()?.len();
        // In one call, so that no other line can come between.
        let written = file.write_all(line).and_then(|()| kept(file));
        if written.is_err() {
            // The part of the line that a full disk took is removed, or the next line would follow half a line.
            let _ = file.set_len(whole).and_then(|()| file.sync_data());
        }
        written
    }
}

impl Store for FileStore {
    fn path(&self) -> &Path {
        &self.path
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        match std::fs::read(&self.path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read,
        }
    }

    fn replace(&mut self, text: &[u8]) -> io::Result<()> {
        let mut fresh = self.path.clone().into_os_string();
        fresh.push(".new");
        let fresh = PathBuf::from(fresh);
        let mut file = File::create(&fresh)?;
        file.write_all(text)?;
        file.sync_all()?;
        std::fs::rename(&fresh, &self.path)?;
        // The name of the file has to last, too.
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
        self.file = None;
        self.file().map(drop)
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        self.write(line, File::sync_data)
    }

    fn add(&mut self, line: &[u8]) -> io::Result<()> {
        self.write(line, |_| Ok(()))
    }
}
