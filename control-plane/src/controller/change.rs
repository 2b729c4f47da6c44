//! Carries out a change of one flow: from what it is to what it is to be, in an order in which it can be broken off
//! between any two steps and be completed or taken back.
//!
//! ```text
//!  journal: begins ─► workers come to rest, where they must ─► agents open new rings ─► switch: entries come
//!                  ─► workers stop, start ─► entries go ─► agents close old rings ─► journal: ended
//! ```
//! A change that only adds is taken back if it fails; one that removes is taken back until rings are closed, and completed
//! from then on.

use super::dataplane::{Context, Hosts, Ticks, replication};
use super::difference::Difference;
use super::model::{Flow, FlowKind, Ring};
use super::refusal::{Kind, Refusal};
use super::{Controller, Work};
use crate::p4::ClientError;
use crate::plan::ticks;
use p4runtime_proto::p4::v1 as rt;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

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

/// What the entries of flows depend on, as it was when the change began.
pub(super) struct Surroundings {
    pub(super) hosts: Arc<Hosts>,
    pub(super) heaviest: u32,
}

impl Surroundings {
    pub(super) fn context(&self, hold: bool) -> Context<'_> {
        Context { hosts: &self.hosts, heaviest: self.heaviest, hold }
    }
}

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
        mut new: Option<Flow>,
        told: &str,
    ) -> Result<(), Refusal> {
        let old = self.state().flows.get(name).cloned();
        let closing = rings_only_in(old.as_ref(), new.as_ref());
        let opening = rings_only_in(new.as_ref(), old.as_ref());
        // What takes rings away can always be completed, what makes some can always be taken back.
        let fallback = if closing.is_empty() { old.as_ref() } else { new.as_ref() };
        let failed = |e: super::journal::JournalError| Refusal::new(Kind::Unavailable, e.to_string());
        let done = match work.journal.begin(name, fallback).map_err(failed) {
            Ok(()) => self.carry_out(work, old.as_ref(), new.as_mut()).await,
            Err(refusal) => Err(refusal.into()),
        };
        if let Err(Failure { refusal, touched }) = done {
            if let Some(new) = &new {
                let opened = new.rings().filter(|r| opening.contains(&r.name) && r.address.is_some());
                self.0.agents.close(opened, &refusal.message).await;
                self.give_back(new, touched);
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
        self.state().set(name, new);
        if let Some(old) = &old {
            self.give_back(old, true);
        }
        Ok(())
    }

    /// Numbers of `flow` that nobody has any more: at once, or when the switch has forgotten them.
    pub(super) fn give_back(&self, flow: &Flow, touched: bool) {
        let mut state = self.state();
        let numbers = state.left_over(flow);
        if touched {
            state.numbers.rest(&numbers);
            // Fails only when the controller ends, and with it the numbers.
            let _ = self.0.resting.send(numbers);
        } else {
            state.numbers.untouched(&numbers);
        }
    }

    /// Rings and switch, up to where rings would be closed.
    async fn carry_out(
        &self,
        work: &mut Work,
        old: Option<&Flow>,
        mut new: Option<&mut Flow>,
    ) -> Result<(), Failure> {
        let inner = &self.0;
        let (around, heaviest) = {
            let state = self.state();
            let around = Surroundings { hosts: state.hosts.clone(), heaviest: state.heaviest() };
            (around, state.heaviest_with(old, new.as_deref()))
        };
        if heaviest != around.heaviest {
            self.reweigh(work, old, &around, heaviest).await?;
        }
        let around = Surroundings { heaviest, ..around };
        let entities = |flow: Option<&Flow>, hold| {
            flow.map_or(Ok(Vec::new()), |f| inner.plane.entities(f, &around.context(hold)))
        };
        let mut before = entities(old, false)?;
        if let (Some(old), Some(new)) = (old, new.as_deref_mut())
            && needs_rest(old, new)
        {
            let held = entities(Some(old), true)?;
            let hold = Difference::between(before.clone(), held.clone());
            work.switch.update(hold.additions().into_iter()).await?;
            if let Err(refusal) = self.bring_to_rest(work, old, new).await {
                let _ = work.switch.update(hold.inverse().additions().into_iter()).await;
                return Err(refusal.into());
            }
            before = held;
        }
        let written = async {
            let mut touched = false;
            if let Some(new) = new.as_deref_mut() {
                inner.agents.open(new, &inner.plane, &around.hosts).await?;
                touched = true;
            }
            let difference = Difference::between(before.clone(), entities(new.as_deref(), false)?);
            let had = old.map(|f| inner.plane.tick_groups(f)).unwrap_or_default();
            let has = new.as_deref().map(|f| inner.plane.tick_groups(f)).unwrap_or_default();
            let result = self.write(work, &difference, &had, &has).await;
            if result.is_err() {
                self.take_back(work, &difference, &has, &had).await;
            }
            result.map_err(|e| Failure { refusal: e.into(), touched })
        };
        let result = written.await;
        if result.is_err() {
            // What was held goes on; what is not held is written as it is.
            let free = Difference::between(before, entities(old, false)?);
            let _ = work.switch.update(free.additions().into_iter()).await;
        }
        result
    }

    async fn write(
        &self,
        work: &mut Work,
        difference: &Difference,
        had: &Ticks,
        has: &Ticks,
    ) -> Result<(), ClientError> {
        work.switch.update(difference.additions().into_iter()).await?;
        self.run_workers(work, had, has).await?;
        work.switch.update(difference.removals().into_iter()).await
    }

    /// Tells the switch which workers run: those that ran, without `had`, with `has`.
    pub(super) async fn run_workers(
        &self,
        work: &mut Work,
        had: &Ticks,
        has: &Ticks,
    ) -> Result<(), ClientError> {
        if had == has {
            return Ok(());
        }
        let updates = {
            let mut state = self.state();
            let touched: BTreeSet<u32> = had.values().chain(has.values()).copied().collect();
            let before: Vec<_> = touched.iter().filter(|g| state.ticking.contains_key(g)).copied().collect();
            for (worker, group) in had {
                state.ticking.entry(*group).or_default().remove(worker);
            }
            for (worker, group) in has {
                state.ticking.entry(*group).or_default().insert(*worker);
            }
            state.ticking.retain(|_, workers| !workers.is_empty());
            let entity = |group: &u32| {
                let workers = state.ticking.get(group).into_iter().flatten().copied();
                replication(ticks::group(*group, workers))
            };
            // Which groups there were says whether they come, change or go; what was in them does not matter.
            let gone = |group: &u32| replication(ticks::group(*group, std::iter::empty()));
            let old = before.iter().map(gone).collect();
            let new = touched.iter().filter(|g| state.ticking.contains_key(g)).map(entity).collect();
            let difference = Difference::between(old, new);
            [difference.additions(), difference.removals()].concat()
        };
        work.switch.update(updates.into_iter()).await
    }

    /// As far as the switch still answers, brings it to where it was: each update by itself, since some of them have not
    /// happened and are refused.
    async fn take_back(&self, work: &mut Work, difference: &Difference, has: &Ticks, had: &Ticks) {
        let inverse = difference.inverse();
        for update in inverse.additions() {
            let _ = work.switch.update([update].into_iter()).await;
        }
        let _ = self.run_workers(work, has, had).await;
        for update in inverse.removals() {
            let _ = work.switch.update([update].into_iter()).await;
        }
    }

    /// The heaviest flow is another one: all flows but the one that changes get their shares against it.
    async fn reweigh(
        &self,
        work: &mut Work,
        changing: Option<&Flow>,
        around: &Surroundings,
        heaviest: u32,
    ) -> Result<(), Refusal> {
        let mut updates: Vec<rt::Update> = Vec::new();
        for flow in self.list_flows().iter().filter(|f| changing.is_none_or(|c| c.name != f.name)) {
            let before = self.0.plane.entities(flow, &around.context(false))?;
            let after = self.0.plane.entities(flow, &Context { heaviest, ..around.context(false) })?;
            updates.extend(Difference::between(before, after).additions());
        }
        Ok(work.switch.update(updates.into_iter()).await?)
    }
}

/// Whether workers must have nothing under way: where a ring goes that they may be using, and where one joins a group,
/// whose members begin at one point.
fn needs_rest(old: &Flow, new: &Flow) -> bool {
    let staying = !old.workers().is_disjoint(&new.workers());
    let grows = new.kind == FlowKind::Replicate && new.consumers.len() > old.consumers.len();
    staying && (grows || !rings_only_in(Some(old), Some(new)).is_empty())
}

/// Names of the rings of `one` that are not in `other`.
pub(super) fn rings_only_in(one: Option<&Flow>, other: Option<&Flow>) -> HashSet<String> {
    let others: HashSet<&str> = other.into_iter().flat_map(|f| f.rings()).map(|r| r.name.as_str()).collect();
    let rings = one.into_iter().flat_map(|f| f.rings()).map(|r| &r.name);
    rings.filter(|r| !others.contains(r.as_str())).cloned().collect()
}
