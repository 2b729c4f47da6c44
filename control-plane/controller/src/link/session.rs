//! The session with the switch: how its end is noticed, and how the next one is begun. A session that is lost is not a
//! lost switch. Flows go on by themselves meanwhile; the next session finds their entries and registers, and sets right
//! what differs from the journal ([`crate::link::reconcile`]). A switch that was started anew has lost them
//! ([`crate::link::reconnect`]).

use crate::Controller;
use crate::api::events::of_host;
use crate::api::pending::UnderWay;
use crate::health::watch::consumer_of;
use crate::link::reconnect::{AGAIN, Base, CONNECT};
use crate::recovery::start::StartError;
use crate::times::session::{ASK, AT_ONCE, LASTING, OTHERS, PATIENCE, RARELY, SOON};
use crate::turn::{Place, Turn};
use p4runtime_proto::Address;
use std::panic::Location;
use std::sync::PoisonError;
use std::time::Duration;
use tokio::time::Instant;
use tracing::{Instrument, instrument};
use zsr_api::controller::EventKind;
use zsr_plan::dataplane::model::Flow;
use zsr_plan::error::{ControllerError, ErrorKind};
use zsr_switch::ClientError;
use zsr_switch::patience::within;
use zsr_switch::{Digests, SwitchClient, SwitchReader};
use zsr_topology::{Bmv2, Switch, SwitchKind};

/// The number of attempts without a connection, beside the time, after which a switch counts as dead.
const ATTEMPTS: u32 = 3;
const QUESTIONS: u32 = 7;
/// How often a controller raises its election id before it gives up for a while.
const BIDS: usize = 16;

/// Whether the switch can be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// There is a session, and the controller is primary.
    Open,
    /// There is no session, for this reason; flows go on all the same.
    Lost(String),
    /// The switch has gone, for this reason, and its flows with it.
    Gone(String),
}

/// The present session, for readers.
pub(crate) struct Session {
    pub(crate) reader: SwitchReader,
    pub(crate) address: Address,
    pub(crate) election_id: u128,
}

/// How a session ended.
enum End {
    /// The switch, or the way there, has ended it.
    Ended(ClientError),
    /// The switch has said nothing for its `dead_after`.
    Silent(String),
}

/// Becomes primary under election id `id`. If another controller has had that id or a higher one, takes the next higher
/// one: when that controller has gone, or when the switch is to be taken from it.
pub(crate) async fn become_primary(
    switch: &Switch,
    address: &Address,
    mut id: u128,
    take: bool,
) -> Result<(SwitchClient, u128), ClientError> {
    for _ in 1..BIDS {
        match SwitchClient::open(switch, address, id).await {
            Err(ClientError::NotPrimary { held, vacant, .. })
                if (vacant || take) && held.max(id) < u128::MAX =>
            {
                id = held.max(id) + 1;
            }
            done => return done.map(|client| (client, id)),
        }
    }
    SwitchClient::open(switch, address, id).await.map(|client| (client, id))
}

/// Whether no server is reached at all.
pub(crate) fn is_unreachable(e: &StartError) -> bool {
    matches!(
        e,
        StartError::Client(
            ClientError::Connect { .. } | ClientError::Silent { .. } | ClientError::Lost { .. }
        )
    )
}

/// Whether the switch's process belongs to this system: if nobody listens at its address, it has ended.
fn is_ours(base: &Base) -> bool {
    matches!(base.choice().switch.kind, SwitchKind::Soft | SwitchKind::Bmv2(Bmv2::Started { .. }))
}

impl Controller {
    /// Reads the switch, over the present session.
    pub fn reader(&self) -> SwitchReader {
        self.session().reader.clone()
    }

    pub(crate) fn session(&self) -> std::sync::MutexGuard<'_, Session> {
        self.0.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the switch can be changed.
    pub(crate) fn reach(&self) -> Reach {
        self.0.reach.borrow().clone()
    }

