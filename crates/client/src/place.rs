//! Where a running system keeps its sockets, pid files and logs: a folder of its own, which nobody else can enter.

use super::lock::Lock;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The longest path of a UNIX socket on Linux, without its final zero.
const LONGEST_SOCKET: usize = 107;

/// What is wrong with the folder of a system, or of all of them.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Somebody else could put files there.
    #[error("{} is not a folder of this user's alone: remove it, or set XDG_RUNTIME_DIR", path.display())]
    NotOurs {
        /// The folder.
        path: PathBuf,
    },
    /// Sockets would have names that are too long.
    #[error("{} is too long for a socket's path of at most {LONGEST_SOCKET} bytes: set XDG_RUNTIME_DIR to a shorter one", path.display())]
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// The name is not one of a folder.
    #[error(
        "`{}` can't be the name of a system: expected letters, digits and such, no `/`, and no `.` at its beginning", name.escape_debug()
    )]
    Name {
        /// The name.
        name: String,
    },
    /// A controller on another machine, and nothing to show it.
    #[error(
        "{address} is on another machine, so it takes a certificate: name one (--certificate FOLDER/NAME.pem, its key and ca.pem beside it; `zsr ca` makes \
         them), or reach the controller through a tunnel that ends on this machine"
    )]
    NoCertificate {
        /// `HOST:PORT`.
        address: String,
    },
    /// Another command starts or ends it, or one of its processes.
    #[error("system `{name}` is being started or ended by another command: {source}")]
    Busy {
        /// The system's name.
        name: String,
        /// Who has the lock.
        source: io::Error,
    },
    /// No system was named, and there is not exactly one.
    #[error("{}", which(names))]
    Which {
        /// Those that are up.
        names: Vec<String>,
    },
    /// No such system.
    #[error("no system `{name}` is up; start it with: zsr up TOPOLOGY")]
    NotUp {
        /// The system's name.
        name: String,
    },
}

fn which(names: &[String]) -> String {
    match names {
        [] => "no system is up; start one with: zsr up TOPOLOGY".into(),
        names => format!("several systems are up; choose one with --system: {}", names.join(", ")),
    }
}

/// The folder of one system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    name: String,
    folder: PathBuf,
}

/// The folder of all systems of this user. A relative XDG_RUNTIME_DIR counts as none (XDG Base Directory Specification).
fn root() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(dir) if Path::new(&dir).is_absolute() => Path::new(&dir).join("zsr"),
        _ => PathBuf::from(format!("/tmp/zsr-{}", rustix::process::getuid().as_raw())),
    }
}

fn io_at(path: &Path) -> impl FnOnce(io::Error) -> PlaceError + '_ {
    move |source| PlaceError::Io { path: path.to_owned(), source }
}

/// The name of a file of switch number `switch`; the first one's has no number.
fn numbered(name: &str, switch: usize) -> String {
    if switch == 0 { name.to_owned() } else { format!("{name}-{switch}") }
}

/// Makes a folder for this user alone, or makes sure that it is one.
fn private(path: &Path) -> Result<(), PlaceError> {
    match std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path) {
        Ok(()) => {}
        Err(e) => return Err(io_at(path)(e)),
    }
    let found = std::fs::symlink_metadata(path).map_err(io_at(path))?;
    let ours = found.uid() == rustix::process::getuid().as_raw() && found.mode() & 0o077 == 0;
    if found.is_dir() && ours { Ok(()) } else { Err(PlaceError::NotOurs { path: path.to_owned() }) }
}

impl Place {
    /// The folder of system `name`, made if it is not there.
    ///
    /// # Errors
    /// When the name can't be one of a folder, or the folder cannot be made, is not this user's alone, or is too deep for sockets.
    pub fn make(name: &str) -> Result<Self, PlaceError> {
        if name.is_empty() || name.starts_with('.') || name.contains(|c: char| c == '/' || c.is_control()) {
            return Err(PlaceError::Name { name: name.to_owned() });
        }
        let root = root();
        private(&root)?;
        let place = Place { name: name.to_owned(), folder: root.join(name) };
        // The longest name that is made below: two ends of a link of the longest host name.
        let longest = place.folder.join("n".repeat(24));
        if longest.as_os_str().len() > LONGEST_SOCKET {
            return Err(PlaceError::TooLong { path: longest });
        }
        private(&place.folder)?;
        Ok(place)
    }

    /// The folder of system `name`, or of the only one that is there.
    ///
    /// # Errors
    /// [`PlaceError::NotUp`], [`PlaceError::Which`].
    pub fn find(name: Option<&str>) -> Result<Self, PlaceError> {
        let names = Self::all();
        match name {
            Some(name) if names.iter().any(|n| n == name) => {
                Ok(Place { name: name.to_owned(), folder: root().join(name) })
            }
            Some(name) => Err(PlaceError::NotUp { name: name.to_owned() }),
            None => match names.as_slice() {
                [one] => Ok(Place { name: one.clone(), folder: root().join(one) }),
                _ => Err(PlaceError::Which { names }),
            },
        }
    }

