//! Whether flows move. All rings are looked at now and then. A flow whose consumer rings are all closed has ended. A
//! flow with items in its rings in which nothing has changed for a while is stalled; the event names the members that
//! it waits for. The end of a stall is an event, too. A flow that has ended or failed, and has no program any more, is
//! deleted if its settings say so.

use crate::Controller;
use crate::agents::CLOSED;
use crate::api::events::of_flow;
use crate::times::stall::{ANSWER, ENDED, LOOK, PER_RING, STALL};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use tokio::task::JoinSet;
use tokio::time::Instant;
use zsr_api::{
    agent::{ListRingsRequest, Ring as Held},
    controller::{self as proto, EventKind},
};
use zsr_plan::dataplane::model::{Flow, Ring};
use zsr_topology::{WhenEnded, show_size};

/// Most rings that an event names as waited for.
const NAMED: usize = 3;

/// How flows were at the last look.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    flows: Mutex<HashMap<String, Seen>>,
    /// Flows that are over and being deleted.
    going: Mutex<HashSet<String>>,
    /// Notified to ask for a look now.
    pub(crate) nudge: tokio::sync::Notify,
}

/// Whether a flow moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Motion {
    /// The flow moves, or has no items to move.
    Moves,
    /// Nothing has moved for a while; the text names the rings that the flow waits for.
    Stalled(String),
    /// The flow's streams have ended; the text names the items still in consumer rings.
    Ended(String),
}

#[derive(Clone, Debug)]
struct Seen {
    /// Head and tail, by ring.
    words: BTreeMap<RingKey, (u32, u32)>,
    /// When one of these words has changed, or the rings were empty.
    moved: Instant,
    motion: Motion,
}

/// A ring's name and epoch: a ring that was made anew under the same name is another ring.
type RingKey = (String, Option<u16>);

fn key(ring: &Ring) -> RingKey {
    (ring.name.clone(), ring.address.map(|address| address.epoch))
}

impl Seen {
    /// Whether this was seen of `flow`, and not of an earlier flow of the same name.
    fn is_of(&self, flow: &Flow) -> bool {
        flow.rings().any(|ring| self.words.contains_key(&key(ring)))
    }
}

