//! Writes the entries of flows into the switch, and takes them back: new entries before workers start, old ones after
//! they have stopped.

use crate::{Controller, Work};
use p4runtime_proto::p4::v1 as rt;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use zsr_plan::dataplane::diff::Diff;
use zsr_plan::dataplane::flow::{Ticks, replication};
use zsr_plan::dataplane::model::Flow;
use zsr_plan::dataplane::ticks;
use zsr_plan::error::ControllerError;
use zsr_plan::surroundings::Surroundings;
use zsr_switch::ClientError;

/// Values of flows, by name.
type ByFlow<V> = Arc<BTreeMap<String, V>>;

impl Controller {
    /// Turns entries as `difference` says, while the workers of `had` stop and those of `has` start.
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
