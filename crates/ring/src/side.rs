//! What both ends of a ring do alike, off the path of items: they wait for each other, and tell what they have done.

use std::sync::Arc;

use super::abi::ControlWord;
use super::error::AbortOrigin;
use super::region::{Ring, Role, SideTotals};
use super::wait::{Backoff, Cancel, Deadline, WaitEnd};
use super::wake::Sleeper;

/// An end's ring, and what was not told to it yet.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) ring: Arc<Ring>,
    pub(crate) cancel: Cancel,
    /// Inside a blocking call, whose looks are one event together.
    pub(crate) waiting: bool,
    /// How often there was no room, or no item.
    blocked: u64,
    /// Up to which position was reported, and where to.
    reported: u64,
    totals: fn(&Ring) -> &SideTotals,
}

impl Side {
    pub(crate) fn new(
        ring: Arc<Ring>,
        cancel: Cancel,
        position: u64,
        totals: fn(&Ring) -> &SideTotals,
    ) -> Self {
        Side { ring, cancel, waiting: false, blocked: 0, reported: position, totals }
    }

    /// Whether the ring was given up, by the other side's `word` or by the agent.
    pub(crate) fn is_given_up(&self, word: ControlWord) -> bool {
        word.flags.aborted() || self.ring.is_aborted_here()
    }

    /// Whose doing an abort is that was found in the other side's word.
    pub(crate) fn abort_origin(&self) -> AbortOrigin {
        if self.ring.is_aborted_here() {
            AbortOrigin::Agent
        } else if self.ring.role() == Role::Loopback {
            AbortOrigin::Peer
        } else {
            AbortOrigin::Switch
        }
    }

    /// Where the handle sleeps, if it is woken.
    pub(crate) fn sleeper(&self) -> Option<Sleeper> {
        Sleeper::at(&**self.ring.memory())
    }

    /// Notes a look that found no room, or no item, by the end that is at `position`.
    pub(crate) fn found_nothing(&mut self, position: u64) {
        if !self.waiting {
            self.blocked += 1;
            self.report(position);
        }
    }

    /// Adds what happened since the last report to the ring's totals, which others may read.
    pub(crate) fn report(&mut self, position: u64) {
        (self.totals)(&self.ring).add(position - self.reported, std::mem::take(&mut self.blocked));
        self.reported = position;
    }
}

/// An end that can wait for the other one.
pub(crate) trait End: Sized {
    type Error: PartialEq;

    /// There is no room, or no item: what is waited out.
    const NOTHING: Self::Error;
    const CANCELLED: Self::Error;
    const TIMED_OUT: Self::Error;

    fn side(&mut self) -> &mut Side;

    /// Repeats `attempt` until it answers anything but [`NOTHING`](Self::NOTHING).
    #[cold]
    fn wait_and<T>(
        &mut self,
        deadline: Deadline,
        mut attempt: impl FnMut(&mut Self) -> Result<T, Self::Error>,
    ) -> Result<T, Self::Error> {
        let mut backoff = Backoff::new(deadline);
        let place = self.side().sleeper();
        self.side().waiting = true;
        let done = loop {
            match backoff.wait(&self.side().cancel, place.as_slice()) {
                Ok(()) => {}
                Err(WaitEnd::Cancelled) => break Err(Self::CANCELLED),
                Err(WaitEnd::TimedOut) => break Err(Self::TIMED_OUT),
            }
            match attempt(self) {
                Err(error) if error == Self::NOTHING => {}
                done => break done,
            }
        };
        self.side().waiting = false;
        if let Some(place) = place {
            place.stay_awake();
        }
        done
    }
}
