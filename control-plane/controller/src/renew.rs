//! A NIC has refused a request: its queue pair is in error, and the worker that asked has stopped. That need not be for good, so the
//! worker's connections are made anew ([`super::resume`]), and the flow goes on from what its rings hold. What is refused again and
//! again at the same place, such as a memory key that is gone, fails the flow.

use super::Controller;
use super::events::of_flow;
use super::state::User;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;
use zsr_api::controller as proto;
use zsr_plan::dataplane::diff::Diff;
use zsr_plan::dataplane::flow::Ticks;
use zsr_plan::dataplane::model::{Flow, Ring};
use zsr_switch::ClientError;

/// Refusals of one ring at one place after which its flow fails.
const MOST: u32 = 3;
/// Refusals of one ring, wherever, after which its flow fails: a member of a group comes further all the same, since it gets from others
/// what it lacks.
const MOST_IN_A_ROW: u32 = 10;
/// After so long without one, another refusal is the first one again.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// Requests that NICs have refused, by ring.
#[derive(Debug, Default)]
pub(super) struct Refusals(HashMap<String, Refusal>);

#[derive(Debug)]
struct Refusal {
    user: User,
    why: String,
    /// Its connections have not been made anew yet.
    open: bool,
    /// It is one of `times`.
    counted: bool,
    /// How far the ring was, bytes, and how often it has been refused there.
    place: Option<u32>,
    times: u32,
    in_a_row: u32,
    last: Instant,
}

/// What is to be done about refusals of a flow whose rings are looked at.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Its connections are made anew, and it goes on: what was refused, for people, and by whom.
    Again(Vec<(User, String)>),
    /// It fails, for this reason.
    Enough(String),
}

impl Refusals {
    /// A request for the ring of `user` was refused.
    pub(super) fn note(&mut self, user: User, why: String, last: Instant) {
        let ring = user.ring.clone();
        let mut fresh =
            Refusal { user, why, open: true, counted: false, place: None, times: 0, in_a_row: 0, last };
        if let Some(before) = self.0.remove(&ring)
            && before.user == fresh.user
            && last.duration_since(before.last) < FORGOTTEN
        {
            (fresh.place, fresh.times, fresh.in_a_row) = (before.place, before.times, before.in_a_row);
        }
        self.0.insert(ring, fresh);
    }

    /// Why a flow has workers that are adrift, if a refusal is the reason.
    pub(super) fn of(&self, flow: &Flow) -> Option<String> {
        let here = |r: &&Refusal| r.open && r.user.flow == flow.name;
        self.0.values().find(here).map(|r| format!("ring `{}` {}", r.user.ring, r.why))
    }

    /// The flow goes on, unless it is refused too often where its rings are; `at` says how far a ring is, if that is known.
    pub(super) fn judge(&mut self, flow: &Flow, at: impl Fn(&str) -> Option<u32>) -> Verdict {
        let mut again = Vec::new();
        let here = |r: &&mut Refusal| r.open && r.user.flow == flow.name;
        for refusal in self.0.values_mut().filter(here) {
            let Some(place) = at(&refusal.user.ring) else { continue };
            if !std::mem::replace(&mut refusal.counted, true) {
                refusal.times = if refusal.place == Some(place) { refusal.times + 1 } else { 1 };
                refusal.place = Some(place);
                refusal.in_a_row += 1;
            }
            let Refusal { user, why, times, in_a_row, .. } = refusal;
            let what = format!("ring `{}` {why}", user.ring);
            if *times >= MOST {
                return Verdict::Enough(format!("{what}, {times} times at byte {place} of its stream"));
            }
            if *in_a_row >= MOST_IN_A_ROW {
                return Verdict::Enough(format!("{what}, {in_a_row} times in a row"));
            }
            again.push((user.clone(), what));
        }
        again.sort_by(|a, b| a.0.ring.cmp(&b.0.ring));
        Verdict::Again(again)
    }

    /// The connections of these rings were made anew.
    fn close(&mut self, rings: &[(User, String)]) {
        for (user, _) in rings {
            if let Some(refusal) = self.0.get_mut(&user.ring) {
                refusal.open = false;
            }
        }
    }

    /// Forgets rings that are not there any more.
    pub(super) fn keep(&mut self, is_there: impl Fn(&User) -> bool) {
        self.0.retain(|_, refusal| is_there(&refusal.user));
    }

    /// Whether there is nothing to know.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Controller {
    /// The NIC of `who` has refused a request of `worker`: that worker, and those that share its rings, wait until their connections
    /// have been made anew.
    pub(super) async fn refused(&self, worker: u16, who: User, why: String) {
        let mut work = self.work_at_last().await;
        let running = {
            let state = self.state();
            let flow = state.flow_of_worker(worker).filter(|f| f.name == who.flow && f.failed.is_none());
            flow.filter(|f| !f.adrift_workers.contains(&worker)).cloned()
        };
        let Some(running) = running else { return };
        // It may be one of several reports, and what it is about be mended. A switch that does not answer is watched.
        if !self.ask(&mut work, worker).await.is_ok_and(|state| state.has_stopped()) {
            return;
        }
        let mut waiting = running.clone();
        waiting.adrift_workers.extend(running.workers_beside(worker));
        // Should the session end meanwhile, the next one begins with what the state says.
        let _ = self.stand_still(&mut work, &running, &waiting).await;
        work.journal.note(&waiting.name, Some(&waiting));
        {
            let mut state = self.state();
            let name = waiting.name.clone();
            state.set(&name, Some(waiting));
            state.refusals.note(who, why, Instant::now());
        }
        self.0.adrift.notify_one();
    }