    /// Whether the switch can be changed now.
    pub(crate) fn can_change(&self) -> Result<(), ControllerError> {
        let name = self.switch_name();
        let message = match self.reach() {
            Reach::Open => return Ok(()),
            Reach::Lost(why) => {
                format!("{why}; nothing can be changed before the controller has a session with it again")
            }
            Reach::Gone(_) => format!(
                "switch `{name}` has gone: start it again with zsr restart switch, or zsr switch TOPOLOGY; flows then go on"
            ),
        };
        Err(ControllerError::new(ErrorKind::Unavailable, message))
    }

    /// Distinguishes the present session with a switch from earlier ones; `None` while there is no session.
    pub(crate) fn session_number(&self) -> Option<(usize, u128)> {
        self.is_open().then(|| (self.0.base.active(), self.session().election_id))
    }

    pub(crate) fn is_open(&self) -> bool {
        *self.0.reach.borrow() == Reach::Open
    }

    pub(crate) fn set_reach(&self, reach: Reach) {
        self.0.reach.send_replace(reach);
    }

    /// Waits up to `time` for a session that is being begun.
    async fn reachable(&self, time: Duration) {
        self.reach_is(time, |reach| !matches!(reach, Reach::Lost(_))).await;
    }

    /// Waits up to `time` until the switch can be reached as `wanted`.
    async fn reach_is(&self, time: Duration, wanted: impl FnMut(&Reach) -> bool) {
        let mut reach = self.0.reach.subscribe();
        let known = reach.wait_for(wanted);
        // Callers get the present state, in time or not.
        let _ = tokio::time::timeout(time, known).await.map(drop);
    }

