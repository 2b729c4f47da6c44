//! A socket's name in the file system: taken over from the dead, refused to the living, removed at the end.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use crate::error::LinkError;

/// Longest path of a socket, bytes, without the terminating zero.
const MAX_PATH: usize = 107;

/// A bound socket's file; removed when this is dropped, unless somebody has replaced it.
#[derive(Debug)]
pub(crate) struct Name {
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
pub(crate) fn check(path: &Path) -> Result<(), LinkError> {
    let len = path.as_os_str().len();
    if len == 0 {
        return Err(LinkError::NoPath);
    }
    if len > MAX_PATH {
        return Err(LinkError::PathTooLong { path: path.to_owned(), len, max: MAX_PATH });
    }
    Ok(())
}

/// A socket of type `kind` bound to `path`, that does not block.
pub(crate) fn bind(path: &Path, kind: SocketType) -> Result<(OwnedFd, Name), LinkError> {
    check(path)?;
    let failed = |source: io::Error| LinkError::Bind { path: path.to_owned(), source };
    let address = SocketAddrUnix::new(path).map_err(|e| failed(e.into()))?;
    let new = || {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        socket_with(AddressFamily::UNIX, kind, flags, None).map_err(|e| failed(e.into()))
    };
    // Held while a stale file is examined and replaced, so that of two processes that find it, one wins. Where the
    // folder can't be opened, binding will say why.
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let lock = fs::File::open(folder).ok();
    if let Some(lock) = &lock {
        let _ = flock(lock, FlockOperation::LockExclusive);
    }
    let socket = new()?;
    match net::bind(&socket, &address) {
        Err(Errno::ADDRINUSE) => {
            let meta = fs::symlink_metadata(path).map_err(failed)?;
            if !meta.file_type().is_socket() {
                return Err(LinkError::NotASocket { path: path.to_owned() });
            }
            match net::connect(new()?, &address) {
                Err(Errno::CONNREFUSED) => {}
                _ => return Err(LinkError::InUse { path: path.to_owned() }),
            }
            fs::remove_file(path).map_err(failed)?;
            net::bind(&socket, &address).map_err(|e| failed(e.into()))?;
        }
        other => other.map_err(|e| failed(e.into()))?,
    }
    drop(lock);
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let name = Name { identity: identity(&absolute), path: absolute };
    Ok((socket, name))
}
