//! Values beside the flows that the entries of flows depend on.

use crate::dataplane::flow::{AdaptedFlows, Context, Hosts, Limits};
use crate::state::State;
use std::sync::Arc;
use std::time::Duration;

/// Values beside the flows that the entries of flows depend on, as they were when a change began.
#[derive(Clone)]
pub struct Surroundings {
    /// Hosts, by name.
    pub hosts: Arc<Hosts>,
    /// Limits by weight, by flow.
    pub limits: Arc<Limits>,
    /// Settings adapted to losses, by flow.
    pub adapted: Arc<AdaptedFlows>,
    /// The shortest timeout of a flow.
    pub min_timeout: Duration,
}

impl Surroundings {
    /// The surroundings in the present state.
    pub fn of(state: &State) -> Self {
        Surroundings {
            hosts: state.hosts.clone(),
            limits: state.limits.clone(),
            adapted: state.adapted.clone(),
            min_timeout: state.min_timeout,
        }
    }

    /// The context for the planner of entries; `hold` says whether producers are held.
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
