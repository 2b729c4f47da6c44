//! Notices agents that end: their NIC ends with them, so that nothing would come to their rings any more. One thread per process
//! waits for the end of all connections to agents; rings whose agent has ended are aborted.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use zsr_ring::Ring;

/// How many ends are taken at once.
const AT_ONCE: usize = 16;

struct Watch {
    ends: OwnedFd,
    rings: Mutex<HashMap<u64, Weak<Ring>>>,
}

/// None: the system has no room for it, and ends are noticed by whoever asks the controller.
static WATCH: OnceLock<Option<Watch>> = OnceLock::new();
static NEXT: AtomicU64 = AtomicU64::new(1);

/// A number for a connection to an agent.
pub(super) fn number() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Aborts `ring` when the connection `number` ends from the other side.
pub(super) fn watch(number: u64, agent: impl AsFd, ring: Weak<Ring>) {
    let Some(watch) = WATCH.get_or_init(start) else { return };
    watch.rings().insert(number, ring);
    let ends = EventFlags::RDHUP | EventFlags::ONESHOT;
    if epoll::add(&watch.ends, agent, EventData::new_u64(number), ends).is_err() {
        watch.rings().remove(&number);
    }
}

/// The connection is about to be closed from this side.
pub(super) fn forget(number: u64, agent: impl AsFd) {
    let Some(Some(watch)) = WATCH.get() else { return };
    watch.rings().remove(&number);
    // A doorbell may hold a copy of it. One that was not watched is not forgotten either.
    let _ = epoll::delete(&watch.ends, agent);
}

fn start() -> Option<Watch> {
    let ends = epoll::create(CreateFlags::CLOEXEC).ok()?;
    let waited = ends.try_clone().ok()?;
    let thread = std::thread::Builder::new().name("zsr-lease".to_owned());
    thread.spawn(move || listen(&waited)).ok()?;
    Some(Watch { ends, rings: Mutex::default() })
}

fn listen(ends: &OwnedFd) {
    let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; AT_ONCE];
    loop {
        let count = match epoll::wait(ends, &mut events[..], None) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        };
        // It is there: something was added to it.
        let Some(watch) = WATCH.wait() else { return };
        for event in &events[..count] {
            let ring = watch.rings().remove(&event.data.u64());
            if let Some(ring) = ring.and_then(|ring| ring.upgrade()) {
                ring.abort("its agent has ended");
            }
        }
    }
}

impl Watch {
    fn rings(&self) -> MutexGuard<'_, HashMap<u64, Weak<Ring>>> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
