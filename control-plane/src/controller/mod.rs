//! The controller: a state machine over a store, between its gRPC service, the hosts' agents and the switch.
//!
//! ```text
//!  service (proto/zsr/controller/v1) ─► operations ─► state: checks, numbers ─► change ─► agents, switch
//!                                                     events ◄─ watch: agents' events, the switch's reports
//! ```
//! - [`state`]: what is, and every check of what is asked. No I/O.
//! - [`dataplane`]: a flow as table entries, the one planning interface; [`difference`]: from one list of entries to another.
//! - `change`: carries one change out, or takes it back. Changes run one at a time.
//! - [`journal`]: the store; `start`: from a store, a switch and agents to a controller.
//! - `unfinished`: what an earlier controller had begun.
//! - `rest`: workers at rest, registers as fresh.
//! - `watch`: what happens meanwhile, and the flows' policies; `silence`: which member does not answer; `again`: a switch that goes and comes.

mod again;
pub mod agents;
pub mod alloc;
mod barriers;
mod change;
mod convert;
pub mod dataplane;
pub mod difference;
pub mod events;
pub mod journal;
mod links;
pub mod model;
mod operations;
mod patience;
pub mod refusal;
mod rest;
mod service;
pub mod settings;
mod shares;
mod sharing;
mod silence;
mod start;
pub mod state;
mod stats;
mod unfinished;
mod vlans;
mod watch;

use crate::p4::{SwitchClient, SwitchReader};
use agents::Agents;
use dataplane::DataPlane;
use events::Events;
use journal::Journal;
use state::State;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::watch as channel;

pub use service::serve;
pub use start::{Setup, StartError, start};

/// Messages, client and server of the service `zsr.controller.v1.Controller`; see `proto/zsr/controller/v1`.
#[allow(missing_docs, clippy::all, reason = "generated")]
pub mod proto {
    tonic::include_proto!("zsr.controller.v1");
}

/// A running controller. Clones are the same one.
#[derive(Clone)]
pub struct Controller(Arc<Inner>);

struct Inner {
    name: String,
    switch_name: String,
    /// What a switch is given that was started anew.
    base: again::Base,
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
    switch_connected: AtomicBool,
    links: links::Links,
    barriers: barriers::Barriers,
    started: Instant,
    /// Numbers that were given back.
    resting: tokio::sync::mpsc::UnboundedSender<alloc::Resting>,
    /// What workers say of themselves.
    states: tokio::sync::broadcast::Sender<rest::WorkerState>,
    /// Weights have changed.
    reweighed: tokio::sync::Notify,
    /// Other workers tick.
    crowd: tokio::sync::Notify,
    /// Turns true when the controller has to end.
    stop: channel::Sender<bool>,
    /// Gone when the last clone is.
    alive: channel::Sender<()>,
}

/// Where the switch is, for readers.
struct Session {
    reader: SwitchReader,
    address: SocketAddr,
}

/// What a change needs and only one may have at a time.
struct Work {
    switch: SwitchClient,
    journal: Journal,
}

impl Controller {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
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
