//! Switch, NICs and rings of one flow in a simulated network; the test plays the processing units between steps of
//! time.

use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use zsr_plan::dataplane::RingIds;
use zsr_ring::{Cancel, Consumer, PopError, Producer, PushError, Ring};
use zsr_simnet::{End, FaultRates, LinkConfig, Network, NodeId, Rng, Stop};
use zsr_soft_switch::{RegisterId, Switch};
use zsr_topology::{ByteOrder as HostOrder, FlowKind, Pipes, Topology};

use crate::items::{self, Received};
use crate::nodes::{NicNode, SwitchNode};
use crate::setup;
use crate::wire::{self, Connection, Wire};

/// Virtual time by which every run has to be over.
const DEADLINE_NS: u64 = 400_000_000;
/// Time between two timer packets.
const TICK: std::time::Duration = std::time::Duration::from_micros(5);
/// Time between two looks of the processing units at their rings.
const STEP_NS: u64 = 3_000;

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The flow's kind.
    pub kind: FlowKind,
    /// Hosts that push.
    pub producers: usize,
    /// Hosts that pop.
    pub consumers: usize,
    /// Bytes.
    pub item_size: u32,
    /// Bytes.
    pub ring_size: u32,
    /// Bytes.
    pub max_batch: u32,
    /// Bytes of payload in a packet.
    pub mtu: u32,
    /// Whether producers and consumers have big-endian words.
    pub big_endian: [bool; 2],
    /// Items that each producer has for each consumer.
    pub items: u32,
    /// First value of the counters of all rings, in bytes.
    pub counters_from: u32,
    /// First PSN of all queue pairs.
    pub psn_from: u32,
    /// VLANs of producers and of consumers.
    pub vlans: [Option<u16>; 2],
    /// Pipes of the switch: each host is at the next one.
    pub pipes: u32,
    /// Faults of every link, both ways.
    pub faults: FaultRates,
    /// Seed of faults, and of how processing units behave.
    pub seed: u64,
}

/// Two producers and two consumers, to be attacked: small rings, items of half a packet.
pub const TWO_BY_TWO: Spec = Spec {
    producers: 2,
    consumers: 2,
    item_size: 256,
    ring_size: 4096,
    max_batch: 4096,
    mtu: 512,
    items: 60,
    seed: 3,
    ..Spec::PLAIN
};

/// Packets that a switch dropped for a reason (P4: `DROP_*`).
pub fn drops(switch: &Switch, reason: usize) -> u64 {
    let id = switch.info().counter("IngressShell.count_arrival.drops").expect("a counter");
    switch.counter_read(id, reason).expect("a cell").packets
}

impl Spec {
    /// A producer, a consumer, no faults.
    pub const PLAIN: Spec = Spec {
        kind: FlowKind::Shuffle,
        producers: 1,
        consumers: 1,
        item_size: 512,
        ring_size: 16384,
        max_batch: 8192,
        mtu: 1024,
        big_endian: [false; 2],
        items: 200,
        counters_from: 0,
        psn_from: 0,
        vlans: [None; 2],
        pipes: 1,
        faults: FaultRates::NONE,
        seed: 1,
    };
}

impl Default for Spec {
    fn default() -> Spec {
        Spec::PLAIN
    }
}

struct Feed {
    ring: u32,
    producer: Option<Producer>,
    memory: std::sync::Arc<Ring>,
    pushed: u32,
}

struct Sink {
    consumer: Consumer,
    received: Received,
    closed: bool,
}

/// A flow that runs.
pub struct System {
    /// The network.
    pub net: Network,
    /// The node of type [`SwitchNode`].
    pub switch: NodeId,
    /// The nodes of type [`NicNode`]; where there is one pipe, the one at index `i` is behind port `i + 1`.
    pub nics: Vec<NodeId>,
    spec: Spec,
    feeds: Vec<Feed>,
    sinks: Vec<Sink>,
    rng: Rng,
    ids: Vec<RingIds>,
}

