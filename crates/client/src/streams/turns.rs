//! Threads that wait for different things out of one ring: one of them takes in what comes for all, the others wait for it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Next, StreamError};
use crate::error::ProgramError;

/// What threads wait for.
pub(super) struct Turns<S> {
    flow: String,
    inner: Mutex<Inner<S>>,
    /// Something has come, or nobody takes in what comes.
    changed: Condvar,
}

/// Under the lock.
pub(super) struct Inner<S> {
    pub(super) state: S,
    /// Whether a thread takes in what comes.
    is_attended: bool,
    /// Why nothing comes any more; `Ok`: the flow has ended.
    over: Option<Result<(), String>>,
}

impl<S> Inner<S> {
    /// Nothing comes any more.
    pub(super) fn end(&mut self) {
        self.over.get_or_insert(Ok(()));
    }
}

impl<S: Default> Turns<S> {
    pub(super) fn new(flow: &str) -> Self {
        let inner = Inner { state: S::default(), is_attended: false, over: None };
        Turns { flow: flow.to_owned(), inner: Mutex::new(inner), changed: Condvar::new() }
    }
}

impl<S> Turns<S> {
    /// The flow's name.
    pub(super) fn flow(&self) -> &str {
        &self.flow
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner<S>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `ready` finds something, or `end` is over, or nothing comes any more. `take_in` takes in what comes until a time; one
    /// thread is in it.
    pub(super) fn wait<T>(
        &self,
        end: Option<Instant>,
        mut ready: impl FnMut(&mut S) -> Option<T>,
        take_in: impl Fn(Option<Instant>) -> Result<(), StreamError>,
    ) -> Result<Next<T>, StreamError> {
        let mut has_looked = false;
        let mut inner = self.lock();
        loop {
            if let Some(found) = ready(&mut inner.state) {
                return Ok(Next::Some(found));
            }
            match &inner.over {
                Some(Ok(())) => return Ok(Next::End),
                Some(Err(why)) => {
                    let (flow, why) = (self.flow.clone(), why.clone());
                    return Err(ProgramError::Ended { flow, why }.into());
                }
                None => {}
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if has_looked && left == Some(Duration::ZERO) {
                return Ok(Next::Nothing);
            }
            has_looked = true;
            if inner.is_attended {
                inner = match left {
                    Some(left) => {
                        self.changed.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0
                    }
                    None => self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner),
                };
                continue;
            }
            inner.is_attended = true;
            drop(inner);
            inner = self.attend(|| take_in(end))?;
        }
    }

    /// Takes in what is there, unless another thread does.
    pub(super) fn look(
        &self,
        take_in: impl Fn(Option<Instant>) -> Result<(), StreamError>,
    ) -> Result<(), StreamError> {
        let mut inner = self.lock();
        if inner.is_attended || inner.over.is_some() {
            return Ok(());
        }
        inner.is_attended = true;
        drop(inner);
        self.attend(|| take_in(Some(Instant::now()))).map(drop)
    }

    /// Takes in what comes, and lets another thread do it.
    fn attend(
        &self,
        take_in: impl FnOnce() -> Result<(), StreamError>,
    ) -> Result<MutexGuard<'_, Inner<S>>, StreamError> {
        let done = take_in();
        let mut inner = self.lock();
        inner.is_attended = false;
        if let Err(e) = &done {
            inner.over.get_or_insert(Err(e.to_string()));
        }
        self.changed.notify_all();
        done.map(|()| inner)
    }
}
