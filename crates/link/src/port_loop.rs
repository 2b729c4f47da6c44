//! A node and its ports, run by one thread: busy while there is work, asleep in the system while there is none.
//!
//! ```text
//!  round:  wakes, descriptors ─► node.work ─► per port: a burst in, a burst out ─► flush all
//!          nothing moved for a while: sleep until a descriptor, a timer or a waker ends it
//! ```
//!
//! A burst is few enough frames to stay in the first-level cache; each system call moves as many.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::thread::CpuSet;
use zsr_wire::{Frame, FramePool};

use crate::cores::{Cores, MUCH_TIME};
use crate::error::LinkError;
use crate::node::Node;
use crate::ports::{AnyPort, PortReport, Ports};
use crate::wake::Waker;

/// How a loop behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopConfig {
    /// Frames of one port that are handled before the next port has its turn.
    pub burst: usize,
    /// How long the loop keeps looking for frames before it sleeps, once they have come in quick succession: four times in
    /// a row no later than twice that time after the last ones. While transfers pass, it looks for twice that time.
    pub spin: Duration,
    /// Frame buffers to begin with; more are made when they are needed.
    pub frames: usize,
}

impl Default for LoopConfig {
    fn default() -> Self {
        LoopConfig { burst: 32, spin: Duration::from_micros(50), frames: 256 }
    }
}

/// What a loop has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoopStats {
    /// Rounds in which something moved.
    pub busy_rounds: u64,
    /// Time of these, in nanoseconds.
    pub busy_ns: u64,
    /// How often the loop slept.
    pub sleeps: u64,
    /// Frames for ports that have no link.
    pub astray: u64,
    /// Every port.
    pub ports: Vec<PortReport>,
}

/// Bytes that pass a loop within [`BULK_TIME`] while there are transfers, and not only polls. Then the next frames are
/// expected soon, so that a sleep and a wake-up would cost more than twice the usual time of looking for them.
const BULK: u64 = 64 << 10;
const BULK_TIME: Duration = Duration::from_millis(2);

/// Short sleeps in a row behind which more frames are expected at once.
const BRISK: u32 = 4;

/// Time between two reports of a busy loop. An idle one reports before it sleeps.
const REPORT: Duration = Duration::from_millis(10);

/// Rounds between two looks at descriptors, where all ports are polled.
const ROUNDS: u32 = 16;

type Command = Box<dyn FnOnce(&mut Ports) + Send>;

struct Shared {
    stop: AtomicBool,
    stats: Mutex<LoopStats>,
}

impl Shared {
    fn stats(&self) -> MutexGuard<'_, LoopStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A node, its ports, and all that is needed to drive them.
pub struct PortLoop<N> {
    node: N,
    driver: Driver,
}

/// What drives a node. It knows none by type, so that it is compiled here, where all is optimized, and not by who makes a loop.
struct Driver {
    ports: Ports,
    config: LoopConfig,
    cores: Option<Cores>,
    waker: Waker,
    shared: Arc<Shared>,
    send_commands: mpsc::Sender<Command>,
    commands: mpsc::Receiver<Command>,
}

/// Reaches a loop from other threads. Clones reach the same.
#[derive(Clone)]
pub struct LoopHandle {
    waker: Waker,
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
}

/// What is left of a loop.
pub struct LoopEnd<N> {
    /// The node.
    pub node: N,
    /// The loop's ports, still open.
    pub ports: Vec<(u16, AnyPort)>,
    /// What the loop did.
    pub stats: LoopStats,
    /// Why it ended, if nobody asked for it.
    pub error: Option<LinkError>,
}

impl<N: Node> PortLoop<N> {
    /// A loop without ports. `waker` is what other threads wake `node` with, when they have queued a request for it.
    ///
    /// # Errors
    /// [`LinkError::Poll`]: no descriptor left.
    pub fn new(node: N, waker: &Waker, config: LoopConfig) -> Result<PortLoop<N>, LinkError> {
        let (send_commands, commands) = mpsc::channel();
        let driver = Driver {
            ports: Ports::new(waker)?,
            config,
            cores: None,
            waker: waker.clone(),
            shared: Arc::new(Shared { stop: AtomicBool::new(false), stats: Mutex::default() }),
            send_commands,
            commands,
        };
        Ok(PortLoop { node, driver })
    }

