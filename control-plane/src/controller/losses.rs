//! Flows that lose packets: their timeouts follow the round trip that is seen, and their transfers become shorter the more is lost
//! ([`super::loss_law`]). What a flow's settings say is the most. A flow that loses nothing keeps them.

use super::Controller;
use super::change::Surroundings;
use super::error::ControllerError;
use super::loss_law::{Bounds, Clocking, Counts, Pace};
use crate::dataplane::flow::{Adapted, AdaptedFlows};
use crate::dataplane::model::{Flow, FlowKind};
use crate::dataplane::{GROUP_TICK, PlanError};
use crate::p4::names::counter::{RETRIES, SENT, TRANSFERS};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Between two looks at what was sent again, and what each worker adds to that.
const LOOK: Duration = Duration::from_millis(100);
const PER_WORKER: Duration = Duration::from_micros(100);
/// For how long a flow has lost nothing before it gets back what its settings say.
const CALM: Duration = Duration::from_secs(2);
/// How long counters are watched to see how long a round trip takes, how many reads that takes at most, and of how many workers.
const CLOCKING: Duration = Duration::from_millis(25);
const READS: usize = 200;
const CLOCKED: usize = 16;

/// A worker, and the connection on which a consumer of its gets items.
type Worker = (u16, u16);

/// A flow at the last look.
struct Seen {
    version: u64,
    counts: Vec<Counts>,
    /// When something was last sent again.
    lost: Option<Instant>,
}

/// A flow to look at.
struct Looked {
    flow: Flow,
    workers: Vec<Worker>,
    now: Adapted,
}

/// What a flow has done since the last look, with what it is set to.
struct Lossy {
    looked: Looked,
    more: Counts,
}

impl Controller {
    /// Keeps timeouts and batches of flows that lose packets, for as long as it is polled.
    pub(super) async fn keep_adapting(&self) {
        let mut seen = HashMap::new();
        let mut workers = 0;
        loop {
            tokio::time::sleep(LOOK + PER_WORKER * workers).await;
            workers = 0;
            if self.is_open() {
                // A switch that can't be read or written has a report of its own.
                workers = self.look_for_losses(&mut seen).await.unwrap_or_default();
            }
        }
    }

    /// Returns how many workers were looked at.
    async fn look_for_losses(&self, seen: &mut HashMap<String, Seen>) -> Result<u32, ControllerError> {
        let flows = self.flows_that_move();
        let workers: Vec<Worker> = flows.iter().flat_map(|f| f.workers.iter().copied()).collect();
        if workers.is_empty() {
            seen.clear();
            return Ok(0);
        }
        let (counted, now) = (self.counts(&workers).await?, Instant::now());
        let (mut counted, mut before) = (counted.into_iter(), std::mem::take(seen));
        let (mut lossy, mut calm) = (Vec::new(), Vec::new());
        for looked in flows {
            let counts: Vec<Counts> = counted.by_ref().take(looked.workers.len()).collect();
            let was = before.remove(&looked.flow.name).filter(|was| was.version == looked.flow.version);
            let more = was.as_ref().map_or(Counts::default(), |was| since(&counts, &was.counts));
            let loses = more.retries > 0;
            let lost = if loses { Some(now) } else { was.and_then(|was| was.lost) };
            let version = looked.flow.version;
            seen.insert(looked.flow.name.clone(), Seen { version, counts, lost });
            if loses {
                lossy.push(Lossy { looked, more });
            } else if lost.is_none_or(|lost| now.duration_since(lost) >= CALM) {
                calm.push(looked.flow.name);
            }
        }
        self.adapt(lossy, &calm).await?;
        Ok(workers.len() as u32)
    }

    /// Flows that go on, with those of their workers that are not idle.
    fn flows_that_move(&self) -> Vec<Looked> {
        let state = self.state();
        let looked = |flow: &Flow| {
            let of = |id| flow.consumers.iter().flat_map(|m| &m.rings).find(|r| r.ids.worker == id);
            let is_idle = |id| state.idle.get(&id).is_some_and(|group| *group != GROUP_TICK);
            let workers: Vec<Worker> = flow
                .workers()
                .into_iter()
                .filter(|id| !is_idle(*id))
                .filter_map(|id| Some((id, of(id)?.ids.data.index)))
                .collect();
            let now = state.adapted.get(&flow.name).copied().unwrap_or(own(flow));
            (!workers.is_empty()).then(|| Looked { flow: flow.clone(), workers, now })
        };
        state.flows.values().filter(|f| f.failed.is_none() && !f.is_adrift()).filter_map(looked).collect()
    }

