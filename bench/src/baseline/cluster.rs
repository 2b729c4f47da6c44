//! Stand-ins for hardware: NICs, links and the switch, driven in turn as `zsr run` drives them, for any system.

use std::path::Path;

use zsr_link::{MemoryPort, Port, SendError, memory_link};
use zsr_plan::p4::Artifacts;
use zsr_soft_nic::Nic;
use zsr_soft_switch::{Switch, TimerShare};
use zsr_system::run::in_hand::InHand;
use zsr_topology::Topology;
use zsr_wire::{Frame, FramePool};

use super::verbs::Device;
use super::{Flow, Hint, Kind, Members};

/// Frames that one node handles before the next has its turn.
const BURST: usize = 16;
/// Frames that a link holds in each direction.
const LINK_DEPTH: usize = 256;
/// Between two looks of the switch's workers, in microseconds.
pub(super) const TICK_US: u64 = 20;

/// A host's NIC and the ends of its link.
struct Station {
    nic: Nic,
    /// Where programs of the host post work requests, if they do.
    device: Device,
    host_end: MemoryPort,
    switch_end: MemoryPort,
    port: u16,
    /// A frame that the link had no room for.
    held: Option<Frame>,
}

/// NICs, links and switch.
pub struct Cluster {
    switch: Switch,
    stations: Vec<Station>,
    timers: TimerShare,
    /// Whether frames passed in the last round.
    busy: bool,
    pool: FramePool,
    out: Vec<(u16, Frame)>,
    /// Frames that the switch has taken.
    pub frames: u64,
    /// Frames that found a link full.
    pub lost: u64,
}

/// The hosts of a cluster, before their programs.
pub struct Hosts {
    pub(super) topology: Topology,
    pub(super) hands: InHand,
    pub(super) devices: Vec<Device>,
    artifacts: Artifacts,
}

impl Hosts {
    /// `nodes` hosts of `threads` programs each. Flows are put into the switch if they are zsr's.
    pub(super) fn new(nodes: usize, threads: usize, flows: &[Flow], mtu: u32) -> Hosts {
        let names: Vec<String> = (1..=nodes).map(|n| format!("h{n}")).collect();
        let members: Vec<String> = names.iter().flat_map(|name| vec![name.clone(); threads]).collect();
        let names = names.join(", ");
        let mut text = format!(
            "defaults: {{mtu: {mtu}}}\nswitches: [{{name: s1, tick: {TICK_US}us}}]\nhosts: [{names}]\n"
        );
        text += if flows.is_empty() { "flows: []\n" } else { "flows:\n" };
        for (number, flow) in flows.iter().enumerate() {
            let kind = match flow.kind {
                Kind::Shuffle => "shuffle",
                Kind::Replicate => "replicate",
            };
            let hint = match flow.hint {
                Hint::Bandwidth => "bandwidth",
                Hint::Latency => "latency",
            };
            let (producers, consumers) = match flow.members {
                Members::All => (&members[..], &members[..]),
                Members::ToFirst => (&members[1..], &members[..1]),
                Members::FromFirst => (&members[..1], &members[1..]),
            };
            let (producers, consumers) = (producers.join(", "), consumers.join(", "));
            text += &format!(
                "  - {{name: f{number}, kind: {kind}, producers: [{producers}], consumers: [{consumers}], item_size: {}, ring_size: {}, \
                 max_batch: {}, poll_interval: {}us, rto: 10s, poll_timeout: 10s, hint: {hint}, doorbell: false, lanes: {}}}\n",
                flow.tuple,
                flow.ring,
                flow.ring / 2,
                flow.poll_us,
                flow.lanes,
            );
        }
        if !flows.is_empty() {
            text += "workload: {kind: synthetic, items: 1}\n";
        }
        let topology =
            Topology::parse(Path::new("baseline.yaml"), text.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
        let artifacts = Artifacts::built_in().expect("artifacts that fit");
        let hands = InHand::new(&topology, &artifacts, 0).expect("flows that fit");
        let devices = (0..nodes).map(|_| Device::default()).collect();
        Hosts { topology, hands, devices, artifacts }
    }

    /// A switch with all that it has to know, without timers.
    pub(super) fn switch(&self) -> Switch {
        self.hands.switch(&self.artifacts).expect("a switch with its entries")
    }
}

impl Cluster {
    /// The cluster of `hosts`.
    pub fn new(hosts: Hosts) -> Cluster {
        let mut switch = hosts.switch();
        let Hosts { topology, hands, devices, .. } = hosts;
        for timer in zsr_system::timers::timers(topology.switches[0].tick) {
            switch.add_timer(timer).expect("a timer");
        }
        let stations = hands.nics.into_iter().zip(devices).enumerate().map(|(host, (nic, device))| {
            let port = topology.link_of(host).expect("a link").port as u16;
            let (host_end, switch_end) = memory_link(LINK_DEPTH);
            Station { nic, device, host_end, switch_end, port, held: None }
        });
        Cluster {
            switch,
            stations: stations.collect(),
            timers: TimerShare::default(),
            busy: false,
            pool: FramePool::with_frames(4 * LINK_DEPTH),
            out: Vec::with_capacity(4 * BURST),
            frames: 0,
            lost: 0,
        }
    }