impl Stalls {
    /// Whether a flow moves, as far as it is known. An earlier flow of the same name does not count.
    pub(crate) fn of(&self, flow: &Flow) -> Option<Motion> {
        let known = self.lock();
        known.get(&flow.name).filter(|seen| seen.is_of(flow)).map(|seen| seen.motion.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Seen>> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn going(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        self.going.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a look at the rings. Returns events: which flows have stalled, moved again or ended since the last
    /// look.
    fn note(
        &self,
        flows: &[Flow],
        held: &HashMap<String, Held>,
        now: Instant,
    ) -> Vec<(EventKind, proto::Event)> {
        let mut known = self.lock();
        let mut changes = Vec::new();
        let mut before = std::mem::take(&mut *known);
        for flow in flows.iter().filter(|f| f.failed.is_none()) {
            let was = before.remove(&flow.name).filter(|was| was.is_of(flow));
            // Where an agent does not answer, nothing new is known.
            let before = was.as_ref().map_or(Motion::Moves, |was| was.motion.clone());
            let Some(seen) = look(flow, held, was.as_ref(), now).or(was) else { continue };
            changes
                .extend(change(&before, &seen.motion).map(|(kind, text)| (kind, of_flow(&flow.name, text))));
            known.insert(flow.name.clone(), seen);
        }
        changes
    }
}

/// The event of a flow whose motion was `before` and is `now`, and its text.
fn change(before: &Motion, now: &Motion) -> Option<(EventKind, String)> {
    match (before, now) {
        (Motion::Stalled(_), Motion::Stalled(_)) | (Motion::Ended(_), Motion::Ended(_)) => None,
        (_, Motion::Stalled(why)) => Some((
            EventKind::FlowStalled,
            format!("nothing has moved for {} s: waits for {why}", STALL.as_secs()),
        )),
        (_, Motion::Ended(left)) if left.is_empty() => {
            Some((EventKind::FlowEnded, "all streams have ended, and all rings are empty".into()))
        }
        (_, Motion::Ended(left)) => {
            Some((EventKind::FlowEnded, format!("all streams have ended: waits for {left}")))
        }
        (Motion::Stalled(_), Motion::Moves) => Some((EventKind::FlowMoves, "items move again".into())),
        (Motion::Moves | Motion::Ended(_), Motion::Moves) => None,
    }
}

/// What its agent says of a ring; `None` if that is not known, or said of another ring of its name.
fn words_of<'h>(ring: &Ring, held: &'h HashMap<String, Held>) -> Option<&'h Held> {
    held.get(&ring.name).filter(|h| ring.address.is_some_and(|a| u32::from(a.epoch) == h.epoch))
}

/// State of a flow by the words of its rings; `None` if some words are not known.
fn look(flow: &Flow, held: &HashMap<String, Held>, was: Option<&Seen>, now: Instant) -> Option<Seen> {
    let of = |ring: &Ring| words_of(ring, held);
    let mut words = BTreeMap::new();
    for ring in flow.rings() {
        let held = of(ring)?;
        words.insert(key(ring), (held.head, held.tail));
    }
    let fill = |held: &Held| held.head.wrapping_sub(held.tail);
    let consumers: Vec<(&Ring, &Held)> =
        flow.consumers.iter().flat_map(|m| &m.rings).filter_map(|r| Some((r, of(r)?))).collect();
    let full: Vec<String> =
        consumers.iter().filter(|(_, h)| fill(h) > 0).map(|(r, h)| at_consumer(r, h)).collect();
    if consumers.iter().all(|(_, h)| h.head_flags & CLOSED != 0) {
        return Some(Seen { words, moved: now, motion: Motion::Ended(some(full)) });
    }
    let unmoved = was.filter(|was| was.words == words).map(|was| was.moved);
    let begun: Vec<String> = flow
        .producers
        .iter()
        .flat_map(|m| &m.rings)
        .filter_map(|r| Some((r, of(r)?)))
        .filter(|(r, h)| {
            // Where no consumer's ring has room, the flow waits for the consumer.
            let full = |(c, h): &(&Ring, &Held)| c.size - fill(h).min(c.size) < flow.item_size;
            let blocked = match flow.kind.competes() {
                true => consumers.iter().all(full),
                false => consumers.iter().filter(|(c, _)| c.ids.worker == r.ids.worker).any(full),
            };
            fill(h) > 0 && !blocked
        })
        .map(|(r, h)| {
            format!(
                "{} of ring `{}` on host `{}` to be transferred",
                show_size(fill(h).into()),
                r.name,
                r.host
            )
        })
        .collect();
    let waits: Vec<String> = begun.into_iter().chain(full).collect();
    let moved = unmoved.filter(|_| !waits.is_empty()).unwrap_or(now);
    let motion = match now.duration_since(moved) >= STALL {
        true => Motion::Stalled(some(waits)),
        false => Motion::Moves,
    };
    Some(Seen { words, moved, motion })
}

/// Why a flow is to be deleted by itself, by the words of its rings; `None` if it is not, or some words are not known.
fn over(flow: &Flow, held: &HashMap<String, Held>) -> Option<&'static str> {
    let of = |ring: &Ring| words_of(ring, held);
    let is_left = flow.rings().all(|ring| of(ring).is_some_and(|h| !h.attached));
    if flow.settings.when_ended != WhenEnded::Delete || !is_left {
        return None;
    }
    let mut consumers = flow.consumers.iter().flat_map(|m| &m.rings).filter_map(of);
    match flow.failed {
        Some(_) => Some("it has failed, and its programs have gone"),
        // A program that has not come yet is to find its end.
        None if consumers.all(|h| h.head_flags & CLOSED != 0 && h.finished) => {
            Some("all has been read to the end, and its programs have gone")
        }
        None => None,
    }
}

/// The items that a consumer ring holds, and the program that has to take them.
fn at_consumer(ring: &Ring, held: &Held) -> String {
    let size = show_size(held.head.wrapping_sub(held.tail).into());
    match held.attached {
        true => format!("the program at ring `{}` to take {size}", ring.name),
        false => format!("a program to take {size} out of ring `{}`", ring.name),
    }
}

/// The first of these rings, and how many more there are.
fn some(mut texts: Vec<String>) -> String {
    let more = texts.len().saturating_sub(NAMED);
    texts.truncate(NAMED);
    let text = texts.join("; ");
    if more > 0 { format!("{text}; and {more} more") } else { text }
}