    async fn counts(&self, workers: &[Worker]) -> Result<Vec<Counts>, ControllerError> {
        let id = |name| self.0.plane.schema().counter(name).map_err(PlanError::from);
        let (transfers, retries, sent) = (id(TRANSFERS)?, id(RETRIES)?, id(SENT)?);
        let cells: Vec<(u32, u16)> =
            workers.iter().flat_map(|(w, qp)| [(transfers, *w), (retries, *w), (sent, *qp)]).collect();
        let cells = self.reader().cells(&cells).await?;
        let counts = |c: &[crate::p4::reader::Cell]| Counts {
            transfers: c[0].packets,
            retries: c[1].packets,
            sent: c[2].packets,
        };
        Ok(cells.chunks_exact(3).map(counts).collect())
    }

    /// What each of these workers seems to see of the network.
    async fn clock(&self, workers: &[Worker]) -> Result<Vec<Option<Pace>>, ControllerError> {
        let start = Instant::now();
        let mut clockings = vec![Clocking::default(); workers.len()];
        for _ in 0..READS {
            let counts = self.counts(workers).await?;
            let at = start.elapsed();
            clockings.iter_mut().zip(counts).for_each(|(clocking, counts)| clocking.note(at, counts));
            if at >= CLOCKING {
                break;
            }
        }
        Ok(clockings.iter().map(Clocking::pace).collect())
    }

    /// Sets what `lossy` flows need, and gives back to those that are `calm` what their settings say.
    async fn adapt(&self, lossy: Vec<Lossy>, calm: &[String]) -> Result<(), ControllerError> {
        let mut wanted = AdaptedFlows::clone(&self.state().adapted);
        wanted.retain(|name, _| !calm.contains(name));
        for Lossy { looked, more } in lossy {
            let some = &looked.workers[..looked.workers.len().min(CLOCKED)];
            let pace = self.clock(some).await?.into_iter().flatten().min_by_key(|pace| pace.round_trip);
            let next = self.bounds(&looked.flow).next(looked.now, more, pace);
            if next == own(&looked.flow) {
                wanted.remove(&looked.flow.name);
            } else {
                wanted.insert(looked.flow.name, next);
            }
        }
        self.adapt_to(wanted).await
    }

    fn bounds(&self, flow: &Flow) -> Bounds {
        Bounds {
            own: own(flow),
            least_rto: self.0.plane.least_timeout(),
            item_size: flow.item_size,
            mtu: flow.mtu,
            replicate: flow.kind == FlowKind::Replicate,
        }
    }

    async fn adapt_to(&self, mut wanted: AdaptedFlows) -> Result<(), ControllerError> {
        if *self.state().adapted == wanted {
            return Ok(());
        }
        let mut work = self.0.work.lock().await;
        let (before, flows) = {
            let state = self.state();
            wanted.retain(|flow, _| state.flows.get(flow).is_some_and(|f| f.failed.is_none()));
            let changed = |f: &&Flow| state.adapted.get(&f.name) != wanted.get(&f.name);
            let flows: Vec<Flow> = state.flows.values().filter(changed).cloned().collect();
            (Surroundings::of(&state), flows)
        };
        let after = Surroundings { adapted: Arc::new(wanted), ..before.clone() };
        self.rewrite(&mut work, &flows, (&before, &after)).await?;
        self.state().adapted = after.adapted;
        Ok(())
    }
}

/// What the settings of `flow` say.
fn own(flow: &Flow) -> Adapted {
    Adapted { rto: Duration::from_micros(flow.settings.rto_us), max_batch: flow.settings.max_batch }
}

/// What all workers of a flow have done since `before`.
fn since(now: &[Counts], before: &[Counts]) -> Counts {
    let mut all = Counts::default();
    for more in now.iter().zip(before).map(|(now, before)| now.since(*before)) {
        all.transfers += more.transfers;
        all.retries += more.retries;
        all.sent += more.sent;
    }
    all
}
