//! Leave for programs to attach: the controller, which knows who they are, gives it to them and says so here.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How long a pass is good.
const GOOD: Duration = Duration::from_secs(60);
/// Passes that one ring has at most: the oldest is forgotten for another one.
const MOST: usize = 16;

/// A pass, and until when it is good.
type Given = (Vec<u8>, Instant);
/// Passes by the ring's number.
type ByRing = BTreeMap<u64, Vec<Given>>;

/// Passes that were given and not used.
#[derive(Default)]
pub(super) struct Passes {
    /// Nobody attaches without one.
    asked_for: AtomicBool,
    given: Mutex<ByRing>,
}

impl Passes {
    /// From now on nobody attaches without one.
    pub(super) fn ask_for(&self) {
        self.asked_for.store(true, Ordering::Relaxed);
    }

    /// Lets a program that shows `pass` attach to a ring, once.
    pub(super) fn give(&self, ring: u64, pass: Vec<u8>) {
        let (mut given, now) = (self.lock(), Instant::now());
        given.retain(|_, passes| {
            passes.retain(|(_, until)| *until > now);
            !passes.is_empty()
        });
        let passes = given.entry(ring).or_default();
        if passes.len() == MOST {
            passes.remove(0);
        }
        passes.push((pass, now + GOOD));
    }

    /// Whether who shows `pass` may attach to a ring.
    pub(super) fn fits(&self, ring: u64, pass: &[u8]) -> bool {
        !self.asked_for.load(Ordering::Relaxed)
            || self.lock().get(&ring).is_some_and(|passes| passes.iter().any(|given| is(given, pass)))
    }

    /// Somebody has attached by `pass`, and nobody else does.
    pub(super) fn used(&self, ring: u64, pass: &[u8]) {
        if let Some(passes) = self.lock().get_mut(&ring) {
            passes.retain(|given| !is(given, pass));
        }
    }

    fn lock(&self) -> MutexGuard<'_, ByRing> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether it is that pass, and still good. The time that it takes says nothing of where they differ.
fn is((given, until): &Given, pass: &[u8]) -> bool {
    let differ = given.iter().zip(pass).fold(0, |all, (a, b)| all | a ^ b);
    given.len() == pass.len() && differ == 0 && *until > Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pass_is_good_for_its_ring_once_and_for_a_minute() {
        let passes = Passes::default();
        assert!(passes.fits(1, b""), "nobody asks for one");
        passes.ask_for();
        assert!(!passes.fits(1, b"") && !passes.fits(1, b"one"));
        passes.give(1, b"one".to_vec());
        passes.give(1, b"two".to_vec());
        let fit = |ring| [b"one", b"two", b"six"].map(|pass| passes.fits(ring, pass));
        assert_eq!((fit(1), fit(2)), ([true, true, false], [false; 3]));
        assert!(!passes.fits(1, b"") && !passes.fits(1, b"on") && !passes.fits(1, b"one more"));
        passes.used(1, b"one");
        assert_eq!(fit(1), [false, true, false]);
        tokio::time::advance(GOOD).await;
        assert_eq!(fit(1), [false; 3]);
        // Passes that are never used do not pile up.
        for n in 0..=MOST as u8 {
            passes.give(1, vec![n]);
        }
        assert!(!passes.fits(1, &[0]) && passes.fits(1, &[1]) && passes.fits(1, &[MOST as u8]));
    }
}
