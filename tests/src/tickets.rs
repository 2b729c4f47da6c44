//! Clients that take tickets in a simulated network, from a sequencer of the switch or from a word in the memory of a
//! host. Clients and requests are the same: FETCH_ADD, one outstanding. Only the far end differs.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use zsr_plan::p4::names::register;
use zsr_simnet::{End, LinkConfig, Network, Node, NodeId, Rng, Stop};
use zsr_soft_nic::{
    Access, HostMemory, Modify, Mtu, Nic, Operation, QpCaps, RtrAttr, RtsAttr, Sge, Status, WorkRequest,
};
use zsr_soft_switch::{RegisterId, Switch};
use zsr_topology::Topology;
use zsr_wire::roce::Packet;
use zsr_wire::{Frame, FramePool, Mac, Opcode, Psn, Qpn, Rkey, atomic};

use crate::nodes::SwitchNode;
use crate::setup::{in_hand, switch_of};
use crate::wire::Wire;

/// Retransmission time of clients, in nanoseconds.
const TIMEOUT_NS: u64 = 50_000;
/// More than losses ever ask for.
const RETRIES: u8 = 100;
/// Clients begin within so many nanoseconds.
const BEGIN_NS: u64 = 1_000;
const STEP_NS: u64 = 100_000;
const DEADLINE_NS: u64 = 10_000_000_000;
/// Where the word is in the memory of its host.
const WORD_AT: u64 = 64;

/// Where tickets come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// A sequencer of the switch, which takes no time.
    Switch,
    /// A word in the memory of a host, whose NIC carries out one atomic operation at a time.
    Host {
        /// How long that takes, in nanoseconds.
        atomic_ns: u64,
    },
}

/// Counter, clients, links and faults of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The source of tickets.
    pub counter: Counter,
    /// Clients, each at a host of its own.
    pub clients: usize,
    /// Requests of each client.
    pub requests: usize,
    /// The most tickets of a request; it takes at least 1.
    pub most: u64,
    /// The first ticket.
    pub first: u64,
    /// Every host's link.
    pub link: LinkConfig,
    /// Seed of faults, amounts and the clients' start.
    pub seed: u64,
}

/// A request that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The first of its tickets.
    pub ticket: u64,
    /// The number of its tickets.
    pub amount: u64,
    /// When the client posted the request, in nanoseconds.
    pub asked_ns: u64,
    /// When it had the answer.
    pub got_ns: u64,
}

/// A client's NIC and program. The program takes no time.
struct Client {
    nic: Nic,
    qpn: Qpn,
    memory: Arc<HostMemory>,
    lkey: Rkey,
    remote: (u64, Rkey),
    rng: Rng,
    most: u64,
    left: usize,
    /// When the client begins; `None`: it has begun.
    begin_ns: Option<u64>,
    /// Amount and time of the outstanding request.
    asked: (u64, u64),
    taken: Vec<Taken>,
}

impl Client {
    fn ask(&mut self, now: u64) {
        let Some(left) = self.left.checked_sub(1) else { return };
        let amount = 1 + self.rng.below(self.most);
        (self.left, self.asked) = (left, (amount, now));
        let work = WorkRequest {
            wr_id: 0,
            operation: Operation::FetchAdd(amount),
            local: Sge { lkey: self.lkey, address: 0, len: atomic::WORD as u32 },
            remote_address: self.remote.0,
            rkey: self.remote.1,
        };
        self.nic.post_send(self.qpn, work).expect("nothing is outstanding");
    }

    fn take(&mut self, now: u64) {
        while let Some(done) = self.nic.poll_completion() {
            assert_eq!(done.status, Status::Success, "{done:?}");
            let mut word = [0; atomic::WORD];
            self.memory.read(0, &mut word);
            let (amount, asked_ns) = self.asked;
            self.taken.push(Taken { ticket: u64::from_ne_bytes(word), amount, asked_ns, got_ns: now });
            self.ask(now);
        }
    }
}

impl Node for Client {
    fn handle(&mut self, now_ns: u64, _port: u16, frame: Frame, pool: &mut FramePool) {
        self.nic.handle(now_ns, frame, pool);
        self.take(now_ns);
    }

    fn poll_transmit(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<(u16, Frame)> {
        self.nic.poll_transmit(now_ns, pool).map(|frame| (0, frame))
    }

    fn next_timer(&self) -> Option<u64> {
        [self.nic.next_timeout(), self.begin_ns].into_iter().flatten().min()
    }

    fn on_timer(&mut self, now_ns: u64) {
        if self.begin_ns.take_if(|at| *at <= now_ns).is_some() {
            self.ask(now_ns);
        }
        self.nic.on_timeout(now_ns);
        self.take(now_ns);
    }
}

/// The host with the word. Its NIC carries out atomic operations one by one; nothing else takes time.
struct WordHost {
    nic: Nic,
    memory: Arc<HostMemory>,
    atomic_ns: u64,
    /// Atomic operations that wait, the oldest of which is done at `done_ns`.
    waiting: VecDeque<Frame>,
    done_ns: u64,
    pool: FramePool,
}

impl Node for WordHost {
    fn handle(&mut self, now_ns: u64, _port: u16, frame: Frame, pool: &mut FramePool) {
        let opcode = Packet::new_checked(frame.bytes()).map(|packet| packet.opcode());
        if self.atomic_ns == 0 || opcode != Ok(Opcode::FetchAdd) {
            return self.nic.handle(now_ns, frame, pool);
        }
        if self.waiting.is_empty() {
            self.done_ns = now_ns + self.atomic_ns;
        }
        self.waiting.push_back(frame);
    }

