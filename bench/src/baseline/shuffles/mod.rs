//! Eight designs of a shuffle by RDMA: Liu, Yin, Blanas, "Design and Evaluation of an RDMA-aware Data Shuffling Operator for Parallel
//! Database Systems", TODS 2019, sections 4 and 5.
//!
//! A design has an endpoint for each thread (ME) or one for each node (SE). An endpoint has a queue pair for each node (MQ, reliable
//! connections) or one for all (SQ, unreliable datagrams). Data goes by SEND and RECV (SR), READ (RD) or WRITE (WR).
//!
//! - Threads are not modelled: an endpoint fills and consumes buffers at once. What its threads share is the send queue: each request
//!   takes [`Setup::post_ns`] of an endpoint's time, once for each thread that shares the endpoint. That cost is an assumption; the
//!   paper only says that a shared endpoint is limited by the requests that it can post.
//! - Each thread has [`Setup::buffers`] buffers for each node at either end, of which an endpoint has those of its threads.
//! - A node shuffles to itself as to the others, through its NIC.
//! - Words (credits, entries of `ValidArr` and `FreeArr`) are WRITTEN, not inlined.
//! - Posting a receive takes no time, nor does the second request of a post (pollmq's entry of `ValidArr`).
//! - A receiver of SENDs says by a bit in the credit that it grants no more, so that the sender knows how many empty ones are left.
//!   A receiver of datagrams waits for lost ones for ever: whoever runs a shuffle gives up ([`Shuffle::is_over`]).
//! - Over datagrams, credits are datagrams, too: there is no WRITE. They have RECVs beside those that credits stand for.

mod endpoint;
mod layout;
mod receive;
mod send;

use zsr_simnet::LinkConfig;
use zsr_soft_nic::{Access, AddressAttr, Modify, Mtu, QpCaps, To, UdAttr};
use zsr_wire::{Psn, Qpn, Rkey};

use super::MTU;
use super::cluster::Hosts;
use super::memory::Block;
use super::verbs::{NIC_DEPTH, Remote, SendQueue, connect};
use super::virtual_time::VirtualTime;
use endpoint::{Endpoint, Link, Queues};
use layout::Layout;

/// How a receiver of WRITEs learns of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// It polls the last word of each buffer (pollbuff).
    Buffer,
    /// The sender WRITEs the buffer's number into a queue, too (pollmq).
    Queue,
    /// By immediate data (pollcq).
    Completion,
}

/// The transport of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// SEND and RECV over reliable connections.
    Send,
    /// The receiver READs.
    Read,
    /// The sender WRITEs.
    Write(Notice),
    /// SEND and RECV of unreliable datagrams.
    Datagram,
}

/// A design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design {
    /// An endpoint for each thread, or else one for each node.
    pub multi: bool,
    /// The transport of data.
    pub way: Way,
}

impl Design {
    /// The paper's eight. WRITEs are noticed by completions, as in the paper's comparison.
    pub const ALL: [Design; 8] = {
        let write = Way::Write(Notice::Completion);
        [
            Design { multi: true, way: Way::Send },
            Design { multi: true, way: Way::Read },
            Design { multi: true, way: write },
            Design { multi: true, way: Way::Datagram },
            Design { multi: false, way: Way::Send },
            Design { multi: false, way: Way::Read },
            Design { multi: false, way: write },
            Design { multi: false, way: Way::Datagram },
        ]
    };

    /// The paper's name of it.
    pub fn name(self) -> String {
        let queues = if self.way == Way::Datagram { "SQ" } else { "MQ" };
        let way = match self.way {
            Way::Send | Way::Datagram => "SR",
            Way::Read => "RD",
            Way::Write(_) => "WR",
        };
        format!("{}{queues}/{way}", if self.multi { "ME" } else { "SE" })
    }
}

/// The shape of a shuffle, and its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Nodes.
    pub nodes: usize,
    /// Threads of a node.
    pub threads: usize,
    /// Bytes of a message. Datagrams have at most the path MTU.
    pub message: usize,
    /// Buffers of a thread for each node, at either end.
    pub buffers: usize,
    /// Receives after which a receiver writes its credit back.
    pub credit_every: u64,
    /// Each row goes to all nodes, or else to one by its key.
    pub broadcast: bool,
    /// Nanoseconds that a request takes of its endpoint, for each thread that shares the endpoint.
    pub post_ns: u64,
    /// Rows of an endpoint for each node, or of a broadcast; `None`: no end.
    pub rows: Option<u64>,
    /// Seed of the links' faults.
    pub seed: u64,
}