/// The switch and its links, if it has several pipes.
fn pipes(spec: &Spec) -> String {
    if spec.pipes == 1 {
        return String::new();
    }
    let hosts =
        (0..spec.producers).map(|i| format!("p{i}")).chain((0..spec.consumers).map(|i| format!("c{i}")));
    let link = |(place, host): (u32, String)| {
        let port = Pipes::port_in(place % spec.pipes, 1 + place / spec.pipes);
        format!("'{host} -> s1:{port}'")
    };
    let links: Vec<String> = (0..).zip(hosts).map(link).collect();
    format!("switches: [{{name: s1, pipes: {}}}]\nlinks: [{}]\n", spec.pipes, links.join(", "))
}

fn topology(spec: &Spec) -> Topology {
    let names = |kind, n| (0..n).map(|i| format!("{kind}{i}")).collect::<Vec<_>>().join(", ");
    let (producers, consumers) = (names("p", spec.producers), names("c", spec.consumers));
    let text = format!(
        "defaults: {{mtu: {}, first_psn: {}}}\nhosts: [{producers}, {consumers}]\nflows:\n  - {{name: f, kind: {}, producers: [{producers}], \
         consumers: [{consumers}], item_size: {}, ring_size: {}, max_batch: {}, poll_interval: 4us, poll_timeout: 60us, \
         rto: 80us, doorbell: false}}\nworkload: {{kind: synthetic, items: 1}}\n",
        spec.mtu,
        spec.psn_from,
        spec.kind.word(),
        spec.item_size,
        spec.ring_size,
        spec.max_batch
    );
    let text = format!("{}{text}", pipes(spec));
    let mut topology =
        Topology::parse(Path::new("test.yaml"), text.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    for (h, host) in topology.hosts.iter_mut().enumerate() {
        let side = usize::from(h >= spec.producers);
        host.vlan = spec.vlans[side];
        let big = spec.big_endian[side];
        host.byte_order = if big { HostOrder::Big } else { HostOrder::Little };
    }
    topology
}

impl System {
    /// Everything set up, at time 0.
    pub fn new(spec: Spec) -> System {
        let topology = topology(&spec);
        let start = spec.counters_from & !(spec.item_size - 1);
        let hosts = setup::in_hand(&topology, start);
        let drafted = hosts.draft.rings();
        let ids: Vec<RingIds> = drafted.iter().map(|r| r.ids).collect();
        let mut connections = Vec::new();
        let (mut feeds, mut sinks) = (Vec::new(), Vec::new());
        let producer_rings =
            ids.iter().filter(|i| i.is_producer).map(|i| usize::from(i.id) + 1).max().unwrap_or(0);
        for (drafted, (memory, address)) in drafted.iter().zip(hosts.rings.iter().zip(&hosts.addresses)) {
            let (ring, ids) = (&topology.rings[drafted.index], drafted.ids);
            let host = &topology.hosts[ring.host];
            let big = host.byte_order == HostOrder::Big;
            let port = topology.link_of(ring.host).expect("every host has a link").port as u16;
            let roles = if ids.is_producer {
                [wire::Role::ProducerData, wire::Role::ProducerPoll]
            } else {
                [wire::Role::ConsumerData, wire::Role::ConsumerPoll]
            };
            let qpns = [(address.data_qpn, ids.data.qpn), (address.poll_qpn, ids.poll.qpn)];
            for (role, qpns) in roles.into_iter().zip(qpns) {
                let end = (port, host.mac.0, host.ip);
                let shape = (spec.mtu, ring.size, big);
                connections.push(Connection::new(role, end, qpns, shape, (spec.psn_from, start)));
            }
            if ids.is_producer {
                let producer = Some(memory.attach_producer(Cancel::default()).expect("a free ring"));
                feeds.push(Feed { ring: ids.id.into(), producer, memory: memory.clone(), pushed: 0 });
            } else {
                let consumer = memory.attach_consumer(Cancel::default()).expect("a free ring");
                let mine = |id: usize| drafted.feeders.contains(&(id as u16));
                let received = Received::new(producer_rings, spec.item_size, drafted.shared, mine);
                sinks.push(Sink { consumer, received, closed: false });
            }
        }
        let data_of = |ids: &RingIds| {
            let found = connections.iter().position(|c| c.switch_qpn == ids.data.qpn);
            found.expect("every ring has a connection")
        };
        let mut feeds_of = vec![Vec::new(); connections.len()];
        for consumer in drafted {
            for producer in ids.iter().filter(|i| i.is_producer && consumer.feeders.contains(&i.id)) {
                feeds_of[data_of(producer)].push(data_of(&consumer.ids));
            }
        }
        for (c, mut consumers) in connections.iter_mut().zip(feeds_of) {
            consumers.sort();
            c.consumers = consumers;
        }
        let mut switch = setup::switch_of(&hosts);
        for timer in zsr_system::timers::timers(TICK) {
            switch.add_timer(timer).expect("a timer");
        }
        let mut net = Network::new(spec.seed);
        let mut node = SwitchNode::new(switch, Wire::new(connections, spec.kind == FlowKind::LoadBalance));
        let on = |l: &zsr_topology::Link| Some((l.port as u16, topology.hosts[l.host].vlan?));
        node.vlans = topology.links.iter().filter_map(on).collect();
        let switch = net.add(node);
        let nics: Vec<NodeId> = hosts.nics.into_iter().map(|nic| net.add(NicNode(nic))).collect();
        for link in &topology.links {
            let (a, b) =
                (End { node: switch, port: link.port as u16 }, End { node: nics[link.host], port: 0 });
            net.connect(a, b, LinkConfig::FAST.with_faults(spec.faults)).expect("free ports");
        }
        System { net, switch, nics, spec, feeds, sinks, rng: Rng::new(!spec.seed), ids }
    }

    /// The switch's node.
    pub fn switch(&mut self) -> &mut SwitchNode {
        self.net.node_mut(self.switch).expect("the switch")
    }

    /// Runs until every consumer has seen the end, and the switch has nothing outstanding. Panics, with all state, when
    /// something arrives that should not, or nothing does for too long. `between` is called between two steps of time.
    pub fn run(&mut self, mut between: impl FnMut(&mut System)) {
        while !self.is_over() {
            self.feed();
            self.drain();
            let stop = catch_unwind(AssertUnwindSafe(|| self.net.run_for(STEP_NS))).unwrap_or_else(|panic| {
                eprintln!("at {} ns with {:?}\n{}", self.net.now(), self.spec, self.dump());
                resume_unwind(panic)
            });
            if stop != Stop::Time || self.net.now() > DEADLINE_NS {
                panic!("{stop:?} at {} ns with {:?}\n{}", self.net.now(), self.spec, self.dump());
            }
            between(self);
        }
        self.all_arrived();
        for feed in &self.feeds {
            let words = feed.memory.snapshot();
            assert_eq!(words.head.counter, words.tail.counter, "a producer's tail is behind");
        }
    }

    fn all_arrived(&self) {
        let complete = |counts: &[u32]| counts.iter().all(|n| *n == self.spec.items);
        let counts: Vec<Vec<u32>> = self.sinks.iter().map(|s| s.received.counts().collect()).collect();
        let good = match self.spec.kind {
            FlowKind::Shuffle => counts.iter().all(|c| complete(c)),
            FlowKind::LoadBalance => {
                // Numbers only rise at each consumer: together they have each item once if all are different.
                let mut all: Vec<u32> = self.sinks.iter().flat_map(|s| s.received.order.clone()).collect();
                all.sort();
                all.dedup();
                all.len() == self.spec.producers * self.spec.items as usize
                    && all.len() == counts.iter().flatten().sum::<u32>() as usize
            }
            FlowKind::Replicate => {
                let order = &self.sinks[0].received.order;
                counts.iter().all(|c| complete(c)) && self.sinks.iter().all(|s| s.received.order == *order)
            }
        };
        assert!(good, "not all items arrived: {counts:?}\n{}", self.dump());
    }

    fn is_over(&mut self) -> bool {
        self.sinks.iter().all(|s| s.closed) && self.switch().wire.is_quiet()
    }

    fn feed(&mut self) {
        let mut item = vec![0; self.spec.item_size as usize];
        for feed in &mut self.feeds {
            let mut n = if self.rng.chance(0.2) { 0 } else { self.rng.below(20) };
            while n > 0 && feed.pushed < self.spec.items {
                let Some(producer) = &mut feed.producer else { break };
                items::fill(feed.ring, feed.pushed, &mut item);
                match producer.try_push(&item) {
                    Ok(()) => feed.pushed += 1,
                    Err(PushError::Full) => break,
                    Err(e) => panic!("producer ring {}: {e}", feed.ring),
                }
                n -= 1;
            }
            if feed.pushed == self.spec.items && self.rng.chance(0.3) {
                feed.producer.take().into_iter().for_each(Producer::close);
            }
        }
    }

    fn drain(&mut self) {
        let mut item = vec![0; self.spec.item_size as usize];
        for (s, sink) in self.sinks.iter_mut().enumerate() {
            let n = if self.rng.chance(0.2) { 0 } else { self.rng.below(30) };
            for _ in 0..n {
                match sink.consumer.try_pop(&mut item) {
                    Ok(()) => sink.received.take(&item),
                    Err(PopError::Empty) => break,
                    Err(PopError::Closed) => {
                        sink.closed = true;
                        break;
                    }
                    Err(e) => panic!("consumer {s}: {e}"),
                }
            }
        }
    }

    /// Packets that the switch dropped for a reason (P4: `DROP_*`).
    pub fn drops(&mut self, reason: usize) -> u64 {
        drops(&self.switch().switch, reason)
    }

    /// Packets for the switch that came at a port on another VLAN than its own.
    pub fn on_other_vlans(&mut self, port: usize) -> u64 {
        let switch = &self.switch().switch;
        let id = switch.info().counter("IngressShell.count_arrival.other_vlan").expect("a counter");
        switch.counter_read(id, port).expect("a cell").packets
    }

    /// The address of the NIC at index `nic`.
    pub fn mac(&self, nic: usize) -> [u8; 6] {
        self.net.node::<NicNode>(self.nics[nic]).expect("a NIC").0.config().mac.0
    }

    /// All that the switch remembers of the flow, and the rings' words.
    pub fn dump(&self) -> String {
        let mut text = String::new();
        let Some(node) = self.net.node::<SwitchNode>(self.switch) else { return text };
        for (id, register) in node.switch.info().registers.iter().enumerate() {
            let id = RegisterId(id as u32);
            let cells: Vec<u32> = (0..=2 * self.ids.len())
                .filter_map(|i| node.switch.register_read(id, i).ok())
                .map(|c| c.iter().fold(0, |n, &b| n << 8 | u32::from(b)))
                .collect();
            let _ = writeln!(text, "{:>60} {cells:?}", register.name);
        }
        for feed in &self.feeds {
            let _ = writeln!(text, "feed {} pushed {}: {:?}", feed.ring, feed.pushed, feed.memory.snapshot());
        }
        for sink in &self.sinks {
            let _ = writeln!(
                text,
                "sink {:?}: {:?}",
                sink.received.counts().collect::<Vec<_>>(),
                sink.consumer.ring().snapshot()
            );
        }
        for (i, nic) in self.nics.iter().enumerate() {
            let _ = writeln!(text, "nic {i}: {:?}", self.net.node::<NicNode>(*nic).map(|n| *n.0.stats()));
        }
        let _ = writeln!(text, "{:?}", node.wire);
        text
    }
}
