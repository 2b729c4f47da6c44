//! A switch that was started anew, or given another program by somebody: what its registers had is gone. Its flows go on from what their
//! rings hold ([`super::resume`]).

use super::start::{StartError, give_program};
use super::{Controller, Work};
use crate::p4::{Artifacts, ClientError};
use crate::switch::SwitchClient;
use std::path::PathBuf;
use std::time::Duration;
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
    /// Gives a switch its program. All flows are adrift then.
    pub(super) async fn start_over(
        &self,
        work: &mut Work,
        client: &mut SwitchClient,
    ) -> Result<(), StartError> {
        let base = &self.0.base;
        let given = async {
            let cookie = give_program(client, &base.artifacts, &self.0.plane, &base.topology).await?;
            client.set_up(&base.topology).await?;
            Ok::<_, StartError>(cookie)
        };
        let silent =
            |_| ClientError::Silent { switch: self.0.switch_name.clone(), seconds: PROGRAM.as_secs() };
        let cookie = tokio::time::timeout(PROGRAM, given).await.map_err(silent)??;

        (work.cookie, work.is_new) = (cookie, true);
        self.state().forget_switch();
        Ok(())
    }
}
