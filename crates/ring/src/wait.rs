//! Waiting for the other side without burning the core that it may need.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::wake::Sleeper;

/// A token that ends every blocking ring operation that was given a clone of it.
///
/// Waiters that have gone to sleep are woken at once.
#[derive(Clone, Default)]
pub struct Cancel(Arc<Inner>);

#[derive(Default)]
struct Inner {
    triggered: AtomicBool,
    /// Where threads sleep, until a NIC wakes them.
    sleepers: Mutex<Vec<Sleeper>>,
    /// How often the list was changed or gone through.
    changes: AtomicU32,
    wake: Condvar,
}

impl Cancel {
    /// A token that nobody has triggered.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends all waits on this token, now and from now on.
    pub fn cancel(&self) {
        // Under the lock, so that a waiter is either before its check or already asleep.
        let sleepers = self.sleepers();
        self.0.triggered.store(true, Ordering::Release);
        self.0.wake.notify_all();
        // The lock keeps sleepers here, and so the memory that they sleep in, which must not be kept by this thread: a program that ends
        // would be gone before its ring is left.
        sleepers.iter().for_each(Sleeper::wake);
        self.changed();
    }

    /// The list is whole also behind a panic.
    fn sleepers(&self) -> MutexGuard<'_, Vec<Sleeper>> {
        let sleepers = self.0.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.changes.load(Ordering::Acquire);
        sleepers
    }

    /// Before the lock is given back: what was done under it is before what is done under it next. The lock itself says so, but
    /// ThreadSanitizer does not see all of the standard library's.
    fn changed(&self) {
        self.0.changes.fetch_add(1, Ordering::Release);
    }

    /// Whether [`cancel`](Self::cancel) was called.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.0.triggered.load(Ordering::Acquire)
    }

    /// Sleeps for `time`, or until the token is triggered. Says whether it is.
    pub fn sleep(&self, time: Duration) -> bool {
        let guard = self.sleepers();
        if !self.is_cancelled() {
            drop(self.0.wake.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner));
        }
        self.is_cancelled()
    }

    /// Sleeps at `places`, which have announced it, until one is woken, `time` is over or the token is triggered. Says whether it is.
    pub(crate) fn sleep_at(&self, places: &[Sleeper], time: Duration) -> bool {
        let mut sleepers = self.sleepers();
        if self.is_cancelled() {
            return true;
        }
        // One of them is enough to wake this thread.
        sleepers.push(places[0]);
        self.changed();
        drop(sleepers);
        Sleeper::sleep(places, time);
        let mut sleepers = self.sleepers();
        if let Some(own) = sleepers.iter().position(|at| *at == places[0]) {
            sleepers.swap_remove(own);
        }
        self.changed();
        self.is_cancelled()
    }
}

impl std::fmt::Debug for Cancel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Cancel").field(&self.is_cancelled()).finish()
    }
}

/// Why a wait ended without the thing waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    Cancelled,
    TimedOut,
}

/// When a wait has to end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Deadline {
    Never,
    At(Instant),
}

impl Deadline {
    /// At `end`, if there is one.
    pub(crate) fn of(end: Option<Instant>) -> Self {
        end.map_or(Self::Never, Self::At)
    }

    /// `time` from now; a time beyond what the clock can count is for ever.
    pub(crate) fn after(time: Duration) -> Self {
        Instant::now().checked_add(time).map_or(Self::Never, Self::At)
    }
}

/// Whether a time to wait until is over.
pub(crate) fn is_over(end: Option<Instant>) -> bool {
    end.is_some_and(|end| Instant::now() >= end)
}

const SPIN_STEPS: u32 = 6;
const YIELD_STEPS: u32 = 24;
const FIRST_PARK: Duration = Duration::from_micros(10);
const LONGEST_PARK: Duration = Duration::from_micros(500);
/// Of who is woken. Other reasons to go on are looked at so often.
const LONGEST_SLEEP: Duration = Duration::from_millis(5);

/// One wait: a short spin (the other side is on another core and about to finish), then offers of the
/// core to whoever is runnable (the other side may be waiting for this very core), then sleeps. Where nobody
/// wakes, they double up to half a millisecond (nothing is happening).
pub(crate) struct Backoff {
    step: u32,
    park: Duration,
    deadline: Deadline,
    has_announced: bool,
}

impl Backoff {
    pub(crate) fn new(deadline: Deadline) -> Self {
        Self { step: 0, park: FIRST_PARK, deadline, has_announced: false }
    }

    /// Waits a little longer than the last time, for somebody who wakes at `places` if there are some.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn wait(&mut self, cancel: &Cancel, places: &[Sleeper]) -> Result<(), WaitEnd> {
        if cancel.is_cancelled() {
            return Err(WaitEnd::Cancelled);
        }
        if self.step < SPIN_STEPS {
            for _ in 0..1 << self.step {
                std::hint::spin_loop();
            }
            self.step += 1;
            return Ok(());
        }
        let is_woken = !places.is_empty();
        let mut park = if is_woken { LONGEST_SLEEP } else { self.park };
        if let Deadline::At(end) = self.deadline {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(WaitEnd::TimedOut);
            }
            park = park.min(left);
        }
        if self.step < SPIN_STEPS + YIELD_STEPS {
            self.step += 1;
            std::thread::yield_now();
            return Ok(());
        }
        if is_woken {
            self.has_announced = !self.has_announced;
            if self.has_announced {
                // The caller looks once more.
                places.iter().for_each(Sleeper::announce);
                return Ok(());
            }
            return if cancel.sleep_at(places, park) { Err(WaitEnd::Cancelled) } else { Ok(()) };
        }
        self.park = (self.park * 2).min(LONGEST_PARK);
        if cancel.sleep(park) { Err(WaitEnd::Cancelled) } else { Ok(()) }
    }

    /// Under loom time does not pass: hand over to another thread of the model.
    #[cfg(feature = "loom")]
    pub(crate) fn wait(&mut self, cancel: &Cancel, _places: &[Sleeper]) -> Result<(), WaitEnd> {
        let _ =
            (self.step, self.park, self.has_announced, SPIN_STEPS, YIELD_STEPS, LONGEST_PARK, LONGEST_SLEEP);
        if cancel.is_cancelled() {
            return Err(WaitEnd::Cancelled);
        }
        if let Deadline::At(_) = self.deadline {
            return Err(WaitEnd::TimedOut);
        }
        loom::thread::yield_now();
        Ok(())
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_at_its_deadline_and_not_before() {
        let started = Instant::now();
        let mut backoff = Backoff::new(Deadline::after(Duration::from_millis(3)));
        let cancel = Cancel::new();
        let end = loop {
            if let Err(end) = backoff.wait(&cancel, &[]) {
                break end;
            }
        };
        assert_eq!(end, WaitEnd::TimedOut);
        assert!(started.elapsed() >= Duration::from_millis(3));
    }

    #[test]
    fn cancel_wakes_a_sleeper_for_good() {
        let cancel = Cancel::new();
        let other = cancel.clone();
        // Far longer than any test may take: only the token can end it.
        let sleeper = std::thread::spawn(move || other.sleep(Duration::from_secs(3600)));
        cancel.cancel();
        assert!(sleeper.join().expect("the sleeper"));
        assert!(cancel.sleep(Duration::from_secs(3600)));
        assert_eq!(Backoff::new(Deadline::Never).wait(&cancel, &[]), Err(WaitEnd::Cancelled));
    }
}
