//! Starts a process of a system in the background, and waits until it is ready.

use super::log::{self, Log};
use super::netns;
use super::roles::Role;
use super::up::UpError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use zsr::Place;
use zsr_topology::Topology;

/// How often a wait looks for signals.
const SIGNALS: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// With less room than this on its file system, a process can't even report an error.
const ROOM: u64 = 4096;

/// Arguments of processes that are started.
#[derive(Clone, Copy)]
pub struct Launch<'l> {
    /// The system.
    pub place: &'l Place,
    /// The topology, laid out.
    pub topology: &'l Topology,
    /// Whether every node is in a network namespace of its own.
    pub netns: bool,
    /// Folder with the compiled program, if not the built-in one.
    pub artifacts: Option<&'l Path>,
    /// How processes log.
    pub log: &'l Log,
    /// Turns true when the caller has changed their mind.
    pub interrupted: &'l AtomicBool,
}

/// A process that has not reported yet that it is ready. The process is ended when this value is dropped.
pub struct Started {
    process: String,
    child: Option<Child>,
    /// Bytes of the log that earlier processes have written.
    log: u64,
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // An error means that the process has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Launch<'_> {
    /// Starts a process of the system, detached from this terminal; its output is added to its log.
    pub(super) fn spawn(&self, role: &Role) -> Result<Started, UpError> {
        let process = role.process();
        let fail = |e: std::io::Error| UpError::Process { process: process.clone(), reason: e.to_string() };
        let file =
            OpenOptions::new().create(true).append(true).open(self.place.log(&process)).map_err(fail)?;
        let log = file.metadata().map_err(fail)?.len();
        let program = std::env::current_exe().map_err(fail)?;
        let mut command = match (self.netns, self.topology.switches.first()) {
            (true, Some(switch)) => {
                // The controller goes where the switch is.
                let node = match role {
                    Role::Agent { host, .. } => host,
                    Role::Switch | Role::Standby { .. } | Role::Controller => &switch.name,
                };
                let mut command = Command::new("ip");
                command.args(["netns", "exec", &netns::name(self.place.name(), node)]).arg(program);
                command
            }
            _ => Command::new(program),
        };
        command.args(self.arguments(role)).args(["--system", self.place.name(), "--ready"]);
        command.args(self.log.arguments());
        // It is not the main process of a unit, even if who starts it is.
        command.env_remove("NOTIFY_SOCKET");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(file);
        let child = command.spawn().map_err(fail)?;
        Ok(Started { process, child: Some(child), log })
    }

    fn arguments(&self, role: &Role) -> Vec<OsString> {
        let file = self.topology.file.clone().into_os_string();
        match role {
            Role::Switch => vec!["switch".into(), file],
            Role::Standby { name } => vec!["switch".into(), file, name.into()],
            Role::Agent { host, listen } => {
                let listen = listen.iter().flat_map(|at| ["--listen".into(), at.to_string().into()]);
                ["agent".into(), file, host.into()].into_iter().chain(listen).collect()
            }
            Role::Controller => {
                let folder =
                    self.artifacts.into_iter().flat_map(|folder| ["--artifacts".into(), folder.into()]);
                ["controller".into(), file].into_iter().chain(folder).collect()
            }
        }
    }

    /// Waits until a process reports that it is ready, or ends.
    pub(super) fn ready(&self, mut started: Started) -> Result<(), UpError> {
        let Some(child) = &mut started.child else { return Ok(()) };
        let mut said = Vec::new();
        let mut out = child.stdout.take();
        // The end of the process ends the pipe, too.
        while let Some(pipe) = &mut out
            && !said.contains(&b'\n')
        {
            if self.interrupted.load(Ordering::Relaxed) {
                return Err(UpError::Interrupted);
            }
            let mut readable = [PollFd::new(&*pipe, PollFlags::IN)];
            let ready = poll(&mut readable, Some(&SIGNALS)).unwrap_or(0);
            let mut part = [0; 64];
            match if ready == 0 { continue } else { pipe.read(&mut part) } {
                Ok(0) | Err(_) => out = None,
                Ok(n) => said.extend_from_slice(&part[..n]),
            }
        }
        if said.trim_ascii() == b"ready" {
            started.child = None;
            return Ok(());
        }
        let status = child.wait();
        let reason = last_words(self.place, &started.process, started.log).or_else(|| full(self.place));
        let reason =
            reason.unwrap_or_else(|| status.map_or_else(|e| e.to_string(), |s| format!("it ended with {s}")));
        Err(UpError::Process { process: started.process.clone(), reason })
    }

    /// Starts a process of the system in the background.
    ///
    /// # Errors
    /// [`UpError`], with the last words of the process.
    pub fn start(&self, role: &Role) -> Result<(), UpError> {
        self.ready(self.spawn(role)?)
    }
}

/// The last line of a process's log, behind its first `from` bytes.
pub(super) fn last_words(place: &Place, process: &str, from: u64) -> Option<String> {
    let mut text = String::new();
    let mut file = std::fs::File::open(place.log(process)).ok()?;
    file.seek(SeekFrom::Start(from)).ok()?;
    let _ = file.read_to_string(&mut text);
    let last = text.lines().rev().find(|l| !l.trim().is_empty())?;
    Some(log::message(last))
}

/// The reason why a log may be empty.
fn full(place: &Place) -> Option<String> {
    let folder = place.folder();
    let found = rustix::fs::statvfs(folder).ok()?;
    let left = found.f_bavail * found.f_frsize;
    (left < ROOM).then(|| {
        format!(
            "the file system of {} is full ({left} B are left): make room there, or set XDG_RUNTIME_DIR to a folder elsewhere",
            folder.display()
        )
    })
}
