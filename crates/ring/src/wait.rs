//! Waiting for the other side without burning the core that it may need.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A token that ends every blocking ring operation that was given a clone of it.
///
/// Waiters that have gone to sleep are woken at once.
#[derive(Clone, Default)]
pub struct Cancel(Arc<Inner>);

#[derive(Default)]
struct Inner {
    triggered: AtomicBool,
    lock: Mutex<()>,
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
        let _guard = self.0.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.triggered.store(true, Ordering::Release);
        self.0.wake.notify_all();
    }

    /// Whether [`cancel`](Self::cancel) was called.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.0.triggered.load(Ordering::Acquire)
    }

    /// Sleeps for `time`, or until the token is triggered. Says whether it is.
    pub fn sleep(&self, time: Duration) -> bool {
        let guard = self.0.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_cancelled() {
            drop(self.0.wake.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner));
        }
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
    /// `time` from now; a time beyond what the clock can count is for ever.
    pub(crate) fn after(time: Duration) -> Self {
        Instant::now().checked_add(time).map_or(Self::Never, Self::At)
    }
}

const SPIN_STEPS: u32 = 6;
const YIELD_STEPS: u32 = 24;
const FIRST_PARK: Duration = Duration::from_micros(10);
const LONGEST_PARK: Duration = Duration::from_micros(500);

/// One wait: a short spin (the other side is on another core and about to finish), then offers of the
/// core to whoever is runnable (the other side may be waiting for this very core), then sleeps that
/// double up to half a millisecond (nothing is happening).
pub(crate) struct Backoff {
    step: u32,
    park: Duration,
    deadline: Deadline,
}

impl Backoff {
    pub(crate) fn new(deadline: Deadline) -> Self {
        Self { step: 0, park: FIRST_PARK, deadline }
    }

    /// Waits a little longer than the last time.
    #[cfg(not(feature = "loom"))]
    pub(crate) fn wait(&mut self, cancel: &Cancel) -> Result<(), WaitEnd> {
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
        let mut park = self.park;
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
        self.park = (self.park * 2).min(LONGEST_PARK);
        if cancel.sleep(park) { Err(WaitEnd::Cancelled) } else { Ok(()) }
    }

    /// Under loom time does not pass: hand over to another thread of the model.
    #[cfg(feature = "loom")]
    pub(crate) fn wait(&mut self, cancel: &Cancel) -> Result<(), WaitEnd> {
        let _ = (self.step, self.park, SPIN_STEPS, YIELD_STEPS, LONGEST_PARK);
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
            if let Err(end) = backoff.wait(&cancel) {
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
        assert_eq!(Backoff::new(Deadline::Never).wait(&cancel), Err(WaitEnd::Cancelled));
    }
}
