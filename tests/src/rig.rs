//! Any topology in a simulated network, with producers that always have items to push and consumers that pop at a given
//! speed: to measure rates and times of flows.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use zsr_ring::doorbell::{self, Doorbell};
use zsr_ring::{Cancel, Consumer, PopError, Producer, PushError, Ring};
use zsr_simnet::{End, LinkConfig, Network, NodeId, Stop};
use zsr_soft_nic::{Datagram, MAX_PAYLOAD, Nic};
use zsr_soft_switch::Switch;
use zsr_topology::Topology;
use zsr_wire::Mac;

use crate::nodes::{NicNode, SwitchNode};
use crate::setup::{in_hand, switch_of};
use crate::wire::Wire;

/// Time between two timer packets.
const TICK: std::time::Duration = std::time::Duration::from_micros(5);
/// Time between two looks of the processing units at their rings.
const STEP_NS: u64 = 2_000;

/// A producer ring and its program.
pub struct Feed {
    /// The ring's name in the topology.
    pub ring: String,
    /// Items that have still to be pushed.
    pub left: u64,
    /// Whether the ring is closed when no item is left.
    pub closes: bool,
    producer: Option<Producer>,
    memory: std::sync::Arc<Ring>,
    item: Vec<u8>,
}

impl Feed {
    /// Bytes that the switch has taken.
    pub fn taken(&self) -> u64 {
        u64::from(self.memory.snapshot().tail.counter)
    }
}

/// A consumer ring and its program.
pub struct Sink {
    /// The ring's name in the topology.
    pub ring: String,
    /// Bytes per microsecond that the program pops; may change at any time.
    pub speed: f64,
    /// Bytes popped.
    pub bytes: u64,
    /// When the end of the stream was seen, in nanoseconds.
    pub closed_at: Option<u64>,
    consumer: Consumer,
    allowance: f64,
    item: Vec<u8>,
}

/// A topology that runs.
pub struct Rig {
    /// The network.
    pub net: Network,
    /// The producer rings, in the order of the topology.
    pub feeds: Vec<Feed>,
    /// The consumer rings, in the order of the topology.
    pub sinks: Vec<Sink>,
    /// Whether doorbells get to their NICs.
    pub bells_work: bool,
    switch: NodeId,
    nics: Vec<NodeId>,
    /// For each feed its NIC, and the contents of its doorbell.
    bells: Vec<(usize, Said)>,
    /// The switch's addresses.
    to: (Mac, Ipv4Addr),
}

/// Payloads of doorbells that have not been sent yet.
type Said = Arc<Mutex<Vec<[u8; doorbell::LEN]>>>;

/// A doorbell whose datagrams wait for the network.
struct Rung {
    secret: u32,
    rung: Said,
}

impl Doorbell for Rung {
    fn ring(&mut self, head: u32, flags: u32) {
        self.rung.lock().expect("no panic").push(doorbell::payload(self.secret, head, flags));
    }
}

