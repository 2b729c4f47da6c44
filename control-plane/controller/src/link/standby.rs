//! The standby: a second switch, which takes over when the switch that moves flows has gone ([`crate::link::session`]).
//! Until then the standby has the program and all entries that do not depend on flows, so that nothing has to be loaded
//! or compiled then. Events tell the operator when the standby is not ready.

use crate::Controller;
use crate::api::events::of_host;
use crate::link::reconnect::CONNECT;
use crate::link::session::{Reach, become_primary};
use crate::recovery::start::StartError;
use crate::times::standby::LOOK;
use zsr_api::controller as proto;
use zsr_api::controller::EventKind;
use zsr_plan::p4::Artifacts;
use zsr_switch::ClientError;
use zsr_switch::SwitchClient;
use zsr_switch::patience::within;

/// The known state of the standby.
#[derive(Default)]
pub(crate) struct Standby {
    /// Held while the standby is made ready, or taken.
    ready: tokio::sync::Mutex<Option<Ready>>,
    /// The reason why the standby could not take over now; empty: it could.
    trouble: std::sync::Mutex<Option<String>>,
}

/// A session with a switch that has its program and no flows.
pub(crate) struct Ready {
    number: usize,
    pub(crate) client: SwitchClient,
    pub(crate) election_id: u128,
    pub(crate) cookie: Option<u64>,
}

impl Ready {
    /// Whether the switch answers, and still has the program that it was given.
    async fn is_still(&self, artifacts: &Artifacts) -> bool {
        let kept = self.client.has_kept(artifacts, self.cookie);
        within(CONNECT, kept).await.is_ok_and(|kept| matches!(kept, Ok(true)))
    }
}

impl Controller {
    /// The number of the switch that waits; `None`: the topology has no standby.
    fn waiting(&self) -> Option<usize> {
        (self.0.base.choices.len() > 1).then(|| 1 - self.0.base.active())
    }

    /// Keeps the standby ready, for as long as it is polled.
    pub(crate) async fn keep_standby(&self) {
        while let Some(number) = self.waiting() {
            // While there is no switch, the standby is being taken.
            if self.is_open() {
                let done = self.make_ready(number).await;
                // Flows may have been moved meanwhile.
                if self.waiting() == Some(number) && self.is_open() {
                    self.note_standby(number, done.err());
                }
            }
            tokio::time::sleep(LOOK).await;
        }
        std::future::pending().await
    }

    /// Looks whether switch `number` is ready, and makes it so.
    async fn make_ready(&self, number: usize) -> Result<(), StartError> {
        let base = &self.0.base;
        let choice = &base.choices[number];
        let mut slot = self.0.standby.ready.lock().await;
        if let Some(ready) = slot.as_ref()
            && ready.number == number
            && ready.is_still(&base.artifacts).await
        {
            return Ok(());
        }
        *slot = None;
        let address = choice.address();
        let bid = become_primary(&choice.switch, &address, 1, choice.switch.keep_primary);
        let silent =
            |_| ClientError::Silent { switch: choice.switch.name.clone(), seconds: CONNECT.as_secs() };
        let (mut client, election_id) = within(CONNECT, bid).await.map_err(silent)??;
        let cookie = self.prepare(choice, &mut client).await?;
        *slot = Some(Ready { number, client, election_id, cookie });
        Ok(())
    }

    /// Takes switch `number`, if it is ready. Does not wait for a standby that does not answer.
    pub(crate) async fn take_ready(&self, number: usize) -> Option<Ready> {
        let ready = self.0.standby.ready.try_lock().ok()?.take().filter(|ready| ready.number == number)?;
        ready.is_still(&self.0.base.artifacts).await.then_some(ready)
    }

    /// Emits an event if the state of the standby has changed.
    fn note_standby(&self, number: usize, why: Option<StartError>) {
        let name = &self.0.base.choices[number].switch.name;
        let why = why.map_or_else(String::new, |e| e.to_string());
        let mut trouble = self.0.standby.trouble.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let was = trouble.replace(why.clone());
        drop(trouble);
        let event = match was {
            Some(was) if was.is_empty() == why.is_empty() => return,
            _ if why.is_empty() => {
                (EventKind::StandbyFound, format!("switch `{name}` has its program, and can take over"))
            }
            _ => (EventKind::StandbyLost, format!("switch `{name}` could not take over now: {why}")),
        };
        self.0.events.emit(event.0, of_host("", event.1));
    }

    /// The standby, as clients see it; `None`: there is none.
    pub(crate) fn standby(&self) -> Option<proto::Switch> {
        let choice = &self.0.base.choices[self.waiting()?];
        let trouble = self.0.standby.trouble.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let trouble = match (self.reach(), trouble.as_deref()) {
            (Reach::Open, Some(trouble)) => trouble.to_owned(),
            (Reach::Open, None) => "it is being given its program".to_owned(),
            _ => "it is asked to take over".to_owned(),
        };
        Some(proto::Switch {
            name: choice.switch.name.clone(),
            p4runtime: choice.address().to_string(),
            connected: trouble.is_empty(),
            trouble,
            ..Default::default()
        })
    }
}