    /// The system whose folder is `folder`, wherever that is.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        let folder = folder.into();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Place { name, folder }
    }

    /// Names of all systems that have a folder, in order.
    pub fn all() -> Vec<String> {
        let found = std::fs::read_dir(root()).into_iter().flatten().flatten();
        let folders = found.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
        let mut names: Vec<String> = folders.filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// The system's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The socket of the controller's service.
    pub fn controller(&self) -> PathBuf {
        self.folder.join("controller")
    }

    /// The file with the address where the controller listens for programs on other machines, if it does.
    pub fn controller_address(&self) -> PathBuf {
        self.folder.join("controller-address")
    }

    /// The controller's store.
    pub fn journal(&self) -> PathBuf {
        self.folder.join("journal")
    }

    /// The file with the address of the P4Runtime server of switch number `switch`.
    pub fn p4runtime(&self, switch: usize) -> PathBuf {
        self.folder.join(numbered("p4runtime", switch))
    }

    /// The socket of that server, unless it listens at an address.
    pub fn p4runtime_socket(&self, switch: usize) -> PathBuf {
        self.folder.join(format!("{}.sock", numbered("p4runtime", switch)))
    }

    /// The socket of the packet stream of a bmv2 that the system has started.
    pub fn packets_socket(&self) -> PathBuf {
        self.folder.join("packets.sock")
    }

    /// The socket of the service of the agent of host number `host`.
    pub fn agent(&self, host: usize) -> PathBuf {
        self.folder.join(format!("agent-{host}"))
    }

    /// The socket for programs that attach to rings of host number `host`.
    pub fn programs(&self, host: usize) -> PathBuf {
        self.folder.join(format!("programs-{host}"))
    }

    /// The socket at which the switch and the host of link number `link` meet.
    pub fn link(&self, link: usize) -> PathBuf {
        self.folder.join(format!("link-{link}"))
    }

    /// Names of network namespaces that are the system's.
    pub fn netns_file(&self) -> PathBuf {
        self.folder.join("netns")
    }

    /// What the system was told beside its topology, for all of its processes.
    pub fn layout_file(&self) -> PathBuf {
        self.folder.join("layout")
    }

    /// The socket at which the agent of host number `host` lets its links be captured.
    pub fn captures(&self, host: usize) -> PathBuf {
        self.folder.join(format!("captures-{host}"))
    }

    /// The socket at which what passes the links of switch number `switch` can be watched.
    pub fn captures_at_switch(&self, switch: usize) -> PathBuf {
        self.folder.join(numbered("captures-switch", switch))
    }

    /// Sockets of all processes that let links be captured.
    pub fn all_captures(&self) -> Vec<PathBuf> {
        let found = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let ours = found.filter(|e| e.file_name().as_encoded_bytes().starts_with(b"captures-"));
        let mut sockets: Vec<_> = ours.map(|e| e.path()).collect();
        sockets.sort();
        sockets
    }

    /// The pid file of a process, which it holds locked as long as it lives.
    pub fn pid(&self, process: &str) -> PathBuf {
        self.folder.join(format!("{process}.pid"))
    }

    /// What it takes to start a process again.
    pub fn recipe(&self, process: &str) -> PathBuf {
        self.folder.join(format!("{process}.recipe"))
    }

    /// What a process has to say.
    pub fn log(&self, process: &str) -> PathBuf {
        self.folder.join(format!("{process}.log"))
    }

    /// The lock of whoever starts or ends the system.
    pub fn busy(&self) -> PathBuf {
        // Not the extension replaced: `a.1` and `a.2` are two systems.
        self.folder.with_file_name(format!("{}.lock", self.name))
    }

    /// Takes that lock. A disk without room is no reason not to end a system.
    ///
    /// # Errors
    /// [`PlaceError::Busy`], and what the system says.
    pub fn take_busy(&self) -> Result<Lock, PlaceError> {
        let path = self.busy();
        Lock::take_unnoted(&path).map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => PlaceError::Busy { name: self.name.clone(), source },
            _ => PlaceError::Io { path, source },
        })
    }

    /// Names of processes that have a pid file, in order.
    pub fn processes(&self) -> Vec<String> {
        let found = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let names = found.filter_map(|e| e.file_name().into_string().ok());
        let mut names: Vec<String> =
            names.filter_map(|n| n.strip_suffix(".pid").map(str::to_owned)).collect();
        names.sort();
        names
    }

    /// Removes the folder with all that is in it.
    ///
    /// # Errors
    /// What the system says.
    pub fn remove(&self) -> Result<(), PlaceError> {
        match std::fs::remove_dir_all(&self.folder) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(io_at(&self.folder)(e)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_has_a_lock_of_its_own() {
        let root = tempfile::tempdir().unwrap();
        let place = |name: &str| Place { name: name.into(), folder: root.path().join(name) };
        let (one, two) = (place("a.1"), place("a.2"));
        let lock = one.take_busy().unwrap();
        assert!(two.take_busy().is_ok());
        let said = one.take_busy().unwrap_err().to_string();
        assert!(said.starts_with("system `a.1` is being started or ended by another command"), "{said}");
        drop(lock);
        assert!(one.take_busy().is_ok());
    }
}
