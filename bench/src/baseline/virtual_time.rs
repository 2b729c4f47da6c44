//! The same hosts in virtual time: NICs and switch that take no time, links that do, and processing units that are
//! never the limit.

use std::collections::VecDeque;

use zsr_simnet::{End, LinkConfig, Network, Node, NodeId, Stop};
use zsr_soft_nic::Nic;
use zsr_tests::nodes::SwitchNode;
use zsr_tests::wire::Wire;
use zsr_wire::{Frame, FramePool};

use super::cluster::Hosts;
use super::pu;
use super::run::Program;
use super::verbs::Device;
use super::{Ends, Flow, RING};

/// 100 Gbit/s. No paper states a latency of its NICs or its switch: 500 ns from each to the next. A NIC chooses the
/// next packet when there is hardly more than one of 4096 bytes before it. If it chose 2 us ahead, READs and their
/// answers would wait behind that much data.
pub const LINK: LinkConfig = LinkConfig { backlog_ns: 400, ..LinkConfig::FAST };
/// Between two looks of a program at its rings, in nanoseconds: with a hundred rings it is longer.
pub const STEP: u64 = 100;
const LONG_STEP: u64 = 1000;
const WARM_UP: u64 = 400_000;
const MEASURED: u64 = 1_500_000;
/// Programs of a node, of which four are enough by the papers.
pub const THREADS: usize = 4;

/// Between two timer packets of the switch.
const TICK: std::time::Duration = std::time::Duration::from_micros(5);

/// A NIC, and where programs of its host post work requests.
struct Station {
    nic: Nic,
    device: Device,
    /// Programs may have posted something that the NIC has not taken.
    rung: bool,
}

impl Node for Station {
    fn handle(&mut self, now_ns: u64, _port: u16, frame: Frame, pool: &mut FramePool) {
        self.nic.handle(now_ns, frame, pool);
        self.device.complete(&mut self.nic);
    }

    fn poll_transmit(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<(u16, Frame)> {
        if std::mem::take(&mut self.rung) {
            self.device.carry_out(&mut self.nic);
            self.rung = self.device.is_held_up();
        }
        self.nic.poll_transmit(now_ns, pool).map(|frame| (0, frame))
    }

    fn next_timer(&self) -> Option<u64> {
        self.nic.next_timeout()
    }

    fn on_timer(&mut self, now_ns: u64) {
        self.nic.on_timeout(now_ns);
    }
}

/// From a port of the switch to that by which it sends to the same host.
const OUT: u16 = 1000;

/// The switch. It sends to a host by another port than it receives from the host. That port has a queue of its own for
/// the host: a busy host holds up no other.
struct Crossbar(SwitchNode);

impl Node for Crossbar {
    fn handle(&mut self, now_ns: u64, port: u16, frame: Frame, pool: &mut FramePool) {
        self.0.handle(now_ns, port, frame, pool);
    }

    fn poll_transmit(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<(u16, Frame)> {
        self.0.poll_transmit(now_ns, pool).map(|(port, frame)| (port + OUT, frame))
    }

    fn next_timer(&self) -> Option<u64> {
        self.0.next_timer()
    }

    fn on_timer(&mut self, now_ns: u64) {
        self.0.on_timer(now_ns);
    }
}

/// Frames that wait for a host's link.
#[derive(Default)]
pub(super) struct Queue(VecDeque<Frame>);

impl Node for Queue {
    fn handle(&mut self, _now_ns: u64, _port: u16, frame: Frame, _pool: &mut FramePool) {
        self.0.push_back(frame);
    }

    fn poll_transmit(&mut self, _now_ns: u64, _pool: &mut FramePool) -> Option<(u16, Frame)> {
        self.0.pop_front().map(|frame| (1, frame))
    }
}

/// Hosts and a switch in virtual time.
pub struct VirtualTime {
    net: Network,
    nics: Vec<NodeId>,
}

impl VirtualTime {
    /// `hosts` at links of this kind.
    pub fn new(hosts: Hosts, link: LinkConfig) -> VirtualTime {
        Self::with_seed(hosts, link, 1)
    }

