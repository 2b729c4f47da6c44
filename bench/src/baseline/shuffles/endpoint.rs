//! An endpoint: both of a thread's, or of a node's.

use std::collections::VecDeque;

use zsr_soft_nic::To;

use super::super::memory::Block;
use super::super::run::Program;
use super::super::verbs::{ArrivalQueue, CompletionQueue, ReceiveQueue, SendQueue};
use super::layout::{Layout, Word, entry_in};
use super::{Counts, Design, STEP, Setup, Stream, Way};

/// Kinds of requests, as [`Counts::requests`] counts them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    Data,
    Valid,
    Free,
    Credit,
}

/// Queues of an endpoint: for each node, or one of each kind over datagrams.
pub(super) struct Queues {
    pub(super) send: Vec<SendQueue>,
    pub(super) receive: Vec<ReceiveQueue>,
    /// Over datagrams: the other nodes' queue pairs.
    pub(super) to: Vec<To>,
    pub(super) done: CompletionQueue,
    pub(super) came: ArrivalQueue,
}

/// A request that a receiver has yet to post.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owed {
    /// Credit for a node.
    Credit(usize),
    /// A free buffer of a node.
    Free(usize, u16),
}

/// An endpoint's knowledge of a node.
#[derive(Default)]
pub(super) struct Link {
    /// Filled buffers that go there.
    pub(super) waiting: VecDeque<u16>,
    /// Messages sent there, those with data, and whether the last one with data was.
    pub(super) sent: u64,
    pub(super) sending: Stream,
    pub(super) has_ended: bool,
    /// Entries written into its `ValidArr`, and taken from the own `FreeArr`.
    pub(super) validated: u64,
    pub(super) freed: u64,
    /// Buffers there that are known to be free.
    pub(super) room: VecDeque<u16>,
    /// Receives posted for it, and how many it was told of.
    pub(super) granted: u64,
    pub(super) told: u64,
    /// Entries taken from the own `ValidArr`, and written into its `FreeArr`.
    pub(super) taken: u64,
    pub(super) released: u64,
    /// Receive buffers for its messages.
    pub(super) local: Vec<u16>,
    /// What has come from it, what its last message says of that, and whether that has come.
    pub(super) coming: Stream,
    pub(super) total: Option<Stream>,
    /// Empty messages of it that came after its last one with data.
    pub(super) empties: u64,
}

impl Link {
    pub(super) fn new(lay: &Layout) -> Self {
        Self { granted: lay.first_credit(), told: lay.first_credit(), ..Self::default() }
    }
}

/// An endpoint.
pub(super) struct Endpoint {
    pub(super) design: Design,
    pub(super) setup: Setup,
    /// The own node, and the endpoint's number among all.
    pub(super) node: usize,
    pub(super) number: usize,
    pub(super) block: Block,
    pub(super) lay: Layout,
    pub(super) queues: Queues,
    pub(super) links: Vec<Link>,
    /// Free send buffers of each group of destinations: one for each node, or one for all.
    pub(super) free: Vec<Vec<u16>>,
    /// Of each send buffer: destinations that have yet to be done with it.
    pub(super) left: Vec<usize>,
    /// Rows made for each group.
    pub(super) made: Vec<u64>,
    pub(super) owed: VecDeque<Owed>,
    /// Of each receive buffer that is being read: the buffer at the sender.
    pub(super) remote: Vec<u16>,
    /// Short messages sent.
    pub(super) shorts: u64,
    /// Time in which requests may be posted, in nanoseconds.
    budget: u64,
    /// Which node is served first, and whether receiving goes before sending.
    pub(super) turn: usize,
    pub(super) counts: Counts,
}

