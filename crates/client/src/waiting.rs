//! What a call to the controller waits for, said while it waits: changes under way, agents that do not answer, processes that are
//! stopped.

use crate::contact::Contact;
use crate::lock::{Holder, Lock, is_stopped};
use crate::session::Client;
use std::time::{Duration, Instant};
use zsr_api::controller as proto;

/// When it is said for the first time.
const TELL: Duration = Duration::from_secs(2);
/// Between two looks after that, and how long one may take.
const LOOK: Duration = Duration::from_secs(1);

/// Resolves when it is too late, with how long was waited and for whom: `time` is over, or, where there is none, the controller has
/// not said anything for `patience`. Meanwhile `tell` hears what is waited for, whenever that is news.
pub(crate) async fn until_late(
    client: &Client,
    contact: &Contact,
    time: Option<Duration>,
    patience: Duration,
    tell: Option<fn(&str)>,
) -> (Duration, String) {
    // Nobody listens: nothing is asked.
    if let (Some(time), None) = (time, tell) {
        tokio::time::sleep(time).await;
        return (time, controller(contact));
    }
    let begun = Instant::now();
    let (mut silent, mut told) = (TELL, String::new());
    let left = |silent: Duration| match time {
        Some(time) => time.saturating_sub(begun.elapsed()),
        None => patience.saturating_sub(silent),
    };
    tokio::time::sleep(TELL.min(left(Duration::ZERO))).await;
    loop {
        let asked = Instant::now();
        let mut client = client.clone();
        let system = client.get_system(proto::GetSystemRequest {});
        let mut waits_for = match tokio::time::timeout(LOOK.min(left(silent)), system).await {
            Ok(Ok(system)) => {
                silent = Duration::ZERO;
                named(system.get_ref())
            }
            // What has become of the controller is for the call itself to find out.
            Ok(Err(_)) | Err(_) => controller(contact),
        };
        for process in stopped(contact) {
            waits_for = format!("{waits_for}; {process}");
        }
        if waits_for != told {
            if let Some(tell) = tell {
                tell(&format!("waiting for {waits_for}"));
            }
            told.clone_from(&waits_for);
        }
        if left(silent).is_zero() {
            let seconds = begun.elapsed().as_secs_f64().round().max(1.0);
            return (Duration::from_secs_f64(seconds), told);
        }
        tokio::time::sleep(LOOK.min(left(silent))).await;
        // A machine that stands still for longer stops the controller, too.
        silent += asked.elapsed().min(2 * LOOK);
    }
}

/// Changes that are under way, else agents that do not answer, else the controller itself.
fn named(system: &proto::System) -> String {
    let change = |c: &proto::Pending| match c.waits_for.as_str() {
        "" => c.what.clone(),
        whom => format!("{whom} ({})", c.what),
    };
    let mut all: Vec<String> = system.pending.iter().map(change).collect();
    if all.is_empty() {
        all.clone_from(&system.unanswered);
    }
    let more = all.len().saturating_sub(3);
    all.truncate(3);
    match (all.is_empty(), more) {
        (true, _) => "the controller, which has much to do".to_owned(),
        (false, 0) => all.join("; "),
        (false, more) => format!("{}; and {more} more", all.join("; ")),
    }
}

/// The controller, which does not answer.
pub(crate) fn controller(contact: &Contact) -> String {
    let place = match contact {
        Contact::Place(place) => place,
        Contact::Address(address) | Contact::Secured { address, .. } => {
            return format!("the controller at {address}");
        }
    };
    match Lock::holder(&place.pid("controller")) {
        Holder::Process(pid) => format!("the controller of system `{}`, process {pid}", place.name()),
        Holder::Nobody => format!("the controller of system `{}`, which has died", place.name()),
    }
}

/// Processes of a system on this machine that somebody has stopped.
fn stopped(contact: &Contact) -> Vec<String> {
    let Contact::Place(place) = contact else { return Vec::new() };
    let held = |process: String| match Lock::holder(&place.pid(&process)) {
        Holder::Process(pid) if is_stopped(pid) => {
            Some(format!("{process} is stopped: kill -CONT {pid} lets it go on"))
        }
        _ => None,
    };
    place.processes().into_iter().filter_map(held).collect()
}
