//! The hosts of a topology: soft NICs, rings, and processing units that push numbered items and check what they pop.

use zsr_plan::draft::Draft;
use zsr_plan::p4::Artifacts;
use zsr_ring::{Cancel, Consumer, PopError, Producer, PushError};
use zsr_simnet::Rng;
use zsr_soft_nic::Nic;
use zsr_system::run::in_hand::InHand;
use zsr_tests::items::{self, Received};
use zsr_topology::{FlowKind, Topology};
use zsr_wire::{Frame, FramePool};

struct Feed {
    ring: u32,
    producer: Option<Producer>,
    item: Vec<u8>,
    pushed: u32,
}

struct Sink {
    consumer: Consumer,
    item: Vec<u8>,
    received: Received,
    closed: bool,
}

/// All hosts.
pub struct Hosts {
    /// Each NIC, and the switch's port that it is behind.
    pub nics: Vec<(u16, Nic)>,
    /// The flows, with their rings connected.
    pub draft: Draft,
    /// Items that each producer ring gets.
    items: u32,
    feeds: Vec<Feed>,
    sinks: Vec<Sink>,
    rng: Rng,
}

impl Hosts {
    /// Rings in memory and connected, producers with `items` items for each ring, which `seed` pushes in portions.
    pub fn new(topology: &Topology, artifacts: &Artifacts, items: u32, seed: u64) -> Result<Hosts, String> {
        let in_hand = InHand::new(topology, artifacts, 0).map_err(|e| e.to_string())?;
        let mut hosts = Hosts {
            nics: Vec::new(),
            draft: in_hand.draft,
            items,
            feeds: Vec::new(),
            sinks: Vec::new(),
            rng: Rng::new(seed),
        };
        for (host, nic) in in_hand.nics.into_iter().enumerate() {
            let link = topology.link_of(host);
            let link = link.ok_or_else(|| format!("host {} has no link", topology.hosts[host].name))?;
            hosts.nics.push((link.port as u16, nic));
        }
        let drafted = hosts.draft.rings().to_vec();
        let most = drafted.iter().filter(|r| r.ids.is_producer).map(|r| usize::from(r.ids.id) + 1).max();
        for (ring, memory) in drafted.iter().zip(&in_hand.rings) {
            let item_size = topology.rings[ring.index].item_size;
            let item = vec![0; item_size as usize];
            if ring.ids.is_producer {
                let producer = memory.attach_producer(Cancel::default()).map_err(|e| e.to_string())?;
                hosts.feeds.push(Feed {
                    ring: ring.ids.id.into(),
                    producer: Some(producer),
                    item,
                    pushed: 0,
                });
                continue;
            }
            let consumer = memory.attach_consumer(Cancel::default()).map_err(|e| e.to_string())?;
            let mine = |id: usize| ring.feeders.contains(&(id as u16));
            let received = Received::new(most.unwrap_or(0), item_size, ring.shared, mine);
            hosts.sinks.push(Sink { consumer, item, received, closed: false });
        }
        Ok(hosts)
    }

    /// The processing units push and pop what they can, in portions that the seed decides.
    pub fn work(&mut self) -> Result<(), String> {
        for feed in &mut self.feeds {
            let mut n = if self.rng.chance(0.2) { 0 } else { 1 + self.rng.below(20) };
            while n > 0 && feed.pushed < self.items {
                let Some(producer) = &mut feed.producer else { break };
                items::fill(feed.ring, feed.pushed, &mut feed.item);
                match producer.try_push(&feed.item) {
                    Ok(()) => feed.pushed += 1,
                    Err(PushError::Full) => break,
                    Err(e) => return Err(format!("producer ring {}: {e}", feed.ring)),
                }
                n -= 1;
            }
            if feed.pushed == self.items {
                feed.producer.take().into_iter().for_each(Producer::close);
            }
        }
        for (s, sink) in self.sinks.iter_mut().enumerate() {
            for _ in 0..self.rng.below(30) {
                match sink.consumer.try_pop(&mut sink.item) {
                    Ok(()) => sink.received.take(&sink.item),
                    Err(PopError::Empty) => break,
                    Err(PopError::Closed) => {
                        sink.closed = true;
                        break;
                    }
                    Err(e) => return Err(format!("consumer {s}: {e}")),
                }
            }
        }
        Ok(())
    }

    /// Whether every consumer has seen the end.
    pub fn are_done(&self) -> bool {
        self.sinks.iter().all(|s| s.closed)
    }

    /// Items popped so far.
    pub fn popped(&self) -> usize {
        self.sinks.iter().map(|s| s.received.order.len()).sum()
    }

    /// Items that should have been popped in the end: each once, and in a replicate flow by every consumer.
    pub fn expected(&self, topology: &Topology) -> usize {
        let kinds = || topology.flows.iter().map(|f| f.kind);
        let copies = if kinds().any(|k| k == FlowKind::Replicate) { self.sinks.len() } else { 1 };
        self.feeds.len() * self.items as usize * copies
    }

    /// A frame arrives at the NIC behind `port`; `false` if there is none.
    pub fn deliver(&mut self, now_ns: u64, port: u16, bytes: &[u8], pool: &mut FramePool) -> bool {
        let nic = self.nics.iter_mut().find(|(p, _)| *p == port);
        let (Some((_, nic)), Some(frame)) = (nic, Frame::copy_from(bytes)) else { return false };
        nic.handle(now_ns, frame, pool);
        true
    }

    /// What the NICs have to send: port of the switch, and bytes.
    pub fn transmit(&mut self, now_ns: u64, pool: &mut FramePool) -> Vec<(u16, Vec<u8>)> {
        let mut out = Vec::new();
        for (port, nic) in &mut self.nics {
            while let Some(frame) = nic.poll_transmit(now_ns, pool) {
                out.push((*port, frame.bytes().to_vec()));
                pool.put(frame);
            }
        }
        out
    }
}