impl Rig {
    /// The system of `yaml` (a topology) at time 0, over links of `link`. Each producer ring has `items` to push.
    pub fn new(yaml: &str, link: LinkConfig, items: u64) -> Rig {
        let topology =
            Topology::parse(Path::new("rig.yaml"), yaml.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
        let hosts = in_hand(&topology, 0);
        let (mut feeds, mut sinks, mut bells) = (Vec::new(), Vec::new(), Vec::new());
        for (drafted, memory) in hosts.draft.rings().iter().zip(&hosts.rings) {
            let ring = &topology.rings[drafted.index];
            let item = vec![0; ring.item_size as usize];
            if drafted.ids.is_producer {
                let mut handle = memory.attach_producer(Cancel::default()).expect("a free ring");
                let rung = Arc::new(Mutex::new(Vec::new()));
                if let Some(secret) = drafted.doorbell {
                    handle.set_doorbell(Box::new(Rung { secret, rung: rung.clone() }));
                }
                let producer = Some(handle);
                let port = topology.link_of(ring.host).expect("a link").port;
                bells.push((usize::try_from(port).expect("a port") - 1, rung));
                feeds.push(Feed {
                    ring: ring.name.clone(),
                    left: items,
                    closes: true,
                    producer,
                    memory: memory.clone(),
                    item,
                });
            } else {
                let consumer = memory.attach_consumer(Cancel::default()).expect("a free ring");
                let (bytes, allowance, speed) = (0, 0.0, f64::INFINITY);
                sinks.push(Sink {
                    ring: ring.name.clone(),
                    speed,
                    bytes,
                    closed_at: None,
                    consumer,
                    allowance,
                    item,
                });
            }
        }
        let mut switch = switch_of(&hosts);
        for timer in zsr_system::timers::timers(TICK) {
            switch.add_timer(timer).expect("a timer");
        }
        let nics = hosts.nics;
        let mut net = Network::new(1);
        let switch = net.add(SwitchNode::new(switch, Wire::default()));
        let nics: Vec<_> = nics.into_iter().map(|nic| net.add(NicNode(nic))).collect();
        for l in &topology.links {
            let (a, b) = (End { node: switch, port: l.port as u16 }, End { node: nics[l.host], port: 0 });
            net.connect(a, b, link).expect("free ports");
        }
        let to = (Mac(topology.switches[0].mac.0), topology.switches[0].ip);
        Rig { net, feeds, sinks, bells_work: true, switch, nics, bells, to }
    }

    /// Lets `ns` of virtual time pass, or until every consumer has seen the end.
    pub fn run_for(&mut self, ns: u64) {
        let end = self.net.now() + ns;
        while self.net.now() < end && self.sinks.iter().any(|s| s.closed_at.is_none()) {
            self.feeds.iter_mut().for_each(feed);
            self.ring();
            let now = self.net.now();
            self.sinks.iter_mut().for_each(|s| drain(s, now));
            assert_eq!(self.net.run_for(STEP_NS), Stop::Time);
        }
    }

    /// Lets `ns` of virtual time pass in which nobody pushes or pops: faster than [`run_for`](Self::run_for).
    pub fn rest(&mut self, ns: u64) {
        assert_eq!(self.net.run_for(ns), Stop::Time);
    }

    fn ring(&mut self) {
        for (nic, rung) in &self.bells {
            for bytes in rung.lock().expect("no panic").drain(..) {
                if !self.bells_work {
                    continue;
                }
                let mut payload = [0; MAX_PAYLOAD];
                payload[..doorbell::LEN].copy_from_slice(&bytes);
                let ((mac, ip), port, len) = (self.to, doorbell::PORT, doorbell::LEN);
                let node = self.net.node_mut::<NicNode>(self.nics[*nic]).expect("a NIC");
                assert!(node.0.send_datagram(Datagram { mac, ip, port, payload, len }));
            }
        }
    }

    /// The switch.
    pub fn switch(&mut self) -> &mut Switch {
        &mut self.net.node_mut::<SwitchNode>(self.switch).expect("a switch").switch
    }

    /// The most packets that have waited at each port of the switch since the last call.
    pub fn deepest(&mut self) -> BTreeMap<u16, usize> {
        std::mem::take(&mut self.net.node_mut::<SwitchNode>(self.switch).expect("a switch").deepest)
    }

    /// The NIC of the topology's host number `host`.
    pub fn nic(&self, host: usize) -> &Nic {
        &self.net.node::<NicNode>(self.nics[host]).expect("a NIC").0
    }

    /// Pushes an item at the first producer and returns the time until the first consumer has popped it, in
    /// nanoseconds.
    pub fn one_way(&mut self) -> u64 {
        self.one_way_from(0)
    }

    /// The same for producer number `feed`.
    pub fn one_way_from(&mut self, feed: usize) -> u64 {
        let (start, before) = (self.net.now(), self.sinks[0].bytes);
        self.feeds[feed].left += 1;
        while self.sinks[0].bytes == before {
            self.run_for(STEP_NS);
            assert!(self.net.now() < start + 1_000_000_000, "the item does not come");
        }
        self.net.now() - start
    }

    /// Bytes popped of each consumer ring during the next `ns` of virtual time.
    pub fn popped_in(&mut self, ns: u64) -> Vec<u64> {
        let before: Vec<u64> = self.sinks.iter().map(|s| s.bytes).collect();
        self.run_for(ns);
        self.sinks.iter().zip(before).map(|(s, b)| s.bytes - b).collect()
    }

    /// Bytes taken out of each producer ring during the next `ns` of virtual time.
    pub fn taken_in(&mut self, ns: u64) -> Vec<u64> {
        let before: Vec<u64> = self.feeds.iter().map(Feed::taken).collect();
        self.run_for(ns);
        self.feeds.iter().zip(before).map(|(f, b)| f.taken() - b).collect()
    }
}

fn feed(feed: &mut Feed) {
    while feed.left > 0 {
        let Some(producer) = &mut feed.producer else { return };
        match producer.try_push(&feed.item) {
            Ok(()) => feed.left -= 1,
            Err(PushError::Full) => return,
            Err(e) => panic!("{}: {e}", feed.ring),
        }
    }
    if feed.closes {
        feed.producer.take().into_iter().for_each(Producer::close);
    }
}

fn drain(sink: &mut Sink, now: u64) {
    sink.allowance += sink.speed * STEP_NS as f64 / 1000.0;
    let item = sink.item.len();
    while sink.allowance >= item as f64 && sink.closed_at.is_none() {
        match sink.consumer.try_pop(&mut sink.item) {
            Ok(()) => {
                sink.bytes += item as u64;
                sink.allowance -= item as f64;
            }
            Err(PopError::Empty) => {
                // Time without items is lost, as it is for a processing unit.
                sink.allowance = sink.allowance.min(item as f64);
                return;
            }
            Err(PopError::Closed) => sink.closed_at = Some(now),
            Err(e) => panic!("{}: {e}", sink.ring),
        }
    }
}

/// Jain's index of fairness: 1 if all shares are equal.
pub fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|s| *s as f64).sum();
    let squares: f64 = shares.iter().map(|s| (*s as f64).powi(2)).sum();
    sum * sum / (shares.len() as f64 * squares)
}

/// The names of `n` hosts, from `h1` on, with commas between them.
pub fn hosts(n: usize) -> String {
    (1..=n).map(|i| format!("h{i}")).collect::<Vec<_>>().join(", ")
}
