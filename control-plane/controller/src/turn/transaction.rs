//! Carries out changes of flows, all of them or none. [`steps`] says which steps these are; each has its undo here. If a
//! step fails, it and all steps before it are taken back, the last one first.
//!
//! ```text
//!  journal: begins ─► workers come to rest, where they must ─► agents open rings ─► registers are set ─► journal: what only adds
//!           is so ─► switch: entries come, workers stop and start, entries go ─► agents close rings ─► journal: what goes is gone
//! ```
//! A change that only adds is taken back if it fails. A change that removes is taken back until rings are closed, and
//! completed from then on.

use crate::health::doubts;
use crate::ledger::journal::Journal;
use crate::times::transaction::{QUIESCE, SHORT_QUIESCE};
use crate::turn::quiesce::WorkerState;
use crate::turn::steps::{Change, Step, steps};
use crate::{Controller, Work};
use p4runtime_proto::p4::v1 as rt;
use std::collections::BTreeSet;
use zsr_plan::dataplane::diff::Diff;
use zsr_plan::dataplane::flow::Ticks;
use zsr_plan::dataplane::model::{Doubt, Flow, Member, Ring};
use zsr_plan::error::{ControllerError, ErrorKind};
use zsr_plan::surroundings::Surroundings;

/// The fate of the items in rings that go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Leave {
    /// No item is lost: the rings have to be empty, or be consumer rings whose programs take the rest. These programs
    /// see the end of the stream, and not an abort.
    #[default]
    Empty,
    /// Items may be lost.
    Forced,
    /// Items may be lost, and the owners of the rings are known not to answer, so that nobody waits long for them.
    Dead,
}

/// How rings go.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Removal<'f> {
    /// The text for programs in the rings.
    pub(crate) told: &'f str,
    /// The fate of the items in the rings.
    pub(crate) leave: Leave,
}

impl Removal<'_> {
    fn force(&self) -> bool {
        self.leave != Leave::Empty
    }
}

/// Changes that are carried out, and how far they are.
struct Transaction<'t> {
    controller: &'t Controller,
    changes: Vec<Change>,
    removal: Removal<'t>,
    around: Surroundings,
    /// By change, the entries that the switch holds.
    held: Vec<Vec<rt::Entity>>,
    entries: Entries,
    /// Whether the switch has heard of new rings, so that their registers may not be fresh any more.
    touched: bool,
}

/// What a transaction writes into the switch.
#[derive(Default)]
struct Entries {
    difference: Diff,
    /// Workers that stop.
    had: Ticks,
    /// Workers that start.
    has: Ticks,
    /// Those of them that tick rarely, as nothing moves yet.
    rare: Ticks,
    /// Lets workers that rest go on.
    freed: Vec<rt::Update>,
}

impl Controller {
    /// Makes flow `name` what `new` says, from its present state.
    ///
    /// Returns the items that members who have left may have consumed, and that come to others now.
    ///
    /// The caller has checked everything and holds `work`, so that changes follow each other. Agents are told to
    /// destroy rings, and may do so later. A caller that wants to see it done waits with
    /// [`told`](crate::agents::Agents::told), without `work`.
    ///
    /// # Errors
    /// When switch or agents refuse or do not answer; then the flow is as before.
    pub(crate) async fn change(
        &self,
        work: &mut Work,
        name: &str,
        mut new: Flow,
        removal: Removal<'_>,
    ) -> Result<Vec<Doubt>, ControllerError> {
        let leaving = match (removal.force(), self.get_flow(name)) {
            (true, Ok(was)) => only_in(&was, &new),
            _ => BTreeSet::new(),
        };
        let ready = match self.can_change() {
            Ok(()) => self.resume_first(work, name, &leaving).await,
            Err(refusal) => Err(refusal),
        };
        let old = match ready.and_then(|()| self.get_flow(name)) {
            Ok(old) => old,
            Err(refusal) => {
                self.give_back(&new, false);
                return Err(refusal);
            }
        };
        let mut doubts = old.doubts_of_leavers(&new);
        if !removal.force() && !doubts.is_empty() {
            let what = doubts::consumed(old.kind, &doubts);
            let message = format!("flow `{name}`: {what}; use --force to take it out all the same");
            self.give_back(&new, false);
            return Err(ControllerError::new(ErrorKind::NotNow, message));
        }
        new.take_connections_of(&old);
        new.note_told(&doubts);
        let known = new.told.len();
        let done = self.transact(work, vec![Change::turn(old, new)], removal).await?;
        doubts.extend(done.iter().filter_map(|c| c.new.as_ref()).flat_map(|new| &new.told[known..]).cloned());
        Ok(doubts)
    }