    fn poll_transmit(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<(u16, Frame)> {
        self.nic.poll_transmit(now_ns, pool).map(|frame| (0, frame))
    }

    fn next_timer(&self) -> Option<u64> {
        let done = (!self.waiting.is_empty()).then_some(self.done_ns);
        [self.nic.next_timeout(), done].into_iter().flatten().min()
    }

    fn on_timer(&mut self, now_ns: u64) {
        self.nic.on_timeout(now_ns);
        if self.done_ns <= now_ns
            && let Some(frame) = self.waiting.pop_front()
        {
            self.nic.handle(now_ns, frame, &mut self.pool);
            self.done_ns = now_ns + self.atomic_ns;
        }
    }
}

/// Clients and a counter in virtual time.
pub struct Tickets {
    /// The network.
    pub net: Network,
    /// The switch's node.
    pub switch: NodeId,
    spec: Spec,
    clients: Vec<NodeId>,
    host: NodeId,
    /// The sequencer's number at the switch.
    number: u16,
}

impl Tickets {
    /// The network of `spec`, at time 0.
    pub fn new(spec: Spec) -> Tickets {
        // The first host has the word, if any has.
        let hosts: Vec<String> = (0..=spec.clients).map(|n| format!("h{}", n + 1)).collect();
        let text = format!(
            "seed: {}\nswitches: [{{name: s1}}]\nhosts: [{}]\nflows: []\n",
            spec.seed,
            hosts.join(", ")
        );
        let topology =
            Topology::parse(Path::new("tickets.yaml"), text.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
        let mut hands = in_hand(&topology, 0);
        let sequencer = hands.draft.sequencer(spec.first).expect("room for a sequencer");
        let mut nics = std::mem::take(&mut hands.nics).into_iter();
        let memory = || Arc::new(HostMemory::allocate(4096).expect("memory"));
        let mut word = nics.next().expect("a host");
        let word_memory = memory();
        word_memory.write(WORD_AT as usize, &spec.first.to_ne_bytes());
        let word_key = word.register_mr(word_memory.clone(), 0, Access::REMOTE_ATOMIC).expect("a key");

        let mut rng = Rng::new(spec.seed);
        let mut clients = Vec::new();
        for (number, mut nic) in nics.enumerate() {
            let qpn = nic.create_qp(QpCaps { send_depth: 1, recv_depth: 0 }).expect("a queue pair");
            let own = &topology.hosts[number + 1];
            let (peer, remote) = match spec.counter {
                Counter::Switch => {
                    let qp = hands.draft.ticket_client(sequencer, number + 1, qpn.get()).expect("room");
                    let switch = &topology.switches[0];
                    let peer = (Qpn::new(qp.qpn), switch.ip, switch.mac, Psn::new(qp.psn));
                    (peer, (zsr_plan::dataplane::sequencer::ADDRESS, Rkey(sequencer.rkey)))
                }
                Counter::Host { .. } => {
                    let caps = QpCaps { send_depth: 0, recv_depth: 0 };
                    let (host, psn) = (&topology.hosts[0], Psn::new(rng.bits() as u32));
                    let to = word.create_qp(caps).expect("a queue pair");
                    connect(&mut word, to, (qpn, own.ip, own.mac, psn), Access::REMOTE_ATOMIC);
                    ((to, host.ip, host.mac, psn), (WORD_AT, word_key))
                }
            };
            connect(&mut nic, qpn, peer, Access::NONE);
            let memory = memory();
            let lkey = nic.register_mr(memory.clone(), 0, Access::LOCAL_WRITE).expect("a key");
            clients.push(Client {
                nic,
                qpn,
                memory,
                lkey,
                remote,
                begin_ns: Some(rng.below(BEGIN_NS)),
                rng: Rng::new(rng.bits()),
                most: spec.most,
                left: spec.requests,
                asked: (0, 0),
                taken: Vec::with_capacity(spec.requests),
            });
        }
        let mut net = Network::new(spec.seed);
        let switch = net.add(SwitchNode::new(switch_of(&hands), Wire::default()));
        let atomic_ns = match spec.counter {
            Counter::Switch => 0,
            Counter::Host { atomic_ns } => atomic_ns,
        };
        let (waiting, pool) = (VecDeque::new(), FramePool::default());
        let host = net.add(WordHost { nic: word, memory: word_memory, atomic_ns, waiting, done_ns: 0, pool });
        let clients: Vec<NodeId> = clients.into_iter().map(|client| net.add(client)).collect();
        let nodes: Vec<NodeId> = [host].into_iter().chain(clients.iter().copied()).collect();
        for link in &topology.links {
            let (a, b) =
                (End { node: switch, port: link.port as u16 }, End { node: nodes[link.host], port: 0 });
            net.connect(a, b, spec.link).expect("free ports");
        }
        Tickets { net, switch, spec, clients, host, number: sequencer.number }
    }

    /// Runs until all requests are answered. `between` is called between two steps of time.
    ///
    /// # Panics
    /// When a request fails, or they take too long.
    pub fn run(&mut self, mut between: impl FnMut(&mut Tickets)) {
        // Without timers of the switch, nothing is left to be done when clients wait for no answer.
        while self.net.run_for(STEP_NS) == Stop::Time {
            assert!(self.net.now() < DEADLINE_NS, "{:?}: requests without an answer", self.spec);
            between(self);
        }
        assert!(self.taken().all(|taken| taken.len() == self.spec.requests), "{:?}", self.spec);
    }

    /// The requests of each client that were answered, in their order.
    pub fn taken(&self) -> impl Iterator<Item = &[Taken]> {
        self.clients.iter().map(|&id| &self.net.node::<Client>(id).expect("a client").taken[..])
    }

    /// The switch.
    pub fn switch(&mut self) -> &mut Switch {
        &mut self.net.node_mut::<SwitchNode>(self.switch).expect("the switch").switch
    }

    /// The next ticket of the counter.
    pub fn next(&self) -> u64 {
        if self.spec.counter != Counter::Switch {
            let mut word = [0; atomic::WORD];
            self.net.node::<WordHost>(self.host).expect("the host").memory.read(WORD_AT as usize, &mut word);
            return u64::from_ne_bytes(word);
        }
        let switch = &self.net.node::<SwitchNode>(self.switch).expect("the switch").switch;
        let word = |name: &str| {
            let is = |found: &str| found.rsplit('.').next() == Some(name);
            let id = switch.info().registers.iter().position(|register| is(&register.name)).expect(name);
            let cell = switch.register_read(RegisterId(id as u32), self.number.into()).expect("a cell");
            cell.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
        };
        word(register::TICKET_HIGH) << 32 | word(register::TICKET_LOW)
    }

    /// Checks all clients with [`check`].
    ///
    /// # Errors
    /// The guarantee that is broken.
    pub fn check(&self) -> Result<(), String> {
        let taken: Vec<&[Taken]> = self.taken().collect();
        check(&taken, self.spec.first, self.next())
    }
}

/// Checks that every ticket from `first` to `next` was given once, that each client's own tickets grow, and that a
/// ticket asked for after another was received is larger.
///
/// # Errors
/// The guarantee that is broken.
pub fn check(clients: &[&[Taken]], first: u64, next: u64) -> Result<(), String> {
    for taken in clients {
        if !taken.is_sorted_by(|a, b| a.ticket < b.ticket && a.got_ns <= b.asked_ns) {
            return Err(format!("a client's tickets do not grow: {taken:?}"));
        }
    }
    let mut all: Vec<Taken> = clients.iter().copied().flatten().copied().collect();
    all.sort_by_key(|taken| taken.ticket);
    let mut free = first;
    for taken in &all {
        if taken.ticket != free {
            return Err(format!("{free} was left out, or {taken:?} has what was given before"));
        }
        free += taken.amount;
    }
    if free != next {
        return Err(format!("tickets from {free} to {next} that nobody has got"));
    }
    let mut received = all.clone();
    received.sort_by_key(|taken| taken.got_ns);
    all.sort_by_key(|taken| taken.asked_ns);
    let (mut received, mut largest) = (received.iter().peekable(), None);
    for asked in &all {
        while let Some(before) = received.next_if(|taken| taken.got_ns < asked.asked_ns) {
            largest = largest.max(Some(before.ticket));
        }
        if Some(asked.ticket) <= largest {
            return Err(format!("{asked:?} was asked for after {largest:?} was received"));
        }
    }
    Ok(())
}

/// Makes a queue pair ready to send to a peer: its number, IP and MAC address, and the first PSN of both.
fn connect(
    nic: &mut Nic,
    qpn: Qpn,
    (peer, ip, mac, psn): (Qpn, std::net::Ipv4Addr, zsr_topology::MacAddr, Psn),
    access: Access,
) {
    let rtr = RtrAttr {
        dest_mac: Some(Mac(mac.0)),
        max_dest_rd_atomic: 1,
        ..RtrAttr::new(peer, ip, psn, Mtu::Mtu1024)
    };
    let rts = RtsAttr { timeout_ns: TIMEOUT_NS, retry_count: RETRIES, max_rd_atomic: 1, ..RtsAttr::new(psn) };
    for step in [Modify::Init { access }, Modify::Rtr(rtr), Modify::Rts(rts)] {
        nic.modify_qp(qpn, step).expect("a queue pair that is new");
    }
}
