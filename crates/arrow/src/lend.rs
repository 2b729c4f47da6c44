//! Items of a ring that are lent to arrays: whoever drops the last array of an item gives it back, in whichever thread. Items that are
//! lent for too long are moved out of the ring, if its memory can be mapped a second time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

use zsr_ring::Ring;

use crate::error::Error;
use crate::inlet::{Found, Inlet, Lying};
use crate::window::Window;

/// A ring, what is lent of it, and what was given back while somebody else had it.
pub(crate) struct Shared<I: Inlet> {
    inlet: Mutex<I>,
    /// In which all items lie, if it is one.
    ring: Option<Arc<Ring>>,
    lent: Mutex<Loans<I>>,
    returned: Mutex<Vec<I::Held>>,
    has_returned: AtomicBool,
}

struct Loans<I: Inlet> {
    next: u64,
    /// Items in the ring that arrays lie in, in the ring's order.
    items: BTreeMap<u64, Loan<I>>,
    /// What is lent next lies in here. None before the first, and after something was moved out.
    window: Option<Arc<Window>>,
}

struct Loan<I: Inlet> {
    held: I::Held,
    begin: *const u8,
    bytes: usize,
    /// None where the ring's own mapping is the only one.
    window: Option<Arc<Window>>,
}

// SAFETY: `begin` is only a place.
unsafe impl<I: Inlet> Send for Loan<I> {}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<I: Inlet> Shared<I> {
    pub(crate) fn new(mut inlet: I) -> Arc<Self> {
        let ring = inlet.ring();
        let lent = Loans { next: 0, items: BTreeMap::new(), window: None };
        Arc::new(Shared {
            inlet: Mutex::new(inlet),
            ring,
            lent: Mutex::new(lent),
            returned: Mutex::default(),
            has_returned: AtomicBool::new(false),
        })
    }

    /// How many items are lent.
    pub(crate) fn alive(&self) -> usize {
        lock(&self.lent).items.len()
    }

    /// Takes the next item, waiting for it until `end`; nothing is there then.
    ///
    /// # Errors
    /// [`Error`].
    pub(crate) fn take(self: &Arc<Self>, end: Option<Instant>) -> Result<Found<Lent<I>>, Error> {
        loop {
            let found = {
                let mut inlet = lock(&self.inlet);
                self.give_back_returned(&mut inlet);
                inlet.take(&|| self.has_returned.load(Ordering::Acquire), end)
            };
            self.sweep();
            match found {
                Ok(Found::Some(held)) => return Ok(Found::Some(self.lend(held))),
                Ok(Found::Nothing) if end.is_some_and(|end| Instant::now() >= end) => {
                    return Ok(Found::Nothing);
                }
                Ok(Found::Nothing) => {}
                Ok(Found::End) => return Ok(Found::End),
                Err(e) => return Err(e),
            }
        }
    }

    fn lend(self: &Arc<Self>, held: I::Held) -> Lent<I> {
        let Lying { begin, bytes, has_lengths } = I::lying(&held);
        let mut lent = lock(&self.lent);
        if lent.window.is_none() {
            lent.window = self.ring.as_ref().and_then(|ring| Window::of(ring)).map(Arc::new);
        }
        let window = lent.window.clone().filter(|_| bytes > 0);
        let begin = match (&window, &self.ring) {
            (Some(window), Some(ring)) => window.place(ring, begin),
            _ => begin,
        };
        let number = lent.next;
        lent.next += 1;
        lent.items.insert(number, Loan { held, begin, bytes, window: window.clone() });
        Lent { shared: self.clone(), number, lying: Lying { begin, bytes, has_lengths }, _window: window }
    }

    /// Moves out of the ring what is lent, but for the newest `but`. Says how many items; none where there is no second mapping.
    pub(crate) fn move_out(&self, but: usize) -> usize {
        let mut moved = Vec::new();
        {
            let mut lent = lock(&self.lent);
            let most = lent.items.len().saturating_sub(but);
            let old: Vec<u64> = lent.items.keys().take(most).copied().collect();
            for number in old {
                let done = lent.items.get(&number).is_some_and(|loan| {
                    loan.window.as_ref().is_some_and(|window| window.move_out(loan.begin, loan.bytes).is_ok())
                });
                if done {
                    moved.extend(lent.items.remove(&number).map(|loan| loan.held));
                    lent.window = None;
                }
            }
        }
        let count = moved.len();
        if count > 0 {
            lock(&self.returned).extend(moved);
            self.has_returned.store(true, Ordering::Release);
            self.sweep();
        }
        count
    }

    /// Has something else done with the ring.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut I) -> T) -> T {
        let done = work(&mut lock(&self.inlet));
        self.sweep();
        done
    }

    fn give_back_returned(&self, inlet: &mut I) {
        let mut returned = lock(&self.returned);
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
                Err(TryLockError::WouldBlock) => {
                    // It may sleep, and wait for a word of the switch.
                    if let Some(ring) = &self.ring {
                        ring.nudge();
                    }
                    return;
                }
            }
        }
    }
}

/// An item that is lent. Its bytes stay as they are until it is dropped.
pub(crate) struct Lent<I: Inlet> {
    shared: Arc<Shared<I>>,
    number: u64,
    lying: Lying,
    /// What it lies in, if not the ring's own mapping.
    _window: Option<Arc<Window>>,
}

// SAFETY: what `lying` points at is memory that nobody writes before this is dropped.
unsafe impl<I: Inlet> Send for Lent<I> {}
// SAFETY: as above; it is only read.
unsafe impl<I: Inlet> Sync for Lent<I> {}

impl<I: Inlet> Lent<I> {
    pub(crate) fn has_lengths(&self) -> bool {
        self.lying.has_lengths
    }
}

impl<I: Inlet> AsRef<[u8]> for Lent<I> {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `Inlet::lying` promises that so many bytes can be read from there until the item is given back, which is when this is
        // dropped, or when what lies there was moved out of the ring, within a mapping that this keeps. `shared` keeps the ring's own.
        unsafe { std::slice::from_raw_parts(self.lying.begin, self.lying.bytes) }
    }
}

impl<I: Inlet> Drop for Lent<I> {
    fn drop(&mut self) {
        // What was moved out is given back already.
        let Some(loan) = lock(&self.shared.lent).items.remove(&self.number) else { return };
        lock(&self.shared.returned).push(loan.held);
        self.shared.has_returned.store(true, Ordering::Release);
        self.shared.sweep();
    }
}
