//! Members that are polled and do not answer. No transfer waits for them, so the switch reports nothing. The controller
//! compares the packets that the switch has sent to each ring and heard from it. A ring that is slow has answered by
//! the next look or the one after. A ring that is hardly polled has not been asked.

use crate::api::events::of_flow;
use crate::times::polls::{IDLE, SHORTEST};
use crate::turn::transaction::Leave;
use crate::{Controller, State};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use tokio::time::Instant;
use zsr_api::controller::{self as proto, EventKind};
use zsr_plan::dataplane::PlanError;
use zsr_plan::error::ControllerError;
use zsr_plan::p4::names::counter::{RECEIVED, SENT};
use zsr_plan::state::User;

/// Looks at a flow in the time after which a silent member counts as dead.
const LOOKS: u32 = 4;
/// The time until the next look is at least so many times the length of a look: a switch that is slow to return its
/// counters takes no changes meanwhile.
pub(crate) const REST: u32 = 3;
/// Fewer polls that all got lost are no proof of silence.
const ASKED: u64 = 5;

/// A ring to look at.
struct Looked {
    user: User,
    poll: u16,
    data: u16,
}

/// Packets counted on a ring's connections: polls, their answers, and other packets from its NIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    sent: u64,
    answers: u64,
    data: u64,
}

/// The last look at a ring.
#[derive(Debug)]
struct Known {
    user: User,
    answers: u64,
    /// Time since when the ring has not been heard, and the counters at that time.
    unheard: Option<(Instant, Counts)>,
}

impl Known {
    /// Called when a look found no new packet on the ring's poll connection. Returns for how long and over how many
    /// polls the ring has been silent, if that is too long.
    fn silent(&mut self, now: Instant, counts: Counts, dead_after: Duration) -> Option<(Duration, u64)> {
        let (since, then) = *self.unheard.get_or_insert((now, counts));
        if then.data != counts.data {
            self.unheard = Some((now, counts));
            return None;
        }
        let (silence, asked) = (now.duration_since(since), counts.sent.saturating_sub(then.sent));
        if asked == 0 {
            self.unheard = Some((now, counts));
        }
        (asked >= ASKED && silence >= dead_after).then_some((silence, asked))
    }
}

/// All rings that were looked at, by their poll connection, and when each flow is looked at next.
#[derive(Debug, Default)]
struct Watched {
    rings: HashMap<u16, Known>,
    next: HashMap<String, Instant>,
}

impl Watched {
    /// The flows that are due, with `dead_after` and their rings.
    fn due(&mut self, state: &State, now: Instant) -> Vec<(Duration, Vec<Looked>)> {
        self.next.retain(|name, _| state.flows.contains_key(name));
        let mut due = Vec::new();
        for flow in state.flows.values().filter(|f| f.failed.is_none()) {
            let dead_after = Duration::from_micros(flow.settings.dead_after_us);
            let again = now + (dead_after / LOOKS).max(SHORTEST);
            if self.next.get(&flow.name).is_some_and(|next| *next > now && *next <= again) {
                continue;
            }
            self.next.insert(flow.name.clone(), again);
            let rings = flow.members().flat_map(|m| m.rings.iter().map(move |r| (m, r)));
            // Rings that are held answer nobody.
            let (held, rings): (Vec<_>, Vec<_>) = rings.partition(|(_, r)| flow.held.contains(&r.name));
            held.iter().for_each(|(_, r)| drop(self.rings.remove(&r.ids.poll.index)));
            let rings = rings.into_iter().map(|(m, r)| Looked {
                user: User::new(flow, m, r),
                poll: r.ids.poll.index,
                data: r.ids.data.index,
            });
            due.push((dead_after, rings.collect()));
        }
        due
    }

    /// Time until a flow is due, at the latest.
    fn next(&self, now: Instant) -> Duration {
        self.next
            .values()
            .min()
            .map_or(IDLE, |next| next.saturating_duration_since(now))
            .clamp(SHORTEST, IDLE)
    }
}

impl Controller {
    /// Looks for members that do not answer polls, for as long as it is polled.
    pub(crate) async fn watch_polls(&self) {
        let mut watched = Watched::default();
        let mut took = Duration::ZERO;
        loop {
            tokio::time::sleep(watched.next(Instant::now()).max(took * REST)).await;
            let begun = Instant::now();
            let due = watched.due(&self.state(), begun);
            // A switch that can't be read has a report of its own.
            let _ = self.look_at_polls(&mut watched, due).await;
            took = begun.elapsed();
        }
    }

