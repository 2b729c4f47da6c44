//! Joins the ports of a bmv2 to links, and gives it the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use zsr_link::{Port, SendError};
use zsr_wire::{Frame, FramePool};

use crate::dataplane::{Dataplane, PacketReceiver, PacketSender};
use crate::error::Bmv2Error;

/// Frames that one link may bring before the next has its turn.
const BURST: usize = 32;
/// How long the bridge looks for work before it sleeps.
const SPIN: Duration = Duration::from_micros(100);
/// How long it sleeps at most: links can't wake it.
const NAP: Duration = Duration::from_micros(500);

/// Packets that the bridge injects at an interval, in place of a timer in the switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// The port at which they come in.
    pub port: u16,
    /// Time between two of them; missed ones are not made up for.
    pub interval: Duration,
    /// The packet.
    pub packet: Vec<u8>,
    /// Where each packet gets its number, as a big-endian u16 from 0; `None` for none.
    pub number_at: Option<usize>,
}

impl Ticks {
    fn numbered(&self, number: [u8; 2]) -> Vec<u8> {
        let mut packet = self.packet.clone();
        if let Some(place) = self.number_at.and_then(|at| packet.get_mut(at..at + 2)) {
            place.copy_from_slice(&number);
        }
        packet
    }
}

/// What a bridge has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BridgeStats {
    /// Frames from links into the switch.
    pub to_switch: u64,
    /// Frames from the switch onto links.
    pub to_links: u64,
    /// Ticks.
    pub ticks: u64,
    /// Frames that left at a port without a link, found the link full or closed, or are longer than a frame can be.
    pub lost: u64,
}

/// A running bridge: a thread between the links and the stream. It ends when this is dropped.
pub struct Bridge {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<BridgeStats>>,
    error: Arc<Mutex<Option<String>>>,
}

impl Bridge {
    /// Joins each link to the port of its number. bmv2 has to have its program by now. The runtime that this is called
    /// in carries the stream.
    ///
    /// # Errors
    /// bmv2 takes no packets, or there is no thread.
    pub async fn start(
        mut dataplane: Dataplane,
        links: Vec<(u16, Box<dyn Port + Send>)>,
        ticks: Option<Ticks>,
    ) -> Result<Bridge, Bmv2Error> {
        dataplane.ready().await?;
        let to_wake: Arc<OnceLock<Thread>> = Arc::default();
        let waker = to_wake.clone();
        let (sender, receiver) = dataplane.open(move || {
            if let Some(thread) = waker.get() {
                thread.unpark();
            }
        });
        let stop = Arc::new(AtomicBool::new(false));
        let error = Arc::new(Mutex::new(None));
        let run = Run {
            links,
            ticks,
            sender,
            receiver,
            stop: stop.clone(),
            pool: FramePool::with_frames(256),
            stats: BridgeStats::default(),
        };
        let report = error.clone();
        let thread = std::thread::Builder::new()
            .name("zsr-bmv2-bridge".into())
            .spawn(move || {
                let (stats, end) = run.run();
                if let Err(e) = end {
                    *report.lock().unwrap_or_else(PoisonError::into_inner) = Some(e.to_string());
                }
                stats
            })
            .map_err(|source| Bmv2Error::Io { what: "starting the bridge's thread", source })?;
        let _ = to_wake.set(thread.thread().clone());
        Ok(Bridge { stop, thread: Some(thread), error })
    }

    /// Why the bridge has ended by itself, if it has: bmv2 is gone.
    pub fn error(&self) -> Option<String> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the bridge.
    pub fn stop(mut self) -> BridgeStats {
        self.end()
    }

    fn end(&mut self) -> BridgeStats {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return BridgeStats::default() };
        thread.thread().unpark();
        thread.join().unwrap_or_default()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.end();
    }
}

struct Run {
    links: Vec<(u16, Box<dyn Port + Send>)>,
    ticks: Option<Ticks>,
    sender: PacketSender,
    receiver: PacketReceiver,
    stop: Arc<AtomicBool>,
    pool: FramePool,
    stats: BridgeStats,
}

impl Run {
    fn run(mut self) -> (BridgeStats, Result<(), Bmv2Error>) {
        let start = Instant::now();
        let mut due = start;
        let mut last_work = start;
        while !self.stop.load(Ordering::Relaxed) {
            let now = Instant::now();
            let now_ns = now.duration_since(start).as_nanos() as u64;
            let mut work = self.take_from_links(now_ns);
            match self.take_from_switch(now_ns) {
                Ok(n) => work += n,
                Err(e) => return (self.stats, Err(e)),
            }
            if let Some(ticks) = &self.ticks
                && now >= due
            {
                due += ticks.interval;
                if due <= now {
                    due = now + ticks.interval;
                }
                let number = (self.stats.ticks as u16).to_be_bytes();
                if self.sender.try_send(ticks.port, ticks.numbered(number)) {
                    self.stats.ticks += 1;
                }
            }
            if work > 0 {
                last_work = now;
            } else if now.duration_since(last_work) < SPIN {
                std::thread::yield_now();
            } else {
                let until_tick = self.ticks.as_ref().map_or(NAP, |_| due.saturating_duration_since(now));
                std::thread::park_timeout(until_tick.min(NAP));
            }
        }
        (self.stats, Ok(()))
    }

    fn take_from_links(&mut self, now_ns: u64) -> usize {
        let mut moved = 0;
        for (port, link) in &mut self.links {
            for _ in 0..BURST {
                // What does not fit waits on its link.
                if !self.sender.has_room() {
                    return moved;
                }
                let Some(frame) = link.recv(now_ns, &mut self.pool) else { break };
                if self.sender.try_send(*port, frame.bytes().to_vec()) {
                    self.stats.to_switch += 1;
                } else {
                    self.stats.lost += 1;
                }
                self.pool.put(frame);
                moved += 1;
            }
        }
        moved
    }

    fn take_from_switch(&mut self, now_ns: u64) -> Result<usize, Bmv2Error> {
        let mut moved = 0;
        while moved < BURST * self.links.len().max(1) {
            let Some((port, bytes)) = self.receiver.try_recv()? else { break };
            moved += 1;
            let link = self.links.iter_mut().find(|(p, _)| *p == port);
            let (Some((_, link)), Some(frame)) = (link, Frame::copy_from(&bytes)) else {
                self.stats.lost += 1;
                continue;
            };
            match link.send(now_ns, frame, &mut self.pool) {
                Ok(()) => self.stats.to_links += 1,
                Err(SendError::Full(frame) | SendError::Closed(frame)) => {
                    self.stats.lost += 1;
                    self.pool.put(frame);
                }
            }
        }
        Ok(moved)
    }
}