    /// The same, with another seed for the links' faults.
    pub fn with_seed(hosts: Hosts, link: LinkConfig, seed: u64) -> VirtualTime {
        let mut switch = hosts.switch();
        for timer in zsr_system::timers::timers(TICK) {
            switch.add_timer(timer).expect("a timer");
        }
        let mut net = Network::new(seed);
        let switch = net.add(Crossbar(SwitchNode::new(switch, Wire::default())));
        let Hosts { topology, hands, devices, .. } = hosts;
        let stations = hands.nics.into_iter().zip(devices);
        let nics: Vec<NodeId> =
            stations.map(|(nic, device)| net.add(Station { nic, device, rung: false })).collect();
        for l in &topology.links {
            let (port, nic, queue) = (l.port as u16, nics[l.host], net.add(Queue::default()));
            let end = |node, port| End { node, port };
            let inside = LinkConfig { bandwidth_bps: None, latency_ns: 0, ..link };
            for (a, b, link) in [
                (end(nic, 0), end(switch, port), link),
                (end(switch, port + OUT), end(queue, 0), inside),
                (end(queue, 1), end(nic, 1), link),
            ] {
                net.connect(a, b, link).expect("free ports");
            }
        }
        VirtualTime { net, nics }
    }

    /// The time, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.net.now()
    }

    /// Frames and bytes that all hosts' links have carried, in both directions.
    pub fn carried(&self) -> (u64, u64) {
        let stats = self.nics.iter().map(|&nic| self.net.node::<Station>(nic).expect("a NIC").nic.stats());
        stats.fold((0, 0), |(frames, bytes), s| {
            (frames + s.tx_frames + s.rx_frames, bytes + s.tx_bytes + s.rx_bytes)
        })
    }

    /// Lets `ns` pass. Every `step` nanoseconds, each program pushes as much as there is room for and takes everything
    /// that has come.
    pub fn run_for<P: Program>(&mut self, programs: &mut [P], ns: u64, step: u64) {
        let end = self.net.now() + ns;
        while self.net.now() < end {
            for program in programs.iter_mut() {
                program.push();
                program.consume();
            }
            // Work requests that were posted leave now.
            for &nic in &self.nics {
                self.net.node_mut::<Station>(nic).expect("a NIC").rung = true;
            }
            assert_eq!(self.net.run_for(step), Stop::Time);
        }
    }
}

/// Bytes per second that all targets consume together, if the first `sources` nodes push.
pub fn goodput<E: Ends, const SIZE: usize>(
    make: impl Fn(usize, usize, &[Flow], u32) -> (Hosts, Vec<Vec<E>>),
    (sources, nodes, threads): (usize, usize, usize),
    flow: Flow,
    mtu: u32,
) -> f64 {
    let (hosts, mut ends) = make(nodes, threads, &[flow], mtu);
    let mut time = VirtualTime::new(hosts, LINK);
    let node = |(number, ends)| {
        let count = if number < sources * threads { u64::MAX } else { 0 };
        pu::Node::<E, SIZE>::new(ends, flow.kind, (number, nodes * threads), count, false)
    };
    let mut programs: Vec<_> = ends.remove(0).into_iter().enumerate().map(node).collect();
    let step = if threads > THREADS { LONG_STEP } else { STEP };
    // Long enough for many transfers of half a ring, and for all segments of all pairs to be filled.
    let many = (flow.ring / RING).max(nodes * threads / 16).max(1) as u64;
    time.run_for(&mut programs, WARM_UP * many, step);
    let consumed = |programs: &[pu::Node<E, SIZE>]| programs.iter().map(|p| p.tuples).sum::<u64>();
    let (before, begun) = (consumed(&programs), time.now());
    time.run_for(&mut programs, MEASURED, step);
    (consumed(&programs) - before) as f64 * SIZE as f64 * 1e9 / (time.now() - begun) as f64
}
