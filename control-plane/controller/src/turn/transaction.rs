//! Carries out a change of one flow, from its old value to its new one. The order of the steps allows a change to be
//! broken off between any two steps and be completed or taken back.
//!
//! ```text
//!  journal: begins ─► workers come to rest, where they must ─► are rings that go empty? ─► agents open new rings ─► journal: what only
//!           adds is so ─► switch: entries come ─► workers stop, start ─► entries go ─► agents close old rings ─► journal: ended
//! ```
//! A change that only adds is taken back if it fails. A change that removes is taken back until rings are closed, and
//! completed from then on.

use crate::health::doubts;
use crate::ledger::journal::Journal;
use crate::link::session::Reach;
use crate::times::transaction::{QUIESCE, SHORT_QUIESCE};
use crate::turn::quiesce::WorkerState;
use crate::{Controller, Work};
use p4runtime_proto::p4::v1 as rt;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use zsr_plan::dataplane::diff::Diff;
use zsr_plan::dataplane::flow::{Ticks, replication};
use zsr_plan::dataplane::model::{Doubt, Flow, Member, Ring};
use zsr_plan::dataplane::ticks;
use zsr_plan::error::{ControllerError, ErrorKind};
use zsr_plan::surroundings::Surroundings;
use zsr_switch::ClientError;

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

/// A change that did not happen.
pub(crate) struct Failure {
    pub(crate) refusal: ControllerError,
    /// Whether the switch has heard of the new rings, so that their registers may not be fresh any more.
    pub(crate) touched: bool,
}

impl<E: Into<ControllerError>> From<E> for Failure {
    fn from(e: E) -> Self {
        Failure { refusal: e.into(), touched: false }
    }
}

