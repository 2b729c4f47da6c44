//! Keeps the weights of flows. Measures what flows move and whether they would move more, asks [`Sharing`] for the
//! limit of each, and has the switch enforce the limits by rate caps.

use crate::times::shares::{FIRST, PER_RING, PERIOD};
use crate::{Controller, Work};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use tokio::time::Instant;
use zsr_api::agent::Ring as Seen;
use zsr_plan::dataplane::flow::Limits;
use zsr_plan::dataplane::model::Flow;
use zsr_plan::error::ControllerError;
use zsr_plan::share_law::{Demand, Sharing};

/// A producer has items when its rings are filled that far, a consumer has no room from there on.
const HAS_ITEMS: f64 = 0.25;
const HAS_NO_ROOM: f64 = 0.45;
/// A limit is written when it differs by that much from the one that the switch has.
const WORTH_WRITING: f64 = 0.002;

/// A look at a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    /// Bytes that the flow's consumers were given, since they were made.
    bytes: u64,
    /// How full the flow's producer and consumer rings are, 0 to 1, averaged with the looks before.
    producers: f64,
    consumers: f64,
}

/// All flows at one time.
struct Looks {
    at: Instant,
    flows: HashMap<String, Look>,
}

impl Controller {
    /// Keeps shares, for as long as it is polled.
    pub(crate) async fn keep_shares(&self) {
        let mut law = Sharing::default();
        let mut before: Option<Looks> = None;
        let (mut demands, mut first): (Vec<Demand>, bool) = (Vec::new(), true);
        loop {
            if !self.state().weights_differ() {
                (law, before) = (Sharing::default(), None);
                self.hold_to(Limits::new()).await;
                self.0.reweighed.notified().await;
                continue;
            }
            let Some(earlier) = before.take() else {
                before = Some(self.look_at_flows(None).await);
                tokio::time::sleep(FIRST).await;
                first = true;
                continue;
            };
            let rings: usize = self.state().flows.values().map(|f| f.rings().count()).sum();
            let pause =
                if std::mem::take(&mut first) { Duration::ZERO } else { PERIOD + PER_RING * rings as u32 };
            let measure = tokio::select! {
                biased;
                () = tokio::time::sleep(pause) => true,
                () = self.0.reweighed.notified() => false,
            };
            if measure {
                let now = self.look_at_flows(Some(&earlier)).await;
                demands = self.demands(&earlier, &now);
                before = Some(now);
            } else {
                // Other weights, the same rates: their effect is clear before the next measurement.
                let weights = self.weights();
                demands.iter_mut().for_each(|d| d.weight = weights.get(&d.flow).copied().unwrap_or(d.weight));
                before = Some(earlier);
            }
            let limits = law.step(&demands);
            self.hold_to(limits.into_iter().map(|(flow, rate)| (flow, rate as u64)).collect()).await;
        }
    }

    fn weights(&self) -> BTreeMap<String, u32> {
        self.state().flows.values().map(|f| (f.name.clone(), f.settings.weight)).collect()
    }

    async fn look_at_flows(&self, earlier: Option<&Looks>) -> Looks {
        let flows: Vec<Flow> = self.state().flows.values().filter(|f| f.failed.is_none()).cloned().collect();
        // Rings of agents that do not answer are not seen; their flows move nothing.
        let (seen, _) = self.0.agents.look(flows.iter().flat_map(|f| f.rings())).await;
        let look = |flow: &Flow| {
            let last = earlier.and_then(|e| e.flows.get(&flow.name));
            (flow.name.clone(), look(flow, &seen, last))
        };
        Looks { at: Instant::now(), flows: flows.iter().map(look).collect() }
    }

    fn demands(&self, earlier: &Looks, now: &Looks) -> Vec<Demand> {
        let seconds = (now.at - earlier.at).as_secs_f64();
        let state = self.state();
        let demand = |flow: &Flow| {
            let (then, now) = (earlier.flows.get(&flow.name)?, now.flows.get(&flow.name)?);
            let cap = flow.settings.rate_cap_bps as f64 / 8.0;
            Some(Demand {
                flow: flow.name.clone(),
                weight: flow.settings.weight,
                rate: now.bytes.saturating_sub(then.bytes) as f64 / seconds,
                hungry: now.producers >= HAS_ITEMS && now.consumers < HAS_NO_ROOM,
                cap: (cap > 0.0).then_some(cap),
            })
        };
        state.flows.values().filter_map(demand).collect()
    }

    /// Has the switch hold flows to `limits` instead of to those before.
    async fn hold_to(&self, limits: Limits) {
        let near = |a: u64, b: u64| a.abs_diff(b) as f64 <= WORTH_WRITING * a as f64;
        let same = |old: &Limits| {
            old.len() == limits.len()
                && old.iter().all(|(flow, a)| limits.get(flow).is_some_and(|b| near(*a, *b)))
        };
        if same(&self.state().limits) {
            return;
        }
        let mut work = self.any_turn().await;
        // The switch has gone, or will refuse flows' changes as well.
        let _ = self.write_limits(&mut work, limits).await;
    }

    async fn write_limits(&self, work: &mut Work, limits: Limits) -> Result<(), ControllerError> {
        let limits = self.rewrite_by_flow(work, |around| &mut around.limits, limits).await?;
        self.state().limits = limits;
        Ok(())
    }
}

fn look(flow: &Flow, seen: &HashMap<String, Seen>, last: Option<&Look>) -> Look {
    let seen_of = |producers: bool| {
        flow.rings().filter(move |r| r.ids.is_producer == producers).filter_map(|r| seen.get(&r.name))
    };
    let fill = |producers: bool, last: Option<f64>| {
        let (mut full, mut size) = (0.0, 0.0);
        for ring in seen_of(producers) {
            full += f64::from(ring.head.wrapping_sub(ring.tail));
            size += ring.ring_size as f64;
        }
        let now = if size > 0.0 { full / size } else { 0.0 };
        last.map_or(now, |last| (last + now) / 2.0)
    };
    Look {
        bytes: seen_of(false).map(|r| r.bytes).sum(),
        producers: fill(true, last.map(|l| l.producers)),
        consumers: fill(false, last.map(|l| l.consumers)),
    }
}
