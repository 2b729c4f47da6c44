//! The way from other threads to the thread that owns a [`Switch`], and back.
//!
//! - The owner runs: calls wait in a queue until it takes them. It reads one atomic when nobody calls.
//! - The owner sleeps: it has [lent](ControlQueue::lend) the switch, and callers that block use it in their own threads.
//!   Two threads would have to be woken otherwise, for each call.
//!
//! Notifications are dropped (and counted) when their receiver lags.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use crate::node::Driven;
use crate::switch::Switch;

type Command = Box<dyn FnOnce(&mut Switch) + Send>;

/// The switch's owner is gone, so the call was not, and never will be, carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the switch has stopped")]
pub struct SwitchStopped;

struct Shared {
    pending: AtomicUsize,
    wake: Box<dyn Fn() + Send + Sync>,
    /// The switch while its owner sleeps.
    lent: Mutex<Option<Lent>>,
}

/// A switch whose owner sleeps.
struct Lent {
    driven: Box<Driven>,
    /// The moment of the owner's time 0.
    start: Instant,
    /// When the owner wakes by itself.
    due: Option<u64>,
}

impl Shared {
    /// Runs `f` here and now, if the owner sleeps with nothing to do, and nobody else is at it; gives it back otherwise.
    fn run_lent<R, F: FnOnce(&mut Switch) -> R>(&self, f: F) -> Result<R, F> {
        // One that is taken or poisoned is the owner's to see to.
        let Ok(mut lent) = self.lent.try_lock() else { return Err(f) };
        let Some(Lent { driven, start, due }) = &mut *lent else { return Err(f) };
        let now_ns = start.elapsed().as_nanos() as u64;
        // What was called before comes first, and so do packets that wait.
        if self.pending.load(Ordering::Acquire) > 0 || due.is_some_and(|due| due <= now_ns) {
            return Err(f);
        }
        driven.switch.advance(now_ns);
        let wakes = WakeIfPanicking(self);
        let result = f(&mut driven.switch);
        drop(wakes);
        let now_due = driven.next_due();
        if now_due.is_some_and(|at| due.is_none_or(|due| at < due)) {
            *due = now_due;
            drop(lent);
            (self.wake)();
        }
        Ok(result)
    }
}

/// Wakes the owner when a call panics, so that the switch ends at once.
struct WakeIfPanicking<'a>(&'a Shared);

impl Drop for WakeIfPanicking<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0.wake)();
        }
    }
}

/// Calls a [`Switch`] that another thread owns. Clonable and thread-safe.
#[derive(Clone)]
pub struct SwitchHandle {
    commands: mpsc::Sender<Command>,
    shared: Arc<Shared>,
}

/// The owner's end: carries out what handles sent.
pub struct ControlQueue {
    commands: mpsc::Receiver<Command>,
    shared: Arc<Shared>,
}

/// A queue and the first handle to it. `wake` is called after each command was queued, from the caller's thread:
/// use it to end the owner's sleep (`|| ()` if it polls).
pub fn control_queue(wake: impl Fn() + Send + Sync + 'static) -> (SwitchHandle, ControlQueue) {
    let (tx, rx) = mpsc::channel();
    let (pending, lent) = (AtomicUsize::new(0), Mutex::new(None));
    let shared = Arc::new(Shared { pending, wake: Box::new(wake), lent });
    (SwitchHandle { commands: tx, shared: shared.clone() }, ControlQueue { commands: rx, shared })
}

impl ControlQueue {
    /// Carries out all commands that wait; returns how many. One atomic load if there are none. They are carried out at `now_ns`, the
    /// time of the switch's packets and timers; what comes meanwhile waits for the next call.
    #[inline]
    pub fn drain(&self, switch: &mut Switch, now_ns: u64) -> usize {
        match self.shared.pending.load(Ordering::Acquire) {
            0 => 0,
            waiting => self.drain_slow(switch, now_ns, waiting),
        }
    }

    #[cold]
    fn drain_slow(&self, switch: &mut Switch, now_ns: u64, waiting: usize) -> usize {
        switch.advance(now_ns);
        let mut n = 0;
        while n < waiting
            && let Ok(command) = self.commands.try_recv()
        {
            self.shared.pending.fetch_sub(1, Ordering::AcqRel);
            command(switch);
            n += 1;
        }
        n
    }

