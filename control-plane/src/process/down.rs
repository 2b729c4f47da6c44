//! Ends a system, whatever state it is in.

use super::lock::{Held, Lock};
use super::netns::{self, NetnsError};
use super::place::{Place, PlaceError};
use crate::cli::client;
use crate::controller::proto;
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// How long processes may take to end, and a controller without flows to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long each flow may take longer to be deleted.
const PER_FLOW: Duration = Duration::from_millis(20);
/// From how many on it is told that there are flows to delete: it will take a second.
const MANY: u32 = 500;
const PAUSE: Duration = Duration::from_millis(10);

/// How to end a system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Down {
    /// The caller holds the system's lock.
    pub already_locked: bool,
    /// Don't ask the controller to delete the flows first.
    pub quick: bool,
}

/// Why a system could not be ended whole.
#[derive(Debug, thiserror::Error)]
pub enum DownError {
    /// Its folder.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Its network namespaces.
    #[error(transparent)]
    Netns(#[from] NetnsError),
}

/// Ends the system at `place`: its flows are deleted, its processes ended, its folder removed. Processes that do not end
/// are killed. `tell` hears of what is done.
///
/// # Errors
/// When somebody else starts or ends it, or its folder or its network namespaces can't be removed.
pub fn down(place: &Place, how: &Down, tell: &dyn Fn(&str)) -> Result<(), DownError> {
    let busy = place.busy();
    let _busy = match how.already_locked {
        true => None,
        false => Some(Lock::take(&busy).map_err(|source| PlaceError::Io { path: busy.clone(), source })?),
    };
    let alive = |process: &str| match Lock::holder(&place.pid(process)) {
        Held::By(pid) => Some(pid),
        Held::Nobody => None,
    };
    if !how.quick && alive("controller").is_some() {
        let asked = client::Session::open(place).and_then(|session| {
            let list = session.call(|mut c| async move { c.list_flows(proto::ListFlowsRequest {}).await })?;
            let flows = list.flows.len() as u32;
            if flows >= MANY {
                tell(&format!("deleting {flows} flows"));
            }
            session.call_within(PATIENCE + PER_FLOW * flows, |mut c| async move {
                c.shutdown(proto::ShutdownRequest {}).await
            })
        });
        if let Err(e) = asked {
            tell(&format!("the controller did not end in good order: {e}"));
        }
    }
    // The controller first: it must not take the others' end for a failure.
    let mut processes = place.processes();
    processes.sort_by_key(|p| (p != "controller", p == "switch"));
    for process in processes {
        let Some(pid) = alive(&process) else { continue };
        signal(pid, Signal::TERM);
        if !gone(&alive, &process) {
            tell(&format!("the {process} (process {pid}) does not end; it is killed"));
            signal(pid, Signal::KILL);
            gone(&alive, &process);
        }
    }
    netns::remove(place)?;
    place.remove()?;
    let _ = std::fs::remove_file(busy);
    Ok(())
}

fn signal(pid: u32, signal: Signal) {
    // The lock said that the process lives; if it has ended since, there is nobody to tell.
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

fn gone(alive: &impl Fn(&str) -> Option<u32>, process: &str) -> bool {
    let begun = Instant::now();
    while alive(process).is_some() {
        if begun.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
    true
}
