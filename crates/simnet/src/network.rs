//! Nodes, links, clock, and the loop that lets time pass.

use std::any::Any;

use zsr_link::{FaultRates, FaultStats, Rng};
use zsr_wire::{FramePool, icrc};

use crate::event::{Events, What};
use crate::link::{Line, LinkConfig, LinkError, LinkStats};
use crate::node::Node;

/// A node of a network: its index in the order of adding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub usize);

/// A port of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct End {
    /// The node.
    pub node: NodeId,
    /// The node's port.
    pub port: u16,
}

/// Why a run stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The condition holds.
    Condition,
    /// The time is over.
    Time,
    /// Nothing more can happen: no frame is on its way and no timer runs.
    Idle,
    /// A node's timer does not move on, or a node transmits without end, at one and the same time.
    Livelock(NodeId),
}

/// Steps that one node may take at one time before the run is given up.
const MAX_STEPS: u32 = 1_000_000;

struct Slot {
    node: Box<dyn Node>,
    /// Index into `lines`, by port.
    lines: Vec<Option<usize>>,
    /// A Wake event is planned.
    waiting: bool,
    /// When its next timer runs out, as it said last.
    timer: Option<u64>,
    /// Frames sent to ports without a link.
    unplugged: u64,
}

/// A network in virtual time. Everything in it happens in an order that only nodes and seed decide.
pub struct Network {
    nodes: Vec<Slot>,
    lines: Vec<Line>,
    events: Events,
    pool: FramePool,
    rng: Rng,
    now: u64,
    hash: u64,
    deliveries: u64,
    /// Nodes that may have been changed from outside since they last transmitted.
    touched: Vec<usize>,
    observer: Option<Observer>,
}

/// Sees every frame that is delivered: time, receiving end, bytes.
type Observer = Box<dyn FnMut(u64, End, &[u8])>;

impl Network {
    /// An empty network at time 0.
    pub fn new(seed: u64) -> Network {
        Network {
            nodes: Vec::new(),
            lines: Vec::new(),
            events: Events::default(),
            pool: FramePool::default(),
            rng: Rng::new(seed),
            now: 0,
            hash: 0xcbf2_9ce4_8422_2325,
            deliveries: 0,
            touched: Vec::new(),
            observer: None,
        }
    }

    /// Adds a node.
    pub fn add(&mut self, node: impl Node) -> NodeId {
        self.touched.push(self.nodes.len());
        self.nodes.push(Slot {
            node: Box::new(node),
            lines: Vec::new(),
            waiting: false,
            timer: None,
            unplugged: 0,
        });
        NodeId(self.nodes.len() - 1)
    }

    /// Connects two ports.
    pub fn connect(&mut self, a: End, b: End, config: LinkConfig) -> Result<(), LinkError> {
        for end in [a, b] {
            let slot = self.slot(end.node)?;
            if matches!(slot.lines.get(usize::from(end.port)), Some(Some(_))) {
                return Err(LinkError::PortTaken(end.node.0, end.port));
            }
        }
        if a == b {
            return Err(LinkError::PortTaken(a.node.0, a.port));
        }
        let there = Line::new(config, config.faults[0], b, &mut self.rng)?;
        let back = Line::new(config, config.faults[1], a, &mut self.rng)?;
        for (end, line) in [(a, there), (b, back)] {
            let index = self.lines.len();
            self.lines.push(line);
            let lines = &mut self.nodes[end.node.0].lines;
            if lines.len() <= usize::from(end.port) {
                lines.resize(usize::from(end.port) + 1, None);
            }
            lines[usize::from(end.port)] = Some(index);
        }
        Ok(())
    }

    fn slot(&self, node: NodeId) -> Result<&Slot, LinkError> {
        self.nodes.get(node.0).ok_or(LinkError::NoNode(node.0, self.nodes.len()))
    }

    fn line(&self, from: End) -> Option<usize> {
        *self.nodes.get(from.node.0)?.lines.get(usize::from(from.port))?
    }

