//! The controller: a state machine over a store, between its gRPC service, the hosts' agents and the switch.
//!
//! ```text
//!  api (crates/api) ─► turn: checks (zsr-plan), one change at a time ─► agents, switch
//!                        ▲                 events ◄─ health: agents' events, the switch's reports
//! ```
//! - `api`: the service, events, barriers, counters, and changes that wait.
//! - `ledger`: the journal, and where it is stored.
//! - `turn`: the right to change something. `operations` are the calls; `batch` gathers flows that come and go;
//!   `steps` says what leads to the wanted flows; `transaction` does it, or takes it back; `entries` writes into the
//!   switch; `quiesce` waits for workers without a transfer.
//! - `link`: the session with the switch, and the next one when it is lost; a standby; `reconcile` reads the switch
//!   back and sets it right.
//! - `agents`: calls of hosts' agents.
//! - `health`: watches agents, links and members, and applies the flows' policies. `failure_detector` finds members
//!   that keep a transfer waiting, `polls` members that do not answer polls, `stall` flows that do not move, and
//!   `nic_refusals` workers whose requests were refused.
//! - `recovery`: `start`, from a store, a switch and agents to a controller; `unfinished`, changes that an earlier one
//!   had begun; `resume`, how flows go on at a switch that was started anew.
//! - `tuning`: timeouts while packets are lost, limits by weight, and how often workers tick.

#![forbid(unsafe_code)]

pub mod agents;
mod api;
mod health;
mod ledger;
mod link;
mod recovery;
mod times;
mod tuning;
mod turn;
pub mod watchdog;

use agents::Agents;
use api::events::Events;
use ledger::journal::Journal;
use link::session::{Reach, Session};
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch as channel;
use tokio::time::Instant;
use zsr_plan::dataplane::flow::DataPlane;
use zsr_plan::dataplane::{alloc, model};
use zsr_plan::error::ControllerError;
use zsr_plan::messages;
use zsr_plan::state::State;
use zsr_switch::SwitchClient;

pub use api::service::{serve, serve_tcp, serve_tls};
pub use ledger::{journal, store};
pub use recovery::start::{Seat, Setup, StartError, give_base, start};

/// A running controller. All clones are the same controller.
#[derive(Clone)]
pub struct Controller(Arc<Inner>);

struct Inner {
    name: String,
    /// The program and entries for a switch that was started anew.
    base: link::reconnect::Base,
    session: Mutex<Session>,
    plane: DataPlane,
    agents: Agents,
    events: Events,
    /// The flows and hosts between changes. Held for moments only.
    state: Mutex<State>,
    /// Held by the change under way.
    work: tokio::sync::Mutex<Work>,
    /// Hosts whose agents were asked, and whether they answer.
    connected: channel::Sender<std::collections::HashMap<String, bool>>,
    /// Whether the switch can be changed.
    reach: channel::Sender<Reach>,
    /// Why the journal can't be written, if it can't.
    unwritten: channel::Receiver<Option<String>>,
    /// The last counters, for when an agent or the switch does not answer.
    last: api::counters::Last,
    link_faults: health::link_faults::LinkFaults,
    /// Changes under way.
    pending: api::pending::Pending,
    /// Flows that are to come or go, and wait for a turn.
    coming_and_going: turn::batch::Queue,
    /// Calls under way, the holder of the turn, and writes to the switch.
    doings: zsr_tls::Doings,
    /// Times of calls that change something.
    operations: api::operations::Operations,
    stalls: health::stall::Stalls,
    barriers: api::barriers::Barriers,
    started: Instant,
    /// Numbers that were given back.
    resting: tokio::sync::mpsc::UnboundedSender<alloc::Resting>,
    /// Answers of workers that were asked for their state.
    states: tokio::sync::broadcast::Sender<turn::quiesce::WorkerState>,
    /// Notified when there may be flows with workers that are adrift.
    adrift: tokio::sync::Notify,
    standby: link::standby::Standby,
    /// Notified when weights have changed.
    reweighed: tokio::sync::Notify,
    /// Notified when other workers tick.
    crowd: tokio::sync::Notify,
    /// Turns true when the controller has to end.
    stop: channel::Sender<bool>,
    /// Watchers see this channel end when the last clone of this controller is dropped.
    alive: channel::Sender<()>,
}

/// State that a change needs and that only one change may have at a time.
struct Work {
    switch: SwitchClient,
    journal: Journal,
    /// The cookie of the switch's present pipeline, if the switch keeps one.
    cookie: Option<u64>,
    /// The switch was given its program, and the journal does not say so yet.
    is_new: bool,
}

impl Controller {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the flow that a message asks for.
    ///
    /// # Errors
    /// Why not; then nothing was changed.
    pub async fn create(
        &self,
        request: zsr_api::controller::CreateFlowRequest,
    ) -> Result<model::Flow, ControllerError> {
        self.create_flow(&messages::new_flow(request)?).await
    }

    /// Names of the switch's program.
    pub fn schema(&self) -> &zsr_plan::p4::Schema {
        self.0.plane.schema()
    }

    /// The remembered events behind number `after` (`None`: none of them), and those to come.
    pub fn events(
        &self,
        after: Option<u64>,
    ) -> (Vec<zsr_api::controller::Event>, tokio::sync::broadcast::Receiver<zsr_api::controller::Event>) {
        self.0.events.watch(after)
    }

    /// Resolves when somebody has asked the controller to end.
    pub async fn stopped(&self) {
        // The sender lives as long as this controller.
        let _ = self.0.stop.subscribe().wait_for(|&stop| stop).await;
    }

    /// Resolves when the last clone is gone, and with it the session with the switch.
    pub fn is_gone(&self) -> impl Future<Output = ()> + use<> {
        let mut alive = self.0.alive.subscribe();
        async move { while alive.changed().await.is_ok() {} }
    }

    /// Asks the controller to end.
    pub fn stop(&self) {
        self.0.stop.send_replace(true);
    }
}