/// Values of flows, by name.
type ByFlow<V> = Arc<BTreeMap<String, V>>;

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
        let mut old = match ready.and_then(|()| self.get_flow(name)) {
            Ok(old) => old,
            Err(refusal) => {
                self.give_back(&new, false);
                return Err(refusal);
            }
        };
        new.take_connections_of(&old);
        let mut doubts = old.doubts_of_leavers(&new);
        if !removal.force() && !doubts.is_empty() {
            let what = doubts::consumed(old.kind, &doubts);
            let message = format!("flow `{name}`: {what}; use --force to take it out all the same");
            self.give_back(&new, false);
            return Err(ControllerError::new(ErrorKind::NotNow, message));
        }
        new.note_told(&doubts);
        let known = new.told.len();
        if old.settings.max_batch != new.settings.max_batch {
            // Transfers that are under way may have the size that was allowed before.
            new.past_batch = old.past_batch.max(old.settings.max_batch);
            old.past_batch = old.past_batch.max(new.settings.max_batch);
        }
        let (closing, opening) = (rings_only_in(&old, &new), rings_only_in(&new, &old));
        // A change that takes rings away can always be completed, a change that makes rings can always be taken back.
        let fallback = if closing.is_empty() { &old } else { &new };
        let names = [name.to_owned()];
        let done = match self.written(work, &names, |journal| journal.begin(name, Some(fallback))) {
            Ok(()) => self.carry_out(work, &old, &mut new, removal).await,
            Err(e) => Err(ControllerError::from(e).into()),
        };
        if let Err(Failure { refusal, touched }) = done {
            let opened = new.rings().filter(|r| opening.contains(&r.name) && r.address.is_some());
            self.0.agents.close(opened, &refusal.message, false);
            self.give_back(&new, touched);
            work.journal.note(name, Some(&old));
            if old.settings.max_batch != new.settings.max_batch {
                self.state().set(name, Some(old));
            }
            return Err(refusal);
        }
        doubts.extend_from_slice(&new.told[known..]);
        // The change has happened, and programs whose rings are closed look at the flow's new value: an agent that
        // hangs must not keep it from them.
        self.state().set(name, Some(new.clone()));
        let gone = old.rings().filter(|r| closing.contains(&r.name));
        self.0.agents.close(gone, removal.told, !removal.force());
        // Until the end can be written, the journal says that the change is to be completed.
        if !closing.is_empty() {
            work.journal.note(name, Some(&new));
        }
        if old.settings.weight != new.settings.weight {
            self.0.reweighed.notify_one();
        }
        if new.is_adrift() {
            self.0.adrift.notify_one();
        }
        self.give_back(&old, true);
        Ok(doubts)
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

    /// Whether the switch can be changed now.
    pub(crate) fn can_change(&self) -> Result<(), ControllerError> {
        let name = self.switch_name();
        let message = match self.reach() {
            Reach::Open => return Ok(()),
            Reach::Lost(why) => {
                format!("{why}; nothing can be changed before the controller has a session with it again")
            }
            Reach::Gone(_) => format!(
                "switch `{name}` has gone: start it again with zsr restart switch, or zsr switch TOPOLOGY; flows then go on"
            ),
        };
        Err(ControllerError::new(ErrorKind::Unavailable, message))
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

    /// Changes rings and switch, up to where rings would be closed.
    async fn carry_out(
        &self,
        work: &mut Work,
        old: &Flow,
        new: &mut Flow,
        removal: Removal<'_>,
    ) -> Result<(), Failure> {
        let inner = &self.0;
        let around = Surroundings::of(&self.state());
        let entities = |flow: &Flow, hold| inner.plane.entities(flow, &around.context(hold));
        let mut before = entities(old, false)?;
        let workers = to_rest(old, new, removal.force());
        let rests = !workers.is_empty();
        if rests {
            let held = entities(old, true)?;
            let hold = Diff::between(before, held.clone());
            work.switch.update(hold.additions().into_iter()).await?;
            before = held;
            if let Err(refusal) = self.quiet(work, (old, new), &workers, removal, &around, &mut before).await
            {
                let free = Diff::between(before, entities(old, false)?);
                let _ = work.switch.update(free.additions().into_iter()).await;
                return Err(refusal.into());
            }
        }
        let written = async {
            inner.agents.open(std::slice::from_mut(new), &inner.plane, &around.hosts).await?;
            let touched = |refusal: ControllerError| Failure { refusal, touched: true };
            self.begin(work, old, new).await.map_err(touched)?;
            // Workers that rest do so until their lists have the new entries.
            let through = entities(new, rests).map_err(|e| touched(e.into()))?;
            let freed = match rests {
                true => Diff::between(through.clone(), entities(new, false).map_err(|e| touched(e.into()))?)
                    .additions(),
                false => Vec::new(),
            };
            let difference = Diff::between(before.clone(), through);
            let (had, has) = (inner.plane.tick_groups(old), inner.plane.tick_groups(new));
            // A change that only adds holds as soon as it is written. Items may move as soon as the switch has the
            // entries: if the change were taken back then, items at a new consumer would be lost. Where workers rest,
            // they do not wait for a disk: the other members have all items of a new member of a group, too.
            let adds = rings_only_in(old, new).is_empty();
            let names = [new.name.clone()];
            let end = |work: &mut Work| match adds {
                true => self.written(work, &names, |journal| journal.end(&new.name, Some(new))),
                false => Ok(()),
            };
            if !rests {
                end(work).map_err(|e| touched(e.into()))?;
            }
            let result = async {
                self.write(work, &difference, &had, &has).await?;
                work.switch.update(freed.into_iter()).await?;
                if rests {
                    end(work)?;
                }
                Ok::<_, ControllerError>(())
            };
            let result = result.await;
            if result.is_err() {
                self.take_back(work, &difference, &has, &had).await;
            }
            result.map_err(touched)
        };
        let result = written.await;
        if result.is_err() {
            // Workers that were held go on; others get their old entries back.
            let free = Diff::between(before, entities(old, false)?);
            let _ = work.switch.update(free.additions().into_iter()).await;
        }
        result
    }

    /// Waits until `workers` have no transfer under way, and checks that rings that go are empty. `before` is what the
    /// switch holds.
    async fn quiet(
        &self,
        work: &mut Work,
        (old, new): (&Flow, &mut Flow),
        workers: &BTreeSet<u16>,
        removal: Removal<'_>,
        around: &Surroundings,
        before: &mut Vec<rt::Entity>,
    ) -> Result<(), ControllerError> {
        let stays = |name: &str| new.members().any(|m| m.name == name);
        let lost = removal.leave == Leave::Dead
            || old.members().any(|m| !stays(&m.name) && !self.is_connected(&m.host));
        self.0.pending.waits_for(&old.name, "transfers that are under way to end");
        let rest = self.quiesce(work, workers, if lost { SHORT_QUIESCE } else { QUIESCE }).await?;
        self.0.pending.waits_for(&old.name, "");
        if let Some(state) = rest.stuck.first() {
            if !removal.force() {
                return Err(stuck(old, state));
            }
            // Members that leave are heard no more, and without them the transfer may be complete.
            let without = self.0.plane.entities(new, &around.context(true))?;
            let leave = Diff::between(std::mem::take(before), without.clone());
            *before = without;
            work.switch.update(leave.additions().into_iter().chain(leave.removals())).await?;
            let staying = new.workers();
            let (stay, mut given_up): (Vec<_>, Vec<_>) =
                rest.stuck.iter().copied().partition(|s| staying.contains(&s.worker));
            self.nudge(work, &stay).await?;
            let stay = stay.iter().map(|s| s.worker).collect();
            given_up
                .extend(self.quiesce(work, &stay, if lost { SHORT_QUIESCE } else { QUIESCE }).await?.stuck);
            for state in &given_up {
                self.give_up(work, old, new, state).await?;
            }
        }
        if new.kind.copies()
            && let Some(state) = rest.resting.first()
        {
            Self::join(new, state);
        }
        if removal.force() {
            return Ok(());
        }
        let going = rings_only_in(old, new);
        let going: Vec<Ring> = old.rings().filter(|r| going.contains(&r.name)).cloned().collect();
        Ok(self.settled(&old.name, &going).await?)
    }

    pub(crate) async fn write(
        &self,
        work: &mut Work,
        difference: &Diff,
        had: &Ticks,
        has: &Ticks,
    ) -> Result<(), ClientError> {
        let ticks = self.ticks(had, has);
        work.switch.update(difference.additions().into_iter().chain(ticks)).await?;
        work.switch.update(difference.removals().into_iter()).await
    }

    /// Writes the entries of `flows`, which stay as they are, that differ when `after` is around them and not `before`.
    pub(crate) async fn rewrite(
        &self,
        work: &mut Work,
        flows: &[Flow],
        (before, after): (&Surroundings, &Surroundings),
    ) -> Result<(), ControllerError> {
        let (mut additions, mut removals) = (Vec::new(), Vec::new());
        for flow in flows {
            let entities = |around: &Surroundings| self.0.plane.entities(flow, &around.context(false));
            let difference = Diff::between(entities(before)?, entities(after)?);
            additions.extend(difference.additions());
            removals.extend(difference.removals());
        }
        work.switch.update(additions.into_iter()).await?;
        Ok(work.switch.update(removals.into_iter()).await?)
    }

    /// Replaces the values in `field`, by the names of flows, by `wanted`, and writes the entries that differ. Flows
    /// that have failed get no entries.
    pub(crate) async fn rewrite_by_flow<V: PartialEq>(
        &self,
        work: &mut Work,
        field: fn(&mut Surroundings) -> &mut ByFlow<V>,
        mut wanted: BTreeMap<String, V>,
    ) -> Result<ByFlow<V>, ControllerError> {
        let (before, mut after, flows) = {
            let state = self.state();
            wanted.retain(|flow, _| state.flows.get(flow).is_some_and(|f| f.failed.is_none()));
            let before = Surroundings::of(&state);
            let mut after = before.clone();
            let had = std::mem::replace(field(&mut after), Arc::new(wanted));
            let has = field(&mut after);
            let changed = |f: &&Flow| had.get(&f.name) != has.get(&f.name);
            let flows: Vec<Flow> = state.flows.values().filter(changed).cloned().collect();
            (before, after, flows)
        };
        self.rewrite(work, &flows, (&before, &after)).await?;
        Ok(field(&mut after).clone())
    }

    /// Has workers stop, if the switch answers: a switch that does not answer runs none.
    pub(crate) async fn stop_workers(&self, work: &mut Work, ticks: &Ticks) {
        if self.is_open() {
            let _ = self.run_workers(work, ticks, &Ticks::new()).await;
        }
    }

    /// Tells the switch which workers run: the present ones, without `had`, with `has`.
    pub(crate) async fn run_workers(
        &self,
        work: &mut Work,
        had: &Ticks,
        has: &Ticks,
    ) -> Result<(), ClientError> {
        let updates = self.ticks(had, has);
        work.switch.update(updates.into_iter()).await
    }

    /// The updates that make the workers of `had` stop and the workers of `has` run.
    fn ticks(&self, had: &Ticks, has: &Ticks) -> Vec<rt::Update> {
        if had == has {
            return Vec::new();
        }
        let updates = {
            let mut state = self.state();
            let group_now =
                |(worker, group): (&u16, &u32)| (*worker, state.idle.remove(worker).unwrap_or(*group));
            let had: Ticks = had.iter().map(group_now).collect();
            let touched: BTreeSet<u32> = had.values().chain(has.values()).copied().collect();
            let before: Vec<_> = touched.iter().filter(|g| state.ticking.contains_key(g)).copied().collect();
            for (worker, group) in &had {
                state.ticking.entry(*group).or_default().remove(worker);
            }
            for (worker, group) in has {
                state.ticking.entry(*group).or_default().insert(*worker);
            }
            state.ticking.retain(|_, workers| !workers.is_empty());
            let entity = |group: &u32| {
                let workers = state.ticking.get(group).into_iter().flatten().copied();
                replication(ticks::group(*group, workers, self.0.plane.pipes()))
            };
            // The present groups decide whether groups come, change or go; their contents do not matter.
            let gone =
                |group: &u32| replication(ticks::group(*group, std::iter::empty(), self.0.plane.pipes()));
            let old = before.iter().map(gone).collect();
            let new = touched.iter().filter(|g| state.ticking.contains_key(g)).map(entity).collect();
            let difference = Diff::between(old, new);
            [difference.additions(), difference.removals()].concat()
        };
        self.0.crowd.notify_one();
        updates
    }

    /// Takes changes of the switch back, as far as it still answers. Each update goes by itself, since some of them
    /// have not happened and are refused.
    pub(crate) async fn take_back(&self, work: &mut Work, difference: &Diff, has: &Ticks, had: &Ticks) {
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

/// Workers that must have no transfer under way: workers that may be using a ring that goes, and the worker of a group
/// with a new member, since all members begin at one point.
fn to_rest(old: &Flow, new: &Flow, force: bool) -> BTreeSet<u16> {
    if new.kind.copies() && new.consumers.len() > old.consumers.len() {
        return old.workers();
    }
    let going = rings_only_in(old, new);
    let staying = new.workers();
    let mut out = BTreeSet::new();
    for ring in old.rings().filter(|r| going.contains(&r.name)) {
        if old.kind.competes() && ring.ids.is_producer {
            // All workers of the member may be using it.
            out.extend(old.workers());
        } else if !(old.kind.has_lanes() && force && !staying.contains(&ring.ids.worker)) {
            // A worker of a lane that goes with all of its rings need not end well, unless items may not be lost.
            out.insert(ring.ids.worker);
        }
    }
    out
}

/// Names of the members of `one` that are not in `other`.
fn only_in(one: &Flow, other: &Flow) -> BTreeSet<String> {
    let stays = |name: &str| other.members().any(|m| m.name == name);
    one.members().map(|m| m.name.clone()).filter(|name| !stays(name)).collect()
}

/// Names of the rings of `one` that are not in `other`.
pub(crate) fn rings_only_in(one: &Flow, other: &Flow) -> HashSet<String> {
    let others: HashSet<&str> = other.rings().map(|r| r.name.as_str()).collect();
    one.rings().map(|r| &r.name).filter(|r| !others.contains(r.as_str())).cloned().collect()
}
