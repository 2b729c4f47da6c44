//! A socket's name in the file system: taken over from the dead, refused to the living, removed at the end.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::LinkError;

/// Longest path of a socket, bytes, without the terminating zero.
const MAX_PATH: usize = 107;

/// A bound socket's file; removed when this is dropped, unless somebody has replaced it.
#[derive(Debug)]
pub(super) struct Name {
    path: PathBuf,
    /// Device and inode.
    identity: Option<(u64, u64)>,
}

impl Drop for Name {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|m| (m.dev(), m.ino()))
}

/// Refuses what is no socket's address.
pub(super) fn check(path: &Path) -> Result<(), LinkError> {
    let len = path.as_os_str().len();
    if len == 0 {
        return Err(LinkError::NoPath);
    }
    if len > MAX_PATH {
        return Err(LinkError::PathTooLong { path: path.to_owned(), len, max: MAX_PATH });
    }
    Ok(())
}

/// A socket bound to `path`.
pub(super) fn bind(path: &Path) -> Result<(UnixDatagram, Name), LinkError> {
    check(path)?;
    let failed = |source| LinkError::Bind { path: path.to_owned(), source };
    // Held while a stale file is examined and replaced, so that of two processes that find it, one wins. Where the
    // folder can't be opened, binding will say why.
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let lock = fs::File::open(folder).ok();
    if let Some(lock) = &lock {
        let _ = flock(lock, FlockOperation::LockExclusive);
    }
    let socket = match UnixDatagram::bind(path) {
        Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
            let meta = fs::symlink_metadata(path).map_err(failed)?;
            if !meta.file_type().is_socket() {
                return Err(LinkError::NotASocket { path: path.to_owned() });
            }
            let probe = UnixDatagram::unbound().map_err(failed)?;
            match probe.connect(path) {
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {}
                _ => return Err(LinkError::InUse { path: path.to_owned() }),
            }
            fs::remove_file(path).map_err(failed)?;
            UnixDatagram::bind(path).map_err(failed)?
        }
        other => other.map_err(failed)?,
    };
    drop(lock);
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let name = Name { identity: identity(&absolute), path: absolute };
    socket.set_nonblocking(true).map_err(failed)?;
    Ok((socket, name))
}
