//! Items of a ring that are lent to arrays: whoever drops the last array of an item gives it back, in whichever thread.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use crate::error::Error;
use crate::inlet::{Found, Inlet, Lying};

/// A ring, and what was given back to it while somebody else had it.
pub(crate) struct Shared<I: Inlet> {
    inlet: Mutex<I>,
    returned: Mutex<Vec<I::Held>>,
    has_returned: AtomicBool,
    alive: AtomicUsize,
}

impl<I: Inlet> Shared<I> {
    pub(crate) fn new(inlet: I) -> Arc<Self> {
        Arc::new(Shared {
            inlet: Mutex::new(inlet),
            returned: Mutex::default(),
            has_returned: AtomicBool::new(false),
            alive: AtomicUsize::new(0),
        })
    }

    /// How many items are lent.
    pub(crate) fn alive(&self) -> usize {
        self.alive.load(Ordering::Acquire)
    }

    /// Takes the next item, waiting for it until `is_over`; nothing is there then.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) fn take(self: &Arc<Self>, is_over: impl Fn() -> bool) -> Result<Found<Lent<I>>, Error> {
        loop {
            let found = {
                let mut inlet = self.inlet.lock().unwrap_or_else(PoisonError::into_inner);
                self.give_back_returned(&mut inlet);
                inlet.take(&|| self.has_returned.load(Ordering::Acquire) || is_over())
            };
            self.sweep();
            match found {
                Ok(Found::Some(held)) => {
                    self.alive.fetch_add(1, Ordering::AcqRel);
                    let lying = I::lying(&held);
                    return Ok(Found::Some(Lent { shared: self.clone(), lying, held: Some(held) }));
                }
                Ok(Found::Nothing) if is_over() => return Ok(Found::Nothing),
                Ok(Found::Nothing) => {}
                Ok(Found::End) => return Ok(Found::End),
                Err(e) => return Err(e),
            }
        }
    }

    /// Has something else done with the ring.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut I) -> T) -> T {
        let done = work(&mut self.inlet.lock().unwrap_or_else(PoisonError::into_inner));
        self.sweep();
        done
    }

    fn give_back_returned(&self, inlet: &mut I) {
        let mut returned = self.returned.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_returned.store(false, Ordering::Release);
        returned.drain(..).for_each(|held| inlet.give_back(&held));
    }

    /// Gives back what was returned. Whoever has the ring does it if it is not free: everybody calls this when he has had it.
    fn sweep(&self) {
        loop {
            // Either who has the ring sees what was returned, or this sees that the ring is free.
            fence(Ordering::SeqCst);
            if !self.has_returned.load(Ordering::Acquire) {
                return;
            }
            match self.inlet.try_lock() {
                Ok(mut inlet) => self.give_back_returned(&mut inlet),
                Err(TryLockError::Poisoned(inlet)) => self.give_back_returned(&mut inlet.into_inner()),
                Err(TryLockError::WouldBlock) => return,
            }
        }
    }
}

/// An item that is lent. Its bytes stay as they are until it is dropped.
pub(crate) struct Lent<I: Inlet> {
    shared: Arc<Shared<I>>,
    lying: Lying,
    /// There until it is dropped.
    held: Option<I::Held>,
}

// SAFETY: what `lying` and `held` point at is memory that nobody writes before `held` is given back, which takes the lock of the ring.
unsafe impl<I: Inlet> Send for Lent<I> {}
// SAFETY: as above; it is only read.
unsafe impl<I: Inlet> Sync for Lent<I> {}

impl<I: Inlet> Lent<I> {
    pub(crate) fn lying(&self) -> Lying {
        self.lying
    }
}

impl<I: Inlet> AsRef<[u8]> for Lent<I> {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `Inlet::lying` promises that so many bytes can be read from there until the item is given back, and `shared` keeps the
        // ring as long as this lives.
        unsafe { std::slice::from_raw_parts(self.lying.begin, self.lying.bytes) }
    }
}

impl<I: Inlet> Drop for Lent<I> {
    fn drop(&mut self) {
        let Some(held) = self.held.take() else { return };
        self.shared.alive.fetch_sub(1, Ordering::AcqRel);
        {
            let mut returned = self.shared.returned.lock().unwrap_or_else(PoisonError::into_inner);
            returned.push(held);
            self.shared.has_returned.store(true, Ordering::Release);
        }
        self.shared.sweep();
    }
}
