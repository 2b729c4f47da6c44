//! The connections of programs that have rings, by ring: whoever wants one looks whether its program is gone already.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::watch;

/// Programs that hold rings, by the ring's number.
#[derive(Default)]
pub(super) struct Holders(Mutex<BTreeMap<u64, Holder>>);

struct Holder {
    connection: OwnedWriteHalf,
    /// Which program it is, for people.
    program: String,
    /// Nothing is sent: it ends when the ring is free.
    free: watch::Receiver<()>,
}

impl Holders {
    /// The ring is `program`'s, until it is [removed](Self::remove); what comes back is to be dropped then.
    pub(super) fn add(&self, ring: u64, connection: OwnedWriteHalf, program: String) -> watch::Sender<()> {
        let (held, free) = watch::channel(());
        self.lock().insert(ring, Holder { connection, program, free });
        held
    }

    /// Which program has the ring, if one of another process has it.
    pub(super) fn program(&self, ring: u64) -> Option<String> {
        self.lock().get(&ring).map(|holder| holder.program.clone())
    }

    /// All programs that have rings.
    pub(super) fn programs(&self) -> Vec<String> {
        self.lock().values().map(|holder| holder.program.clone()).collect()
    }

    /// The ring is free: its program is told by the end of the connection.
    pub(super) fn remove(&self, ring: u64) {
        self.lock().remove(&ring);
    }

    /// The end of a program that has the ring, if it is gone and that was not taken note of yet.
    pub(super) fn is_leaving(&self, ring: u64) -> Option<watch::Receiver<()>> {
        let holders = self.lock();
        let holder = holders.get(&ring)?;
        let mut look = [PollFd::new(holder.connection.as_ref(), PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut look, Some(&now)), Ok(1..)).then(|| holder.free.clone())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Holder>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
