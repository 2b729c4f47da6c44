//! Flows of the topology that were lost with their switch are made again, as `zsr up` made them. Flows that people have created are
//! not: whoever created them is told.

use super::Controller;
use super::convert;
use super::events::of_flow;
use std::time::Duration;
use zsr_api::controller::{self as proto, EventKind};

/// Between two attempts, and how many there are: agents may be away for a while.
const AGAIN: Duration = Duration::from_secs(1);
const ATTEMPTS: u32 = 60;

impl Controller {
    /// Whether the topology has flow `name`.
    pub(super) fn is_own(&self, name: &str) -> bool {
        self.0.own.iter().any(|request| request.name == name)
    }

    /// Makes those of the `lost` flows again that the topology has.
    pub(super) fn make_again<'l>(&self, lost: impl Iterator<Item = &'l String>) {
        for name in lost {
            let Some(request) = self.0.own.iter().find(|request| request.name == *name).cloned() else {
                continue;
            };
            let own = self.clone();
            tokio::spawn(async move {
                tokio::select! {
                    biased;
                    () = own.stopped() => {}
                    () = own.try_again(request) => {}
                }
            });
        }
    }

    async fn try_again(&self, request: proto::CreateFlowRequest) {
        let name = request.name.clone();
        let mut why = String::new();
        for _ in 0..ATTEMPTS {
            let made = match convert::new_flow(request.clone()) {
                Ok(new) => self.create_flow(&new).await,
                Err(refusal) => Err(refusal),
            };
            match made {
                Ok(_) => return,
                // Somebody else was faster.
                Err(_) if self.get_flow(&name).is_ok() => return,
                Err(refusal) => why = refusal.message,
            }
            tokio::time::sleep(AGAIN).await;
        }
        let text = format!(
            "the topology's flow could not be made again: {why}; create it, or start over with zsr down and zsr up"
        );
        self.0.events.emit(EventKind::FlowDeleted, of_flow(&name, text));
    }
}
