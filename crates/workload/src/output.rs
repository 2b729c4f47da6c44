//! `--output DIR`: one file per consumer ring, complete or absent.
//!
//! Files are written under temporary names in the same folder and renamed when the whole run has been
//! verified; otherwise they are removed. Existing files are not overwritten unless that is asked for.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use zsr_records::FileFormat;
use zsr_topology::{Topology, Workload};

const BUFFER: usize = 256 << 10;

/// Why output can't be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The folder can't be made or used.
    #[error("cannot use the output folder {}: {}", path.display(), no_folder(.cause))]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's message.
        cause: std::io::Error,
    },
    /// A file is there already.
    #[error("the output file {} exists; choose another folder, or overwrite it with --force", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The disk has no room left.
    #[error("the disk is full: cannot write {}; nothing was kept", path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
    },
    /// Anything else.
    #[error("cannot write {}: {cause}; nothing was kept", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's message.
        cause: std::io::Error,
    },
}

/// Why there is no folder.
pub fn no_folder(cause: &std::io::Error) -> String {
    match cause.kind() {
        std::io::ErrorKind::AlreadyExists => "there is a file of that name".to_owned(),
        _ => cause.to_string(),
    }
}

impl OutputError {
    fn new(path: &Path, cause: std::io::Error) -> Self {
        let path = path.to_owned();
        match cause.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                OutputError::DiskFull { path }
            }
            _ => OutputError::Write { path, cause },
        }
    }
}

/// The files of a run: temporary until [`OutputPlan::commit`], removed if that never happens.
#[derive(Debug)]
pub struct OutputPlan {
    files: Vec<Planned>,
}

#[derive(Debug)]
struct Planned {
    flow: usize,
    consumer: usize,
    lines: bool,
    temporary: PathBuf,
    path: PathBuf,
    renamed: bool,
}

impl OutputPlan {
    /// Plans one file per consumer ring of `topology`, makes the folder, and checks that nothing is in the
    /// way. The files are named for their rings.
    ///
    /// # Errors
    /// When the folder can't be made, or a file exists and `force` is not set.
    pub fn new(folder: &Path, topology: &Topology, force: bool) -> Result<Self, OutputError> {
        std::fs::create_dir_all(folder)
            .map_err(|cause| OutputError::Folder { path: folder.to_owned(), cause })?;
        let mut plan = OutputPlan { files: Vec::new() };
        for (f, flow) in topology.flows.iter().enumerate() {
            let (extension, lines) = match &flow.workload {
                Workload::Tpch { .. } => ("tbl".to_owned(), true),
                Workload::Synthetic { .. } => ("bin".to_owned(), false),
                Workload::File(input) => {
                    let own = input.path.extension().and_then(|e| e.to_str()).map(str::to_owned);
                    match input.format {
                        FileFormat::Binary { .. } => (own.unwrap_or_else(|| "bin".into()), false),
                        _ => (own.unwrap_or_else(|| "txt".into()), true),
                    }
                }
            };
            for (c, consumer) in flow.consumers.iter().enumerate() {
                let ring = consumer.rings.first().and_then(|r| topology.rings.get(*r));
                let name = ring.map_or("consumer", |r| r.name.as_str());
                let path = folder.join(format!("{name}.{extension}"));
                if !force && path.symlink_metadata().is_ok() {
                    return Err(OutputError::Exists { path });
                }
                let temporary = folder.join(format!(".{name}.{extension}.part-{}", std::process::id()));
                plan.files.push(Planned { flow: f, consumer: c, lines, temporary, path, renamed: false });
            }
        }
        Ok(plan)
    }

    /// Opens the file of a consumer.
    ///
    /// # Errors
    /// When it can't be created.
    pub fn open(&self, flow: usize, consumer: usize) -> Result<Option<OutputFile>, OutputError> {
        let Some(planned) = self.files.iter().find(|p| p.flow == flow && p.consumer == consumer) else {
            return Ok(None);
        };
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&planned.temporary)
            .map_err(|e| OutputError::new(&planned.path, e))?;
        Ok(Some(OutputFile {
            path: planned.path.clone(),
            lines: planned.lines,
            writer: BufWriter::with_capacity(BUFFER, file),
        }))
    }

    /// Gives all files their names. Returns these.
    ///
    /// # Errors
    /// When a file can't be renamed; then none is kept.
    pub fn commit(mut self) -> Result<Vec<PathBuf>, OutputError> {
        for n in 0..self.files.len() {
            let planned = &mut self.files[n];
            if let Err(e) = std::fs::rename(&planned.temporary, &planned.path) {
                return Err(OutputError::new(&planned.path, e));
            }
            planned.renamed = true;
        }
        Ok(std::mem::take(&mut self.files).into_iter().map(|p| p.path).collect())
    }
}

impl Drop for OutputPlan {
    fn drop(&mut self) {
        for planned in &self.files {
            let path = if planned.renamed { &planned.path } else { &planned.temporary };
            // It may never have been opened.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The file of one consumer.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    lines: bool,
    writer: BufWriter<File>,
}

impl OutputFile {
    /// Writes a record, with a line feed if the input had lines.
    ///
    /// # Errors
    /// When the disk is full or broken.
    #[inline]
    pub fn record(&mut self, record: &[u8]) -> Result<(), OutputError> {
        let mut write = || {
            self.writer.write_all(record)?;
            if self.lines { self.writer.write_all(b"\n") } else { Ok(()) }
        };
        write().map_err(|e| OutputError::new(&self.path, e))
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    /// When the disk is full or broken.
    pub fn raw(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        self.writer.write_all(bytes).map_err(|e| OutputError::new(&self.path, e))
    }

    /// Writes what is still buffered.
    ///
    /// # Errors
    /// When the disk is full or broken.
    pub fn finish(&mut self) -> Result<(), OutputError> {
        self.writer.flush().map_err(|e| OutputError::new(&self.path, e))
    }
}
