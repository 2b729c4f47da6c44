//! A switch that was started anew, or given another program by somebody: what its registers had is gone, and its flows with that.

use super::events::of_flow;
use super::start::{StartError, give_program};
use super::{Controller, Work};
use crate::p4::{Artifacts, ClientError};
use crate::switch::SwitchClient;
use std::path::PathBuf;
use std::time::Duration;
use zsr_api::controller::EventKind;
use zsr_topology::Topology;

/// Between two attempts to begin a session.
pub(super) const AGAIN: Duration = Duration::from_millis(200);
/// How long a switch may take to accept a session, and to be given its program.
pub(super) const CONNECT: Duration = Duration::from_secs(5);
const PROGRAM: Duration = Duration::from_secs(60);

/// What a switch is given when it has nothing yet, and where it is.
pub(super) struct Base {
    /// Without flows.
    pub(super) topology: Topology,
    pub(super) artifacts: Artifacts,
    /// The file that says where it listens, if it may listen somewhere else when it is started anew.
    pub(super) listens: Option<PathBuf>,
}

impl Controller {
    /// Gives a switch its program. Returns the flows that went with its predecessor.
    pub(super) async fn start_over(
        &self,
        work: &mut Work,
        client: &mut SwitchClient,
    ) -> Result<Vec<String>, StartError> {
        let base = &self.0.base;
        let given = async {
            let cookie = give_program(client, &base.artifacts, &self.0.plane, &base.topology).await?;
            client.set_up(&base.topology).await?;
            Ok::<_, StartError>(cookie)
        };
        let silent =
            |_| ClientError::Silent { switch: self.0.switch_name.clone(), seconds: PROGRAM.as_secs() };
        let cookie = tokio::time::timeout(PROGRAM, given).await.map_err(silent)??;

        let lost = self.list_flows();
        for flow in &lost {
            self.0.agents.close(flow.rings(), "its switch was started anew", false).await;
            work.journal.note(&flow.name, None);
        }
        work.cookie = cookie;
        work.journal.note_program(cookie);
        let mut state = self.state();
        lost.iter().for_each(|flow| state.set(&flow.name, None));
        state.forget_switch();
        Ok(lost.into_iter().map(|flow| flow.name).collect())
    }

    /// A flow went with its switch.
    pub(super) fn says_lost(&self, flow: &str) {
        let why = match self.is_own(flow) {
            true => "the switch was started anew and has lost what was in the flow; it is made again",
            false => "the switch was started anew and has lost the flow; create it again",
        };
        self.0.events.emit(EventKind::FlowDeleted, of_flow(flow, why));
    }
}
