//! Requests that NICs have refused, and how often a flow goes on after them. No clock: times are since the controller
//! began.

use crate::dataplane::model::Flow;
use crate::state::User;
use std::collections::HashMap;
use std::time::Duration;

/// Refusals of one ring at one place after which its flow fails.
const MOST: u32 = 3;
/// Refusals of one ring, at any places, after which its flow fails. A member of a group makes progress all the same,
/// since it gets the items that it lacks from others.
const MOST_IN_A_ROW: u32 = 10;
/// After this time without a refusal, another refusal is the first one again.
const FORGOTTEN: Duration = Duration::from_secs(10);

/// Requests that NICs have refused, by ring.
#[derive(Debug, Default)]
pub struct Refusals(HashMap<String, Refusal>);

#[derive(Debug)]
struct Refusal {
    user: User,
    why: String,
    /// The ring's connections have not been made anew yet.
    open: bool,
    /// The refusal is one of `times`.
    counted: bool,
    /// The ring's progress, bytes, and how often a request was refused there.
    place: Option<u32>,
    times: u32,
    in_a_row: u32,
    last: Duration,
}

/// The decision about the refusals of a flow whose rings were looked at.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The flow's connections are made anew, and it goes on: the refusals, for people, and the rings.
    Again(Vec<(User, String)>),
    /// The flow fails, for this reason.
    Enough(String),
}

impl Refusals {
    /// A request for the ring of `user` was refused.
    pub fn note(&mut self, user: User, why: String, last: Duration) {
        let ring = user.ring.clone();
        let mut fresh =
            Refusal { user, why, open: true, counted: false, place: None, times: 0, in_a_row: 0, last };
        if let Some(before) = self.0.remove(&ring)
            && before.user == fresh.user
            && last.saturating_sub(before.last) < FORGOTTEN
        {
            (fresh.place, fresh.times, fresh.in_a_row) = (before.place, before.times, before.in_a_row);
        }
        self.0.insert(ring, fresh);
    }

    /// Why a flow has workers that are adrift, if a refusal is the reason.
    pub fn of(&self, flow: &Flow) -> Option<String> {
        let here = |r: &&Refusal| r.open && r.user.flow == flow.name;
        self.0.values().find(here).map(|r| format!("ring `{}` {}", r.user.ring, r.why))
    }

    /// The flow goes on, unless requests are refused too often at the same place of its rings. `at` is the progress of
    /// a ring, if it is known.
    pub fn judge(&mut self, flow: &Flow, at: impl Fn(&str) -> Option<u32>) -> Verdict {
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
    pub fn close(&mut self, rings: &[(User, String)]) {
        for (user, _) in rings {
            if let Some(refusal) = self.0.get_mut(&user.ring) {
                refusal.open = false;
            }
        }
    }

    /// Forgets rings that are not there any more.
    pub fn keep(&mut self, is_there: impl Fn(&User) -> bool) {
        self.0.retain(|_, refusal| is_there(&refusal.user));
    }

    /// Whether there are no refusals.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
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
        let begun = Duration::ZERO;
        let mut refused_at = |now: Duration, ring: &str, at: u32| {
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
        // Ring `a` has moved on meanwhile, `b` has not.
        assert_eq!([refused("a", 128), refused("b", 0)], [again("a"), again("b")]);
        assert_eq!(refused("a", 128), again("a"));
        let enough = "ring `a` refused, 3 times at byte 128 of its stream".to_owned();
        assert_eq!(refused("a", 128), Verdict::Enough(enough));
        assert_eq!(refused("b", 0), again("b"));
        assert_eq!(refused_at(begun + FORGOTTEN * 2, "b", 0), again("b"), "the other two are long ago");
    }
}