    /// Changes the faults of what `from` sends, from now on: a link breaks, or heals. `false` if the port has no link.
    pub fn set_faults(&mut self, from: End, rates: FaultRates) -> Result<bool, LinkError> {
        let seed = self.rng.bits();
        match self.line(from) {
            Some(line) => {
                self.lines[line].set_faults(rates, seed)?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// The counts of the line from this port.
    pub fn link_stats(&self, from: End) -> Option<LinkStats> {
        Some(self.lines[self.line(from)?].stats)
    }

    /// The faults of the line from this port.
    pub fn fault_stats(&self, from: End) -> Option<FaultStats> {
        Some(*self.lines[self.line(from)?].fault_stats())
    }

    /// Frames that a node has sent to ports without a link; they vanish.
    pub fn unplugged(&self, node: NodeId) -> Option<u64> {
        Some(self.nodes.get(node.0)?.unplugged)
    }

    /// A node, if it is of this type.
    pub fn node<T: Node>(&self, id: NodeId) -> Option<&T> {
        let node: &dyn Any = &*self.nodes.get(id.0)?.node;
        node.downcast_ref()
    }

    /// A node, to be changed from outside (work is posted, memory read), if it is of this type.
    pub fn node_mut<T: Node>(&mut self, id: NodeId) -> Option<&mut T> {
        self.touched.push(id.0);
        let node: &mut dyn Any = &mut *self.nodes.get_mut(id.0)?.node;
        node.downcast_mut()
    }

    /// Virtual time in nanoseconds.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Frames delivered so far.
    pub fn deliveries(&self) -> u64 {
        self.deliveries
    }

    /// A hash over every delivery so far: time, place and content. Equal hashes mean equal runs.
    pub fn trace_hash(&self) -> u64 {
        self.hash
    }

    /// Calls `observer` for every frame that is delivered, with time, receiving end and bytes: for captures and checks.
    pub fn observe(&mut self, observer: impl FnMut(u64, End, &[u8]) + 'static) {
        self.observer = Some(Box::new(observer));
    }

    /// Lets time pass until `condition` holds, `deadline_ns` is reached, or nothing more can happen. The condition is
    /// looked at after every event.
    pub fn run_until(&mut self, deadline_ns: u64, mut condition: impl FnMut(&mut Network) -> bool) -> Stop {
        loop {
            if condition(self) {
                return Stop::Condition;
            }
            // A caller may have changed nodes.
            if let Err(stop) = self.settle().and_then(|()| self.step(deadline_ns)) {
                return stop;
            }
        }
    }

    /// Lets `ns` nanoseconds pass.
    pub fn run_for(&mut self, ns: u64) -> Stop {
        let deadline_ns = self.now.saturating_add(ns);
        let mut going = self.settle();
        loop {
            match going {
                Ok(()) => going = self.step(deadline_ns),
                Err(stop) => return stop,
            }
        }
    }

    /// Nodes that were changed from outside transmit, and all say when their timers run out.
    fn settle(&mut self) -> Result<(), Stop> {
        while let Some(node) = self.touched.pop() {
            if node < self.nodes.len() {
                self.transmit(node)?;
            }
        }
        self.nodes.iter_mut().for_each(|slot| slot.timer = slot.node.next_timer());
        Ok(())
    }

    /// Takes the next step.
    fn step(&mut self, deadline_ns: u64) -> Result<(), Stop> {
        let timers =
            self.nodes.iter().enumerate().filter_map(|(i, slot)| Some((slot.timer?.max(self.now), i)));
        let (at, timer_node) = match (self.events.next_at(), timers.min()) {
            (None, None) => return Err(Stop::Idle),
            (Some(at), Some((t, node))) if t < at => (t, Some(node)),
            (Some(at), _) => (at, None),
            (None, Some((t, node))) => (t, Some(node)),
        };
        if at > deadline_ns {
            self.now = self.now.max(deadline_ns);
            return Err(Stop::Time);
        }
        self.now = at;
        let node = match timer_node {
            Some(node) => {
                self.timer(node)?;
                node
            }
            None => self.event(),
        };
        self.transmit(node)?;
        self.nodes[node].timer = self.nodes[node].node.next_timer();
        Ok(())
    }

    fn timer(&mut self, node: usize) -> Result<(), Stop> {
        let slot = &mut self.nodes[node].node;
        for _ in 0..MAX_STEPS {
            slot.on_timer(self.now);
            if slot.next_timer().is_none_or(|t| t > self.now) {
                return Ok(());
            }
        }
        Err(Stop::Livelock(NodeId(node)))
    }

    /// Returns the node that it happened to.
    fn event(&mut self) -> usize {
        let (_, what) = self.events.pop().expect("one that has a time");
        match what {
            What::Arrival { node, port, frame } => {
                self.note(node, port, frame.bytes());
                if let Some(observer) = &mut self.observer {
                    observer(self.now, End { node: NodeId(node), port }, frame.bytes());
                }
                self.nodes[node].node.handle(self.now, port, frame, &mut self.pool);
                node
            }
            What::Wake { node } => {
                self.nodes[node].waiting = false;
                node
            }
        }
    }

    fn note(&mut self, node: usize, port: u16, bytes: &[u8]) {
        self.deliveries += 1;
        let place = (node as u64) << 16 | u64::from(port);
        for part in [self.now, place, bytes.len() as u64, icrc::crc32(0, bytes).into()] {
            self.hash = (self.hash ^ part).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        }
    }

    /// Takes from a node what it wants to send, until it has no more or a link makes it wait.
    fn transmit(&mut self, node: usize) -> Result<(), Stop> {
        let slot = &mut self.nodes[node];
        let mut steps = 0;
        while !slot.waiting {
            let Some((port, frame)) = slot.node.poll_transmit(self.now, &mut self.pool) else { break };
            let Some(line) = slot.lines.get(usize::from(port)).copied().flatten() else {
                slot.unplugged += 1;
                self.pool.put(frame);
                continue;
            };
            let line = &mut self.lines[line];
            let to = line.to;
            let events = &mut self.events;
            line.send(self.now, frame, &mut self.pool, |at, frame| {
                events.push(at, What::Arrival { node: to.node.0, port: to.port, frame });
            });
            if let Some(ready) = line.blocked_until(self.now) {
                slot.waiting = true;
                self.events.push(ready, What::Wake { node });
            }
            steps += 1;
            if steps > MAX_STEPS {
                return Err(Stop::Livelock(NodeId(node)));
            }
        }
        Ok(())
    }
}
