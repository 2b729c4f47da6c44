//! Pid files that tell living processes from dead ones: each is locked by its process, and the system takes the lock back
//! when that ends, however it ends.

use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

/// A lock that this process holds until it drops it, or ends.
#[derive(Debug)]
pub struct Lock(File);

/// Who holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Nobody: there is no file, or its process has ended.
    Nobody,
    /// The process of this number, 0 if it has not written it yet.
    Process(u32),
}

/// A process that was forked meanwhile, and does not run its own program yet, has the open file, too: closing it here would leave it locked.
impl Drop for Lock {
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

impl Lock {
    /// Takes the lock at `path`, and notes this process there. The error says who holds it, if it is held.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::AddrInUse`] if another process holds it.
    pub fn take(path: &Path) -> io::Result<Self> {
        let mut lock = Self::hold(path)?;
        lock.note()?;
        Ok(lock)
    }

    /// As [`take`](Self::take), also where there is no room to note this process.
    ///
    /// # Errors
    /// As there.
    pub fn take_unnoted(path: &Path) -> io::Result<Self> {
        let mut lock = Self::hold(path)?;
        let _ = lock.note();
        Ok(lock)
    }

    fn hold(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Lock(file)),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let message = format!("process {} has {}", number(&mut file), path.display());
                Err(io::Error::new(io::ErrorKind::AddrInUse, message))
            }
            Err(e) => Err(e.into()),
        }
    }

    fn note(&mut self) -> io::Result<()> {
        self.0.set_len(0)?;
        self.0.rewind()?;
        writeln!(self.0, "{}", std::process::id())
    }

    /// Who holds the lock at `path`.
    pub fn holder(path: &Path) -> Holder {
        let Ok(mut file) = File::open(path) else { return Holder::Nobody };
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(rustix::io::Errno::WOULDBLOCK) => Holder::Process(number(&mut file)),
            _ => Holder::Nobody,
        }
    }
}

fn number(file: &mut File) -> u32 {
    let mut text = String::new();
    let _ = file.read_to_string(&mut text);
    text.trim().parse().unwrap_or(0)
}

/// Whether somebody has stopped that process (SIGSTOP, or a debugger).
pub fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Behind the name, which may have any characters in it, parentheses too.
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['T', 't']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_until_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.pid");
        assert_eq!(Lock::holder(&path), Holder::Nobody);
        let lock = Lock::take(&path).unwrap();
        assert_eq!(Lock::holder(&path), Holder::Process(std::process::id()));
        let twice = Lock::take(&path).unwrap_err();
        assert!(twice.to_string().contains(&std::process::id().to_string()), "{twice}");
        drop(lock);
        // The file is still there, but it is stale.
        assert!(path.exists());
        assert_eq!(Lock::holder(&path), Holder::Nobody);
        Lock::take(&path).unwrap();
    }
}
