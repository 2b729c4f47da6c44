//! What the data plane reports while a system runs: refused requests, silent peers, PUs that broke the ring ABI. Those that
//! stop a flow reach its PUs through ABORTED.

use crate::p4::Digests;
use crate::plan::Plan;
use crate::plan::report::{Reason, Report};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use zsr_host_agent::agent::Agent;
use zsr_topology::{Policy, Topology};

/// What one worker (numbered from 1) serves, as words and names.
struct WorkerNames {
    flow: String,
    consumer: String,
    /// A silent peer ends the flow: a run delivers all to all, so that one who is dropped is as good as an abort.
    ends: bool,
    /// (agent, ring) of all rings that its flow uses.
    rings: Vec<(Agent, String)>,
}

/// Names of everything that a report can speak of.
pub struct Names {
    workers: Vec<WorkerNames>,
    /// Numbered from 1.
    producers: Vec<String>,
}

impl Names {
    /// The names of `plan`; `agents` is parallel to the topology's hosts.
    pub fn new(topology: &Topology, plan: &Plan, agents: &[Agent]) -> Self {
        let mut producers: Vec<(u16, String)> = Vec::new();
        for (ring, ids) in topology.rings.iter().zip(&plan.rings) {
            producers.extend(ids.filter(|i| i.is_producer).map(|i| (i.id, ring.name.clone())));
        }
        producers.sort();
        let producers = producers.into_iter().map(|(_, name)| name).collect();
        let mut workers = Vec::new();
        for worker in &plan.workers {
            let names: Vec<&str> =
                worker.consumers.iter().map(|&r| topology.rings[r].name.as_str()).collect();
            let rings = [&worker.producers[..], &worker.consumers[..]].concat();
            let at = |&r: &usize| (agents[topology.rings[r].host].clone(), topology.rings[r].name.clone());
            workers.push(WorkerNames {
                flow: plan.flow_of(worker).name.clone(),
                consumer: names.join("`, `"),
                ends: plan.flow_of(worker).policy != Policy::Wait,
                rings: rings.iter().map(at).collect(),
            });
        }
        Names { workers, producers }
    }

    /// A report in words, and the rings of the flow that it ends.
    fn explain(&self, report: &Report) -> Option<(String, &[(Agent, String)])> {
        let worker = self.workers.get(usize::from(report.worker).wrapping_sub(1))?;
        let place = format!("flow `{}`, consumer ring `{}`", worker.flow, worker.consumer);
        let who = match (report.reason, report.role) {
            (Reason::Closed, _) => return None,
            (Reason::BadCount(_), _) => {
                let ring = self.producers.get(usize::from(report.producer).wrapping_sub(1));
                format!("producer ring `{}`", ring.map_or("?", String::as_str))
            }
            (_, Some(role)) => format!("the {role} queue pair"),
            (_, None) => "it".to_owned(),
        };
        let what = report.reason;
        Some(match what.is_fatal() || worker.ends {
            true => (format!("{place}: {who} {what}; the flow is stopped"), &worker.rings),
            false => (format!("{place}: {who} {what}; still trying"), &[]),
        })
    }
}

/// What was reported so far.
#[derive(Clone, Default)]
pub struct Reports {
    fatal: Arc<Mutex<Option<String>>>,
    notes: Arc<Mutex<Vec<String>>>,
}

impl Reports {
    /// The first report that ended a flow.
    pub fn fatal(&self) -> Option<String> {
        self.fatal.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reports that ended nothing, so far; each is given once.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes in reports until the switch's stream ends.
    pub async fn watch(self, mut digests: Digests, names: Names) {
        // A transfer that does not move is reported at each retry, and told once.
        let mut stalled = HashMap::new();
        while let Ok(list) = digests.next().await {
            for report in list {
                let Some(report) = Report::decode(&report) else { continue };
                if let Reason::Silent(_) = report.reason
                    && stalled.insert(report.worker, report.psn) == Some(report.psn)
                {
                    continue;
                }
                let Some((text, rings)) = names.explain(&report) else { continue };
                if rings.is_empty() {
                    self.notes.lock().unwrap_or_else(PoisonError::into_inner).push(text);
                    continue;
                }
                self.fatal.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(text.clone());
                for (agent, ring) in rings {
                    let (agent, ring, reason) = (agent.clone(), ring.clone(), text.clone());
                    // Blocks on the NIC; a ring that is gone has nobody to tell.
                    let _ = tokio::task::spawn_blocking(move || agent.abort_ring(&ring, &reason).map(|_| ()))
                        .await;
                }
            }
        }
    }
}