    /// Lends a switch to callers for as long as its owner sleeps, until `due` if nobody wakes it; `start` is the moment of
    /// its time 0. Whoever makes something due before that wakes it.
    pub(crate) fn lend(&self, driven: Box<Driven>, start: Instant, due: Option<u64>) {
        *self.shared.lent.lock().expect("no call panics") = Some(Lent { driven, start, due });
    }

    /// Takes the switch back; waits for a caller who is at it. `None` if it is not lent.
    ///
    /// # Panics
    /// A call has panicked, and the switch may be half changed.
    pub(crate) fn take_back(&self) -> Option<Box<Driven>> {
        match self.shared.lent.lock() {
            Ok(mut lent) => lent.take().map(|lent| lent.driven),
            Err(poisoned) => {
                drop(poisoned.into_inner().take());
                panic!("a call to the switch has panicked");
            }
        }
    }
}

enum SlotState<R> {
    Waiting(Option<Waker>),
    Done(R),
    Dead,
}

struct Slot<R> {
    state: Mutex<SlotState<R>>,
    ready: Condvar,
}

/// Fills the slot; if dropped without an answer (owner gone), marks it dead.
struct Answer<R>(Arc<Slot<R>>);

impl<R> Answer<R> {
    fn put(&self, new: SlotState<R>) {
        let mut state = self.0.state.lock().unwrap_or_else(|e| e.into_inner());
        if let SlotState::Waiting(waker) = &mut *state {
            let waker = waker.take();
            *state = new;
            drop(state);
            self.0.ready.notify_all();
            if let Some(w) = waker {
                w.wake();
            }
        }
    }
}

impl<R> Drop for Answer<R> {
    fn drop(&mut self) {
        self.put(SlotState::Dead);
    }
}

/// The answer to [`SwitchHandle::call`]: await it, or [`wait`](CallFuture::wait) for it.
pub struct CallFuture<R>(Arc<Slot<R>>);

impl<R> CallFuture<R> {
    /// Blocks until the answer is there. Not for async code, nor for the thread that owns the switch.
    pub fn wait(self) -> Result<R, SwitchStopped> {
        let mut state = self.0.state.lock().unwrap_or_else(|e| e.into_inner());
        loop {
            match std::mem::replace(&mut *state, SlotState::Dead) {
                SlotState::Done(r) => return Ok(r),
                SlotState::Dead => return Err(SwitchStopped),
                waiting => *state = waiting,
            }
            state = self.0.ready.wait(state).unwrap_or_else(|e| e.into_inner());
        }
    }
}

impl<R> Future for CallFuture<R> {
    type Output = Result<R, SwitchStopped>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.state.lock().unwrap_or_else(|e| e.into_inner());
        match std::mem::replace(&mut *state, SlotState::Dead) {
            SlotState::Done(r) => Poll::Ready(Ok(r)),
            SlotState::Dead => Poll::Ready(Err(SwitchStopped)),
            SlotState::Waiting(_) => {
                *state = SlotState::Waiting(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl SwitchHandle {
    /// Has the owner run `f`, between two packets. The result comes through the returned future; dropping that
    /// does not cancel the call. Calls of one handle run in their order.
    pub fn call<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Switch) -> R + Send + 'static,
    ) -> CallFuture<R> {
        let slot = Arc::new(Slot { state: Mutex::new(SlotState::Waiting(None)), ready: Condvar::new() });
        let answer = Answer(slot.clone());
        let command: Command = Box::new(move |switch| {
            let r = f(switch);
            answer.put(SlotState::Done(r));
        });
        self.shared.pending.fetch_add(1, Ordering::AcqRel);
        // A refused command is dropped here, which marks the slot dead.
        if self.commands.send(command).is_ok() {
            (self.shared.wake)();
        }
        CallFuture(slot)
    }

    /// [`call`](Self::call), blocking until it is carried out: by the owner, or in this thread while the owner sleeps. So
    /// `f` must not wait for what the caller holds. Must not be called from the owner's thread.
    ///
    /// # Panics
    /// `f` panics in this thread. The switch ends then, as it does when `f` panics in the owner's.
    pub fn call_blocking<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut Switch) -> R + Send + 'static,
    ) -> Result<R, SwitchStopped> {
        match self.shared.run_lent(f) {
            Ok(result) => Ok(result),
            Err(f) => self.call(f).wait(),
        }
    }
}
