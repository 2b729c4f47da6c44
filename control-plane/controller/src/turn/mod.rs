//! The right to change something, and the callers that wait for it: changes follow each other.

pub(crate) mod batch;
pub(crate) mod entries;
pub(crate) mod operations;
pub(crate) mod quiesce;
pub(crate) mod steps;
pub(crate) mod transaction;

use crate::api::pending::UnderWay;
use crate::watchdog::{News, Watched, watch};
use crate::{Controller, Work};
use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use tokio::sync::MutexGuard;
use zsr_api::controller::EventKind;
use zsr_tls::{Doing, Doings};

const HAS: &str = "has the turn to change something";
const WAITS: &str = "waits for the turn";

/// The right to change something, until it is dropped.
pub(crate) struct Turn<'w> {
    work: MutexGuard<'w, Work>,
    /// Records the holder of the turn.
    _noted: Doing,
}

impl Deref for Turn<'_> {
    type Target = Work;

    fn deref(&self) -> &Work {
        &self.work
    }
}

impl DerefMut for Turn<'_> {
    fn deref_mut(&mut self) -> &mut Work {
        &mut self.work
    }
}

/// A part of the controller.
pub(crate) type Place = &'static Location<'static>;

/// The place's name: `resume.rs:299`.
fn name(at: Place) -> String {
    format!("{}:{}", at.file().rsplit('/').next().unwrap_or_default(), at.line())
}

impl Controller {
    /// The right to change something, after the callers before, whether there is a session or not.
    #[track_caller]
    pub(crate) fn any_turn(&self) -> impl Future<Output = Turn<'_>> + Send {
        self.turn_of(Location::caller())
    }

    /// As [`any_turn`](Self::any_turn), for the caller at this place.
    pub(crate) async fn turn_of(&self, at: Place) -> Turn<'_> {
        let waits = self.waits_for_turn(at);
        let work = self.0.work.lock().await;
        drop(waits);
        self.has_turn(work, at)
    }

    /// As [`turn_of`](Self::turn_of), for a change that is `underway`; the change lists what it waits for.
    pub(crate) async fn turn_for(&self, underway: &UnderWay<'_>, at: Place) -> Turn<'_> {
        let waits = self.waits_for_turn(at);
        let work = underway.turn(&self.0.work).await;
        drop(waits);
        self.has_turn(work, at)
    }

    fn waits_for_turn(&self, at: Place) -> Doing {
        self.0.doings.begin(format!("{}: {WAITS}", name(at)))
    }

    fn has_turn<'w>(&self, work: MutexGuard<'w, Work>, at: Place) -> Turn<'w> {
        Turn { work, _noted: self.0.doings.begin(format!("{}: {HAS}", name(at))) }
    }

    /// The turn as a watched item: its holder while others wait.
    pub fn watched_turn(&self) -> Watched {
        let doings = self.0.doings.clone();
        let sign = move || {
            let all = doings.list();
            let waits = all.iter().any(|(_, what, _)| what.ends_with(WAITS));
            all.iter().find(|(_, what, _)| waits && what.ends_with(HAS)).map(|(number, ..)| *number)
        };
        Watched { what: "somebody has had the turn to change something".to_owned(), sign: Box::new(sign) }
    }

    /// Reports a watched item that does not come round, as an event.
    pub fn tell_late(&self, watched: &Watched, news: News) -> String {
        let mut text = format!("the controller: {}", news.of(&watched.what));
        if let News::Late(_) = news {
            text = format!("{text}; under way: {}", self.under_way().join("; "));
        }
        self.0.events.emit(EventKind::ProcessLate, crate::api::events::of_flow("", text.clone()));
        text
    }

    /// Watches whether changes come to an end, for as long as it is polled.
    pub async fn watch_turn(&self) {
        let watched = [self.watched_turn()];
        watch(&watched, |one, news| drop(self.tell_late(one, news))).await;
    }

    /// Calls and changes under way and what they wait for, for people. Takes no lock that is held for long.
    pub fn under_way(&self) -> Vec<String> {
        let mut all = vec![match self.reach() {
            crate::link::session::Reach::Open => "there is a session with the switch".to_owned(),
            crate::link::session::Reach::Lost(why) | crate::link::session::Reach::Gone(why) => why,
        }];
        let since = |(_, what, time): (u64, String, std::time::Duration)| {
            format!("{what}, for {:.1} s", time.as_secs_f64())
        };
        all.extend(self.0.doings.list().into_iter().map(since));
        all.extend(
            self.0
                .agents
                .asked()
                .into_iter()
                .map(|(what, time)| format!("asks {what}, for {:.1} s", time.as_secs_f64())),
        );
        let pending = self.0.pending.list(&[]);
        all.extend(pending.into_iter().map(|change| match change.waits_for.as_str() {
            "" => format!("{}, for {} s", change.what, change.seconds),
            who => format!("{}, for {} s: waits for {who}", change.what, change.seconds),
        }));
        let away: Vec<String> =
            self.0.connected.borrow().iter().filter(|(_, is)| !**is).map(|(host, _)| host.clone()).collect();
        if !away.is_empty() {
            all.push(format!("agents that do not answer: {}", away.join(", ")));
        }
        all.extend(self.0.unwritten.borrow().clone());
        all
    }

    /// Waits until the state can be looked at, as a call does.
    pub fn come_round(&self) {
        drop(self.state());
    }

    /// Calls that are answered, and other work under way.
    pub(crate) fn doings(&self) -> &Doings {
        &self.0.doings
    }
}