    /// Carries out `changes` of flows that have nothing in common, and returns the changes as they happened.
    ///
    /// # Errors
    /// The refusal; then all flows are as before.
    pub(crate) async fn transact(
        &self,
        work: &mut Work,
        changes: Vec<Change>,
        removal: Removal<'_>,
    ) -> Result<Vec<Change>, ControllerError> {
        let steps = steps(&changes, removal.force());
        let around = Surroundings::of(&self.state());
        let (held, entries) = (Vec::new(), Entries::default());
        let mut own =
            Transaction { controller: self, changes, removal, around, held, entries, touched: false };
        for (at, step) in steps.iter().enumerate() {
            tracing::debug!(flows = own.names().join(","), "step {step:?}");
            if let Err(refusal) = own.take(work, *step).await {
                // The step that failed may have been taken in part.
                for step in steps[..=at].iter().rev() {
                    own.undo(work, *step, &refusal).await;
                }
                return Err(refusal);
            }
        }
        own.settle(work);
        Ok(own.changes)
    }

    /// Writes to the journal. Callers that ask meanwhile are told that changes of `flows` wait for its disk.
    pub(crate) fn written<T>(
        &self,
        work: &mut Work,
        flows: &[String],
        write: impl FnOnce(&mut Journal) -> T,
    ) -> T {
        let waits_for = |what: &str| flows.iter().for_each(|flow| self.0.pending.waits_for(flow, what));
        waits_for(&work.journal.disk());
        let done = write(&mut work.journal);
        waits_for("");
        done
    }

    /// Gives back numbers of `flow` that nobody has any more: at once, or when the switch has forgotten them.
    pub(crate) fn give_back(&self, flow: &Flow, touched: bool) {
        let mut state = self.state();
        let numbers = state.left_over(flow);
        if touched {
            state.numbers.rest(&numbers);
            // Fails only when the controller ends, and with it the numbers.
            let _ = self.0.resting.send((state.numbers.era(), numbers));
        } else {
            state.numbers.untouched(&numbers);
        }
    }
}