impl Setup {
    /// The paper's: 64 KiB over connections and 4 KiB as datagrams, double buffers, credit written back every second time.
    pub fn new(design: Design, nodes: usize, threads: usize) -> Self {
        let message = if design.way == Way::Datagram { MTU as usize } else { 64 << 10 };
        Self {
            nodes,
            threads,
            message,
            buffers: 2,
            credit_every: 2,
            broadcast: false,
            post_ns: 30,
            rows: None,
            seed: 1,
        }
    }

    /// Endpoints of a node.
    fn endpoints(&self, design: Design) -> usize {
        if design.multi { self.threads } else { 1 }
    }

    /// Buffers of an endpoint for each node.
    fn depth(&self, design: Design) -> usize {
        self.buffers * self.threads / self.endpoints(design)
    }
}

/// What was counted since the start, at all endpoints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages with rows that were consumed.
    pub messages: u64,
    /// Rows consumed.
    pub rows: u64,
    /// The sum of their keys, modulo 2^64.
    pub keys: u64,
    /// Rows at the wrong node, or damaged.
    pub strays: u64,
    /// Requests posted: for data, for notices of data, of free buffers, and of credit.
    pub requests: [u64; 4],
    /// Words that receivers looked at in memory.
    pub polled: u64,
    /// Number of times that receivers looked for messages.
    pub polls: u64,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.messages += other.messages;
        self.rows += other.rows;
        self.keys = self.keys.wrapping_add(other.keys);
        self.strays += other.strays;
        self.polled += other.polled;
        self.polls += other.polls;
        self.requests.iter_mut().zip(other.requests).for_each(|(sum, n)| *sum += n);
    }

    /// Requests for each message.
    pub fn per_message(&self) -> f64 {
        self.requests.iter().sum::<u64>() as f64 / self.messages as f64
    }
}

/// The sum of a stream's messages at its two ends, over datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// Number of messages.
    pub messages: u64,
    /// A hash of them, in whatever order they came.
    pub hash: u64,
}

/// A shuffle that runs.
pub struct Shuffle {
    time: VirtualTime,
    endpoints: Vec<Endpoint>,
    /// Queue pairs of a node.
    pub queue_pairs: usize,
    /// Bytes of a node's send buffers. It has as many for what it receives; over datagrams these are longer by their headers, and there are
    /// some more for credits.
    pub pinned: usize,
}

/// Between two looks of endpoints, in nanoseconds.
const STEP: u64 = 200;
const KEY: u32 = 0x1111;

impl Shuffle {
    /// Makes all endpoints and connects them, over links of this kind.
    pub fn new(design: Design, setup: Setup, link: LinkConfig) -> Self {
        let (nodes, each) = (setup.nodes, setup.endpoints(design));
        let lay = Layout::new(&setup, design);
        let mut hosts = Hosts::new(nodes, 1, &[], MTU);
        // Of endpoint `e` of node `n`: number n · each + e.
        let places: Vec<Place> = (0..nodes * each)
            .map(|number| {
                let nic = &mut hosts.hands.nics[number / each];
                let block = Block::new(lay.len());
                let rkey = nic.register_mr(block.region(), 0, Access::ALL).expect("a key");
                let caps = QpCaps { send_depth: NIC_DEPTH, recv_depth: lay.receives() };
                let count = if design.way == Way::Datagram { 1 } else { nodes };
                let qpns = (0..count).map(|_| nic.create_qp(caps).expect("a queue pair")).collect();
                Place { block, rkey, qpns }
            })
            .collect();
        let endpoints = (0..nodes * each).map(|number| {
            let (node, at) = (number / each, number % each);
            let peers: Vec<&Place> = (0..nodes).map(|peer| &places[peer * each + at]).collect();
            let queues = match design.way {
                Way::Datagram => datagrams(&mut hosts, node, &places[number], &peers, &lay),
                _ => connections(&mut hosts, node, &places[number], &peers, &lay),
            };
            let links = (0..nodes).map(|_| Link::new(&lay)).collect();
            Endpoint::new(design, setup, (node, number), places[number].block.clone(), lay, queues, links)
        });
        let endpoints: Vec<Endpoint> = endpoints.collect();
        let queue_pairs = hosts.hands.nics[0].held().1;
        let time = VirtualTime::with_seed(hosts, link, setup.seed);
        Self { time, endpoints, queue_pairs, pinned: each * lay.pinned() }
    }

