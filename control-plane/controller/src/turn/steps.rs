//! Which steps lead flows from their present values to the wanted ones. Nothing here waits, writes or asks: the
//! [`transaction`](crate::turn::transaction) carries the steps out.

use std::collections::{BTreeSet, HashSet};
use zsr_plan::dataplane::admin::Reset;
use zsr_plan::dataplane::model::{Flow, Ring};

/// One flow's part of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// The flow's present value; `None`: it comes.
    pub(crate) old: Option<Flow>,
    /// The wanted value; `None`: it goes.
    pub(crate) new: Option<Flow>,
}

/// A step of a transaction. What has an effect that outlasts the transaction has an undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The journal says what the flows become if no end follows.
    Begin,
    /// Workers that have to rest begin no transfer.
    Hold,
    /// They have ended their transfers, and rings that go are empty.
    Rest,
    /// Agents make new rings.
    Open,
    /// The registers of new rings are set.
    Reset,
    /// The journal has the new values of flows that lose no ring.
    End,
    /// Entries come, workers stop and start, entries go.
    Write,
    /// Workers that rest go on.
    Release,
}

/// The steps of a transaction, in order. It can be broken off between any two of them, and be completed or taken back
/// from the journal.
///
/// A change that only adds holds as soon as it is written. Items may move as soon as the switch has the entries: if the
/// change were taken back then, items at a new consumer would be lost. Where workers rest, they do not wait for a disk:
/// the other members have all items of a new member of a group, too.
pub(crate) fn steps(changes: &[Change], force: bool) -> &'static [Step] {
    use Step::{Begin, End, Hold, Open, Release, Reset, Rest, Write};
    match changes.iter().any(|change| !change.to_rest(force).is_empty()) {
        false => &[Begin, Open, Reset, End, Write],
        true => &[Begin, Hold, Rest, Open, Reset, Write, Release, End],
    }
}

impl Change {
    /// Transfers that are under way may have the size that was allowed before, so both values know the larger one.
    pub(crate) fn turn(mut old: Flow, mut new: Flow) -> Self {
        if old.settings.max_batch != new.settings.max_batch {
            new.past_batch = old.past_batch.max(old.settings.max_batch);
            old.past_batch = old.past_batch.max(new.settings.max_batch);
        }
        Change { old: Some(old), new: Some(new) }
    }

    /// The flow's name.
    pub(crate) fn name(&self) -> &str {
        self.old.as_ref().or(self.new.as_ref()).map_or("", |flow| &flow.name)
    }

    /// Rings that go.
    pub(crate) fn closing(&self) -> impl Iterator<Item = &Ring> {
        rings_only_in(self.old.as_ref(), self.new.as_ref())
    }

    /// Rings that come.
    pub(crate) fn opening(&self) -> impl Iterator<Item = &Ring> {
        rings_only_in(self.new.as_ref(), self.old.as_ref())
    }

    /// Whether no ring goes.
    pub(crate) fn only_adds(&self) -> bool {
        self.closing().next().is_none()
    }

    /// The flow's value if the change breaks off. A change that takes rings away can always be completed, a change that
    /// makes rings can always be taken back.
    pub(crate) fn fallback(&self) -> Option<&Flow> {
        if self.only_adds() { self.old.as_ref() } else { self.new.as_ref() }
    }

    /// The flow's new value, if it holds as soon as it is written.
    pub(crate) fn ends_early(&self) -> Option<&Flow> {
        self.new.as_ref().filter(|_| self.only_adds())
    }

    /// Registers of rings that come: counters and PSNs get the rings' positions. Workers of such rings do not run yet,
    /// except the worker of a group that the rings join.
    pub(crate) fn resets(&self) -> Vec<Reset> {
        let running = self.old.as_ref().map(Flow::workers).unwrap_or_default();
        let reset = |ring: &Ring| match !ring.ids.is_producer && running.contains(&ring.ids.worker) {
            true => ring.ids.reset_poll(ring.start),
            false => ring.ids.reset(ring.start),
        };
        self.opening().map(reset).collect()
    }

