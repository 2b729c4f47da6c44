//! Carries out a change of one flow: from what it is to what it is to be, in an order in which it can be broken off
//! between any two steps and be completed or taken back.
//!
//! ```text
//!  journal: begins ─► agents open new rings ─► switch: entries come ─► workers stop, start ─► entries go
//!                     ─► agents close old rings ─► journal: ended
//! ```
//! A change that only adds is taken back if it fails; one that removes is taken back until rings are closed, and completed
//! from then on.

use super::difference::Difference;
use super::model::{Flow, Ring};
use super::refusal::{Kind, Refusal};
use super::{Controller, Work};
use std::collections::{BTreeSet, HashSet};

impl Controller {
    /// Makes flow `name` what `new` says (`None`: nothing), from what the state says it is. `told`: what programs in rings
    /// that go are told.
    ///
    /// The caller has checked everything and holds `work`, which is what makes changes follow each other.
    ///
    /// # Errors
    /// When switch or agents refuse or do not answer; then the flow is what it was.
    pub(super) async fn change(
        &self,
        work: &mut Work,
        name: &str,
        new: Option<Flow>,
        told: &str,
    ) -> Result<(), Refusal> {
        let old = self.state().flows.get(name).cloned();
        let mut new = new;
        let closing = rings_only_in(old.as_ref(), new.as_ref());
        let opening = rings_only_in(new.as_ref(), old.as_ref());
        // What takes rings away can always be completed, what makes some can always be taken back.
        let fallback = if closing.is_empty() { old.as_ref() } else { new.as_ref() };
        let failed = |e: super::journal::JournalError| Refusal::new(Kind::Unavailable, e.to_string());
        let begun = work.journal.begin(name, fallback).map_err(failed);
        let done = match begun {
            Ok(()) => self.carry_out(work, old.as_ref(), new.as_mut()).await,
            Err(refusal) => Err(Failure { refusal, touched: false }),
        };
        if let Err(Failure { refusal, touched }) = done {
            if let Some(new) = &new {
                let opened = new.rings().filter(|r| opening.contains(&r.name) && r.address.is_some());
                self.0.agents.close(opened, &refusal.message).await;
                self.state().give_back(new, touched);
            }
            // If this cannot be written either, the next start finds the change unfinished, and takes it back.
            let _ = work.journal.end(name, old.as_ref());
            return Err(refusal);
        }
        let gone: Vec<Ring> =
            old.iter().flat_map(|f| f.rings()).filter(|r| closing.contains(&r.name)).cloned().collect();
        self.0.agents.close(gone.iter(), told).await;
        // The change has happened; if this cannot be written, the next start reads the same from the switch.
        let _ = work.journal.end(name, new.as_ref());
        let mut state = self.state();
        state.set(name, new);
        if let Some(old) = &old {
            state.give_back(old, true);
        }
        Ok(())
    }

    /// Rings and switch, up to where rings would be closed.
    async fn carry_out(
        &self,
        work: &mut Work,
        old: Option<&Flow>,
        mut new: Option<&mut Flow>,
    ) -> Result<(), Failure> {
        let inner = &self.0;
        let hosts = self.state().hosts.clone();
        if let Some(new) = new.as_deref_mut() {
            inner.agents.open(new, &inner.plane, &hosts).await?;
        }
        let entries = |flow: Option<&Flow>| flow.map(|f| inner.plane.entries(f, &hosts)).transpose();
        let before = entries(old)?.unwrap_or_default();
        let after = entries(new.as_deref())?.unwrap_or_default();
        let difference = Difference::between(before, after);
        let had: BTreeSet<u16> = old.into_iter().flat_map(Flow::workers).collect();
        let has: BTreeSet<u16> = new.as_deref().into_iter().flat_map(Flow::workers).collect();
        // What was in flight ends before its connections go.
        let settles = old.map(|f| inner.plane.settles_in(f)).filter(|_| !difference.deletes.is_empty());

        let written = async {
            work.switch.update(difference.additions().into_iter()).await?;
            self.run_workers(work, &had, &has).await?;
            if let Some(time) = settles {
                tokio::time::sleep(time).await;
            }
            work.switch.update(difference.removals().into_iter()).await
        };
        let result = written.await;
        if let Err(e) = result {
            self.take_back(work, &difference, &has, &had).await;
            return Err(Failure { refusal: e.into(), touched: true });
        }
        Ok(())
    }

    /// Tells the switch which workers run: those that ran, without `had`, with `has`.
    async fn run_workers(
        &self,
        work: &mut Work,
        had: &BTreeSet<u16>,
        has: &BTreeSet<u16>,
    ) -> Result<(), crate::p4::ClientError> {
        if had == has {
            return Ok(());
        }
        let group = {
            let mut state = self.state();
            state.workers.retain(|w| !had.contains(w));
            state.workers.extend(has.iter());
            self.0.plane.ticks(state.workers.iter().copied())
        };
        work.switch.modify_replication(vec![group]).await
    }

    /// As far as the switch still answers, brings it to where it was: each update by itself, since some of them have not
    /// happened and are refused.
    async fn take_back(
        &self,
        work: &mut Work,
        difference: &Difference,
        has: &BTreeSet<u16>,
        had: &BTreeSet<u16>,
    ) {
        let inverse = difference.inverse();
        for update in inverse.additions() {
            let _ = work.switch.update([update].into_iter()).await;
        }
        let _ = self.run_workers(work, has, had).await;
        for update in inverse.removals() {
            let _ = work.switch.update([update].into_iter()).await;
        }
    }
}

/// A change that did not happen.
struct Failure {
    refusal: Refusal,
    /// Whether the switch has heard of its rings, so that their registers may not be fresh any more.
    touched: bool,
}

impl<E: Into<Refusal>> From<E> for Failure {
    fn from(e: E) -> Self {
        Failure { refusal: e.into(), touched: false }
    }
}

/// Names of the rings of `one` that are not in `other`.
fn rings_only_in(one: Option<&Flow>, other: Option<&Flow>) -> HashSet<String> {
    let others: HashSet<&str> = other.into_iter().flat_map(|f| f.rings()).map(|r| r.name.as_str()).collect();
    let rings = one.into_iter().flat_map(|f| f.rings()).map(|r| &r.name);
    rings.filter(|r| !others.contains(r.as_str())).cloned().collect()
}