    /// A turn of all parts at time `now`, in nanoseconds. Returns the number of steps.
    pub fn round(&mut self, now: u64) -> usize {
        let (mut work, mut frames) = (0, 0);
        for i in 0..self.stations.len() {
            let s = &mut self.stations[i];
            work += s.device.carry_out(&mut s.nic);
            if s.nic.next_timeout().is_some_and(|t| t <= now) {
                s.nic.on_timeout(now);
            }
            for _ in 0..BURST {
                let Some(frame) = s.held.take().or_else(|| s.nic.poll_transmit(now, &mut self.pool)) else {
                    break;
                };
                match s.host_end.send(now, frame, &mut self.pool) {
                    Ok(()) => work += 1,
                    Err(SendError::Full(frame) | SendError::Closed(frame)) => {
                        s.held = Some(frame);
                        break;
                    }
                }
            }
            for _ in 0..BURST {
                let Some(frame) = s.switch_end.recv(now, &mut self.pool) else { break };
                self.switch.process(now, s.port, frame, &mut self.pool, &mut self.out);
                frames += 1;
            }
            self.deliver(now);
        }
        if self.switch.has_pending() {
            frames += self.switch.run_pending(now, BURST, &mut self.pool, &mut self.out);
            self.deliver(now);
        }
        if self.timers.fire(&mut self.switch, self.busy, now, &mut self.pool, &mut self.out) > 0 {
            self.deliver(now);
        }
        self.busy = frames > 0;
        self.frames += frames as u64;
        work + frames
    }

    /// Turns until nothing is left to be done at time `now`.
    pub fn settle(&mut self, now: u64) {
        while self.round(now) > 0 {}
    }

    /// Sends what left the switch, and has the NICs take what arrived.
    fn deliver(&mut self, now: u64) {
        for (port, frame) in self.out.drain(..) {
            let Some(s) = self.stations.iter_mut().find(|s| s.port == port) else {
                self.pool.put(frame);
                continue;
            };
            if let Err(SendError::Full(frame) | SendError::Closed(frame)) =
                s.switch_end.send(now, frame, &mut self.pool)
            {
                // The NIC makes room, as a real port's queue would drain.
                receive(s, now, &mut self.pool);
                if let Err(SendError::Full(frame) | SendError::Closed(frame)) =
                    s.switch_end.send(now, frame, &mut self.pool)
                {
                    self.lost += 1;
                    self.pool.put(frame);
                }
            }
        }
        for s in &mut self.stations {
            receive(s, now, &mut self.pool);
        }
    }
}

fn receive(s: &mut Station, now: u64, pool: &mut FramePool) {
    while let Some(frame) = s.host_end.recv(now, pool) {
        s.nic.handle(now, frame, pool);
    }
    s.device.complete(&mut s.nic);
}
