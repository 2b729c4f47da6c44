//! The errors of a workload that runs.

use std::path::PathBuf;

use zsr_ring::segment::{SegmentPushError, SegmentSetupError};
use zsr_ring::{PopError, PushError};

use super::output::OutputError;
use zsr_records::{KeyError, RouteError};

/// Why a workload could not be prepared or run to its end.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The input can't be opened.
    #[error("cannot open the input {}: {cause}", path.display())]
    Open {
        /// The input.
        path: PathBuf,
        /// The system's message.
        cause: std::io::Error,
    },
    /// The input is a pipe, a folder or a device, of which producers can't read their shares.
    #[error(
        "the input {} is {what}; expected a file, of which each producer can read its share", path.display()
    )]
    NotAFile {
        /// The input.
        path: PathBuf,
        /// The kind of the input.
        what: &'static str,
    },
    /// The input can't be read.
    #[error("cannot read the input {} at byte {offset}: {cause}", path.display())]
    Read {
        /// The input.
        path: PathBuf,
        /// The byte at which reading failed.
        offset: u64,
        /// The system's message.
        cause: std::io::Error,
    },
    /// The header line has no such column.
    #[error("the input {} has no column '{column}'; its header line has {found}", path.display())]
    NoSuchColumn {
        /// The input.
        path: PathBuf,
        /// The key's name.
        column: String,
        /// The columns that there are.
        found: String,
    },
    /// Lines have fewer columns than the key's number.
    #[error("the input {} has no column {column}: its first line has {found}", path.display())]
    NoColumn {
        /// The input.
        path: PathBuf,
        /// The key's number, from 1.
        column: u32,
        /// Columns of the first line.
        found: usize,
    },
    /// No header line.
    #[error("the input {} is empty: expected a header line that names its columns", path.display())]
    NoHeader {
        /// The input.
        path: PathBuf,
    },
    /// Something that CSV does not allow.
    #[error("{place}: {what}")]
    Broken {
        /// Line and column.
        place: String,
        /// The breach, and what to do about it.
        what: String,
    },
    /// A file of binary records ends within one.
    #[error(
        "the input {} has {bytes} bytes, which is no multiple of the record size {record_size}: {} bytes are \
         left over", path.display(), bytes % u64::from((*record_size).max(1))
    )]
    PartialRecord {
        /// The input.
        path: PathBuf,
        /// The file's size.
        bytes: u64,
        /// Bytes of a record.
        record_size: u32,
    },
    /// A record does not fit in an item.
    #[error(
        "{place}: the record is {length} bytes long{open}, but items of {item_size} bytes hold records of at most \
         {max}; give the flow a bigger item_size (--item-size)"
    )]
    RecordTooLong {
        /// The record.
        place: String,
        /// Where in it a quote is that is not closed so far.
        open: String,
        /// The record's bytes; for a line of which the end was not looked for, "more than" so many.
        length: String,
        /// Bytes of the flow's items.
        item_size: u32,
        /// The longest record that fits.
        max: usize,
    },
    /// A record has no key.
    #[error("{place}: {cause}")]
    Key {
        /// The record.
        place: String,
        /// The reason.
        cause: KeyError,
    },
    /// A key has no consumer.
    #[error("{place}: {cause}")]
    Route {
        /// The record.
        place: String,
        /// The reason.
        cause: RouteError,
    },
    /// Items of this size can't tell so many producers apart.
    #[error(
        "flow '{flow}' has {producers} producers, but synthetic items of {item_size} bytes number at most {max}"
    )]
    TooManyProducers {
        /// The flow.
        flow: String,
        /// The flow's producers.
        producers: usize,
        /// Bytes of its items.
        item_size: u32,
        /// The most producers that fit.
        max: usize,
    },
    /// Attached rings are not those of the flow.
    #[error("flow '{flow}' was given {found} instead of {wanted}")]
    WrongRings {
        /// The flow.
        flow: String,
        /// The rings that were given.
        found: String,
        /// The rings that the flow needs.
        wanted: String,
    },
    /// A ring refuses an item.
    #[error("cannot push into ring '{ring}': {cause}")]
    Push {
        /// The ring.
        ring: String,
        /// The reason.
        cause: PushError,
    },
    /// A record goes into no segment.
    #[error("{place}: {cause}")]
    Record {
        /// The record.
        place: String,
        /// The reason.
        cause: SegmentPushError,
    },
    /// A flow's items can't hold segments.
    #[error("flow '{flow}' can't carry records: {cause}; give it a bigger item_size (--item-size)")]
    Segments {
        /// The flow.
        flow: String,
        /// The reason.
        cause: SegmentSetupError,
    },
    /// A ring gives no item.
    #[error("cannot pop from ring '{ring}': {cause}")]
    Pop {
        /// The ring.
        ring: String,
        /// The reason.
        cause: PopError,
    },
    /// Received records can't be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A thread of the workload panicked, which is a defect of zsr.
    #[error("the thread of {0} stopped unexpectedly; this is a defect of zsr")]
    Panicked(String),
    /// No thread can be started.
    #[error("cannot start a thread for {name}: {cause}")]
    Thread {
        /// The purpose of the thread.
        name: String,
        /// The system's message.
        cause: std::io::Error,
    },
}

impl WorkloadError {
    /// Whether the command is wrong, and not what it works on: there is no such key.
    pub fn is_usage(&self) -> bool {
        matches!(self, WorkloadError::NoSuchColumn { .. } | WorkloadError::NoColumn { .. })
    }

    /// How likely this is the cause of the others. A thread that was cancelled, or whose ring's other end went away,
    /// only echoes what happened elsewhere.
    pub(crate) fn rank(&self) -> u8 {
        let push = |cause: &PushError| match cause {
            PushError::Cancelled => 0,
            PushError::Aborted(_) => 1,
            _ => 2,
        };
        match self {
            WorkloadError::Push { cause, .. } => push(cause),
            WorkloadError::Pop { cause: PopError::Cancelled, .. } => 0,
            WorkloadError::Pop { cause: PopError::Aborted(_), .. } => 1,
            _ => 2,
        }
    }

    /// Whether it only says that the run was cancelled from outside.
    pub fn is_cancelled(&self) -> bool {
        self.rank() == 0
    }
}