    /// A ring of the flow was only away that had been taken for lost: what it holds says what it was given, so all look once more.
    pub(super) async fn found_again(&self, flow: &str) {
        let mut work = self.work_at_last().await;
        let running = self.state().flows.get(flow).filter(|f| f.failed.is_none()).cloned();
        let Some(running) = running.filter(|f| !f.lost.is_empty()) else { return };
        let waiting = Flow { adrift_workers: running.workers(), ..running.clone() };
        // Should the session end meanwhile, the next one begins with what the state says.
        let _ = self.stand_still(&mut work, &running, &waiting).await;
        work.journal.note(flow, Some(&waiting));
        self.state().set(flow, Some(waiting));
        self.0.adrift.notify_one();
    }

    /// Workers that are adrift in `waiting` and not in `running` tick no more, and nobody rings for them.
    async fn stand_still(
        &self,
        work: &mut super::Work,
        running: &Flow,
        waiting: &Flow,
    ) -> Result<(), ClientError> {
        let mut had = self.0.plane.tick_groups(running);
        had.retain(|worker, _| waiting.adrift_workers.contains(worker));
        self.run_workers(work, &had, &Ticks::new()).await?;
        let around = super::change::Surroundings::of(&self.state());
        // Those that are held have none.
        let newly =
            |ring: &Ring| waiting.waits(ring) && !running.waits(ring) && !running.held.contains(&ring.name);
        // That program and controller fit is known.
        let bells = self.0.plane.doorbells(running, &around.context(false), newly).unwrap_or_default();
        work.switch.update(Diff::between(bells, Vec::new()).removals().into_iter()).await
    }

    /// Why a flow has workers that are adrift.
    pub(super) fn why_adrift(&self, flow: &Flow) -> String {
        if flow.adrift_workers.is_empty() {
            return "a consumer that producers waited for was taken out".to_owned();
        }
        let refused = self.state().refusals.of(flow);
        refused.unwrap_or_else(|| format!("switch `{}` had nothing of it", self.switch_name()))
    }

    /// Tells that a flow goes on whose connections were made anew, since requests were `refused`.
    pub(super) fn tell_renewed(&self, flow: &str, refused: Vec<(User, String)>) {
        self.state().refusals.close(&refused);
        for (user, what) in refused {
            let text = format!(
                "{what}; its queue pairs were made anew, and the flow goes on from what its rings hold"
            );
            let (member, ring) = (user.member, user.ring);
            let event = proto::Event { member, ring, ..of_flow(flow, text) };
            self.0.events.emit(proto::EventKind::FlowResumed, event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> Flow {
        serde_json::from_value(serde_json::json!({
            "name": "f", "number": 1, "kind": "Shuffle", "item_size": 64, "ring_size": 4096, "mtu": 1024, "owner": "",
            "settings": zsr_topology::Settings::of_items(64), "routing": "hash", "version": 1, "failed": null,
            "producers": [], "consumers": [],
        }))
        .unwrap()
    }

    fn user(ring: &str) -> User {
        User { flow: "f".into(), member: "m".into(), ring: ring.into(), address: None }
    }

    #[test]
    fn what_is_refused_at_one_place_is_enough_after_some_times() {
        let mut all = Refusals::default();
        let begun = Instant::now();
        let mut refused_at = |now: Instant, ring: &str, at: u32| {
            all.note(user(ring), "refused".into(), now);
            let verdict = all.judge(&flow(), |name| (name == ring).then_some(at));
            if let Verdict::Again(list) = &verdict {
                all.close(list);
            }
            verdict
        };
        let mut refused = |ring: &str, at: u32| refused_at(begun, ring, at);
        let again = |ring: &str| Verdict::Again(vec![(user(ring), format!("ring `{ring}` refused"))]);
        assert_eq!([refused("a", 64), refused("a", 64)], [again("a"), again("a")]);
        // It has moved on meanwhile, another one not.
        assert_eq!([refused("a", 128), refused("b", 0)], [again("a"), again("b")]);
        assert_eq!(refused("a", 128), again("a"));
        let enough = "ring `a` refused, 3 times at byte 128 of its stream".to_owned();
        assert_eq!(refused("a", 128), Verdict::Enough(enough));
        assert_eq!(refused("b", 0), again("b"));
        assert_eq!(refused_at(begun + FORGOTTEN * 2, "b", 0), again("b"), "the other two are long ago");
    }
}
