//! A switch that was started anew, or given another program by another client: the contents of its registers are gone.
//! Its flows go on from what their rings hold ([`crate::recovery::resume`]).

use crate::recovery::start::{Seat, StartError, give_program};
use crate::times::reconnect::PROGRAM;
pub(crate) use crate::times::reconnect::{AGAIN, CONNECT};
use crate::{Controller, Work};
use p4runtime_proto::Address;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use zsr_plan::p4::Artifacts;
use zsr_switch::ClientError;
use zsr_switch::SwitchClient;
use zsr_switch::patience::within;
use zsr_tls::Peer;
use zsr_topology::{Switch, Topology};

/// The program for a switch that has nothing yet, and the addresses of the switch and its standby.
pub(crate) struct Base {
    pub(crate) artifacts: Artifacts,
    /// The switch, and the standby if there is one.
    pub(crate) choices: Vec<Choice>,
    /// The number of the switch that moves flows.
    active: AtomicUsize,
}

/// A switch that can move the flows.
pub(crate) struct Choice {
    pub(crate) switch: Switch,
    /// The topology as this switch has it, without flows.
    pub(crate) topology: Topology,
    address: Address,
    /// The file with the switch's address, if the switch may listen somewhere else when it is started anew.
    listens: Option<PathBuf>,
}

impl Choice {
    pub(crate) fn new(switch: Switch, topology: Topology, seat: Seat) -> Self {
        Choice { switch, topology, address: seat.p4runtime, listens: seat.listens }
    }

    /// The address at which the switch's P4Runtime server listens now.
    pub(crate) fn address(&self) -> Address {
        let said = self.listens.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
        let said = said.and_then(|text| text.trim().parse().ok());
        match (said, self.address.clone()) {
            // The server has another port, and the same name.
            (Some(Address::Tcp(at)), Address::Tls(peer)) => Peer { address: at.to_string(), ..*peer }.into(),
            (Some(said), _) => said,
            (None, before) => before,
        }
    }
}

impl Base {
    pub(crate) fn new(artifacts: Artifacts, choices: Vec<Choice>, active: usize) -> Self {
        Base { artifacts, choices, active: active.into() }
    }

    /// The number of the switch that moves flows.
    pub(crate) fn active(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }

    /// The switch that moves flows.
    pub(crate) fn choice(&self) -> &Choice {
        &self.choices[self.active()]
    }
}

impl Controller {
    /// The name of the switch that moves flows.
    pub(crate) fn switch_name(&self) -> &str {
        &self.0.base.choice().switch.name
    }

    /// The number of the switch that moves flows: 0, or 1 if that is the standby.
    pub fn active_switch(&self) -> usize {
        self.0.base.active()
    }

    /// From now on switch `number` is the one that moves flows. The other switch may only have been slow, and come back
    /// with all its state. So nobody may take it up any more, neither this controller nor a successor that reads the
    /// journal. Hosts do not listen to it: their queue pairs are connected to the address of one switch.
    ///
    /// # Errors
    /// When the journal can't be written; then nothing has changed.
    pub(crate) fn move_to(&self, work: &mut Work, number: usize) -> Result<(), StartError> {
        work.journal.forget_program()?;
        work.cookie = None;
        self.0.base.active.store(number, Ordering::Relaxed);
        self.0.plane.move_to(&self.0.base.choice().switch);
        Ok(())
    }

    /// Gives the switch that moves flows its program.
    pub(crate) async fn start_over(
        &self,
        work: &mut Work,
        client: &mut SwitchClient,
    ) -> Result<(), StartError> {
        let cookie = self.prepare(self.0.base.choice(), client).await?;
        self.is_fresh(work, cookie);
        Ok(())
    }

    /// Gives a switch its program and the entries that do not depend on flows. Returns the program's cookie, if the
    /// switch keeps one.
    pub(crate) async fn prepare(
        &self,
        choice: &Choice,
        client: &mut SwitchClient,
    ) -> Result<Option<u64>, StartError> {
        let topology = &choice.topology;
        let given = async {
            let cookie = give_program(client, &self.0.base.artifacts, &self.0.plane, topology).await?;
            client.set_up(topology).await?;
            Ok::<_, StartError>(cookie)
        };
        let silent =
            |_| ClientError::Silent { switch: choice.switch.name.clone(), seconds: PROGRAM.as_secs() };
        within(PROGRAM, given).await.map_err(silent)?
    }

    /// The switch has its program, with this cookie, and no entries of flows. All flows are adrift then.
    pub(crate) fn is_fresh(&self, work: &mut Work, cookie: Option<u64>) {
        (work.cookie, work.is_new) = (cookie, true);
        self.state().forget_switch();
    }
}
