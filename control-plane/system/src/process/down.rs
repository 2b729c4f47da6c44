//! Ends a system, whatever state it is in.

use super::netns::{self, NetnsError};
use super::signals::{PATIENCE, alive, end};
use std::time::Duration;
use zsr::{Place, PlaceError, Session, lock::is_stopped};
use zsr_api::controller as proto;

/// How long each flow may take longer to be deleted.
const PER_FLOW: Duration = Duration::from_millis(20);
/// Number of flows from which on the user is told: deleting them takes a second.
const MANY: u32 = 500;

/// The way to end a system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Down {
    /// The caller holds the system's lock.
    pub already_locked: bool,
    /// Don't ask the controller to delete the flows first.
    pub quick: bool,
}

/// The reason why a system could not be ended completely.
#[derive(Debug, thiserror::Error)]
pub enum DownError {
    /// The system's folder.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// The system's network namespaces.
    #[error(transparent)]
    Netns(#[from] NetnsError),
}

/// Ends the system at `place`: its flows are deleted, its processes ended, its folder removed. Processes that do not
/// end are killed. `tell` gets each step.
///
/// # Errors
/// When another command starts or ends the system, or its folder or its network namespaces can't be removed.
pub fn down(place: &Place, how: &Down, tell: &dyn Fn(&str)) -> Result<(), DownError> {
    let _busy = if how.already_locked { None } else { Some(place.take_busy()?) };
    let controller = alive(place, "controller").filter(|_| !how.quick);
    if controller.is_some_and(is_stopped) {
        tell("the controller is stopped: its flows are not deleted in good order");
    } else if controller.is_some() {
        let asked = Session::open(place).map(Session::telling).and_then(|session| {
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
    processes.sort_by_key(|p| (p != "controller", p.starts_with("switch")));
    for process in processes {
        end(place, &process, tell);
    }
    netns::remove(place)?;
    place.remove()?;
    let _ = std::fs::remove_file(place.busy());
    Ok(())
}
