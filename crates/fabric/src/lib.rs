//! The embedded fabric: NICs, links and the switch of one topology, run in turn by one thread. A frame is still in cache when
//! the next node takes it.

#![forbid(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use zsr_host_agent::nic::NicQueue;
use zsr_link::{Port, SendError};
use zsr_soft_nic::Nic;
use zsr_soft_switch::{ControlQueue, Switch, TimerShare};
use zsr_wire::{Frame, FramePool};

/// Frames that one node handles before the next has its turn: few enough to stay in the first-level cache.
const BURST: usize = 16;
/// Frames that a link holds in each direction.
pub const LINK_DEPTH: usize = 256;
/// How long the fabric keeps looking for work before it sleeps until the next timer.
const SPIN: Duration = Duration::from_micros(200);

/// A host's NIC and the ends of its link.
pub struct Station {
    /// The NIC.
    pub nic: Nic,
    /// Requests of the host's agent to the NIC.
    pub queue: NicQueue,
    /// The link's end at the NIC.
    pub host_end: Box<dyn Port + Send>,
    /// The link's end at the switch.
    pub switch_end: Box<dyn Port + Send>,
    /// The switch's port number.
    pub port: u16,
    /// A frame that the link had no room for.
    held: Option<Frame>,
}

impl Station {
    /// A NIC behind port `port` of the switch.
    pub fn new(
        nic: Nic,
        queue: NicQueue,
        (host_end, switch_end): (Box<dyn Port + Send>, Box<dyn Port + Send>),
        port: u16,
    ) -> Self {
        Station { nic, queue, host_end, switch_end, port, held: None }
    }

    fn stats(&self) -> LinkStats {
        let nic = self.nic.stats();
        LinkStats {
            port: self.port,
            to_switch_frames: nic.tx_frames,
            to_switch_bytes: nic.tx_bytes,
            to_host_frames: nic.rx_frames,
            to_host_bytes: nic.rx_bytes,
            faults: self.host_end.faults() + self.switch_end.faults(),
        }
    }
}

/// The parts that the fabric's thread owns.
pub struct Fabric {
    /// The switch.
    pub switch: Switch,
    /// Requests of its P4Runtime server.
    pub control: ControlQueue,
    /// The hosts.
    pub stations: Vec<Station>,
    /// Set to end the fabric; unpark its thread then.
    pub stop: Arc<AtomicBool>,
}

/// Counts of the frames that passed a link, in the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkStats {
    /// The switch's port number.
    pub port: u16,
    /// Frames that the NIC sent.
    pub to_switch_frames: u64,
    /// Bytes of these frames.
    pub to_switch_bytes: u64,
    /// Frames that reached the NIC.
    pub to_host_frames: u64,
    /// Bytes of these frames.
    pub to_host_bytes: u64,
    /// Faults that the link made.
    pub faults: u64,
}

/// Counts of the fabric's work, in the end.
#[derive(Clone, Debug, Default)]
pub struct FabricStats {
    /// Frames that the switch took.
    pub frames: u64,
    /// Frames that left the switch at a port without a link, or found the link full.
    pub lost: u64,
    /// Time in which at least one frame moved per round, in nanoseconds.
    pub busy_ns: u64,
    /// Each link.
    pub links: Vec<LinkStats>,
}

