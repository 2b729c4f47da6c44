//! Joins the ports of a bmv2 to links, and gives it the time.

use std::collections::VecDeque;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use zsr_link::{AnyPort, LinkError, LoopConfig, LoopThread, Node, PortLoop, Waker};
use zsr_wire::{Frame, FramePool};

use crate::dataplane::{Dataplane, PacketReceiver, PacketSender};
use crate::error::Bmv2Error;

/// Frames from the links that wait at most for bmv2 to take them; what comes on top is lost.
const QUEUE: usize = 8192;
/// Frames from bmv2 that are moved before the links have their turn.
const BURST: usize = 64;
/// How long frames wait before it is looked whether bmv2 takes more.
const RETRY_NS: u64 = 200_000;

/// Packets that are injected at an interval, in place of a timer in the switch.
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

/// [`Ticks`] and when the next is due.
pub(crate) struct Clock {
    ticks: Ticks,
    interval_ns: u64,
    due: Option<u64>,
    number: u16,
}

impl Clock {
    pub(crate) fn new(ticks: Ticks) -> Self {
        let interval_ns = (ticks.interval.as_nanos() as u64).max(1);
        Clock { ticks, interval_ns, due: None, number: 0 }
    }

    /// The next packet, if it is due at `now`.
    pub(crate) fn take(&mut self, now: u64) -> Option<Vec<u8>> {
        let due = self.due.unwrap_or(now);
        if now < due {
            return None;
        }
        let next = due.saturating_add(self.interval_ns);
        self.due = Some(if next <= now { now.saturating_add(self.interval_ns) } else { next });
        let mut packet = self.ticks.packet.clone();
        if let Some(place) = self.ticks.number_at.and_then(|at| packet.get_mut(at..at + 2)) {
            place.copy_from_slice(&self.number.to_be_bytes());
        }
        self.number = self.number.wrapping_add(1);
        Some(packet)
    }

    pub(crate) fn due(&self) -> u64 {
        self.due.unwrap_or(0)
    }
}

/// Counts of the frames that a bridge has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BridgeStats {
    /// Frames from links into the switch.
    pub to_switch: u64,
    /// Frames from the switch onto links.
    pub to_links: u64,
    /// Ticks.
    pub ticks: u64,
    /// Frames that were lost: they left at a port without a link, found a queue full or bmv2 without a program, or are
    /// longer than a frame can be.
    pub lost: u64,
}

/// A running bridge: a thread between links and bmv2's packet stream. It ends when this is dropped.
pub struct Bridge {
    thread: Option<LoopThread<Between>>,
    ended: watch::Receiver<Option<String>>,
    opening: JoinHandle<()>,
}

impl Bridge {
    /// Joins each link to the port of its number, from when on bmv2 has a program. `trouble` hears of what goes wrong at
    /// which port, and when that is over, from the bridge's thread. The runtime that this is called in carries the stream.
    ///
    /// # Errors
    /// A port is given twice, or there is no thread.
    pub fn start(
        dataplane: Dataplane,
        links: Vec<(u16, AnyPort)>,
        ticks: Option<Ticks>,
        trouble: impl Fn(u16, Option<&LinkError>) + Send + Sync + 'static,
    ) -> Result<Bridge, Bmv2Error> {
        let waker = Waker::new()?;
        let (opened, stream) = mpsc::channel();
        let (end, ended) = watch::channel(None);
        let end = Arc::new(end);
        let node = Between {
            opened: stream,
            stream: None,
            clock: ticks.map(Clock::new),
            waiting: VecDeque::new(),
            retry_at: None,
            stats: BridgeStats::default(),
            end: end.clone(),
        };
        let mut bridge = PortLoop::new(node, &waker, LoopConfig::default())?;
        bridge.on_trouble(trouble);
        for (number, link) in links {
            bridge.add_port(number, link)?;
        }
        let thread = bridge
            .spawn("zsr-bmv2-bridge")
            .map_err(|source| Bmv2Error::Io { what: "starting the bridge's thread", source })?;
        let opening = tokio::spawn(open(dataplane, opened, waker, end));
        Ok(Bridge { thread: Some(thread), ended, opening })
    }

    /// Why the bridge has ended by itself, if it has: bmv2 is gone.
    pub fn error(&self) -> Option<String> {
        self.ended.borrow().clone()
    }

