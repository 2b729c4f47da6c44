//! Finds the member of a flow that has failed: the member does not answer the switch for `dead_after`. The switch only
//! reports that a transfer does not move, once per retry, when a third of `dead_after` is over. A member that was asked
//! twice and not heard in the rest of that time is silent; one event says so.

use crate::Controller;
use crate::api::events::of_flow;
use crate::times::failure_detector::{LOOK, PATIENCE};
use crate::turn::transaction::Leave;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;
use tokio::time::Instant;
use zsr_api::controller::{self as proto, EventKind};
use zsr_plan::dataplane::model::{Flow, Ring};
use zsr_plan::dataplane::{PlanError, report::Report};
use zsr_plan::error::ControllerError;
use zsr_plan::p4::names::counter::{RECEIVED, SENT};
use zsr_plan::state::User;

// Phases (p4/common/types.p4).
const TAIL: u8 = 3;
const CLOSING: u8 = 4;

/// Packets received and sent so far, by connection.
type Packets = HashMap<u16, (u64, u64)>;

/// Answers from the members of transfers that did not move, by worker.
#[derive(Debug, Default)]
pub(crate) struct Heard(HashMap<u16, Transfer>);

#[derive(Debug)]
struct Transfer {
    flow: String,
    /// PSN of the consumers, which identifies the transfer.
    psn: u32,
    phase: u8,
    /// When its first report arrived.
    since: Instant,
    connections: HashMap<u16, Connection>,
    /// The members whose silence was reported, and when. While a transfer waits for them, the others are asked again
    /// and again. They may be late, as on a busy machine, so they have `dead_after` from then on, as in a transfer of
    /// their own.
    told: Option<(Vec<User>, Instant)>,
}

/// A connection on which a member may have been asked.
#[derive(Debug)]
struct Connection {
    received: u64,
    sent: u64,
    /// The last report at which an answer had come, or the first one.
    heard: Instant,
    /// At how many reports since then it had been asked, but for the latest report: its answer may be on the way.
    asked: u32,
    /// Whether it had been asked at the latest report.
    is_asked: bool,
}

/// One request or its answer may be lost: only a member that leaves two requests unanswered is silent.
const ASKED: u32 = 2;

impl Connection {
    fn note(&mut self, (received, sent): (u64, u64), now: Instant) {
        self.asked += u32::from(self.is_asked);
        self.is_asked = sent != self.sent;
        if received != self.received {
            (self.heard, self.asked, self.is_asked) = (now, 0, false);
        }
        (self.received, self.sent) = (received, sent);
    }
}

impl Transfer {
    fn new(flow: String, report: &Report) -> Transfer {
        let (psn, phase) = (report.psn, report.phase);
        Transfer { flow, psn, phase, since: Instant::now(), connections: HashMap::new(), told: None }
    }

    fn is(&self, other: &Transfer) -> bool {
        (&self.flow, self.psn, self.phase) == (&other.flow, other.psn, other.phase)
    }

    /// The members that are silent, by the counters at another report. `None`: the same members as last time, or it is
    /// too early to say.
    fn silent(
        &mut self,
        suspects: Vec<(User, u16)>,
        (now, packets): (Instant, Packets),
        dead_after: Duration,
    ) -> Option<Vec<User>> {
        for (qp, counted) in packets {
            let (received, sent) = counted;
            let new = Connection { received, sent, heard: now, asked: 0, is_asked: false };
            self.connections.entry(qp).or_insert(new).note(counted, now);
        }
        let long = dead_after / 3 * 2;
        let since = self.told.as_ref().map_or(self.since + long, |(_, told)| *told + dead_after);
        if now < since {
            return None;
        }
        let mut silent = Vec::new();
        for (user, qp) in suspects {
            let Some(connection) = self.connections.get(&qp) else { continue };
            if now.duration_since(connection.heard) < long {
                continue;
            }
            match connection.asked {
                ASKED.. => silent.push(user),
                0 if !connection.is_asked => {}
                _ => return None,
            }
        }
        if self.told.as_ref().is_some_and(|(told, _)| *told == silent) {
            return None;
        }
        self.told = Some((silent.clone(), now));
        Some(silent)
    }
}

/// The members that may be keeping a transfer, and their connections.
fn suspects(flow: &Flow, report: &Report) -> Vec<(User, u16)> {
    let may = |ring: &Ring| match ring.ids.is_producer {
        true => ring.ids.id == report.producer && report.phase != CLOSING,
        false => ring.ids.worker == report.worker && report.phase != TAIL,
    };
    let all = flow.members().flat_map(|m| m.rings.iter().map(move |r| (m, r)));
    all.filter(|(_, r)| may(r)).map(|(m, r)| (User::new(flow, m, r), r.ids.data.index)).collect()
}

