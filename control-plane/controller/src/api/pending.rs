//! Changes that are under way, and for each the reason why it waits.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::MutexGuard as Turn;
use tokio::time::Instant;
use zsr_api::controller as proto;

/// All changes that are under way.
#[derive(Debug, Default)]
pub(crate) struct Pending(Mutex<Changes>);

#[derive(Debug, Default)]
struct Changes {
    newest: u64,
    changes: BTreeMap<u64, Change>,
}

#[derive(Debug)]
struct Change {
    what: What,
    flow: String,
    waits_for: String,
    since_ms: u64,
    begun: Instant,
}

/// The kind of a change.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// The flow is being made, as this message asked.
    Create(Box<proto::Flow>),
    /// The flow is being deleted.
    Delete,
    /// Another change, in words that go before the flow's name.
    Other(String),
}

impl What {
    fn words(&self) -> &str {
        match self {
            What::Create(_) => "creating flow",
            What::Delete => "deleting flow",
            What::Other(words) => words,
        }
    }
}

/// A change that is under way until this is dropped.
pub(crate) struct UnderWay<'p> {
    all: &'p Pending,
    number: u64,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let ended = self.all.lock().changes.remove(&self.number);
        if let Some(Change { what, flow, begun, .. }) = ended {
            tracing::debug!(flow, took = ?begun.elapsed(), "{} ends", what.words());
        }
    }
}

impl UnderWay<'_> {
    /// Notes why this change waits from now on; empty: for no reason of its own.
    pub(crate) fn waits_for(&self, what: impl Into<String>) {
        if let Some(change) = self.all.lock().changes.get_mut(&self.number) {
            change.waits_for = what.into();
        }
    }

    /// Waits until no other change has what `lock` guards.
    pub(crate) async fn turn<'w, W>(&self, lock: &'w tokio::sync::Mutex<W>) -> Turn<'w, W> {
        if let Ok(turn) = lock.try_lock() {
            return turn;
        }
        self.waits_for("changes before it");
        let turn = lock.lock().await;
        self.waits_for("");
        turn
    }
}

impl Pending {
    /// A change of `flow` begins.
    pub(crate) fn begin(&self, what: What, flow: &str) -> UnderWay<'_> {
        tracing::debug!(flow, "{} begins", what.words());
        let since_ms =
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let (flow, waits_for, begun) = (flow.to_owned(), String::new(), Instant::now());
        let mut all = self.lock();
        all.newest += 1;
        let number = all.newest;
        all.changes.insert(number, Change { what, flow, waits_for, since_ms, begun });
        UnderWay { all: self, number }
    }

    /// Notes why the change of `flow` under way waits, for callers that do not have its [`UnderWay`].
    pub(crate) fn waits_for(&self, flow: &str, what: &str) {
        for change in self.lock().changes.values_mut().filter(|c| c.flow == flow) {
            what.clone_into(&mut change.waits_for);
        }
    }

    /// All changes under way; changes without a reason of their own wait for `agents`.
    pub(crate) fn list(&self, agents: &[String]) -> Vec<proto::Pending> {
        let all = self.lock();
        let message = |c: &Change| proto::Pending {
            flow: c.flow.clone(),
            what: format!("{} `{}`", c.what.words(), c.flow),
            waits_for: match c.waits_for.as_str() {
                "" => agents.join("; "),
                own => own.to_owned(),
            },
            since_ms: c.since_ms,
            seconds: c.begun.elapsed().as_secs(),
        };
        all.changes.values().map(message).collect()
    }

    /// Flows that are being made, as they were asked for.
    pub(crate) fn creating(&self) -> Vec<proto::Flow> {
        let all = self.lock();
        let made = all.changes.values().filter_map(|c| match &c.what {
            What::Create(flow) => Some((**flow).clone()),
            _ => None,
        });
        made.collect()
    }

    /// Whether `flow` is being deleted.
    pub(crate) fn is_deleting(&self, flow: &str) -> bool {
        self.lock().changes.values().any(|c| c.flow == flow && matches!(c.what, What::Delete))
    }

    fn lock(&self) -> MutexGuard<'_, Changes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_there_until_it_ends_and_says_what_it_waits_for() {
        let all = Pending::default();
        let lock = tokio::sync::Mutex::new(());
        let first = all.begin(What::Delete, "f");
        let second = all.begin(What::Other("changing flow".into()), "g");
        all.waits_for("f", "12 KiB of ring `f.h2`");
        let texts = || -> Vec<(String, String)> {
            all.list(&["the agent".into()]).into_iter().map(|p| (p.what, p.waits_for)).collect()
        };
        let wanted = [("deleting flow `f`", "12 KiB of ring `f.h2`"), ("changing flow `g`", "the agent")];
        assert_eq!(texts(), wanted.map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert!(all.is_deleting("f") && !all.is_deleting("g"));
        let held = lock.try_lock().unwrap();
        let mut waiting = Box::pin(second.turn(&lock));
        let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waiting.as_mut().poll(context).is_pending());
        assert_eq!(texts()[1].1, "changes before it");
        drop(held);
        assert!(waiting.as_mut().poll(context).is_ready());
        assert_eq!(texts()[1].1, "the agent");
        drop(first);
        assert_eq!(texts().len(), 1);
    }
}