    /// Waits until the bridge ends by itself, and says why.
    pub async fn ended(&self) -> String {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(why) => why.clone().unwrap_or_default(),
            Err(_) => "the bridge to bmv2 has ended".to_owned(),
        }
    }

    /// Ends the bridge.
    pub fn stop(mut self) -> BridgeStats {
        self.end()
    }

    fn end(&mut self) -> BridgeStats {
        self.opening.abort();
        let Some(thread) = self.thread.take() else { return BridgeStats::default() };
        let end = thread.stop();
        BridgeStats { lost: end.node.stats.lost + end.stats.astray, ..end.node.stats }
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.end();
    }
}

/// Opens the stream once bmv2 has a program.
async fn open(
    mut dataplane: Dataplane,
    opened: mpsc::Sender<(PacketSender, PacketReceiver)>,
    waker: Waker,
    end: Arc<watch::Sender<Option<String>>>,
) {
    if let Err(e) = dataplane.programmed().await {
        end.send_replace(Some(e.to_string()));
        return;
    }
    let wake = waker.clone();
    // Refused only when the bridge has ended.
    let _ = opened.send(dataplane.open(move || wake.wake()));
    waker.wake();
}

/// Between the links and the stream.
struct Between {
    opened: mpsc::Receiver<(PacketSender, PacketReceiver)>,
    stream: Option<(PacketSender, PacketReceiver)>,
    clock: Option<Clock>,
    /// Frames for which the stream had no room.
    waiting: VecDeque<(u16, Vec<u8>)>,
    retry_at: Option<u64>,
    stats: BridgeStats,
    end: Arc<watch::Sender<Option<String>>>,
}

impl Between {
    fn send_waiting(&mut self, now: u64) -> usize {
        let Some((sender, _)) = &self.stream else { return 0 };
        let before = self.waiting.len();
        while !self.waiting.is_empty() && sender.has_room() {
            let Some((port, packet)) = self.waiting.pop_front() else { break };
            match sender.try_send(port, packet) {
                true => self.stats.to_switch += 1,
                false => self.stats.lost += 1,
            }
        }
        self.retry_at = (!self.waiting.is_empty()).then(|| now.saturating_add(RETRY_NS));
        before - self.waiting.len()
    }

    fn receive(&mut self, out: &mut Vec<(u16, Frame)>) -> usize {
        let Some((_, receiver)) = &mut self.stream else { return 0 };
        let mut moved = 0;
        while moved < BURST {
            match receiver.try_recv() {
                Ok(Some((port, bytes))) => {
                    moved += 1;
                    match Frame::copy_from(&bytes) {
                        Some(frame) => {
                            self.stats.to_links += 1;
                            out.push((port, frame));
                        }
                        None => self.stats.lost += 1,
                    }
                }
                Ok(None) => break,
                Err(e) => {
                    self.end.send_replace(Some(e.to_string()));
                    self.stream = None;
                    break;
                }
            }
        }
        moved
    }
}

impl Node for Between {
    fn handle(
        &mut self,
        now_ns: u64,
        port: u16,
        frame: Frame,
        pool: &mut FramePool,
        _out: &mut Vec<(u16, Frame)>,
    ) {
        if self.stream.is_none() || self.waiting.len() >= QUEUE {
            self.stats.lost += 1;
        } else {
            self.waiting.push_back((port, frame.bytes().to_vec()));
            if self.waiting.len() == 1 {
                self.retry_at = Some(now_ns);
            }
        }
        pool.put(frame);
    }

    fn work(&mut self, now_ns: u64, _pool: &mut FramePool, out: &mut Vec<(u16, Frame)>) -> usize {
        if let Ok(stream) = self.opened.try_recv() {
            self.stream = Some(stream);
        }
        let moved = self.receive(out) + self.send_waiting(now_ns);
        let Some((sender, _)) = &self.stream else { return moved };
        if let Some(clock) = &mut self.clock
            && let Some(packet) = clock.take(now_ns)
            && sender.try_send(clock.ticks.port, packet)
        {
            self.stats.ticks += 1;
        }
        moved
    }

    fn next_due(&self) -> Option<u64> {
        self.stream.as_ref()?;
        let tick = self.clock.as_ref().map(Clock::due);
        [tick, self.retry_at].into_iter().flatten().min()
    }
}