    async fn look_at_polls(
        &self,
        watched: &mut Watched,
        due: Vec<(Duration, Vec<Looked>)>,
    ) -> Result<(), ControllerError> {
        let all: Vec<u16> = due.iter().flat_map(|(_, rings)| rings).map(|r| r.poll).collect();
        let answers = self.counted(RECEIVED, &all).await?;
        let mut answers = answers.into_iter();
        let mut unheard = Vec::new();
        for (dead_after, rings) in due {
            for (ring, answers) in rings.into_iter().zip(&mut answers) {
                let known = watched.rings.get(&ring.poll);
                if known.is_some_and(|k| k.user == ring.user && k.answers == answers) {
                    unheard.push((dead_after, ring));
                    continue;
                }
                self.state().silent.remove(&ring.user.ring);
                let user = ring.user;
                watched.rings.insert(ring.poll, Known { user, answers, unheard: None });
            }
        }
        let polls: Vec<u16> = unheard.iter().map(|(_, r)| r.poll).collect();
        let datas: Vec<u16> = unheard.iter().map(|(_, r)| r.data).collect();
        let (sent, data) = (self.counted(SENT, &polls).await?, self.counted(RECEIVED, &datas).await?);
        let now = Instant::now();
        let mut silent: BTreeMap<String, Vec<(User, String)>> = BTreeMap::new();
        for ((dead_after, ring), (sent, data)) in unheard.into_iter().zip(sent.into_iter().zip(data)) {
            let Some(known) = watched.rings.get_mut(&ring.poll) else { continue };
            if known.unheard.is_some_and(|(_, then)| then.data != data) {
                self.state().silent.remove(&ring.user.ring);
            }
            let counts = Counts { sent, answers: known.answers, data };
            if let Some((silence, asked)) = known.silent(now, counts, dead_after) {
                let what = format!(
                    "ring `{}` has not answered for {:.1} s ({asked} polls): is its host up, and on the cable and VLAN that the topology says?",
                    ring.user.ring,
                    silence.as_secs_f64()
                );
                silent.entry(ring.user.flow.clone()).or_default().push((ring.user, what));
            }
        }
        for (flow, silent) in silent {
            self.members_silent(flow, silent);
        }
        Ok(())
    }

    /// Emits events for rings that were not known to be silent, and applies the flow's policy.
    fn members_silent(&self, flow: String, silent: Vec<(User, String)>) {
        let news: Vec<_> = silent.into_iter().filter(|(user, what)| self.note_silence(user, what)).collect();
        if news.is_empty() {
            return;
        }
        for (user, what) in &news {
            let event = proto::Event {
                member: user.member.clone(),
                ring: user.ring.clone(),
                ..of_flow(&user.flow, what.clone())
            };
            self.0.events.emit(EventKind::MemberSilent, event);
        }
        let why = news.iter().map(|(_, what)| what.as_str()).collect::<Vec<_>>().join("; ");
        let gone: Vec<User> = news.into_iter().map(|(user, _)| user).collect();
        let own = self.clone();
        // The removal may wait for others, while more members fall silent.
        tokio::spawn(async move { own.members_gone(&flow, &gone, Leave::Dead, &why).await });
    }

    /// Notes that a ring is silent, until it is heard. False if that was known, or the ring has gone.
    pub(crate) fn note_silence(&self, user: &User, what: &str) -> bool {
        let mut state = self.state();
        let trouble = format!("member `{}`: {what}", user.member);
        state.has(user) && state.silent.insert(user.ring.clone(), trouble).is_none()
    }

    /// Packets of counter `name` on connections.
    async fn counted(&self, name: &str, connections: &[u16]) -> Result<Vec<u64>, ControllerError> {
        let counter = self.0.plane.schema().counter(name).map_err(PlanError::from)?;
        let cells: Vec<(u32, u16)> = connections.iter().map(|&qp| (counter, qp)).collect();
        Ok(self.reader().cells(&cells).await?.into_iter().map(|cell| cell.packets).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEAD_AFTER: Duration = Duration::from_secs(4);

    /// The second at which a ring counts as silent, given its counters second by second while its poll connection was
    /// not heard.
    fn silent_at(counted: impl Iterator<Item = (u64, u64)>) -> Option<u64> {
        let user = User { flow: "f".into(), member: "p".into(), ring: "f.p".into(), address: None };
        let mut known = Known { user, answers: 7, unheard: None };
        let begun = Instant::now();
        let mut looks = (0..).zip(counted);
        looks.find_map(|(second, (sent, data))| {
            let counts = Counts { sent, answers: 7, data };
            let silent = known.silent(begun + Duration::from_secs(second), counts, DEAD_AFTER);
            silent.map(|_| second)
        })
    }

    #[test]
    fn who_is_polled_and_not_heard_is_silent_after_dead_after() {
        assert_eq!(silent_at((0..60).map(|n| (100 * n, 3))), Some(4));
    }

    #[test]
    fn who_is_not_polled_is_not_silent() {
        assert_eq!(silent_at((0..60).map(|_| (100, 3))), None);
        // A single poll, at the end of a transfer, whose answer got lost.
        assert_eq!(silent_at((0..60).map(|n| (100 + n / 30, 3))), None);
    }

    #[test]
    fn who_is_polled_again_is_silent_from_then_on() {
        assert_eq!(silent_at((0..60u64).map(|n| (100 * n.saturating_sub(10), 3))), Some(14));
    }

    #[test]
    fn who_sends_something_else_is_there() {
        assert_eq!(silent_at((0..60).map(|n| (100 * n, n / 3))), None);
    }

    #[test]
    fn who_is_polled_seldom_is_silent_after_some_polls() {
        assert_eq!(silent_at((0..60).map(|n| (n, 3))), Some(5));
        assert_eq!(silent_at((0..60).map(|n| (n / 2, 3))), Some(10));
    }
}
