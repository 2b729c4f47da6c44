//! DFI: flows by one-sided WRITEs of the source's processor. Thostrup et al., "DFI: The Data Flow Interface for
//! High-Speed Networks", SIGMOD 2021, section 5.
//!
//! * A ring for each pair of source and target. At the target it has 32 segments of 8 KiB, each with a footer behind
//!   it. The footer says how much of the segment is used, and whether the target may consume it or the source may write
//!   it. The footer arrives after the tuples, so a program that sees the footer sees the tuples.
//! * Optimized for bandwidth (5.2): the source fills a segment of its own, WRITEs it when it is full, and READs at the
//!   same time the footer of the target's next segment. If that is not writable yet, it asks again after a short random
//!   time. The WRITE of the source's last segment is signaled, and all are used again when it has completed.
//! * Optimized for latency (5.3): segments of one tuple, each sent at once. The source has a credit for each segment at
//!   the target, which counts what it consumes; the source READs that counter when few credits are left.
//! * Replicate flows without multicast (5.4): the segment is WRITten to each target. [`super::multicast`] has the other
//!   way.
//!
//! Differences: small messages are not inlined into work requests (that would cost instructions here). Sources have as
//! many segments as targets: the text says that they have fewer, but the memory that was measured (6.1.4) is that of as
//! many, with footers of 16 bytes. Assumptions beyond the paper: 32 segments of one tuple at a source, which asks for
//! credits when a quarter is left.

mod layout;
mod source;
mod target;

use std::ops::Range;

use zsr_soft_nic::{Access, QpCaps};
use zsr_wire::Qpn;

use super::cluster::{Cluster, Hosts};
use super::memory::Block;
use super::verbs::{CompletionQueue, NIC_DEPTH, Remote, connect};
use super::{Ends, Flow, Hint, Kind, MTU, Took};
use layout::Shape;
pub use source::{BatchSource, CreditSource, Source};
use target::{Target, TargetRing};

/// The ends of a node.
pub struct DfiEnds<S> {
    /// Per target, or one for all of a replicate flow.
    sources: Vec<S>,
    /// How many have sent their last segment.
    finished: usize,
    completions: CompletionQueue,
    target: Target,
    /// Connections of each source.
    fan: usize,
}

impl<S: Source> DfiEnds<S> {
    /// Takes notice of what has completed.
    #[inline(never)]
    fn poll(&mut self) {
        while let Some(done) = self.completions.poll() {
            self.sources[done.connection / self.fan].completed(done.connection % self.fan, done);
        }
    }

    #[cold]
    #[inline(never)]
    fn try_again(&mut self, to: usize, tuple: &[u8]) -> bool {
        self.poll();
        let source = &mut self.sources[to];
        source.go_on();
        source.try_push(tuple)
    }
}

impl<S: Source> Ends for DfiEnds<S> {
    #[inline(always)]
    fn try_push(&mut self, to: usize, tuple: &[u8]) -> bool {
        self.sources[to].try_push(tuple) || self.try_again(to, tuple)
    }

    fn try_finish(&mut self) -> bool {
        self.poll();
        while let Some(source) = self.sources.get_mut(self.finished) {
            if !source.try_finish() {
                return false;
            }
            self.finished += 1;
        }
        true
    }

    #[inline]
    fn consume(&mut self, sink: &mut impl FnMut(&[u8])) -> Took {
        self.target.consume(sink)
    }
}

/// A cluster of `nodes`, and for each flow the ends of all nodes. All flows have the source's hint.
pub fn cluster<S: Source>(nodes: usize, flows: &[Flow]) -> (Cluster, Vec<Vec<DfiEnds<S>>>) {
    let (hosts, ends) = hosts(nodes, 1, flows, MTU);
    (Cluster::new(hosts), ends)
}

/// The same hosts with `threads` programs each and another path MTU, in bytes, for whatever hardware.
pub fn hosts<S: Source>(
    nodes: usize,
    threads: usize,
    flows: &[Flow],
    mtu: u32,
) -> (Hosts, Vec<Vec<DfiEnds<S>>>) {
    let mut hosts = Hosts::new(nodes, threads, &[], mtu);
    let ends = flows.iter().map(|flow| ends_of(&mut hosts, nodes * threads, threads, flow)).collect();
    (hosts, ends)
}

/// Bytes of rings on each of `nodes` nodes with `threads` sources and as many targets each, by the defaults.
pub fn memory(nodes: usize, threads: usize) -> usize {
    let flow = Flow::new(Kind::Shuffle, Hint::Bandwidth, 64);
    let (shape, pairs) = (Shape::of(&flow), threads * threads * nodes);
    pairs * (shape.at(shape.segments) + BatchSource::segments(shape) * shape.stride())
}

/// A ring at a target, as its source knows it.
struct Place {
    remote: Remote,
    qpn: Qpn,
}

/// The ends of all programs, of which the n-th is at host n / `threads`.
fn ends_of<S: Source>(hosts: &mut Hosts, all: usize, threads: usize, flow: &Flow) -> Vec<DfiEnds<S>> {
    assert_eq!(flow.hint, S::hint());
    assert!(
        flow.kind == Kind::Shuffle || flow.hint == Hint::Bandwidth,
        "replicate flows are optimized for bandwidth"
    );
    let shape = Shape::of(flow);
    // By target and source.
    let mut rings: Vec<Vec<TargetRing>> = Vec::new();
    let mut places: Vec<Vec<Place>> = Vec::new();
    for target in 0..all {
        let nic = &mut hosts.hands.nics[target / threads];
        let made: Vec<TargetRing> = (0..all).map(|_| TargetRing::new(shape)).collect();
        let access = Access::REMOTE_READ.with(Access::REMOTE_WRITE);
        let place = |ring: &TargetRing| Place {
            remote: Remote { rkey: nic.register_mr(ring.block.region(), 0, access).expect("a key") },
            qpn: nic.create_qp(QpCaps { send_depth: 0, recv_depth: 0 }).expect("a queue pair"),
        };
        places.push(made.iter().map(place).collect());
        rings.push(made);
    }
    let ends = rings.into_iter().enumerate().map(|(number, rings)| {
        let node = number / threads;
        let (queue, completions) = hosts.devices[node].completion_queue();
        let targets = if flow.kind == Kind::Replicate { all } else { 1 };
        let mut connections = 0..;
        // A block for each source, and a connection for each of its targets.
        let mut source = |of: Range<usize>| {
            let block = Block::new(source::memory(shape, S::segments(shape), targets));
            let lkey =
                hosts.hands.nics[node].register_mr(block.region(), 0, Access::LOCAL_WRITE).expect("a key");
            let queues = of.zip(&mut connections).map(|(target, connection)| {
                let nic = &mut hosts.hands.nics[node];
                let qpn =
                    nic.create_qp(QpCaps { send_depth: NIC_DEPTH, recv_depth: 0 }).expect("a queue pair");
                let place = &places[target][number];
                connect(hosts, (node, qpn), (target / threads, place.qpn));
                hosts.devices[node].send_queue(qpn, lkey, place.remote, queue, connection)
            });
            let queues = queues.collect();
            S::new(block, shape, queues)
        };
        let sources = (0..all).step_by(targets).map(|first| source(first..first + targets)).collect();
        let target = Target::new(rings, shape, flow.hint == Hint::Latency);
        DfiEnds { sources, finished: 0, completions, target, fan: targets }
    });
    ends.collect()
}