    /// The right to change something. If a session is being begun, waits for it up to `time`.
    async fn work_within(&self, time: Duration, at: Place) -> Turn<'_> {
        self.reachable(time).await;
        self.turn_of(at).await
    }

    /// The right to carry out the change that is `underway`; the change lists what it waits for.
    #[track_caller]
    pub(crate) fn turn<'c>(&'c self, underway: &'c UnderWay<'_>) -> impl Future<Output = Turn<'c>> + Send {
        let at = Location::caller();
        async move {
            self.await_session(underway).await;
            self.turn_for(underway, at).await
        }
    }

    /// Waits for a session that is being begun, or for a standby that takes over, on behalf of the change that is
    /// `underway`.
    pub(crate) async fn await_session(&self, underway: &UnderWay<'_>) {
        let has_standby = self.0.base.choices.len() > 1;
        let (Reach::Lost(why) | Reach::Gone(why)) = self.reach() else { return };
        underway.waits_for(format!("the switch: {why}"));
        let settled = |reach: &Reach| match reach {
            Reach::Open => true,
            Reach::Lost(_) => false,
            // A switch has to be started first.
            Reach::Gone(_) => !has_standby,
        };
        self.reach_is(PATIENCE, settled).await;
        underway.waits_for("");
    }

    /// The right to change something, for a caller who is told if there is no session.
    #[track_caller]
    pub(crate) fn work(&self) -> impl Future<Output = Turn<'_>> + Send {
        self.work_within(PATIENCE, Location::caller())
    }

    /// The right to change something, for changes that have to happen sooner or later.
    #[track_caller]
    pub(crate) fn work_at_last(&self) -> impl Future<Output = Turn<'_>> + Send {
        let at = Location::caller();
        async move {
            loop {
                let work = self.work_within(RARELY, at).await;
                if !matches!(self.reach(), Reach::Lost(_)) {
                    return work;
                }
            }
        }
    }

    /// Watches the session, and begins the next one when it is over, until the controller ends.
    pub(crate) async fn watch_switch(&self, mut digests: Digests) {
        let mut pause = Duration::ZERO;
        loop {
            let begun = Instant::now();
            let election_id = self.session().election_id;
            let session = tracing::info_span!("session", switch = self.switch_name(), election_id);
            let session_ends = async {
                tokio::select! {
                    biased;
                    end = self.take_reports(digests) => End::Ended(end),
                    why = self.silence() => End::Silent(why),
                }
            };
            let end = session_ends.instrument(session).await;
            pause = match end {
                // The client that takes the session is left in peace for a while.
                End::Ended(ClientError::NotPrimary { .. }) if begun.elapsed() <= LASTING => {
                    (pause * 2).clamp(AGAIN, RARELY)
                }
                // A switch that died is looked for at once, however short its life was; a server that ends each session
                // is not.
                _ if begun.elapsed() <= AGAIN => AGAIN,
                _ => Duration::ZERO,
            };
            digests = self.next_session(end, pause).await;
            self.look_for_faults();
        }
    }

    /// How long the switch may be silent.
    fn dead_after(&self) -> Duration {
        self.0.base.choice().switch.dead_after
    }

    /// Resolves, with the reason, when the switch no longer answers.
    async fn silence(&self) -> String {
        let (reader, lease) = (self.reader(), self.dead_after());
        let ask = (lease / QUESTIONS).min(ASK);
        loop {
            tokio::time::sleep(ask).await;
            // Any answer is a sign of life. A second question, for it may be this process that had no time.
            let asked = async |time| within(time, reader.has_pipeline()).await.is_ok();
            if !asked(lease - ask).await && !asked(ask).await {
                return format!("switch `{}` has not answered for {lease:?}", self.switch_name());
            }
        }
    }

    /// Begins the next session, when there is a switch, after this pause.
    #[instrument(skip_all, fields(switch = self.switch_name()))]
    async fn next_session(&self, end: End, pause: Duration) -> Digests {
        let _doing = self.doings().begin("begins a session with the switch");
        let name = self.switch_name();
        let why = match end {
            End::Silent(why) => {
                self.switch_lost(&why).await;
                why
            }
            End::Ended(ClientError::NotPrimary { held, .. }) => {
                let why =
                    format!("another client of switch `{name}` has become primary, with election id {held}");
                self.session_lost(EventKind::PrimaryLost, &why);
                why
            }
            End::Ended(e) => {
                let why = format!("switch `{name}` has ended its session");
                self.session_lost(EventKind::SessionLost, &format!("{why}: {e}"));
                // Nobody knows whether a successor at the same address would be quick.
                if matches!(e, ClientError::ShuttingDown { .. }) && self.0.base.choices.len() > 1 {
                    self.switch_lost(&why).await;
                }
                why
            }
        };
        tokio::time::sleep(pause).await;
        let begun = Instant::now();
        // The time since when no server is reached, and the number of attempts: the time alone may be that of a pause
        // of this process.
        let mut unreached = (Instant::now(), 0);
        let choices = self.0.base.choices.len();
        let mut gone_for = 0;
        loop {
            // A switch that has gone is tried in turn with its standby, the standby first.
            let gone = matches!(self.reach(), Reach::Gone(_));
            gone_for += usize::from(gone);
            let number = (self.0.base.active() + gone_for) % choices;
            let e = match self.try_meet(number).await {
                Ok(digests) => return digests,
                Err(e) => e,
            };
            tracing::debug!("no session yet: {e}");
            unreached = match (is_unreachable(&e), unreached) {
                (false, _) => (Instant::now(), 0),
                (true, (_, 0)) => (Instant::now(), 1),
                (true, (since, attempts)) => (since, attempts + 1),
            };
            if let Reach::Lost(_) = self.reach() {
                let nobody = matches!(e, StartError::Client(ClientError::Connect { nobody: true, .. }));
                let long = unreached.0.elapsed() > self.dead_after() && unreached.1 >= ATTEMPTS;
                if nobody && is_ours(&self.0.base) || long {
                    self.switch_lost(&format!("{why}; {e}")).await;
                    if choices > 1 {
                        continue;
                    }
                } else {
                    self.set_reach(Reach::Lost(format!("{why}; {e}")));
                }
            }
            let others = matches!(e, StartError::Client(ClientError::NotPrimary { .. }));
            let again = if begun.elapsed() < SOON { AT_ONCE } else { AGAIN };
            tokio::time::sleep(if others { OTHERS } else { again }).await;
        }
    }

    fn session_lost(&self, kind: EventKind, why: &str) {
        self.set_reach(Reach::Lost(why.to_owned()));
        self.0.events.emit(kind, of_host("", why));
    }

    /// Attempts to begin a session with switch `number`.
    async fn try_meet(&self, number: usize) -> Result<Digests, StartError> {
        let base = &self.0.base;
        let choice = &base.choices[number];
        let (switch, address) = (&choice.switch, choice.address());
        let moves = number != base.active();
        let silent = |_| ClientError::Silent { switch: switch.name.clone(), seconds: CONNECT.as_secs() };
        let ready = if moves { self.take_ready(number).await } else { None };
        let has_program = ready.as_ref().map(|ready| ready.cookie);
        let (mut client, election_id) = match ready {
            Some(ready) => (ready.client, ready.election_id),
            None => {
                // The switch may not have noticed yet that the last session is over.
                let id = self.session().election_id.saturating_add(1);
                let bid = become_primary(switch, &address, id, switch.keep_primary);
                within(CONNECT, bid).await.map_err(silent)??
            }
        };
        let cookie = self.any_turn().await.cookie;
        let was_gone = matches!(self.reach(), Reach::Gone(_));
        let kept = !moves && {
            let kept = client.has_kept(&base.artifacts, cookie);
            within(CONNECT, kept).await.map_err(silent)??
        };
        if !kept && !was_gone {
            let why = format!("switch `{}` was started anew, or given another program", switch.name);
            self.switch_lost(&why).await;
        }
        let mut work = self.any_turn().await;
        if moves {
            self.move_to(&mut work, number)?;
        }
        match has_program {
            Some(cookie) => self.is_fresh(&mut work, cookie),
            None if !kept => self.start_over(&mut work, &mut client).await?,
            None => {}
        }
        let mut told = self.take_up(&mut client).await?;
        if !kept {
            told = match moves {
                true => format!("switch `{}` takes over", switch.name),
                false => format!("switch `{}` is there, and was given its program", switch.name),
            };
        }
        let lost_again = || ClientError::Lost { switch: switch.name.clone() };
        let digests = client.digests().ok_or_else(lost_again)?;
        *self.session() = Session { reader: client.reader(), address, election_id };
        client.note_in(self.doings());
        work.switch = client;
        self.end_empty_lanes(&mut work, &self.list_flows()).await;
        self.set_reach(Reach::Open);
        let kind = if kept { EventKind::SessionFound } else { EventKind::SwitchFound };
        self.0.events.emit(kind, of_host("", told));
        self.0.adrift.notify_one();
        self.0.reweighed.notify_one();
        self.0.crowd.notify_one();
        Ok(digests)
    }

    /// The switch has gone. Its flows wait for the next switch.
    async fn switch_lost(&self, why: &str) {
        self.set_reach(Reach::Gone(why.to_owned()));
        self.0.events.emit(EventKind::SwitchLost, of_host("", why));
        // The task that has the client now may be waiting for the switch.
        self.session().reader.give_up();
        // If the switch is still there, the next session must not find this one.
        self.any_turn().await.switch.hang_up();
    }

    /// Finds out, in a task of its own, which workers have stopped while nobody listened to their reports.
    pub(crate) fn look_for_faults(&self) {
        let own = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = own.stopped() => {}
                () = own.faults() => {}
            }
        });
    }

    async fn faults(&self) {
        for flow in self.list_flows() {
            for worker in flow.workers() {
                let mut work = self.work_at_last().await;
                let is_it = |f: &&Flow| f.name == flow.name && f.failed.is_none() && !f.is_adrift();
                let of_worker = {
                    let state = self.state();
                    state.flow_of_worker(worker).filter(is_it).and_then(|f| consumer_of(f, worker, 0))
                };
                let Some(user) = of_worker else { break };
                // A switch that does not answer has a watcher.
                if self.ask(&mut work, worker).await.is_ok_and(|state| state.has_stopped()) {
                    drop(work);
                    let why =
                        "is of a worker that stopped while the controller had no session with the switch";
                    // If its producer has broken the ring, the worker stops again, and reports that.
                    self.refused(worker, user, why.to_owned()).await;
                }
            }
        }
    }
}
