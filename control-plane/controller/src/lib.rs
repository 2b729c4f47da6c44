//! The controller: a state machine over a store, between its gRPC service, the hosts' agents and the switch.
//!
//! ```text
//!  service (crates/api) ─► operations ─► state: checks, numbers ─► change ─► agents, switch
//!                                                     events ◄─ watch: agents' events, the switch's reports
//! ```
//! - [`state`]: what is, and every check of what is asked. No I/O. `asked`: a flow as it is asked for; `members`: the rings and numbers
//!   that a member gets.
//! - [`zsr_plan::dataplane`]: a flow as table entries.
//! - `change`: carries one change of a flow out, or takes it back. Changes run one at a time. `together`: flows that come and go, all that
//!   wait for a turn at once.
//! - [`journal`]: what is kept, [`store`]: where; `start`: from a store, a switch and agents to a controller; `inventory`: what the
//!   topology gives it to begin with; `recovery`: changes that an earlier controller had begun.
//! - [`draft`]: a topology's flows for whoever has switch and NICs in hand.
//! - `quiesce`: workers without a transfer under way, registers as fresh.
//! - `watch`: what happens meanwhile, and the flows' policies. `failure_detector`: which member of a transfer does not answer;
//!   `polls`: which one that is polled.
//! - `session`: the session with the switch, and the next one when it is lost; `reconcile`: the switch read back and set right;
//!   `reconnect`: a switch that was started anew; `resume`: how its flows go on; `renew`: workers whose requests were refused.
//! - `idle`: workers of flows that move nothing tick rarely.
//! - `turn`: who has the right to change something, and what is under way. `pulse`: whether flows move; `pending`: changes that are under way, and what they wait for; `asking`: one question to an agent.

#![forbid(unsafe_code)]

pub mod agents;
mod asking;
mod barriers;
mod change;
mod doubts;
mod drops;
pub mod events;
mod failure_detector;
mod idle;
pub mod journal;
mod links;
mod losses;
mod operations;
mod pending;
mod places;
mod polls;
mod pulse;
mod quiesce;
mod reconcile;
mod reconnect;
mod recovery;
mod renew;
mod resume;
mod service;
mod session;
mod shares;
mod standby;
mod start;
mod stats;
pub mod store;
mod strangers;
mod timeouts;
mod together;
mod turn;
mod watch;
pub mod watchdog;

use agents::Agents;
use events::Events;
use journal::Journal;
use session::{Reach, Session};
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

pub use service::{serve, serve_tcp, serve_tls};
pub use start::{Seat, Setup, StartError, give_base, start};

/// A running controller. Clones are the same one.
#[derive(Clone)]
pub struct Controller(Arc<Inner>);

struct Inner {
    name: String,
    /// What a switch is given that was started anew.
    base: reconnect::Base,
    session: Mutex<Session>,
    plane: DataPlane,
    agents: Agents,
    events: Events,
    /// What is, between changes. Held for moments only.
    state: Mutex<State>,
    /// Held by the change under way.
    work: tokio::sync::Mutex<Work>,
    /// Hosts whose agents were asked, and whether they answer.
    connected: channel::Sender<std::collections::HashMap<String, bool>>,
    /// Whether the switch can be changed.
    reach: channel::Sender<Reach>,
    /// Why the journal can't be written, if it can't.
    unwritten: channel::Receiver<Option<String>>,
    /// What was last counted, for when an agent or the switch does not answer.
    last: stats::Last,
    links: links::Links,
    /// Changes that are under way.
    pending: pending::Pending,
    /// Flows that are to come or go, and wait for a turn.
    coming_and_going: together::Queue,
    /// Calls that are answered, who has the turn, what the switch is told.
    doings: zsr_tls::Doings,
    pulse: pulse::Pulse,
    barriers: barriers::Barriers,
    started: Instant,
    /// Numbers that were given back.
    resting: tokio::sync::mpsc::UnboundedSender<alloc::Resting>,
    /// What workers say of themselves.
    states: tokio::sync::broadcast::Sender<quiesce::WorkerState>,
    /// There are flows, perhaps, with workers that are adrift.
    adrift: tokio::sync::Notify,
    standby: standby::Standby,
    /// Weights have changed.
    reweighed: tokio::sync::Notify,
    /// Other workers tick.
    crowd: tokio::sync::Notify,
    /// Turns true when the controller has to end.
    stop: channel::Sender<bool>,
    /// Gone when the last clone is.
    alive: channel::Sender<()>,
}

/// What a change needs and only one may have at a time.
struct Work {
    switch: SwitchClient,
    journal: Journal,
    /// That of the pipeline that the switch was given, if it keeps one.
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
