//! Capture files: classic pcap, nanosecond timestamps, Ethernet. Written by hand: two fixed headers are all there is
//! to the format, and disk errors must be kept for a report, which writers in libraries leave to each call.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;

/// Magic number of nanosecond pcap.
const MAGIC_NS: u32 = 0xa1b2_3c4d;
const LINKTYPE_ETHERNET: u32 = 1;
const SNAPLEN: u32 = 0x4_0000;
const BUFFER: usize = 1 << 18;

/// Why a capture is not complete.
#[derive(Debug, Error)]
pub enum CaptureError {
    /// The file can't be created.
    #[error("can't create the capture file {}: {source}", path.display())]
    Create {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Writing failed; nothing was captured from there on.
    #[error(
        "can't write the capture file {} ({source}): capturing stopped after {packets} packets, the end of the file \
         may be cut off",
        path.display()
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// Packets handed over before the error. The last of them may be missing from the file.
        packets: u64,
        /// What the system said.
        source: io::Error,
    },
}

/// What a finished capture holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PcapSummary {
    /// Packets in the file.
    pub packets: u64,
    /// Bytes in the file.
    pub bytes: u64,
}

struct State {
    path: PathBuf,
    /// Gone after an error or after `finish`.
    out: Option<Box<dyn Write + Send>>,
    error: Option<CaptureError>,
    packets: u64,
    bytes: u64,
}

/// One capture file. Clones write to the same file.
#[derive(Clone)]
pub struct PcapSink {
    state: Arc<Mutex<State>>,
}

impl PcapSink {
    /// Creates (or empties) the file at `path`.
    pub fn create(path: &Path) -> Result<PcapSink, CaptureError> {
        let file =
            File::create(path).map_err(|source| CaptureError::Create { path: path.to_owned(), source })?;
        Ok(PcapSink::to_writer(path, BufWriter::with_capacity(BUFFER, file)))
    }

    /// Captures into any writer, which should buffer; `path` is its name in errors.
    pub fn to_writer(path: &Path, out: impl Write + Send + 'static) -> PcapSink {
        let state =
            State { path: path.to_owned(), out: Some(Box::new(out)), error: None, packets: 0, bytes: 0 };
        let sink = PcapSink { state: Arc::new(Mutex::new(state)) };
        let mut header = [0; 24];
        header[0..4].copy_from_slice(&MAGIC_NS.to_le_bytes());
        header[4..6].copy_from_slice(&2u16.to_le_bytes());
        header[6..8].copy_from_slice(&4u16.to_le_bytes());
        header[16..20].copy_from_slice(&SNAPLEN.to_le_bytes());
        header[20..24].copy_from_slice(&LINKTYPE_ETHERNET.to_le_bytes());
        sink.lock().write(&[&header]);
        sink
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while holding the lock leaves at worst a cut-off record.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records one frame at a time in nanoseconds since whatever the capture's clock counts from. After a write error
    /// this does nothing: see [`PcapSink::take_error`].
    pub fn record(&self, time_ns: u64, frame: &[u8]) {
        let mut state = self.lock();
        if state.out.is_none() {
            return;
        }
        let (seconds, nanos) = ((time_ns / 1_000_000_000) as u32, (time_ns % 1_000_000_000) as u32);
        let len = frame.len() as u32;
        let mut header = [0; 16];
        header[0..4].copy_from_slice(&seconds.to_le_bytes());
        header[4..8].copy_from_slice(&nanos.to_le_bytes());
        header[8..12].copy_from_slice(&len.to_le_bytes());
        header[12..16].copy_from_slice(&len.to_le_bytes());
        if state.write(&[&header, frame]) {
            state.packets += 1;
        }
    }

    /// The error that stopped the capture, the first time that it is asked for.
    pub fn take_error(&self) -> Option<CaptureError> {
        self.lock().error.take()
    }

    /// Writes out what is buffered and closes the file. Later records go nowhere.
    ///
    /// # Errors
    /// The error that stopped the capture, unless [`PcapSink::take_error`] has already reported it; or that the rest
    /// can't be written.
    pub fn finish(&self) -> Result<PcapSummary, CaptureError> {
        let mut state = self.lock();
        if let Some(mut out) = state.out.take()
            && let Err(source) = out.flush()
        {
            state.fail(source);
        }
        match state.error.take() {
            Some(error) => Err(error),
            None => Ok(PcapSummary { packets: state.packets, bytes: state.bytes }),
        }
    }
}

impl State {
    /// `false` if nothing more can be written.
    fn write(&mut self, parts: &[&[u8]]) -> bool {
        let Some(out) = &mut self.out else { return false };
        for part in parts {
            if let Err(source) = out.write_all(part) {
                self.fail(source);
                return false;
            }
            self.bytes += part.len() as u64;
        }
        true
    }

    fn fail(&mut self, source: io::Error) {
        self.out = None;
        self.error = Some(CaptureError::Write { path: self.path.clone(), packets: self.packets, source });
    }
}

impl std::fmt::Debug for PcapSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.lock();
        write!(f, "PcapSink({}, {} packets)", state.path.display(), state.packets)
    }
}