impl Fabric {
    /// Runs until `stop` is set.
    pub fn run(mut self) -> FabricStats {
        let start = Instant::now();
        let mut stats = FabricStats::default();
        let mut pool = FramePool::with_frames(4 * LINK_DEPTH);
        let mut out: Vec<(u16, Frame)> = Vec::with_capacity(4 * BURST);
        let mut station_of = vec![usize::MAX; 1 << 16];
        for (i, s) in self.stations.iter().enumerate() {
            station_of[usize::from(s.port)] = i;
        }
        let (mut last_work, mut timers) = (start, TimerShare::default());
        while !self.stop.load(Ordering::Relaxed) {
            let round = Instant::now();
            let now = round.duration_since(start).as_nanos() as u64;
            let mut work = self.control.drain(&mut self.switch, now);
            // Commands may have taken long, and what comes in now does not come in before them.
            let now = if work > 0 { start.elapsed().as_nanos() as u64 } else { now };
            let mut frames = 0;
            for i in 0..self.stations.len() {
                let s = &mut self.stations[i];
                work += s.queue.drain(&mut s.nic);
                if s.nic.next_timeout().is_some_and(|t| t <= now) {
                    s.nic.on_timeout(now);
                }
                for _ in 0..BURST {
                    let Some(frame) = s.held.take().or_else(|| s.nic.poll_transmit(now, &mut pool)) else {
                        break;
                    };
                    match s.host_end.send(now, frame, &mut pool) {
                        Ok(()) => {}
                        Err(SendError::Full(frame) | SendError::Closed(frame)) => {
                            s.held = Some(frame);
                            break;
                        }
                    }
                    work += 1;
                }
                for _ in 0..BURST {
                    let Some(frame) = s.switch_end.recv(now, &mut pool) else { break };
                    self.switch.process(now, s.port, frame, &mut pool, &mut out);
                    frames += 1;
                }
                deliver(&mut self.stations, &station_of, now, &mut out, &mut pool, &mut stats);
            }
            // Packets of the controller.
            if self.switch.has_pending() {
                frames += self.switch.run_pending(now, BURST, &mut pool, &mut out);
                deliver(&mut self.stations, &station_of, now, &mut out, &mut pool, &mut stats);
            }
            if timers.fire(&mut self.switch, frames > 0, now, &mut pool, &mut out) > 0 {
                deliver(&mut self.stations, &station_of, now, &mut out, &mut pool, &mut stats);
            }
            stats.frames += frames as u64;
            if work + frames > 0 {
                last_work = round;
                if frames > 0 {
                    stats.busy_ns += round.elapsed().as_nanos() as u64;
                }
            } else {
                self.rest(start, last_work, &timers);
            }
        }
        stats.links = self.stations.iter().map(Station::stats).collect();
        stats
    }

    /// Nothing to do: leave the core to the PUs, until the next timer at the latest.
    fn rest(&self, start: Instant, last_work: Instant, timers: &TimerShare) {
        if last_work.elapsed() < SPIN {
            std::thread::yield_now();
            return;
        }
        let now = start.elapsed().as_nanos() as u64;
        let nics = self.stations.iter().filter_map(|s| {
            let due = [s.nic.next_timeout(), s.host_end.next_due(), s.switch_end.next_due()];
            due.into_iter().flatten().min()
        });
        let next = nics.chain(timers.next(&self.switch)).min();
        let wait = next.map_or(Duration::from_millis(10), |t| Duration::from_nanos(t.saturating_sub(now)));
        if !wait.is_zero() {
            std::thread::park_timeout(wait);
        }
    }
}

/// Sends what left the switch, and has the NICs take what arrived.
fn deliver(
    stations: &mut [Station],
    station_of: &[usize],
    now: u64,
    out: &mut Vec<(u16, Frame)>,
    pool: &mut FramePool,
    stats: &mut FabricStats,
) {
    for (port, frame) in out.drain(..) {
        let Some(s) = station_of.get(usize::from(port)).and_then(|&i| stations.get_mut(i)) else {
            stats.lost += 1;
            pool.put(frame);
            continue;
        };
        if let Err(SendError::Full(frame) | SendError::Closed(frame)) = s.switch_end.send(now, frame, pool) {
            // A full link: the NIC makes room, as a real port's queue would drain.
            receive(s, now, pool);
            if let Err(SendError::Full(frame) | SendError::Closed(frame)) =
                s.switch_end.send(now, frame, pool)
            {
                stats.lost += 1;
                pool.put(frame);
            }
        }
    }
    for s in stations {
        receive(s, now, pool);
    }
}

fn receive(s: &mut Station, now: u64, pool: &mut FramePool) {
    while let Some(frame) = s.host_end.recv(now, pool) {
        s.nic.handle(now, frame, pool);
    }
}
