//! The system that queries run on, and signals.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tokio::signal::unix::{Signal, SignalKind, signal};
use zsr::{Contact, Place, Session};

use crate::serve::ServeArgs;

/// A system that is up.
pub(crate) struct System {
    pub(crate) contact: Contact,
    zsr: PathBuf,
    /// Its name, if it was brought up here.
    ours: Option<String>,
}

impl System {
    /// The system of the controller that `args` name, or the system `name` on this machine, brought up from `topology` unless it is up.
    pub(crate) fn up(topology: &Path, name: &str, args: &ServeArgs) -> Result<Self, String> {
        let zsr = command();
        if let Some(controller) = &args.controller {
            let contact = Contact::find(Some(controller), args.certificate.as_deref(), None);
            let contact = contact.map_err(|e| e.to_string())?;
            Session::open(contact.clone()).map_err(|e| e.to_string())?;
            return Ok(System { contact, zsr, ours: None });
        }
        if let Ok(place) = Place::find(Some(name))
            && Session::open(&place).is_ok()
        {
            return Ok(System { contact: Contact::from(&place), zsr, ours: None });
        }
        run(Command::new(&zsr).arg("up").arg(topology).arg("--no-flows"))?;
        let place = Place::find(Some(name)).map_err(|e| e.to_string())?;
        Ok(System { contact: Contact::from(&place), zsr, ours: Some(place.name().to_owned()) })
    }

    /// Takes it down, if it was brought up here.
    pub(crate) fn down(&self) -> Result<(), String> {
        match &self.ours {
            Some(name) => run(Command::new(&self.zsr).args(["down", name])),
            None => Ok(()),
        }
    }
}

/// The `zsr` that has started this, that beside it, or that on PATH.
fn command() -> PathBuf {
    if let Some(path) = std::env::var_os("ZSR_COMMAND") {
        return path.into();
    }
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("zsr"));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| "zsr".into())
}

/// What it has to say goes to standard error. It is no part of this program's group: Ctrl-C does not end it half-way.
fn run(command: &mut Command) -> Result<(), String> {
    use std::os::unix::process::CommandExt;
    let named = command.get_program().to_owned();
    let done = command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).status();
    let status =
        done.map_err(|e| format!("{}: {e}; build it with: cargo build --bin zsr", named.display()))?;
    let shown: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy()).collect();
    if status.success() { Ok(()) } else { Err(format!("zsr {}: {status}", shown.join(" "))) }
}

/// SIGINT and SIGTERM.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// From now on signals do not end the program. To be called in a runtime.
    pub(crate) fn catch() -> Result<Self, String> {
        let of = |kind| signal(kind).map_err(|e| format!("catching signals: {e}"));
        Ok(Signals { interrupt: of(SignalKind::interrupt())?, terminate: of(SignalKind::terminate())? })
    }

    /// Waits for one.
    pub(crate) async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