impl Controller {
    /// Handles a transfer that does not move: finds the silent members and applies the flow's policy.
    pub(crate) async fn no_progress(&self, report: &Report, heard: &mut Heard) {
        let (flow, dead_after, suspects) = {
            let state = self.state();
            let Some(flow) = state.flow_of_worker(report.worker) else { return };
            let dead_after = Duration::from_micros(flow.settings.dead_after_us);
            (flow.name.clone(), dead_after, suspects(flow, report))
        };
        let connections: Vec<u16> = suspects.iter().map(|(_, qp)| *qp).collect();
        // A switch that can't be read has a report of its own, and this one comes again.
        let Ok(packets) = self.packets(&connections).await else { return };
        let now = Transfer::new(flow.clone(), report);
        let transfer = match heard.0.entry(report.worker) {
            Entry::Occupied(before) if before.get().is(&now) => before.into_mut(),
            other => other.insert_entry(now).into_mut(),
        };
        let Some(silent) = transfer.silent(suspects, (Instant::now(), packets), dead_after) else { return };
        let what = |user: &User| format!("ring `{}` {}", user.ring, report.reason);
        for user in silent.iter().filter(|user| self.note_silence(user, &what(user))) {
            let event = proto::Event {
                member: user.member.clone(),
                ring: user.ring.clone(),
                ..of_flow(&user.flow, what(user))
            };
            self.0.events.emit(EventKind::MemberSilent, event);
        }
        if silent.is_empty() {
            let text = format!("worker {} {}, though all of its rings answer", report.worker, report.reason);
            self.0.events.emit(EventKind::MemberSilent, of_flow(&flow, text));
            return;
        }
        let why = silent.iter().map(what).collect::<Vec<_>>().join("; ");
        self.members_gone(&flow, &silent, Leave::Dead, &why).await;
    }

    /// Packets received and sent on connections so far.
    async fn packets(&self, connections: &[u16]) -> Result<Packets, ControllerError> {
        let counter = |name| self.0.plane.schema().counter(name).map_err(PlanError::from);
        let (received, sent) = (counter(RECEIVED)?, counter(SENT)?);
        let cells: Vec<(u32, u16)> =
            connections.iter().flat_map(|&qp| [(received, qp), (sent, qp)]).collect();
        let counted = self.reader().cells(&cells).await?;
        let pairs = counted.chunks_exact(2).map(|c| (c[0].packets, c[1].packets));
        Ok(connections.iter().copied().zip(pairs).collect())
    }
}

/// The connections that were asked and heard while a transfer waited for a member.
#[derive(Debug)]
pub(crate) struct Listening {
    since: Instant,
    dead_after: Duration,
    first: Packets,
    last: Packets,
    /// At how many looks a connection had been asked since the look before.
    asked: HashMap<u16, u32>,
}

impl Listening {
    /// Listens until a silent member counts as dead.
    pub(crate) fn new(dead_after_us: u64) -> Self {
        Listening {
            since: Instant::now(),
            dead_after: Duration::from_micros(dead_after_us),
            first: Packets::new(),
            last: Packets::new(),
            asked: HashMap::new(),
        }
    }

    fn note(&mut self, now: Packets) {
        for (qp, packets) in &now {
            if self.last.get(qp).is_some_and(|last| last.1 != packets.1) {
                *self.asked.entry(*qp).or_default() += 1;
            }
            self.first.entry(*qp).or_insert(*packets);
        }
        self.last = now;
    }

    /// Whether a connection was asked twice, and not heard for as long as it takes to count as dead.
    pub(crate) fn is_silent(&self, qp: u16) -> bool {
        if self.since.elapsed() < self.dead_after {
            return false;
        }
        let heard = |packets: &Packets| packets.get(&qp).map(|p| p.0);
        self.asked.get(&qp).is_some_and(|n| *n >= 2) && heard(&self.first) == heard(&self.last)
    }
}