impl Endpoint {
    pub(super) fn new(
        design: Design,
        setup: Setup,
        (node, number): (usize, usize),
        block: Block,
        lay: Layout,
        queues: Queues,
        links: Vec<Link>,
    ) -> Self {
        let groups = if setup.broadcast { 1 } else { setup.nodes };
        let buffers = lay.buffers();
        let of = |group: usize| (group..buffers).step_by(groups).map(|b| b as u16).collect();
        let mut endpoint = Self {
            design,
            setup,
            node,
            number,
            block,
            lay,
            queues,
            links,
            free: (0..groups).map(of).collect(),
            left: vec![0; buffers],
            made: vec![0; groups],
            owed: VecDeque::new(),
            remote: vec![0; lay.receive_buffers()],
            shorts: 0,
            budget: 0,
            turn: 0,
            counts: Counts::default(),
        };
        endpoint.begin();
        endpoint
    }

    /// Posts the first receives, or notes which buffers are whose.
    fn begin(&mut self) {
        let depth = self.lay.depth as u16;
        for node in 0..self.setup.nodes {
            // Buffers for a node's messages have the same numbers at all endpoints.
            let own = node as u16 * depth..(node as u16 + 1) * depth;
            let there = self.node as u16 * depth..(self.node as u16 + 1) * depth;
            match self.design.way {
                Way::Send => own.for_each(|buffer| self.post_receive(node, buffer)),
                Way::Read => self.links[node].local.extend(own),
                Way::Write(_) => {
                    self.links[node].local.extend(own);
                    self.links[node].room.extend(there);
                    (0..self.lay.receives()).for_each(|_| self.queues.receive[node].post(0, 0, 0));
                }
                Way::Datagram => {}
            }
        }
        if self.design.way == Way::Datagram {
            (0..self.lay.receive_buffers()).for_each(|buffer| self.post_receive(0, buffer as u16));
        }
    }

    pub(super) fn post_receive(&mut self, queue: usize, buffer: u16) {
        let (at, len) = self.lay.receive(buffer);
        self.queues.receive[queue].post(buffer, at, len);
    }

    /// The buffer in a queue's entry number `count` for a node, once it is there.
    pub(super) fn entry(&self, kind: Word, node: usize, count: u64) -> Option<u16> {
        entry_in(self.block.load(self.lay.word(kind, node, count)), count)
    }

    /// Whether a request to a node can be posted now. It has to be then.
    pub(super) fn may_post(&mut self, node: usize, what: For) -> bool {
        let queue = if self.design.way == Way::Datagram { 0 } else { node };
        let sharing = self.setup.threads / self.setup.endpoints(self.design);
        let cost = self.setup.post_ns * sharing as u64;
        let may = self.budget >= cost && self.queues.send[queue].has_room(1);
        if may {
            self.budget -= cost;
            self.counts.requests[what as usize] += 1;
        }
        may
    }

    /// Whether the endpoint can tell that everything is over: its own messages, and those that come.
    pub(super) fn is_over(&self) -> bool {
        let sends = self.design.way == Way::Send;
        let of = |node: usize| {
            let link = &self.links[node];
            let parity = !sends || self.granted_by(node).is_some_and(|all| all == link.sent);
            let all = match self.design.way {
                Way::Datagram => link.total.is_some_and(|total| total.messages == link.coming.messages),
                Way::Send => link.total.is_some() && link.granted == link.coming.messages + link.empties,
                _ => link.total.is_some(),
            };
            link.has_ended && link.waiting.is_empty() && parity && all
        };
        self.owed.is_empty() && self.left.iter().all(|left| *left == 0) && (0..self.setup.nodes).all(of)
    }

    pub(super) fn hashes_agree(&self) -> bool {
        self.links.iter().all(|link| link.total.is_some_and(|total| total == link.coming))
    }
}

impl Program for Endpoint {
    fn push(&mut self) -> usize {
        // What is left of a step does for at most a few of the dearest requests.
        self.budget = (self.budget + STEP).min(STEP + 4 * self.setup.post_ns * self.setup.threads as u64);
        // Threads that send and threads that receive take turns.
        if self.turn.is_multiple_of(2) {
            self.pay();
            self.receive();
        }
        self.send();
        0
    }

    fn consume(&mut self) -> usize {
        self.receive();
        self.pay();
        0
    }

    fn is_done(&self) -> bool {
        self.is_over()
    }
}
