//! Causes of a run's delays, for its progress: how often the switch has tried again, and the rings that make no
//! progress.

use super::System;
use std::time::{Duration, Instant};
use zsr_plan::dataplane::model::Flow;
use zsr_plan::p4::names::counter::RETRIES;
use zsr_topology::{RingRole, show_size};

/// Between two looks.
const LOOK: Duration = Duration::from_secs(2);
/// How long the switch may take to return the number of its retries.
const ANSWER: Duration = Duration::from_millis(500);
/// Most rings that are named.
const NAMED: usize = 2;

/// Looks at a run now and then.
#[derive(Debug)]
pub struct Delays {
    looked: Instant,
    delivered: u64,
    /// Time since when `delivered` has not changed.
    since: Instant,
}

impl Default for Delays {
    fn default() -> Self {
        let now = Instant::now();
        Delays { looked: now, delivered: 0, since: now }
    }
}

impl Delays {
    /// The delays, now that this number of records was delivered; `None` if they were reported a moment ago.
    pub fn look(&mut self, system: &System<'_>, delivered: u64) -> Option<String> {
        if self.looked.elapsed() < LOOK {
            return None;
        }
        self.looked = Instant::now();
        if delivered != self.delivered {
            (self.delivered, self.since) = (delivered, self.looked);
        }
        let mut said = Vec::new();
        if let Some(retries) = retries(system) {
            said.push(format!("{retries} retries"));
        }
        if self.since.elapsed() >= LOOK {
            let whom = waiting(system);
            let seconds = self.since.elapsed().as_secs();
            said.push(match whom.as_slice() {
                [] => format!("nothing for {seconds} s, waiting for producers"),
                whom => format!("nothing for {seconds} s, waiting for {}", some(whom)),
            });
        }
        Some(said.join("; "))
    }
}

/// Requests that the switch has sent again, if it answers in time.
fn retries(system: &System<'_>) -> Option<u64> {
    let counter = system.controller.schema().counter(RETRIES).ok()?;
    let workers = system.flows.iter().flat_map(Flow::workers);
    let cells: Vec<(u32, u16)> = workers.map(|worker| (counter, worker)).collect();
    system.block_on(async {
        let reader = system.controller.reader();
        let counted = tokio::time::timeout(ANSWER, reader.cells(&cells)).await.ok()?.ok()?;
        Some(counted.iter().map(|cell| cell.packets).sum())
    })
}

/// Rings with items, and the step that each waits for. Items in a consumer's ring hold up those behind them.
fn waiting(system: &System<'_>) -> Vec<String> {
    let topology = system.topology();
    let rings = topology.rings.iter().enumerate().filter_map(|(at, ring)| {
        let (agent, name) = system.hosts.of_ring(at);
        let found = agent.ring(name).ok()?;
        let fill = found.ring.snapshot().fill();
        let size = show_size(fill.into());
        (fill > 0).then(|| match ring.role {
            RingRole::Consumer => (0, format!("the consumer at ring `{name}` to take {size}")),
            RingRole::Producer => {
                let host = &topology.hosts[ring.host].name;
                (1, format!("{size} of ring `{name}` on host `{host}` to be transferred"))
            }
        })
    });
    let mut found: Vec<(u8, String)> = rings.collect();
    found.sort_by_key(|(rank, _)| *rank);
    found.into_iter().map(|(_, text)| text).collect()
}

/// The first of these rings, and how many more there are.
fn some(texts: &[String]) -> String {
    let first = texts.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match texts.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