    /// Connects a link to port `port` of the node.
    ///
    /// # Errors
    /// [`LinkError::PortTaken`], [`LinkError::Poll`].
    pub fn add_port(&mut self, port: u16, link: AnyPort) -> Result<(), LinkError> {
        self.driver.ports.add(port, link)
    }

    /// While transfers pass, and not only polls, the loop's thread will run on these cores only.
    pub fn keep_to(&mut self, cores: CpuSet) {
        self.driver.cores = Cores::new(cores, Instant::now());
    }

    /// Has `f` told what goes wrong at which port, and when that is over (`None`), from the loop's thread, which waits for it.
    pub fn on_trouble(&mut self, f: impl Fn(u16, Option<&LinkError>) + Send + Sync + 'static) {
        self.driver.ports.on_trouble(Arc::new(f));
    }

    /// Reaches this loop from other threads, while it runs and before.
    pub fn handle(&self) -> LoopHandle {
        LoopHandle {
            waker: self.driver.waker.clone(),
            shared: self.driver.shared.clone(),
            commands: self.driver.send_commands.clone(),
        }
    }

    /// Runs in this thread until [`LoopHandle::stop`].
    pub fn run(mut self) -> LoopEnd<N> {
        let (stats, error) = self.driver.run(&mut self.node);
        LoopEnd { node: self.node, ports: self.driver.ports.into_links(), stats, error }
    }

    /// Runs in a thread of its own.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn spawn(self, name: &str) -> io::Result<LoopThread<N>>
    where
        N: Send + 'static,
    {
        let handle = self.handle();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || self.run())?;
        Ok(LoopThread { handle, thread })
    }
}

impl Driver {
    /// Until it is told to stop: what it did, and why it ended if nobody asked for it.
    fn run(&mut self, node: &mut dyn Node) -> (LoopStats, Option<LinkError>) {
        // Timers are microseconds apart; the system's default slack is 50 of them.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let mut stats = LoopStats::default();
        let error = self.rounds(node, &mut stats).err();
        self.report(&mut stats);
        (stats, error)
    }

    fn rounds(&mut self, node: &mut dyn Node, stats: &mut LoopStats) -> Result<(), LinkError> {
        let start = Instant::now();
        let mut pool = FramePool::with_frames(self.config.frames);
        let mut out: Vec<(u16, Frame)> = Vec::with_capacity(4 * self.config.burst);
        let (mut last_frames, mut last_report) = (start, start);
        let (mut short_sleeps, mut has_slept, mut unasked) = (0, false, ROUNDS);
        let (mut bulk, mut seen) = ((None, 0), 0);
        loop {
            let round = Instant::now();
            let now = round.duration_since(start).as_nanos() as u64;
            // Ports in shared memory are seen without the system; what else may have happened can wait some rounds.
            unasked += 1;
            if let Some(cores) = &mut self.cores {
                cores.look(round, seen);
            }
            let look = unasked > ROUNDS || self.waker.is_raised() || self.ports.need_looks();
            if look {
                unasked = 0;
            }
            if look && self.ports.look(now, &mut pool)? {
                self.waker.clear();
                while let Ok(command) = self.commands.try_recv() {
                    command(&mut self.ports);
                }
            }
            // After the waker was cleared, or a stop could come in between and be slept through.
            if self.shared.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            if self.round(node, start, now, &mut pool, &mut out)? > 0 {
                // What a timer alone has moved says nothing of frames to come.
                let bytes = self.ports.bytes();
                if bytes != seen {
                    seen = bytes;
                    let is_short = round.duration_since(last_frames) <= 2 * self.config.spin;
                    if std::mem::take(&mut has_slept) {
                        short_sleeps = if is_short { short_sleeps + 1 } else { 0 };
                    }
                    last_frames = round;
                }
                if bytes - bulk.1 >= BULK {
                    bulk = (Some(round), bytes);
                }
                stats.busy_rounds += 1;
                stats.busy_ns += round.elapsed().as_nanos() as u64;
                if round.duration_since(last_report) >= REPORT {
                    last_report = round;
                    self.report(stats);
                }
            } else if round.duration_since(last_frames) < self.spin(round, bulk.0, short_sleeps) {
                std::thread::yield_now();
            } else {
                let due = [node.next_due(), self.ports.next_due()].into_iter().flatten().min();
                let now = start.elapsed().as_nanos() as u64;
                let time = due.map(|t| Duration::from_nanos(t.saturating_sub(now)));
                if time.is_none_or(|t| !t.is_zero()) {
                    stats.sleeps += 1;
                    self.report(stats);
                    // What ended the sleep is seen at once.
                    unasked = ROUNDS;
                    let paused = self.ports.is_paused(now);
                    node.falls_asleep(start, due);
                    // It comes back to look at its cores, if nothing else wakes it.
                    let keeps = self.cores.as_ref().is_some_and(Cores::is_kept);
                    let time = if keeps { Some(time.map_or(MUCH_TIME, |t| t.min(MUCH_TIME))) } else { time };
                    let slept = self.ports.sleep(time, paused);
                    node.wakes_up();
                    has_slept |= slept?;
                }
            }
        }
    }