impl Transaction<'_> {
    async fn take(&mut self, work: &mut Work, step: Step) -> Result<(), ControllerError> {
        let inner = &self.controller.0;
        match step {
            Step::Begin => {
                let begins = self.changes.iter().map(|c| (c.name(), c.fallback()));
                self.controller.written(work, &self.names(), |journal| journal.begin_all(begins))?;
                self.held = self.entities(|c| c.old.as_ref(), false)?;
            }
            Step::Hold => {
                let held = self.entities(|c| c.old.as_ref(), true)?;
                let hold = Diff::between(self.held.concat(), held.concat());
                work.switch.update(hold.additions().into_iter()).await?;
                self.held = held;
            }
            Step::Rest => self.rest(work).await?,
            Step::Open => {
                let mut new: Vec<&mut Flow> =
                    self.changes.iter_mut().filter_map(|c| c.new.as_mut()).collect();
                inner.agents.open(&mut new, &inner.plane, &self.around.hosts).await?;
            }
            Step::Reset => {
                self.touched = true;
                let resets: Vec<_> = self.changes.iter().flat_map(Change::resets).collect();
                self.controller.reset(work, &resets).await?;
                // Rings have their addresses now.
                self.entries = self.draft()?;
            }
            Step::End => {
                let ends = self.changes.iter().filter_map(Change::ends_early);
                self.controller.written(work, &self.names(), |journal| journal.end_all(ends))?;
            }
            Step::Write => {
                let Entries { difference, had, has, rare, .. } = &self.entries;
                self.controller.write(work, difference, had, has).await?;
                self.controller.state().idle.extend(rare);
            }
            Step::Release => {
                work.switch.update(std::mem::take(&mut self.entries.freed).into_iter()).await?;
            }
        }
        Ok(())
    }

    /// Takes a step back, as far as switch and agents still answer.
    async fn undo(&mut self, work: &mut Work, step: Step, refusal: &ControllerError) {
        match step {
            Step::Begin => {
                for change in &self.changes {
                    if let Some(new) = &change.new {
                        self.controller.give_back(new, self.touched);
                    }
                    work.journal.note(change.name(), change.old.as_ref());
                    // It knows the largest batch now that was asked for.
                    if let (Some(old), Some(new)) = (&change.old, &change.new)
                        && old.settings.max_batch != new.settings.max_batch
                    {
                        self.controller.state().set(&old.name, Some(old.clone()));
                    }
                }
            }
            Step::Hold => self.let_go_on(work).await,
            Step::Open => {
                let opened = self.changes.iter().flat_map(Change::opening).filter(|r| r.address.is_some());
                self.controller.0.agents.close(opened, &refusal.message, false);
            }
            Step::Write => {
                let Entries { difference, had, has, .. } = &self.entries;
                self.controller.take_back(work, difference, has, had).await;
                // Before rings are closed that their entries may still name.
                self.let_go_on(work).await;
            }
            // What workers and registers did changes no flow, and what the journal says is written anew when the
            // beginning is taken back.
            Step::Rest | Step::Reset | Step::End | Step::Release => {}
        }
    }

    /// All steps were taken: flows have their new values, and rings that go are closed.
    fn settle(&self, work: &mut Work) {
        let inner = &self.controller.0;
        for change in &self.changes {
            let (name, Change { old, new }) = (change.name(), change);
            // Programs whose rings are closed look at the flow's new value: an agent that hangs must not keep it from
            // them.
            self.controller.state().set(name, new.clone());
            let deleted = format!("flow `{name}` was deleted");
            let (told, finished) = match new {
                Some(_) => (self.removal.told, !self.removal.force()),
                None => (deleted.as_str(), false),
            };
            inner.agents.close(change.closing(), told, finished);
            match new {
                None => work.journal.deleted(name),
                // Until the end can be written, the journal says that the change is to be completed.
                Some(_) if !change.only_adds() => work.journal.note(name, new.as_ref()),
                Some(_) => {}
            }
            let weight = |flow: &Option<Flow>| flow.as_ref().map(|flow| flow.settings.weight);
            if weight(old) != weight(new) {
                inner.reweighed.notify_one();
            }
            if new.as_ref().is_some_and(Flow::is_adrift) {
                inner.adrift.notify_one();
            }
            if let Some(old) = old {
                self.controller.give_back(old, true);
            }
        }
    }

    fn names(&self) -> Vec<String> {
        self.changes.iter().map(|change| change.name().to_owned()).collect()
    }

    fn rests(&self, change: &Change) -> bool {
        !change.to_rest(self.removal.force()).is_empty()
    }

    /// By change, the entries of the flow that `side` chooses; `hold`: workers that have to rest begin nothing.
    fn entities(
        &self,
        side: fn(&Change) -> Option<&Flow>,
        hold: bool,
    ) -> Result<Vec<Vec<rt::Entity>>, ControllerError> {
        let of = |change: &Change| {
            let Some(flow) = side(change) else { return Ok(Vec::new()) };
            let hold = hold && self.rests(change);
            Ok(self.controller.0.plane.entities(flow, &self.around.context(hold))?)
        };
        self.changes.iter().map(of).collect()
    }

    /// What is to be written. Workers that rest do so until their lists have the new entries.
    fn draft(&self) -> Result<Entries, ControllerError> {
        let plane = &self.controller.0.plane;
        let through = self.entities(|c| c.new.as_ref(), true)?.concat();
        let freed = match self.changes.iter().any(|change| self.rests(change)) {
            true => {
                Diff::between(through.clone(), self.entities(|c| c.new.as_ref(), false)?.concat()).additions()
            }
            false => Vec::new(),
        };
        let difference = Diff::between(self.held.concat(), through);
        let mut entries = Entries { difference, freed, ..Entries::default() };
        for Change { old, new } in &self.changes {
            entries.had.extend(old.iter().flat_map(|old| plane.tick_groups(old)));
            let Some(new) = new else { continue };
            let rare = old.is_none().then(|| plane.new_groups(new)).flatten();
            entries.rare.extend(rare.iter().flatten());
            entries.has.extend(rare.unwrap_or_else(|| plane.tick_groups(new)));
        }
        Ok(entries)
    }

    /// Workers that were held go on; others get their old entries back.
    async fn let_go_on(&mut self, work: &mut Work) {
        let Ok(before) = self.entities(|c| c.old.as_ref(), false) else { return };
        let free = Diff::between(std::mem::take(&mut self.held).concat(), before.concat());
        let _ = work.switch.update(free.additions().into_iter()).await;
        self.held = before;
    }

    /// Waits until workers that have to rest have no transfer under way, and checks that rings that go are empty.
    async fn rest(&mut self, work: &mut Work) -> Result<(), ControllerError> {
        let Transaction { controller: own, changes, removal, around, held, .. } = self;
        for (change, held) in changes.iter_mut().zip(held) {
            let workers = change.to_rest(removal.force());
            let going: Vec<Ring> = change.closing().cloned().collect();
            let Change { old: Some(old), new: Some(new) } = change else { continue };
            if workers.is_empty() {
                continue;
            }
            let leavers = only_in(old, new);
            let is_lost = |m: &Member| leavers.contains(&m.name) && !own.is_connected(&m.host);
            let lost = removal.leave == Leave::Dead || old.members().any(is_lost);
            let time = if lost { SHORT_QUIESCE } else { QUIESCE };
            own.0.pending.waits_for(&old.name, "transfers that are under way to end");
            let rest = own.quiesce(work, &workers, time).await?;
            own.0.pending.waits_for(&old.name, "");
            if let Some(state) = rest.stuck.first() {
                if !removal.force() {
                    return Err(stuck(old, state));
                }
                // Members that leave are heard no more, and without them the transfer may be complete.
                let without = own.0.plane.entities(new, &around.context(true))?;
                let leave = Diff::between(std::mem::replace(held, without.clone()), without);
                work.switch.update(leave.additions().into_iter().chain(leave.removals())).await?;
                let staying = new.workers();
                let (stay, mut given_up): (Vec<_>, Vec<_>) =
                    rest.stuck.iter().copied().partition(|s| staying.contains(&s.worker));
                own.nudge(work, &stay).await?;
                let stay = stay.iter().map(|s| s.worker).collect();
                given_up.extend(own.quiesce(work, &stay, time).await?.stuck);
                for state in &given_up {
                    own.give_up(work, old, new, state).await?;
                }
            }
            if new.kind.copies()
                && let Some(state) = rest.resting.first()
            {
                Controller::join(new, state);
            }
            if !removal.force() {
                own.settled(&old.name, &going).await?;
            }
        }
        Ok(())
    }
}

/// A worker that does not come to rest.
pub(crate) fn stuck(flow: &Flow, state: &WorkerState) -> ControllerError {
    let is_from = |m: &&Member| m.rings.iter().any(|r| r.ids.id == state.producer);
    let is_to = |m: &&Member| m.rings.iter().any(|r| r.ids.worker == state.worker);
    let names = |of: Vec<&Member>| of.iter().map(|m| m.name.as_str()).collect::<Vec<_>>().join("`, `");
    let message = format!(
        "flow `{}`: its worker {} has a transfer under way that does not come to an end (phase {}), from `{}` to `{}`: those of them who \
         are gone have to be taken out by one command, with --force",
        flow.name,
        state.worker,
        state.phase,
        names(flow.producers.iter().filter(is_from).collect()),
        names(flow.consumers.iter().filter(is_to).collect()),
    );
    ControllerError::new(ErrorKind::Stuck, message)
}

/// Names of the members of `one` that are not in `other`.
fn only_in(one: &Flow, other: &Flow) -> BTreeSet<String> {
    let stays = |name: &str| other.members().any(|m| m.name == name);
    one.members().map(|m| m.name.clone()).filter(|name| !stays(name)).collect()
}
