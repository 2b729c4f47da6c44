//! Other processes of the system, by their numbers.

use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};
use zsr::{
    Place,
    lock::{Holder, Lock},
};

/// How long processes may take to end.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);

/// The number of a process of the system, if it lives.
pub(super) fn alive(place: &Place, process: &str) -> Option<u32> {
    match Lock::holder(&place.pid(process)) {
        Holder::Process(pid) => Some(pid),
        Holder::Nobody => None,
    }
}

/// Ends a process of the system; a process that does not end is killed, and `tell` reports that.
pub(super) fn end(place: &Place, process: &str, tell: &dyn Fn(&str)) {
    let Some(pid) = alive(place, process) else { return };
    signal(pid, Signal::TERM);
    // A process that is stopped sees the other signal when it goes on.
    signal(pid, Signal::CONT);
    if !gone(place, process) {
        tell(&format!("the {process} (process {pid}) does not end; it is killed"));
        signal(pid, Signal::KILL);
        gone(place, process);
    }
}

fn signal(pid: u32, signal: Signal) {
    // The lock shows that the process lives; if it has ended since, nobody needs the signal.
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

fn gone(place: &Place, process: &str) -> bool {
    let begun = Instant::now();
    while alive(place, process).is_some() {
        if begun.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
    true
}
