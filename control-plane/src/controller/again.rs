//! The session with the switch: how its end is noticed, and how one is begun with a switch that was started anew. What such a
//! switch had in its registers is gone, so flows end with it.

use super::events::{of_flow, of_host};
use super::proto::EventKind;
use super::start::{ELECTION_ID, StartError, give_program};
use super::{Controller, Session};
use crate::p4::{Artifacts, Digests, SwitchClient, SwitchReader};
use crate::plan::Plan;
use crate::topology::Topology;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// A switch that has not answered for so long has gone; one whose process ends has gone at once. Long, since all of its flows go
/// with it.
const LEASE: Duration = Duration::from_secs(15);
/// Between two questions whether it is still there, and between two attempts to reach it.
const ASK: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_millis(200);
/// How long it may take to accept a session, and to be given its program.
const CONNECT: Duration = Duration::from_secs(5);
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
    /// To read the switch by.
    pub(super) fn reader(&self) -> SwitchReader {
        self.session().reader.clone()
    }

    pub(super) fn session(&self) -> std::sync::MutexGuard<'_, Session> {
        self.0.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves, with the reason, when the switch no longer answers.
    pub(super) async fn silence(&self) -> String {
        let reader = self.reader();
        loop {
            tokio::time::sleep(ASK).await;
            // Any answer is a sign of life. A second question, for it may be this process that had no time.
            let asked = async |time| tokio::time::timeout(time, reader.has_pipeline()).await.is_ok();
            if !asked(LEASE - ASK).await && !asked(ASK).await {
                let seconds = LEASE.as_secs();
                return format!("switch `{}` has not answered for {seconds} s", self.0.switch_name);
            }
        }
    }

    /// The switch has gone: its flows have failed.
    pub(super) async fn switch_lost(&self, why: &str) {
        self.0.switch_connected.store(false, Ordering::Relaxed);
        self.0.events.emit(EventKind::SwitchLost, of_host("", why));
        let mut work = self.0.work.lock().await;
        // If it is still there, the session that is to come must not find this one.
        work.switch.hang_up();
        for flow in self.list_flows() {
            self.fail_flow(&mut work, &flow.name, why).await;
        }
    }

    /// Resolves when there is a switch again; it has its program, and no flows.
    pub(super) async fn meet_switch(&self) -> Digests {
        loop {
            tokio::time::sleep(AGAIN).await;
            if let Ok(Some(digests)) = self.try_meet().await {
                return digests;
            }
        }
    }

    async fn try_meet(&self) -> Result<Option<Digests>, StartError> {
        let base = &self.0.base;
        let [switch] = base.topology.switches.as_slice() else { return Ok(None) };
        let address = self.address_of_switch();
        let connect = SwitchClient::open(switch, address, ELECTION_ID);
        let Ok(client) = tokio::time::timeout(CONNECT, connect).await else { return Ok(None) };
        let mut client = client?;
        let mut work = self.0.work.lock().await;
        let plan = Plan::new(&base.topology, 0, 1)?;
        let given = async {
            give_program(&mut client, &base.artifacts, &self.0.plane, &plan).await?;
            Ok::<_, StartError>(client.set_up(&plan).await?)
        };
        let Ok(given) = tokio::time::timeout(PROGRAM, given).await else { return Ok(None) };
        given?;
        let Some(digests) = client.digests() else { return Ok(None) };

        let lost = self.list_flows();
        for flow in &lost {
            self.0.agents.close(flow.rings(), "its switch was started anew", false).await;
            // If it cannot be written, the next start finds a switch without the flow, and says the same.
            let _ = work.journal.end(&flow.name, None);
        }
        {
            let mut state = self.state();
            lost.iter().for_each(|flow| state.set(&flow.name, None));
            state.forget_switch();
        }
        *self.session() = Session { reader: client.reader(), address };
        work.switch = client;
        self.0.switch_connected.store(true, Ordering::Relaxed);
        let text = format!("switch `{}` is there, and was given its program", switch.name);
        self.0.events.emit(EventKind::SwitchFound, of_host("", text));
        lost.iter().for_each(|flow| self.says_lost(&flow.name));
        self.make_again(lost.iter().map(|flow| &flow.name));
        self.0.reweighed.notify_one();
        Ok(Some(digests))
    }

    /// A flow went with its switch.
    pub(super) fn says_lost(&self, flow: &str) {
        let why = match self.is_own(flow) {
            true => "the switch was started anew and has lost what was in the flow; it is made again",
            false => "the switch was started anew and has lost the flow; create it again",
        };
        self.0.events.emit(EventKind::FlowDeleted, of_flow(flow, why));
    }

    fn address_of_switch(&self) -> SocketAddr {
        let said = self.0.base.listens.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
        let said = said.and_then(|text| text.trim().parse().ok());
        said.unwrap_or_else(|| self.session().address)
    }
}