    /// Lets `ns` pass.
    pub fn run_for(&mut self, ns: u64) {
        self.time.run_for(&mut self.endpoints, ns, STEP);
    }

    /// The time, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.time.now()
    }

    /// The counts of all endpoints, together.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.endpoints.iter().for_each(|endpoint| sum.add(&endpoint.counts));
        sum
    }

    /// Whether all streams have ended at both ends, as far as the endpoints can tell.
    pub fn is_over(&self) -> bool {
        self.endpoints.iter().all(Endpoint::is_over)
    }

    /// Whether the hashes of all streams agree at both ends; only datagrams have them.
    pub fn hashes_agree(&self) -> bool {
        self.endpoints.iter().all(Endpoint::hashes_agree)
    }

    /// Bytes of rows per nanosecond that a node consumes, once the shuffle is under way, and what was counted meanwhile.
    pub fn goodput(&mut self, ns: u64) -> (f64, Counts) {
        self.run_for(ns / 2);
        let (before, begun) = (self.counts(), self.now());
        self.run_for(ns);
        let after = self.counts();
        let nodes = self.endpoints[0].setup.nodes;
        let counted = Counts {
            messages: after.messages - before.messages,
            rows: after.rows - before.rows,
            requests: std::array::from_fn(|n| after.requests[n] - before.requests[n]),
            polled: after.polled - before.polled,
            polls: after.polls - before.polls,
            ..after
        };
        let bytes = counted.rows as f64 * layout::ROW as f64;
        (bytes / (self.now() - begun) as f64 / nodes as f64, counted)
    }
}

/// An endpoint's memory and queue pairs, as others know them.
struct Place {
    block: Block,
    rkey: Rkey,
    qpns: Vec<Qpn>,
}

/// A queue pair for each node. That of a node to itself is connected to itself.
fn connections(hosts: &mut Hosts, node: usize, own: &Place, peers: &[&Place], lay: &Layout) -> Queues {
    let (queue, done) = hosts.devices[node].completion_queue();
    let (arrivals, came) = hosts.devices[node].arrival_queue(lay.receives() * peers.len());
    let (mut send, mut receive): (Vec<SendQueue>, Vec<_>) = Default::default();
    for (peer, place) in peers.iter().enumerate() {
        let qpn = own.qpns[peer];
        if peer >= node {
            connect(hosts, (node, qpn), (peer, place.qpns[node]));
        }
        let device = &mut hosts.devices[node];
        send.push(device.send_queue(qpn, own.rkey, Remote { rkey: place.rkey }, queue, peer));
        receive.push(device.receive_queue(qpn, own.rkey, lay.receives(), arrivals, peer));
    }
    Queues { send, receive, to: Vec::new(), done, came }
}

/// One queue pair for all nodes.
fn datagrams(hosts: &mut Hosts, node: usize, own: &Place, peers: &[&Place], lay: &Layout) -> Queues {
    let (queue, done) = hosts.devices[node].completion_queue();
    let (arrivals, came) = hosts.devices[node].arrival_queue(lay.receives());
    let qpn = own.qpns[0];
    let to = peers.iter().enumerate().map(|(peer, place)| {
        let host = &hosts.topology.hosts[peer];
        let attr = AddressAttr { mac: Some(zsr_wire::Mac(host.mac.0)), ..AddressAttr::new(host.ip) };
        let address = hosts.hands.nics[node].create_address(&attr).expect("an address");
        To { address, qpn: place.qpns[0], qkey: KEY, immediate: None }
    });
    let to = to.collect();
    let mtu = Mtu::from_bytes(MTU).expect("a path MTU");
    for step in [
        Modify::Init { access: Access::NONE },
        Modify::Datagrams(UdAttr { mtu, qkey: KEY, sq_psn: Psn::ZERO }),
    ] {
        hosts.hands.nics[node].modify_qp(qpn, step).expect("a queue pair that is new");
    }
    let device = &mut hosts.devices[node];
    let send = vec![device.send_queue(qpn, own.rkey, Remote { rkey: own.rkey }, queue, 0)];
    let receive = vec![device.receive_queue(qpn, own.rkey, lay.receives(), arrivals, 0)];
    Queues { send, receive, to, done, came }
}
