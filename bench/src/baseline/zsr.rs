//! A node's ends of a zsr flow whose items are tuples. Batches are written in place and shown by one store of `head`.

use std::sync::Arc;

use zsr_ring::{Cancel, Consumer, PopError, Producer, PushError, Ring};
use zsr_topology::RingRole;

use super::cluster::{Cluster, Hosts};
use super::{BATCH, Ends, Flow, Hint, MTU, Took};

/// A producer ring, and the place of the next tuple in it.
struct Lane {
    producer: Producer,
    /// The next tuple's place in the reserved room, and the end of the room.
    at: *mut u8,
    end: *mut u8,
    /// Items that were reserved.
    items: usize,
}

// SAFETY: the pointers go into the ring that `producer` has alone and keeps alive.
unsafe impl Send for Lane {}

impl Lane {
    #[inline(always)]
    fn try_push(&mut self, tuple: &[u8]) -> bool {
        if self.at == self.end && !self.reserve(tuple.len()) {
            return false;
        }
        // SAFETY: `reserve` has reserved whole items up to `end`, which nobody else touches until they are published.
        unsafe {
            std::ptr::copy_nonoverlapping(tuple.as_ptr(), self.at, tuple.len());
            self.at = self.at.add(tuple.len());
        }
        if self.at == self.end {
            self.show(self.items);
        }
        true
    }

    /// Publishes the first `items` reserved items.
    #[inline(never)]
    fn show(&mut self, items: usize) {
        if items > 0 {
            self.producer.reserve(items).expect("reserved before").publish(items);
        }
        self.items = 0;
        self.end = self.at;
    }

    /// Publishes the written items.
    fn flush(&mut self, tuple: usize) {
        let left = (self.end.addr() - self.at.addr()) / tuple;
        self.show(self.items - left);
    }

    /// Reserves room for a batch; `false` if there is none.
    #[inline(never)]
    fn reserve(&mut self, tuple: usize) -> bool {
        match self.producer.reserve((BATCH / tuple).max(1)) {
            Ok(mut room) => {
                self.items = room.len();
                let place = room.bytes().as_mut_ptr_range();
                (self.at, self.end) = (place.start, place.end);
                true
            }
            Err(PushError::Full) => false,
            Err(e) => panic!("{e}"),
        }
    }
}

/// The ends of a node. `BATCHES`: tuples are published as in [`Hint::Bandwidth`], otherwise one by one.
pub struct ZsrEnds<const BATCHES: bool> {
    lanes: Vec<Lane>,
    consumers: Vec<Consumer>,
    /// The consumer ring that is looked at first.
    next: usize,
    tuple: usize,
}

impl<const BATCHES: bool> Ends for ZsrEnds<BATCHES> {
    #[inline(always)]
    fn try_push(&mut self, to: usize, tuple: &[u8]) -> bool {
        let lane = &mut self.lanes[to];
        if BATCHES {
            return lane.try_push(tuple);
        }
        match lane.producer.try_push(tuple) {
            Ok(()) => true,
            Err(PushError::Full) => false,
            Err(e) => panic!("{e}"),
        }
    }

    fn try_finish(&mut self) -> bool {
        for mut lane in self.lanes.drain(..) {
            lane.flush(self.tuple);
            lane.producer.close();
        }
        true
    }

    #[inline]
    fn consume(&mut self, sink: &mut impl FnMut(&[u8])) -> Took {
        let mut nothing = Took::End;
        for n in 0..self.consumers.len() {
            let at = (self.next + n) % self.consumers.len();
            match self.consumers[at].peek() {
                Ok(view) => {
                    sink(view.bytes());
                    self.next = at + 1;
                    return Took::Some;
                }
                Err(PopError::Empty) => nothing = Took::Nothing,
                Err(PopError::Closed) => {}
                Err(e) => panic!("{e}"),
            }
        }
        nothing
    }
}

/// A cluster of `nodes`, and for each flow the ends of all nodes. All flows have the hint that `BATCHES` says.
pub fn cluster<const BATCHES: bool>(nodes: usize, flows: &[Flow]) -> (Cluster, Vec<Vec<ZsrEnds<BATCHES>>>) {
    let (hosts, ends) = hosts(nodes, 1, flows, MTU);
    (Cluster::new(hosts), ends)
}

/// The same hosts with `threads` programs each and another path MTU, in bytes, for any hardware.
pub fn hosts<const BATCHES: bool>(
    nodes: usize,
    threads: usize,
    flows: &[Flow],
    mtu: u32,
) -> (Hosts, Vec<Vec<ZsrEnds<BATCHES>>>) {
    let hosts = Hosts::new(nodes, threads, flows, mtu);
    let ends = flows.iter().enumerate().map(|(number, flow)| {
        (0..nodes * threads).map(|node| ends_of(&hosts, number, node, flow)).collect::<Vec<_>>()
    });
    let ends = ends.collect();
    (hosts, ends)
}

fn ends_of<const BATCHES: bool>(hosts: &Hosts, number: usize, node: usize, flow: &Flow) -> ZsrEnds<BATCHES> {
    assert_eq!(flow.hint == Hint::Bandwidth, BATCHES);
    let lane = |producer| Lane { producer, at: std::ptr::null_mut(), end: std::ptr::null_mut(), items: 0 };
    let lanes = producers(hosts, number, node).into_iter().map(lane).collect();
    ZsrEnds { lanes, consumers: consumers(hosts, number, node), next: 0, tuple: flow.tuple }
}

/// The rings of producer `member` of flow `flow`, one for each of its targets.
pub(super) fn producers(hosts: &Hosts, flow: usize, member: usize) -> Vec<Producer> {
    let rings = hosts.topology.flows[flow].producers[member].rings.iter().map(|&index| {
        debug_assert_eq!(hosts.topology.rings[index].role, RingRole::Producer);
        ring(hosts, index).attach_producer(Cancel::default()).expect("a free ring")
    });
    rings.collect()
}

/// The rings of consumer `member` of flow `flow`, one for each of its lanes.
pub(super) fn consumers(hosts: &Hosts, flow: usize, member: usize) -> Vec<Consumer> {
    let rings = hosts.topology.flows[flow].consumers[member].rings.iter();
    rings.map(|&index| ring(hosts, index).attach_consumer(Cancel::default()).expect("a free ring")).collect()
}

fn ring(hosts: &Hosts, index: usize) -> &Arc<Ring> {
    let at = hosts.hands.draft.rings().iter().position(|r| r.index == index).expect("a drafted ring");
    &hosts.hands.rings[at]
}
