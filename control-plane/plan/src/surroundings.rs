//! What the entries of flows depend on beside the flows.

use crate::dataplane::flow::{AdaptedFlows, Context, Hosts, Limits};
use crate::state::State;
use std::sync::Arc;
use std::time::Duration;

/// What the entries of flows depend on beside the flows, as it was when a change began.
#[derive(Clone)]
pub struct Surroundings {
    /// Hosts, by name.
    pub hosts: Arc<Hosts>,
    /// What weights hold flows to, by flow.
    pub limits: Arc<Limits>,
    /// What losses set flows to, by flow.
    pub adapted: Arc<AdaptedFlows>,
    /// No timeout of a flow is shorter.
    pub min_timeout: Duration,
}

impl Surroundings {
    /// As the state has them.
    pub fn of(state: &State) -> Self {
        Surroundings {
            hosts: state.hosts.clone(),
            limits: state.limits.clone(),
            adapted: state.adapted.clone(),
            min_timeout: state.min_timeout,
        }
    }

    /// As the planner of entries takes them; `hold` says whether producers are held.
    pub fn context(&self, hold: bool) -> Context<'_> {
        Context {
            hosts: &self.hosts,
            limits: &self.limits,
            adapted: &self.adapted,
            min_timeout: self.min_timeout,
            hold,
        }
    }
}
