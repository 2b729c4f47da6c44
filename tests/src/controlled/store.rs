//! A journal in memory, on a disk that can be full, and be written in part.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zsr_controller::store::Store;

/// The journal; it outlives its controllers. All clones are the same journal.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore(Arc<Mutex<Disk>>);

#[derive(Debug, Default)]
struct Disk {
    text: Vec<u8>,
    /// How much of it a power cut leaves.
    kept: usize,
    full: bool,
    /// How much of the next line is written, before the controller dies.
    cut: Option<f64>,
    dead: bool,
}

impl MemoryStore {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the disk has no room.
    pub fn set_full(&self, full: bool) {
        self.disk().full = full;
    }

    /// Only this part (0 to 1) of the next line is written, and nothing behind it. [`died`](Self::died) returns whether
    /// that has happened; the caller then kills the controller.
    pub fn cut_next(&self, part: f64) {
        self.disk().cut = Some(part);
    }

    /// No line is cut off after all.
    pub fn forget_cut(&self) {
        self.disk().cut = None;
    }

    /// Whether a line was cut off. The disk takes lines again from then on.
    pub fn died(&self) -> bool {
        std::mem::take(&mut self.disk().dead)
    }

    /// The text that is written.
    pub fn text(&self) -> Vec<u8> {
        self.disk().text.clone()
    }
}

impl Store for MemoryStore {
    fn path(&self) -> &Path {
        Path::new("memory")
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        Ok(self.text())
    }

    fn replace(&mut self, text: &[u8]) -> io::Result<()> {
        let mut disk = self.disk();
        if disk.full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        disk.text = text.to_vec();
        disk.kept = text.len();
        Ok(())
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        self.add(line)?;
        let mut disk = self.disk();
        disk.kept = disk.text.len();
        Ok(())
    }

    fn add(&mut self, line: &[u8]) -> io::Result<()> {
        let mut disk = self.disk();
        if disk.full || disk.dead {
            return Err(io::ErrorKind::StorageFull.into());
        }
        if let Some(part) = disk.cut.take() {
            // Lines that the disk was not waited for are there, as far as this one is, or gone with it.
            let (kept, written) = (disk.kept, (line.len() as f64 * part) as usize);
            match disk.text.len() > kept && part < 0.5 {
                true => disk.text.truncate(kept),
                false => disk.text.extend_from_slice(&line[..written.min(line.len())]),
            }
            disk.dead = true;
            return Err(io::ErrorKind::Interrupted.into());
        }
        disk.text.extend_from_slice(line);
        Ok(())
    }
}
