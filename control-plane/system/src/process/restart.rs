//! Ends one process of a running system and starts it anew, as it was started.

use super::launch::Launch;
use super::layout::read_layout;
use super::log::Log;
use super::roles::Role;
use super::signals::{alive, end};
use super::up::UpError;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use zsr::{Place, PlaceError};
use zsr_topology::{Diagnostics, Topology};

/// The arguments with which a process was started. Each process writes them down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {
    role: Role,
    topology: PathBuf,
    artifacts: Option<PathBuf>,
    /// Recipes of earlier versions have none.
    #[serde(default)]
    log: Log,
    /// The unit of systemd that the process is the main one of.
    #[serde(default)]
    unit: Option<String>,
    /// Whether the unit is a user's, and not the machine's. Recipes of earlier versions do not say.
    #[serde(default)]
    of_user: bool,
}

/// The reason why a process could not be restarted.
#[derive(Debug, thiserror::Error)]
pub enum RestartError {
    /// The system's folder, or another command that starts or ends the system.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// No such process.
    #[error("system `{system}` has no process `{process}` that was started here: there are {}", .known.join(", "))]
    Unknown {
        /// The system.
        system: String,
        /// The process asked for.
        process: String,
        /// Processes that exist.
        known: Vec<String>,
    },
    /// The process belongs to systemd, which would not know the one that takes its place.
    #[error("{process} of system `{system}` runs as {unit}: {command} {unit}")]
    Service {
        /// The system.
        system: String,
        /// The process.
        process: String,
        /// The process's unit.
        unit: String,
        /// The command that restarts a unit, without the name of the unit.
        command: &'static str,
    },
    /// The topology is not sound any more; the process still runs.
    #[error("{0}")]
    Topology(Diagnostics),
    /// The topology can't be laid out any more; the process still runs.
    #[error("{0}")]
    Layout(String),
    /// The process does not come up.
    #[error(transparent)]
    Up(#[from] UpError),
}

impl Recipe {
    /// The recipe of a process in `role`.
    pub(super) fn new(role: &Role, topology: &Topology, artifacts: Option<&Path>, log: &Log) -> Self {
        let whole = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let (topology, artifacts) = (whole(&topology.file), artifacts.map(whole));
        // systemd puts the number of the process that it starts into this variable. Before systemd 248 only units of Type=notify are
        // known, by their socket (see `Launch`).
        let said = std::env::var("SYSTEMD_EXEC_PID").is_ok_and(|pid| pid == std::process::id().to_string());
        let is_main = said || std::env::var_os("NOTIFY_SOCKET").is_some();
        let cgroup = is_main.then(|| std::fs::read_to_string("/proc/self/cgroup").ok()).flatten();
        let (unit, of_user) = cgroup.as_deref().and_then(unit_of).unzip();
        let of_user = of_user.unwrap_or_default();
        Recipe { role: role.clone(), topology, artifacts, log: log.clone(), unit, of_user }
    }

    /// Writes the recipe down.
    pub(super) fn write(&self, place: &Place) -> std::io::Result<()> {
        std::fs::write(place.recipe(&self.role.process()), serde_json::to_vec(self)?)
    }

    /// The recipe of `process` of the system at `place`.
    ///
    /// # Errors
    /// [`RestartError::Unknown`].
    pub fn of(place: &Place, process: &str) -> Result<Self, RestartError> {
        let known = place.processes();
        let text = known.iter().any(|k| k == process).then(|| std::fs::read(place.recipe(process)).ok());
        let recipe = text.flatten().and_then(|text| serde_json::from_slice(&text).ok());
        let unknown =
            || RestartError::Unknown { system: place.name().to_owned(), process: process.to_owned(), known };
        recipe.ok_or_else(unknown)
    }

    /// Refuses to restart a process that is systemd's.
    ///
    /// # Errors
    /// [`RestartError::Service`].
    pub fn is_own(&self, place: &Place) -> Result<(), RestartError> {
        let Some(unit) = self.unit.clone() else { return Ok(()) };
        let command = if self.of_user { "systemctl --user restart" } else { "systemctl restart" };
        let (system, process) = (place.name().to_owned(), self.role.process());
        Err(RestartError::Service { system, process, unit, command })
    }

    /// The role of the recipe's process.
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// The recipe's topology, laid out as the system's.
    ///
    /// # Errors
    /// The file has become unsound.
    pub fn topology(&self, place: &Place) -> Result<Topology, RestartError> {
        let mut topology = Topology::load(&self.topology).map_err(RestartError::Topology)?;
        if let Some(layout) = read_layout(place)? {
            topology.lay_out(&layout).map_err(RestartError::Layout)?;
        }
        Ok(topology)
    }

    /// Ends the process, if it lives, and starts it again; `topology` comes from [`topology`](Self::topology).
    ///
    /// # Errors
    /// Another command starts or ends the system at this moment; the process does not come up again.
    pub fn restart(
        &self,
        place: &Place,
        topology: &Topology,
        tell: &dyn Fn(&str),
    ) -> Result<(), RestartError> {
        let _busy = place.take_busy()?;
        let process = self.role.process();
        if let Some(pid) = alive(place, &process) {
            tell(&format!("ending {process} (process {pid})"));
            end(place, &process, tell);
        }
        tell(&format!("starting {process}"));
        let netns = read_layout(place)?.is_some_and(|layout| layout.netns);
        let (artifacts, interrupted) = (self.artifacts.as_deref(), &AtomicBool::new(false));
        Ok(Launch { place, topology, netns, artifacts, log: &self.log, interrupted }.start(&self.role)?)
    }
}

/// The unit of systemd in the text of a `/proc/PID/cgroup`, and whether it is a user's.
fn unit_of(cgroup: &str) -> Option<(String, bool)> {
    let (path, name) = cgroup
        .lines()
        .filter_map(|line| line.rsplit_once('/'))
        .find(|(_, name)| name.ends_with(".service"))?;
    // A user's units lie below the unit of the systemd that runs them.
    Some((name.to_owned(), path.contains("/user@")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_of_a_process_is_that_of_its_cgroup() {
        let unit = |name: &str, of_user| Some((name.to_owned(), of_user));
        let agent = "0::/system.slice/system-zsr\\x2dagent.slice/zsr-agent@h1.service\n";
        assert_eq!(unit_of(agent), unit("zsr-agent@h1.service", false));
        let old = "12:cpu:/\n1:name=systemd:/system.slice/zsr-controller.service\n0::/\n";
        assert_eq!(unit_of(old), unit("zsr-controller.service", false));
        let own = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/lab.service\n";
        assert_eq!(unit_of(own), unit("lab.service", true));
        for none in ["0::/user.slice/user-0.slice/session-3.scope\n", "0::/\n", ""] {
            assert_eq!(unit_of(none), None);
        }
    }
}