impl Controller {
    /// Looks at all rings, as long as the controller runs.
    pub(crate) async fn watch_stalls(&self) {
        let mut rings = 0;
        loop {
            let pause = LOOK + PER_RING * rings;
            tokio::select! {
                biased;
                () = tokio::time::sleep(pause) => {}
                () = self.0.stalls.nudge.notified() => tokio::time::sleep(ENDED).await,
            }
            let flows = self.list_flows();
            rings = flows.iter().map(|f| f.rings().count() as u32).sum();
            if rings > 0 {
                let held = self.all_rings(&flows).await;
                for (kind, event) in self.0.stalls.note(&flows, &held, Instant::now()) {
                    self.0.events.emit(kind, event);
                }
                for flow in flows {
                    if let Some(why) = over(&flow, &held) {
                        self.go(flow, why);
                    }
                }
            }
        }
    }

    /// Deletes a flow that is over, beside the looks: it may have to wait for the switch.
    fn go(&self, flow: Flow, why: &'static str) {
        let name = flow.name.clone();
        if !self.0.stalls.going().insert(name.clone()) {
            return;
        }
        let own = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = own.stopped() => {}
                () = own.delete_ended(&flow, why) => {}
            }
            own.0.stalls.going().remove(&name);
        });
    }

    /// The rings that the agents of flows' hosts have, by name.
    async fn all_rings(&self, flows: &[Flow]) -> HashMap<String, Held> {
        let hosts: std::collections::BTreeSet<&str> =
            flows.iter().flat_map(|f| f.members()).map(|m| m.host.as_str()).collect();
        let mut calls = JoinSet::new();
        for host in hosts.into_iter().filter(|host| self.is_connected(host)) {
            let Ok(mut client) = self.0.agents.of(host) else { continue };
            calls.spawn(async move {
                let asked = client.list_rings(ListRingsRequest::default());
                tokio::time::timeout(ANSWER, asked).await
            });
        }
        let mut held = HashMap::new();
        while let Some(done) = calls.join_next().await {
            if let Ok(Ok(Ok(answer))) = done {
                held.extend(answer.into_inner().rings.into_iter().map(|r| (r.name.clone(), r)));
            }
        }
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::Duration;
    use zsr_topology::Settings;

    fn flow() -> Flow {
        let ring = |name: &str, is_producer: bool, id: u16| {
            let qp = json!({"index": id, "qpn": 0, "psn": 0});
            json!({
                "name": name, "host": "h1", "declared": false, "owner": "", "size": 4096, "start": 0, "address": [1, 2, 3, 9],
                "ids": {"id": id, "worker": 1, "is_producer": is_producer, "member": 0, "data": qp, "poll": qp, "secret": 0},
            })
        };
        serde_json::from_value(json!({
            "name": "f", "number": 1, "kind": "Shuffle", "item_size": 64, "ring_size": 4096, "mtu": 1024, "owner": "",
            "settings": Settings::of_items(64), "routing": "hash", "version": 1, "failed": null,
            "producers": [{"name": "p", "host": "h1", "rings": [ring("f.p.c", true, 7)]}],
            "consumers": [{"name": "c", "host": "h2", "rings": [ring("f.c", false, 1)]}],
        }))
        .unwrap()
    }

    /// Fill of the producer's ring and of the consumer's, whether that has a program, and its flags.
    fn held(producer: u32, consumer: u32, attached: bool, flags: u32) -> HashMap<String, Held> {
        let ring = |name: &str, fill| Held { name: name.into(), head: fill, epoch: 9, ..Default::default() };
        let consumer = Held { attached, head_flags: flags, ..ring("f.c", consumer) };
        [ring("f.p.c", producer), consumer].into_iter().map(|r| (r.name.clone(), r)).collect()
    }

    fn later(held: &HashMap<String, Held>, seconds: u64) -> Motion {
        let (stalls, now) = (Stalls::default(), Instant::now());
        stalls.note(&[flow()], held, now);
        stalls.note(&[flow()], held, now + Duration::from_secs(seconds));
        stalls.of(&flow()).unwrap()
    }

    #[test]
    fn who_is_waited_for_is_named_when_nothing_has_moved_for_a_while() {
        assert_eq!(later(&held(64, 0, true, 0), 2), Motion::Moves);
        let stalled = |held| match later(&held, 3) {
            Motion::Stalled(why) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(stalled(held(64, 0, true, 0)), "64 B of ring `f.p.c` on host `h1` to be transferred");
        assert_eq!(stalled(held(0, 128, false, 0)), "a program to take 128 B out of ring `f.c`");
        assert_eq!(stalled(held(64, 4096, true, 0)), "the program at ring `f.c` to take 4 KiB");
        assert_eq!(later(&held(0, 0, false, 0), 60), Motion::Moves, "there is nothing to move");
    }

    #[test]
    fn a_flow_that_moves_is_not_stalled_and_one_that_is_not_known_stays_what_it_was() {
        let (stalls, begun) = (Stalls::default(), Instant::now());
        for second in 0..9 {
            let now = begun + Duration::from_secs(second);
            stalls.note(&[flow()], &held(64 * (second as u32 + 1), 0, true, 0), now);
            assert_eq!(stalls.of(&flow()), Some(Motion::Moves));
        }
        let kinds = |held: &HashMap<String, Held>, second| {
            let changes = stalls.note(&[flow()], held, begun + Duration::from_secs(second));
            changes.into_iter().map(|(kind, _)| kind).collect::<Vec<_>>()
        };
        let stays = held(64, 0, true, 0);
        assert_eq!(kinds(&stays, 10), []);
        // A stall is one event, however long it lasts, and whichever agents cannot be asked meanwhile.
        assert_eq!(kinds(&stays, 20), [EventKind::FlowStalled]);
        assert_eq!(kinds(&stays, 25), []);
        assert_eq!(kinds(&HashMap::new(), 30), []);
        assert!(matches!(stalls.of(&flow()), Some(Motion::Stalled(_))));
        assert_eq!(kinds(&held(0, 64, true, 0), 31), [EventKind::FlowMoves]);
        assert_eq!(kinds(&held(0, 64, true, CLOSED), 32), [EventKind::FlowEnded]);
        assert_eq!(kinds(&held(0, 0, true, CLOSED), 40), []);
        stalls.note(&[], &HashMap::new(), begun);
        assert_eq!(stalls.of(&flow()), None);
    }

    #[test]
    fn what_has_ended_goes_when_it_was_read_to_the_end_and_nobody_is_there() {
        let goes = Settings { when_ended: WhenEnded::Delete, ..Settings::of_items(64) };
        let goes = Flow { settings: goes, ..flow() };
        let finished = |attached, flags| {
            let mut held = held(0, 0, attached, flags);
            held.values_mut().for_each(|ring| ring.finished = true);
            held
        };
        let ended = finished(false, CLOSED);
        assert!(over(&goes, &ended).is_some());
        assert_eq!(over(&flow(), &ended), None, "it is to be kept");
        assert_eq!(over(&goes, &finished(true, CLOSED)), None, "a program is there");
        assert_eq!(over(&goes, &finished(false, 0)), None, "the stream goes on");
        assert_eq!(over(&goes, &held(0, 0, false, CLOSED)), None, "nobody has seen its end");
        assert_eq!(over(&goes, &HashMap::new()), None, "nothing is known");
        let failed = Flow { failed: Some("why".into()), ..goes };
        assert!(over(&failed, &held(64, 64, false, 0)).is_some());
        assert_eq!(over(&failed, &held(0, 0, true, 0)), None, "a program is to hear of it");
    }

    #[test]
    fn a_flow_is_not_what_one_of_its_name_was() {
        let (stalls, now) = (Stalls::default(), Instant::now());
        stalls.note(&[flow()], &held(0, 0, false, CLOSED), now);
        assert!(matches!(stalls.of(&flow()), Some(Motion::Ended(_))));
        let mut again = flow();
        again.rings_mut().filter_map(|r| r.address.as_mut()).for_each(|address| address.epoch += 1);
        assert_eq!(stalls.of(&again), None);
        // Nor does a flow stall while its agents do not answer.
        stalls.note(std::slice::from_ref(&again), &HashMap::new(), now);
        assert_eq!(stalls.of(&again), None);
    }

    #[test]
    fn streams_that_have_ended_are_an_end() {
        assert_eq!(later(&held(0, 0, false, CLOSED), 0), Motion::Ended(String::new()));
        let left = later(&held(0, 64, false, CLOSED), 60);
        assert_eq!(left, Motion::Ended("a program to take 64 B out of ring `f.c`".into()));
    }
}
