//! Look-ups by READs: a reader follows pointers from the root to a leaf, one READ for each node.

use std::collections::VecDeque;

use zsr_soft_nic::{Access, QpCaps};

use super::super::MTU;
use super::super::cluster::{Cluster, Hosts};
use super::super::memory::Block;
use super::super::run::Program;
use super::super::verbs::{CompletionQueue, NIC_DEPTH, Remote, SendQueue, connect};
use super::{Requests, Step, Tree, step};

/// Keeps a number of look-ups under way, each with one READ at a time.
pub struct Reader {
    /// The keys that the reader looks up.
    pub requests: Requests,
    queue: SendQueue,
    completions: CompletionQueue,
    /// READ nodes land here, one for each look-up that is under way.
    landing: Block,
    /// Bytes of a node.
    node: usize,
    /// Look-ups that wait for a READ, oldest first: their places, and which node each READs. READs complete in order.
    reading: VecDeque<(usize, usize)>,
    /// The request at each place.
    places: Vec<usize>,
    free: Vec<usize>,
    /// Nodes that are kept once they were READ, by number.
    kept: Vec<Option<Box<[u8]>>>,
    /// READs that it has posted.
    pub reads: u64,
}

impl Reader {
    /// Goes on with the look-up at `place` at node `number`: through nodes that are kept, up to one that must be READ.
    fn go_on(&mut self, place: usize, mut number: usize) {
        let request = self.places[place];
        while let Some(Some(node)) = self.kept.get(number) {
            match step(node, self.requests.keys[request]) {
                Step::Down(child) => number = child,
                Step::End(value) => return self.end(place, value),
            }
        }
        self.queue.read(number * self.node, self.node, place * self.node);
        self.reading.push_back((place, number));
        self.reads += 1;
    }

    fn end(&mut self, place: usize, value: Option<u64>) {
        self.requests.answer(self.places[place], value.into());
        self.free.push(place);
    }

    fn turn(&mut self) -> usize {
        let mut steps = 0;
        while self.completions.poll().is_some() {
            let (place, number) = self.reading.pop_front().expect("a READ");
            // SAFETY: the READ has completed, and the next one into this place is not posted.
            let node = unsafe { self.landing.bytes(place * self.node, self.node) };
            if let Some(kept) = self.kept.get_mut(number) {
                *kept = Some(node.into());
            }
            match step(node, self.requests.keys[self.places[place]]) {
                Step::Down(child) => self.go_on(place, child),
                Step::End(value) => self.end(place, value),
            }
            steps += 1;
        }
        while self.requests.asked < self.requests.keys.len()
            && self.queue.has_room(1)
            && let Some(place) = self.free.pop()
        {
            self.places[place] = self.requests.asked;
            self.requests.asked += 1;
            self.go_on(place, 0);
            steps += 1;
        }
        steps
    }
}

impl Program for Reader {
    fn push(&mut self) -> usize {
        self.turn()
    }

    fn consume(&mut self) -> usize {
        0
    }

    fn is_done(&self) -> bool {
        self.requests.is_done()
    }
}

/// A host with the tree, without a program, and one for each reader. Readers have `window` look-ups under way, at most
/// as many as a send queue holds, and keep copies of the first `kept` nodes.
pub fn hosts(tree: &Tree, requests: Vec<Requests>, window: usize, kept: usize) -> (Hosts, Vec<Reader>) {
    assert!((1..=NIC_DEPTH).contains(&window), "{window} look-ups");
    let mut hosts = Hosts::new(requests.len() + 1, 1, &[], MTU);
    let nic = &mut hosts.hands.nics[0];
    let rkey = nic.register_mr(tree.block.region(), 0, Access::REMOTE_READ).expect("a key");
    let reader = |(number, requests): (usize, Requests)| {
        let host = number + 1;
        let landing = Block::new(window * tree.node);
        let nics = &mut hosts.hands.nics;
        let to = nics[0].create_qp(QpCaps { send_depth: 0, recv_depth: 0 }).expect("a queue pair");
        let qpn =
            nics[host].create_qp(QpCaps { send_depth: NIC_DEPTH, recv_depth: 0 }).expect("a queue pair");
        let lkey = nics[host].register_mr(landing.region(), 0, Access::LOCAL_WRITE).expect("a key");
        connect(&mut hosts, (host, qpn), (0, to));
        let (number, completions) = hosts.devices[host].completion_queue();
        let queue = hosts.devices[host].send_queue(qpn, lkey, Remote { rkey }, number, 0);
        Reader {
            requests,
            queue,
            completions,
            landing,
            node: tree.node,
            reading: VecDeque::with_capacity(window),
            places: vec![0; window],
            free: (0..window).collect(),
            kept: vec![None; kept],
            reads: 0,
        }
    };
    let readers = requests.into_iter().enumerate().map(reader).collect();
    (hosts, readers)
}

/// The [`hosts`] as a cluster.
pub fn cluster(tree: &Tree, requests: Vec<Requests>, window: usize, kept: usize) -> (Cluster, Vec<Reader>) {
    let (hosts, readers) = hosts(tree, requests, window, kept);
    (Cluster::new(hosts), readers)
}
