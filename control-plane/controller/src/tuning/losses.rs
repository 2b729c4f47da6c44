//! Flows that lose packets: their timeouts follow the measured round trip, and their transfers become shorter the more
//! is lost ([`zsr_plan::loss_law`]). A flow's settings are the upper limit. A flow that loses nothing keeps its
//! settings.

use crate::Controller;
use crate::health::polls::REST;
use crate::times::losses::{CALM, CLOCKING, LOOK, PER_WORKER};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;
use zsr_plan::dataplane::flow::{Adapted, AdaptedFlows, Hosts};
use zsr_plan::dataplane::model::{Flow, Member};
use zsr_plan::dataplane::{GROUP_TICK, PlanError};
use zsr_plan::error::ControllerError;
use zsr_plan::loss_law::Bounds;
use zsr_plan::p4::names::counter::{RETRIES, SENT, TRANSFERS};
use zsr_plan::round_trips::{Clocking, Counts, Pace, READS, WATCHED};

const CLOCKED: usize = 16;

/// A worker, and the connection on which one of its consumers gets items.
type Worker = (u16, u16);

/// A counter of workers, and the cell of a worker in it.
type Counter = (&'static str, fn(&Worker) -> u16);
const DONE: [Counter; 2] = [(TRANSFERS, |w| w.0), (RETRIES, |w| w.0)];
const DONE_AND_SENT: [Counter; 3] = [DONE[0], DONE[1], (SENT, |w| w.1)];

/// A flow at the last look.
struct Seen {
    version: u64,
    counts: Vec<Counts>,
    /// When a packet was last sent again.
    lost: Option<Instant>,
    /// The known pace of the flow's network.
    pace: Option<Pace>,
    /// The number of looks, up to the last one, that have seen no transfer, but packets that were sent again.
    stuck: u32,
}

impl Seen {
    fn is_calm(&self, now: Instant) -> bool {
        self.lost.is_none_or(|lost| now.duration_since(lost) >= CALM)
    }
}

/// A flow to look at.
struct Looked {
    name: String,
    version: u64,
    workers: Vec<Worker>,
    bounds: Bounds,
    now: Adapted,
}

/// The counts of a flow since the last look, with its present setting.
struct Lossy {
    looked: Looked,
    more: Counts,
}

impl Controller {
    /// Keeps timeouts and batches of flows that lose packets, for as long as it is polled.
    pub(crate) async fn keep_adapting(&self) {
        let mut seen = HashMap::new();
        let mut pause = LOOK;
        loop {
            tokio::time::sleep(pause).await;
            pause = LOOK;
            if self.is_open() {
                // A switch that can't be read or written has a report of its own.
                pause = self.look_for_losses(&mut seen).await.unwrap_or(LOOK);
            }
        }
    }

    /// Returns the time until the next look.
    async fn look_for_losses(&self, seen: &mut HashMap<String, Seen>) -> Result<Duration, ControllerError> {
        let flows = self.flows_that_move();
        let workers: Vec<Worker> = flows.iter().flat_map(|f| f.workers.iter().copied()).collect();
        if workers.is_empty() {
            seen.clear();
            return Ok(LOOK);
        }
        let begun = Instant::now();
        let (counted, now) = (self.counts(&workers, &DONE).await?, Instant::now());
        let pause = (LOOK + PER_WORKER * workers.len() as u32).max((now - begun) * REST);
        let (mut counted, mut before) = (counted.into_iter(), std::mem::take(seen));
        let mut lossy = Vec::new();
        for looked in flows {
            let counts: Vec<Counts> = counted.by_ref().take(looked.workers.len()).collect();
            let was = before.remove(&looked.name).filter(|was| was.version == looked.version);
            let more = was.as_ref().map_or(Counts::default(), |was| since(&counts, &was.counts));
            let loses = more.retries > 0;
            let (lost, pace, stuck) = was.map_or((None, None, 0), |was| (was.lost, was.pace, was.stuck));
            let lost = if loses { Some(now) } else { lost };
            let stuck = if more.transfers > 0 { 0 } else { stuck + u32::from(loses) };
            seen.insert(looked.name.clone(), Seen { version: looked.version, counts, lost, pace, stuck });
            if loses {
                lossy.push(Lossy { looked, more });
            }
        }
        self.adapt(lossy, seen, now).await?;
        Ok(pause)
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
            let (name, version, bounds) = (flow.name.clone(), flow.version, self.bounds(flow, &state.hosts));
            let now = state.adapted.get(&name).copied().unwrap_or(bounds.own);
            (!workers.is_empty()).then_some(Looked { name, version, workers, bounds, now })
        };
        state.flows.values().filter(|f| f.failed.is_none() && !f.is_adrift()).filter_map(looked).collect()
    }

    /// The counters `of` workers; `sent` is 0 where it is not among the counters.
    async fn counts(&self, workers: &[Worker], of: &[Counter]) -> Result<Vec<Counts>, ControllerError> {
        let id = |(name, _): &Counter| self.0.plane.schema().counter(name).map_err(PlanError::from);
        let ids = of.iter().map(id).collect::<Result<Vec<u32>, _>>()?;
        let of_worker = |w| ids.iter().zip(of).map(move |(id, (_, cell))| (*id, cell(w)));
        let cells: Vec<(u32, u16)> = workers.iter().flat_map(of_worker).collect();
        let cells = self.reader().cells(&cells).await?;
        let counts = |c: &[zsr_switch::Cell]| Counts {
            transfers: c[0].packets,
            retries: c[1].packets,
            sent: c.get(2).map_or(0, |sent| sent.packets),
        };
        Ok(cells.chunks_exact(of.len()).map(counts).collect())
    }

    /// The pace of the network as each of these workers sees it. `rto` is their timeout, `known` the pace that is known
    /// already.
    async fn clock(
        &self,
        workers: &[Worker],
        rto: Duration,
        known: Option<Pace>,
    ) -> Result<Vec<Option<Pace>>, ControllerError> {
        let start = Instant::now();
        let mut clockings = vec![Clocking::default(); workers.len()];
        for reads in 1.. {
            let counts = self.counts(workers, &DONE_AND_SENT).await?;
            let at = start.elapsed();
            clockings.iter_mut().zip(counts).for_each(|(clocking, counts)| clocking.note(at, counts));
            // As long as no pace is known, answers may be rare and take long.
            let is_enough = |known: Pace| reads >= READS && at >= known.round_trip * WATCHED;
            if at >= CLOCKING || known.is_some_and(is_enough) {
                break;
            }
        }
        Ok(clockings.iter().map(|clocking| clocking.pace(rto, known.is_some())).collect())
    }

    /// Sets the timeouts and batches that `lossy` flows need, and gives calm flows their own settings back.
    async fn adapt(
        &self,
        lossy: Vec<Lossy>,
        seen: &mut HashMap<String, Seen>,
        now: Instant,
    ) -> Result<(), ControllerError> {
        let mut wanted = AdaptedFlows::clone(&self.state().adapted);
        wanted.retain(|name, _| !seen.get(name).is_some_and(|seen| seen.is_calm(now)));
        for Lossy { looked, more } in lossy {
            let some = &looked.workers[..looked.workers.len().min(CLOCKED)];
            let Some(seen) = seen.get_mut(&looked.name) else { continue };
            let found = self.clock(some, looked.now.rto, seen.pace).await?;
            let found = found.into_iter().flatten().min_by_key(|pace| pace.round_trip);
            seen.pace = Pace::and(seen.pace, found, looked.now.rto);
            let next = looked.bounds.next(looked.now, more, seen.pace, seen.stuck);
            if next == looked.bounds.own {
                wanted.remove(&looked.name);
            } else {
                wanted.insert(looked.name, next);
            }
        }
        self.adapt_to(wanted).await
    }

    /// The bounds of a flow's adapted settings.
    fn bounds(&self, flow: &Flow, hosts: &Hosts) -> Bounds {
        let window = |m: &Member| hosts.get(&m.host).map_or(0, |host| host.reorder_window);
        Bounds {
            own: Adapted {
                rto: Duration::from_micros(flow.settings.rto_us),
                max_batch: flow.settings.max_batch,
            },
            least_rto: self.0.plane.least_timeout(),
            item_size: flow.item_size,
            mtu: flow.mtu,
            reorder_window: flow.consumers.iter().map(window).min().unwrap_or(0),
            dead_after: Duration::from_micros(flow.settings.dead_after_us),
        }
    }

    async fn adapt_to(&self, wanted: AdaptedFlows) -> Result<(), ControllerError> {
        if *self.state().adapted == wanted {
            return Ok(());
        }
        let mut work = self.any_turn().await;
        let adapted = self.rewrite_by_flow(&mut work, |around| &mut around.adapted, wanted).await?;
        self.state().adapted = adapted;
        Ok(())
    }
}

/// Counts of all workers of a flow since `before`.
fn since(now: &[Counts], before: &[Counts]) -> Counts {
    let mut all = Counts::default();
    for more in now.iter().zip(before).map(|(now, before)| now.since(*before)) {
        all.transfers += more.transfers;
        all.retries += more.retries;
        all.sent += more.sent;
    }
    all
}
