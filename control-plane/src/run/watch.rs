//! What the data plane reports while a system runs: refused requests, silent peers, PUs that broke the ring ABI. Those that
//! stop a flow reach its PUs through ABORTED.

use crate::p4::client::Digests;
use crate::plan::Plan;
use crate::topology::Topology;
use std::sync::{Arc, Mutex, PoisonError};
use zsr_host_agent::agent::Agent;

// Reasons and roles (p4/common/types.p4).
const REPORT_REFUSED: u64 = 1;
const REPORT_SILENT: u64 = 2;
const REPORT_BAD_COUNT: u64 = 3;
const REPORT_CLOSED: u64 = 5;
const ROLES: [&str; 5] = ["?", "producer data", "producer poll", "consumer data", "consumer poll"];

/// What one worker (numbered from 1) serves, as words and names.
struct WorkerNames {
    flow: String,
    consumer: String,
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
                rings: rings.iter().map(at).collect(),
            });
        }
        Names { workers, producers }
    }

    /// A report in words, and the rings of the flow that it ends.
    fn explain(&self, report: &[u64]) -> Option<(String, &[(Agent, String)])> {
        let &[reason, code, worker, producer, _, role, ..] = report else { return None };
        let worker = self.workers.get((worker as usize).wrapping_sub(1))?;
        let place = format!("flow `{}`, consumer ring `{}`", worker.flow, worker.consumer);
        let ring = self.producers.get((producer as usize).wrapping_sub(1)).map_or("?", String::as_str);
        let text = match reason {
            REPORT_REFUSED => {
                // The AETH: syndrome, message sequence number.
                let code = code >> 24;
                let role = ROLES.get(role as usize).copied().unwrap_or("?");
                let meaning = match code {
                    0x61 => "invalid request",
                    0x62 => "remote access error: key, bounds or rights",
                    0x63 => "remote operational error",
                    _ => "NAK",
                };
                format!(
                    "{place}: the {role} queue pair refused a request (AETH syndrome {code:#04x}, {meaning}); the flow is stopped"
                )
            }
            REPORT_SILENT => {
                return Some((format!("{place}: no progress after {code} retries; still trying"), &[]));
            }
            REPORT_BAD_COUNT => format!(
                "{place}: a counter left its ring (producer ring `{ring}`, fill {code} bytes): the program there broke the ring ABI; the flow is stopped"
            ),
            REPORT_CLOSED => return None,
            other => format!("{place}: unknown report {other}"),
        };
        Some((text, &worker.rings))
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
        while let Ok(list) = digests.next().await {
            for report in list {
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