    /// Workers that must have no transfer under way: workers that may be using a ring that goes, and the worker of a
    /// group with a new member, since all members begin at one point. Nobody rests for a flow that is deleted.
    pub(crate) fn to_rest(&self, force: bool) -> BTreeSet<u16> {
        let (Some(old), Some(new)) = (&self.old, &self.new) else { return BTreeSet::new() };
        if new.kind.copies() && new.consumers.len() > old.consumers.len() {
            return old.workers();
        }
        let staying = new.workers();
        let mut out = BTreeSet::new();
        for ring in self.closing() {
            if old.kind.competes() && ring.ids.is_producer {
                // All workers of the member may be using it.
                out.extend(old.workers());
            } else if !(old.kind.routes() && force && !staying.contains(&ring.ids.worker)) {
                // A worker of a lane that goes with all of its rings need not end well, unless items may not be lost.
                out.insert(ring.ids.worker);
            }
        }
        out
    }
}

/// Rings of `one` that are not in `other`.
pub(crate) fn rings_only_in<'f>(
    one: Option<&'f Flow>,
    other: Option<&'f Flow>,
) -> impl Iterator<Item = &'f Ring> {
    let others: HashSet<&str> =
        other.into_iter().flat_map(Flow::rings).map(|ring| ring.name.as_str()).collect();
    one.into_iter().flat_map(Flow::rings).filter(move |ring| !others.contains(ring.name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::Step::{Begin, End, Hold, Open, Release, Rest, Write};
    use super::*;
    use serde_json::json;
    use zsr_topology::Settings;

    const IN_MOTION: [Step; 5] = [Begin, Open, Step::Reset, End, Write];
    const AT_REST: [Step; 8] = [Begin, Hold, Rest, Open, Step::Reset, Write, Release, End];

    /// A flow of these members. Consumer `c2` has worker 2, a group has worker 1 for all consumers.
    fn flow(kind: &str, producers: &[&str], consumers: &[&str]) -> Flow {
        let worker =
            |consumer: &str| if kind == "Replicate" { 1 } else { consumer[1..].parse::<u16>().unwrap() };
        let ring = |name: String, is_producer: bool, worker: u16| {
            let qp = json!({"index": 7, "qpn": 0, "psn": 0});
            let ids = json!({
                "id": 1, "worker": worker, "is_producer": is_producer, "member": 0, "data": qp, "poll": qp, "secret": 0,
            });
            json!({
                "name": name, "host": "h", "declared": false, "owner": "", "size": 4096, "start": 64, "address": null,
                "ids": ids,
            })
        };
        let lanes = |producer: &str| match kind {
            "Shuffle" => {
                consumers.iter().map(|c| ring(format!("f.{producer}.{c}"), true, worker(c))).collect()
            }
            _ => vec![ring(format!("f.{producer}"), true, 1)],
        };
        let member = |name: &str, rings| json!({"name": name, "host": "h", "rings": rings});
        let producers: Vec<_> = producers.iter().map(|p| member(p, lanes(p))).collect();
        let consumers = consumers.iter().map(|c| member(c, vec![ring(format!("f.{c}"), false, worker(c))]));
        serde_json::from_value(json!({
            "name": "f", "number": 1, "kind": kind, "item_size": 64, "ring_size": 4096, "mtu": 1024, "owner": "",
            "settings": Settings::of_items(64), "routing": "hash", "version": 1, "failed": null,
            "producers": producers, "consumers": consumers.collect::<Vec<_>>(),
        }))
        .unwrap()
    }

    fn names<'f>(rings: impl Iterator<Item = &'f Ring>) -> Vec<&'f str> {
        rings.map(|ring| ring.name.as_str()).collect()
    }

    #[test]
    fn flows_that_come_and_go_let_nobody_rest() {
        let small = || flow("Shuffle", &["p1"], &["c1"]);
        let comes = Change { old: None, new: Some(small()) };
        let goes = Change { old: Some(small()), new: None };
        for force in [false, true] {
            assert_eq!(steps(&[comes.clone(), goes.clone()], force), IN_MOTION);
        }
        assert_eq!(
            (comes.fallback(), goes.fallback()),
            (None, None),
            "neither is there if the change breaks off"
        );
        assert_eq!((comes.ends_early(), goes.ends_early()), (Some(&small()), None));
        for rings in [comes.opening().collect::<Vec<_>>(), goes.closing().collect()] {
            assert_eq!(names(rings.into_iter()), ["f.p1.c1", "f.c1"]);
        }
        assert!(comes.only_adds() && goes.opening().next().is_none());
    }

    #[test]
    fn a_change_that_adds_falls_back_and_one_that_removes_is_completed() {
        let (one, two) = (flow("Shuffle", &["p1"], &["c1"]), flow("Shuffle", &["p1"], &["c1", "c2"]));
        let adds = Change::turn(one.clone(), two.clone());
        assert_eq!((adds.fallback(), adds.ends_early()), (Some(&one), Some(&two)));
        assert_eq!(names(adds.opening()), ["f.p1.c2", "f.c2"]);
        let removes = Change::turn(two.clone(), one.clone());
        assert_eq!((removes.fallback(), removes.ends_early()), (Some(&one), None));
        assert_eq!(names(removes.closing()), ["f.p1.c2", "f.c2"]);
        // Of two changes at once, one that rests makes both wait for it.
        assert_eq!(steps(std::slice::from_ref(&adds), false), IN_MOTION);
        assert_eq!(steps(&[adds, removes], false), AT_REST);
    }

    #[test]
    fn workers_rest_that_may_use_a_ring_that_goes_or_that_a_new_member_joins() {
        let rest = |kind: &str, [before, after]: [(&[&str], &[&str]); 2], force: bool| -> Vec<u16> {
            let change = Change::turn(flow(kind, before.0, before.1), flow(kind, after.0, after.1));
            change.to_rest(force).into_iter().collect()
        };
        let consumer_goes: [(&[&str], &[&str]); 2] = [(&["p1"], &["c1", "c2"]), (&["p1"], &["c1"])];
        let producer_goes: [(&[&str], &[&str]); 2] =
            [(&["p1", "p2"], &["c1", "c2"]), (&["p1"], &["c1", "c2"])];
        let consumer_comes = [consumer_goes[1], consumer_goes[0]];
        assert_eq!(rest("Shuffle", consumer_goes, false), [2]);
        assert_eq!(rest("Shuffle", consumer_goes, true), [0; 0], "its worker goes as well");
        assert_eq!(rest("Shuffle", producer_goes, true), [1, 2]);
        assert_eq!(rest("Shuffle", consumer_comes, false), [0; 0]);
        assert_eq!(rest("LoadBalance", consumer_goes, true), [2]);
        assert_eq!(rest("LoadBalance", producer_goes, false), [1, 2], "any worker may be using its ring");
        assert_eq!(rest("Replicate", consumer_comes, false), [1]);
        assert_eq!(rest("Replicate", consumer_goes, false), [1]);
    }

    #[test]
    fn registers_of_new_rings_are_set_and_a_worker_that_runs_keeps_its_own() {
        let change = |kind, before: &[&str], after: &[&str]| {
            let change = Change::turn(flow(kind, &["p1"], before), flow(kind, &["p1"], after));
            change.resets().iter().map(|r| (r.worker, r.producer, r.consumer_tail)).collect::<Vec<_>>()
        };
        assert_eq!(change("Replicate", &["c1"], &["c1", "c2"]), [(0, 0, 64)]);
        assert_eq!(change("Shuffle", &["c1"], &["c1", "c2"]), [(0, 1, 64), (2, 0, 64)]);
        assert_eq!(change("Shuffle", &["c1", "c2"], &["c1"]), []);
    }

    #[test]
    fn while_the_largest_batch_changes_both_values_know_the_larger_one() {
        let (mut small, mut large) = (flow("Shuffle", &["p1"], &["c1"]), flow("Shuffle", &["p1"], &["c1"]));
        (small.settings.max_batch, large.settings.max_batch) = (4096, 65536);
        for (old, new) in [(small.clone(), large.clone()), (large, small)] {
            let change = Change::turn(old, new);
            let larger = |flow: &Flow| flow.past_batch.max(flow.settings.max_batch);
            assert_eq!([change.old, change.new].map(|flow| larger(&flow.unwrap())), [65536; 2]);
        }
    }
}