    /// How long to look for work before a sleep.
    fn spin(&self, now: Instant, bulk: Option<Instant>, short_sleeps: u32) -> Duration {
        match bulk {
            Some(at) if now.duration_since(at) < BULK_TIME => 2 * self.config.spin,
            _ if short_sleeps >= BRISK => self.config.spin,
            _ => Duration::ZERO,
        }
    }

    fn round(
        &mut self,
        node: &mut dyn Node,
        start: Instant,
        now: u64,
        pool: &mut FramePool,
        out: &mut Vec<(u16, Frame)>,
    ) -> Result<usize, LinkError> {
        let (ports, burst) = (&mut self.ports, self.config.burst);
        let mut moved = node.work(now, pool, out);
        // It may have taken long, and what comes in now does not come in before it.
        let now = if moved > 0 { start.elapsed().as_nanos() as u64 } else { now };
        ports.deliver(now, out, pool);
        let burst_in = if ports.is_paused(now) { 0 } else { burst };
        for i in 0..ports.len() {
            let port = ports.number(i);
            for _ in 0..burst_in {
                let Some(frame) = ports.recv(i, now, pool) else { break };
                node.handle(now, port, frame, pool, out);
                moved += 1;
            }
            ports.deliver(now, out, pool);
            moved += ports.transmit(i, now, burst, pool, |port, pool| node.transmit(now, port, pool));
        }
        // Where there is room again, the node may have more to send.
        moved += ports.flush(now, pool, |port, frames| node.queued(port, frames))?;
        Ok(moved)
    }

    fn report(&mut self, stats: &mut LoopStats) {
        self.ports.report(&mut stats.ports);
        stats.astray = self.ports.astray;
        self.shared.stats().clone_from(stats);
    }
}

impl LoopHandle {
    /// Ends the loop after the round that it is in.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
    }

    /// Has the loop look at everything again, also if it sleeps.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// What the loop had done when it last reported, at most some milliseconds ago.
    pub fn stats(&self) -> LoopStats {
        self.shared.stats().clone()
    }

    /// Connects a link to a port of the running loop, and waits until that is done. `None` if the loop has ended.
    ///
    /// # Errors
    /// [`LinkError::PortTaken`], [`LinkError::Poll`].
    pub fn add_port(&self, port: u16, link: AnyPort) -> Option<Result<(), LinkError>> {
        self.call(move |ports| ports.add(port, link))
    }

    /// Takes a link from the running loop, and waits until that is done. `None` if there was none, or the loop has
    /// ended.
    pub fn remove_port(&self, port: u16) -> Option<AnyPort> {
        self.call(move |ports| ports.remove(port)).flatten()
    }

    fn call<R: Send + 'static>(&self, f: impl FnOnce(&mut Ports) -> R + Send + 'static) -> Option<R> {
        let (answer, result) = mpsc::sync_channel(1);
        // Refused or dropped unanswered when the loop has ended.
        self.commands.send(Box::new(move |ports| drop(answer.send(f(ports))))).ok()?;
        self.waker.wake();
        result.recv().ok()
    }
}

/// A loop in a thread of its own.
pub struct LoopThread<N> {
    handle: LoopHandle,
    thread: JoinHandle<LoopEnd<N>>,
}

impl<N> LoopThread<N> {
    /// Reaches the loop.
    pub fn handle(&self) -> &LoopHandle {
        &self.handle
    }

    /// Whether the loop has ended, by itself or because it was told to.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the loop and waits for it. A panic of the node goes on here.
    pub fn stop(self) -> LoopEnd<N> {
        self.handle.stop();
        self.join()
    }

    /// Waits until the loop ends. A panic of the node goes on here.
    pub fn join(self) -> LoopEnd<N> {
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