impl Controller {
    /// Listens for a while; false if that was long enough for a silent member to count as dead.
    pub(crate) async fn listen(&self, flow: &str, listening: &mut Listening) -> bool {
        let connections: Vec<u16> = match self.state().flows.get(flow) {
            Some(flow) => flow.rings().map(|r| r.ids.data.index).collect(),
            None => return false,
        };
        if let Ok(packets) = self.packets(&connections).await {
            listening.note(packets);
        }
        tokio::time::sleep(LOOK).await;
        listening.since.elapsed() < (listening.dead_after + 2 * LOOK).max(PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zsr_plan::dataplane::report::Reason;

    fn of_a_transfer(since: Instant) -> Transfer {
        Transfer { flow: "f".into(), psn: 0, phase: 2, since, connections: HashMap::new(), told: None }
    }

    fn names(silent: Vec<User>) -> Vec<String> {
        silent.into_iter().map(|u| u.member).collect()
    }

    /// Reports that are a second apart. At each one, a producer `p` and a consumer `c` were asked, and have answered so
    /// often.
    fn reports(begun: Instant, answers: impl Fn(u64) -> (u64, u64)) -> impl Fn(u64) -> (Instant, Packets) {
        move |n| {
            let (p, c) = answers(n);
            (begun + Duration::from_secs(n), Packets::from([(1, (p, n)), (2, (c, n))]))
        }
    }

    #[test]
    fn who_answers_now_and_then_is_there() {
        let all = || vec![suspect("p", 1), suspect("c", 2)];
        let dead_after = Duration::from_secs(9);
        // The consumer answers every fifth time until the 20th, the producer always.
        let begun = Instant::now();
        let at = reports(begun, |n| (n, n.min(20) / 5));
        let mut transfer = of_a_transfer(begun + Duration::from_secs(1));
        let mut told = (1..=40).filter_map(|n| Some((n, names(transfer.silent(all(), at(n), dead_after)?))));
        assert_eq!(told.next(), Some((7, Vec::new())), "all answer");
        assert_eq!(
            told.next(),
            Some((26, vec!["c".to_owned()])),
            "two thirds of nine seconds after its last"
        );
        assert_eq!(told.next(), None);
    }

    #[test]
    fn the_others_of_a_transfer_that_waited_for_somebody_have_their_own_time() {
        let all = || vec![suspect("p", 1), suspect("c", 2)];
        // The consumer never answers, the producer until the third report.
        let begun = Instant::now();
        let at = reports(begun, |n| (n.min(3), 0));
        let both = Some(vec!["p".to_owned(), "c".to_owned()]);
        for (seconds, later) in [(3, both), (60, None)] {
            let dead_after = Duration::from_secs(seconds);
            let mut transfer = of_a_transfer(begun + Duration::from_secs(1));
            let mut told = (1..=90).filter_map(|n| transfer.silent(all(), at(n), dead_after).map(names));
            assert_eq!(told.next(), Some(vec!["c".to_owned()]));
            assert_eq!(told.next(), later);
            assert_eq!(told.next(), None);
        }
    }

    #[test]
    fn who_is_asked_twice_and_not_heard_is_gone() {
        let mut listening = Listening::new(0);
        // Of three: one answers, one does not, one is not asked.
        for look in 0..3 {
            assert!(![1, 2, 3].into_iter().any(|qp| listening.is_silent(qp)), "look {look}");
            listening.note(Packets::from([(1, (5 + look, 7 + look)), (2, (5, 7 + look)), (3, (5, 7))]));
        }
        assert_eq!([1, 2, 3].map(|qp| listening.is_silent(qp)), [false, true, false]);
        // The connection was only slow.
        listening.note(Packets::from([(1, (8, 10)), (2, (6, 10)), (3, (5, 7))]));
        assert!(!listening.is_silent(2));
    }

    fn suspect(member: &str, qp: u16) -> (User, u16) {
        let user =
            User { flow: "f".into(), member: member.into(), ring: format!("f.{member}"), address: None };
        (user, qp)
    }

    #[test]
    fn who_was_asked_and_not_heard_is_silent() {
        let begun = Instant::now();
        let all = || vec![suspect("p", 1), suspect("c", 2), suspect("idle", 3)];
        let mut transfer = of_a_transfer(begun);
        // The members are asked by turns, and `idle` never is. No member answers.
        let mut silent = |n: u64| {
            let packets = Packets::from([(1, (5, n / 2)), (2, (5, n.div_ceil(2))), (3, (5, 7))]);
            transfer
                .silent(all(), (begun + Duration::from_secs(n), packets), Duration::from_secs(1))
                .map(names)
        };
        let first = (0..).find_map(|n| Some((n, silent(n)?)));
        assert_eq!(
            first,
            Some((5, vec!["p".to_owned(), "c".to_owned()])),
            "the second request is a report old"
        );
    }

    #[test]
    fn the_phase_says_who_can_keep_a_transfer() {
        let flow: Flow = serde_json::from_value(serde_json::json!({
            "name": "f", "number": 1, "kind": "Shuffle", "item_size": 64, "ring_size": 4096, "mtu": 1024, "owner": "",
            "settings": zsr_topology::Settings::of_items(64), "routing": "hash", "version": 1, "failed": null,
            "producers": [{"name": "p", "host": "h1", "rings": [ring("f.p", 7, true, 1)]}],
            "consumers": [
                {"name": "c0", "host": "h2", "rings": [ring("f.c0", 1, false, 2)]},
                {"name": "c1", "host": "h3", "rings": [ring("f.c1", 1, false, 3)]},
            ],
        }))
        .unwrap();
        let of = |phase| {
            let [worker, producer] = [1, 7];
            let report =
                Report { reason: Reason::Silent(9), worker, producer, qp: 0, role: None, phase, psn: 0 };
            suspects(&flow, &report)
        };
        let (producer, consumers) = (suspect("p", 1), [suspect("c0", 2), suspect("c1", 3)]);
        assert_eq!(of(2), [&[producer.clone()][..], &consumers[..]].concat());
        assert_eq!(of(TAIL), [producer]);
        assert_eq!(of(CLOSING), consumers);
    }

    fn ring(name: &str, id: u16, is_producer: bool, qp: u16) -> serde_json::Value {
        let qp = serde_json::json!({"index": qp, "qpn": 0, "psn": 0});
        serde_json::json!({
            "name": name, "host": "h", "declared": false, "owner": "", "size": 4096, "start": 0, "address": null,
            "ids": {"id": id, "worker": 1, "is_producer": is_producer, "member": 0, "data": qp, "poll": qp, "secret": 0},
        })
    }
}
