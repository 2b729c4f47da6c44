//! Flows that move nothing. Their workers' ticks find nothing and cost time that other flows could use. So the workers
//! tick more rarely until the first item has moved. A doorbell starts a worker all the same, and a flow without
//! doorbells is still polled. A new flow whose producers ring ticks rarely, too. A flow also goes on if the controller
//! is away.

use crate::Controller;
use crate::times::tick_rate::{AFTER, LOOK, PER_WORKER};
use std::collections::HashMap;
use tokio::time::Instant;
use zsr_plan::dataplane::flow::Ticks;
use zsr_plan::dataplane::model::Flow;
use zsr_plan::dataplane::{GROUP_TICK, PlanError};
use zsr_plan::error::ControllerError;
use zsr_plan::p4::names::counter::{RETRIES, TRANSFERS};
use zsr_switch::Cell;

/// A flow at the last look.
#[derive(Clone, Copy, Debug)]
struct Seen {
    version: u64,
    /// Transfers, and packets sent again: a flow that loses much may take long for its first transfer.
    moved: u64,
    /// The time since when these counters are the same.
    since: Instant,
}

impl Controller {
    /// Has workers tick as often as their flows need it, for as long as it is polled.
    pub(crate) async fn keep_ticks(&self) {
        let mut seen = HashMap::new();
        let mut workers = 0;
        loop {
            tokio::time::sleep(LOOK + PER_WORKER * workers).await;
            workers = 0;
            if self.is_open() {
                // A switch that can't be read or written has a report of its own.
                workers = self.look_for_idle(&mut seen).await.unwrap_or_default();
            }
        }
    }

    /// Returns how many workers were looked at.
    async fn look_for_idle(&self, seen: &mut HashMap<String, Seen>) -> Result<u32, ControllerError> {
        let plane = &self.0.plane;
        let flows: Vec<(String, u64, Vec<u16>, bool)> = {
            let state = self.state();
            let flows = state
                .flows
                .values()
                .filter(|f| f.failed.is_none() && !f.is_adrift() && plane.idle_groups(f).is_some());
            let is_silent = |f: &Flow| f.rings().any(|ring| state.silent.contains_key(&ring.name));
            let looked =
                |f: &Flow| (f.name.clone(), f.version, f.workers().into_iter().collect(), is_silent(f));
            flows.map(looked).collect()
        };
        let id = |name| plane.schema().counter(name).map_err(PlanError::from);
        let counters = [id(TRANSFERS)?, id(RETRIES)?];
        let cells_of = |worker: &u16| counters.map(|counter| (counter, *worker));
        let cells: Vec<_> = flows.iter().flat_map(|(_, _, all, _)| all.iter().flat_map(cells_of)).collect();
        if cells.is_empty() {
            seen.clear();
            return Ok(0);
        }
        let counted = self.reader().cells(&cells).await?;
        let (mut counted, now) = (counted.chunks_exact(counters.len()), Instant::now());
        let mut before = std::mem::take(seen);
        for (name, version, workers, is_silent) in flows {
            // A member that does not answer has all packets sent to it again and again.
            let count = |c: &[Cell]| c[0].packets + if is_silent { 0 } else { c[1].packets };
            let moved = counted.by_ref().take(workers.len()).map(count).sum();
            let same = |was: &Seen| was.version == version && was.moved == moved;
            let since = before.remove(&name).filter(same).map_or(now, |was| was.since);
            seen.insert(name, Seen { version, moved, since });
        }
        let is_idle = |f: &Flow| {
            let seen = seen.get(&f.name).filter(|seen| seen.version == f.version);
            let waits = |seen: &Seen| seen.moved == 0 && plane.new_groups(f).is_some();
            seen.map(|seen| now.duration_since(seen.since) >= AFTER || waits(seen))
        };
        if !self.moves(is_idle).0.is_empty() {
            let mut work = self.any_turn().await;
            let (had, has) = self.moves(is_idle);
            if let Err(e) = self.run_workers(&mut work, &had, &has).await {
                let _ = self.run_workers(&mut work, &has, &had).await;
                return Err(e.into());
            }
            self.state().idle.extend(has.into_iter().filter(|(_, group)| *group != GROUP_TICK));
        }
        Ok((cells.len() / counters.len()) as u32)
    }

    /// The groups of workers that tick too often or too rarely, and the groups that they are to be in. `is_idle` says
    /// whether a flow moves nothing; `None`: unknown.
    fn moves(&self, is_idle: impl Fn(&Flow) -> Option<bool>) -> (Ticks, Ticks) {
        let (mut had, mut has) = (Ticks::new(), Ticks::new());
        let state = self.state();
        for flow in state.flows.values().filter(|f| f.failed.is_none() && !f.is_adrift()) {
            let Some(is_idle) = is_idle(flow) else { continue };
            let often = self.0.plane.tick_groups(flow);
            let wanted = self.0.plane.idle_groups(flow).filter(|_| is_idle).unwrap_or_else(|| often.clone());
            for (worker, group) in wanted {
                let now = state.idle.get(&worker).or(often.get(&worker)).copied();
                if let Some(now) = now.filter(|now| *now != group) {
                    had.insert(worker, now);
                    has.insert(worker, group);
                }
            }
        }
        (had, has)
    }
}
