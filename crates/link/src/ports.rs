//! The ports of a loop: which have something to do, what goes through them.

use std::sync::Arc;
use std::time::Duration;

use zsr_wire::{Frame, FramePool};

use crate::counted::PortStats;
use crate::error::LinkError;
use crate::poller::Poller;
use crate::port::{Port, SendError};
use crate::wake::Waker;

/// A port of any kind, for a loop that runs in a thread of its own.
pub type AnyPort = Box<dyn Port + Send>;

/// Told what goes wrong at which port, and when that is over (`None`).
pub type TroubleFn = dyn Fn(u16, Option<&LinkError>) + Send + Sync;

/// What has passed one port of a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortReport {
    /// The port's number.
    pub port: u16,
    /// Frames and bytes. Refused are those that were dropped because the link's queue was full.
    pub stats: PortStats,
    /// Frames that the link gave up: see [`Port::lost`].
    pub lost: u64,
    /// Faults made on purpose: see [`Port::faults`].
    pub faults: u64,
}

/// Key of the waker among the descriptors; no slot has it.
const WAKER: u64 = u64::MAX;
const NO_SLOT: usize = usize::MAX;

/// As many frames at a polled port have the loop receive no more until they are fewer, as priority flow control does.
const PAUSE: usize = 512;
/// How long a port may have the loop pause. Behind that its peer counts as stuck, and frames for it are lost.
const PAUSE_NS: u64 = 20_000_000;

struct Slot {
    port: u16,
    link: AnyPort,
    /// May have frames: told so by the descriptor, or the last burst did not empty it.
    ready: bool,
    /// Has no descriptor that tells of frames, so it is always asked.
    asked: bool,
    /// See [`Port::is_polled`].
    polled: bool,
    /// Frames were sent since the last flush.
    dirty: bool,
    /// The descriptor is watched for being writable.
    watched: bool,
    /// A frame of the node's for which the link had no room.
    held: Option<Frame>,
    /// As the node was told.
    waiting: usize,
    /// Since when [`PAUSE`] frames or more wait, nanoseconds.
    full_since: Option<u64>,
    stats: PortStats,
    /// A trouble was told, and not its end.
    troubled: bool,
}

impl Slot {
    fn bytes(&self) -> u64 {
        self.stats.rx_bytes + self.stats.tx_bytes
    }

    fn send(&mut self, now: u64, frame: Frame, pool: &mut FramePool) -> Result<(), Frame> {
        let len = frame.len() as u64;
        match self.link.send(now, frame, pool) {
            Ok(()) => {
                self.stats.tx_frames += 1;
                self.stats.tx_bytes += len;
                self.dirty = true;
                Ok(())
            }
            Err(SendError::Full(frame) | SendError::Closed(frame)) => Err(frame),
        }
    }
}

/// All ports of a loop.
pub(crate) struct Ports {
    slots: Vec<Slot>,
    slot_of: Vec<usize>,
    poller: Poller,
    trouble: Option<Arc<TroubleFn>>,
    /// Bytes that have passed ports that were taken out.
    gone: u64,
    /// Frames for ports that are not there.
    pub(crate) astray: u64,
}

impl Ports {
    pub(crate) fn new(waker: &Waker) -> Result<Ports, LinkError> {
        let poller = Poller::new()?;
        poller.add(waker.fd(), WAKER)?;
        Ok(Ports { slots: Vec::new(), slot_of: Vec::new(), poller, trouble: None, gone: 0, astray: 0 })
    }

    pub(crate) fn on_trouble(&mut self, f: Arc<TroubleFn>) {
        self.trouble = Some(f);
    }

    pub(crate) fn add(&mut self, port: u16, link: AnyPort) -> Result<(), LinkError> {
        let index = usize::from(port);
        if self.slot_of.get(index).is_some_and(|&slot| slot != NO_SLOT) {
            return Err(LinkError::PortTaken { port });
        }
        if let Some(fd) = link.fd() {
            self.poller.add(fd, u64::from(port))?;
        }
        if self.slot_of.len() <= index {
            self.slot_of.resize(index + 1, NO_SLOT);
        }
        self.slot_of[index] = self.slots.len();
        let polled = link.is_polled();
        let asked = polled || link.fd().is_none();
        self.slots.push(Slot {
            port,
            link,
            // What came before it was watched.
            ready: true,
            asked,
            polled,
            dirty: false,
            watched: false,
            held: None,
            waiting: 0,
            full_since: None,
            stats: PortStats::default(),
            troubled: false,
        });
        Ok(())
    }

    pub(crate) fn remove(&mut self, port: u16) -> Option<AnyPort> {
        let slot = self.slot_of.get_mut(usize::from(port))?;
        let i = std::mem::replace(slot, NO_SLOT);
        if i == NO_SLOT {
            return None;
        }
        let gone = self.slots.swap_remove(i);
        self.gone += gone.bytes();
        if let Some(moved) = self.slots.get(i) {
            self.slot_of[usize::from(moved.port)] = i;
        }
        if let Some(fd) = gone.link.fd() {
            self.poller.remove(fd);
        }
        Some(gone.link)
    }

    /// Bytes that have passed all ports so far, in both directions.
    pub(crate) fn bytes(&self) -> u64 {
        self.gone + self.slots.iter().map(Slot::bytes).sum::<u64>()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn number(&self, i: usize) -> u16 {
        self.slots[i].port
    }

    /// Whether frames come at a port only when the system has been asked.
    pub(crate) fn need_looks(&self) -> bool {
        self.slots.iter().any(|slot| !slot.polled && slot.link.fd().is_some())
    }

    /// Asks the system which ports have frames, or room again. `true` if the waker was used.
    pub(crate) fn look(&mut self, now: u64, pool: &mut FramePool) -> Result<bool, LinkError> {
        let mut woken = false;
        let (slots, slot_of) = (&mut self.slots, &self.slot_of);
        self.poller.look(|key, writable| {
            woken |= key == WAKER;
            let i = usize::try_from(key).ok().and_then(|key| slot_of.get(key));
            let Some(slot) = i.and_then(|&i| slots.get_mut(i)) else { return };
            slot.ready = true;
            slot.link.attend(now);
            if writable {
                slot.link.flush(now, pool);
                slot.dirty = true;
            }
        })?;
        Ok(woken)
    }

    /// The next frame of a port, if it is one that may have any.
    #[inline]
    pub(crate) fn recv(&mut self, i: usize, now: u64, pool: &mut FramePool) -> Option<Frame> {
        let slot = &mut self.slots[i];
        let due = slot.link.next_due().is_some_and(|t| t <= now);
        if !(slot.ready || slot.asked || due) {
            return None;
        }
        // What was held back may leave now.
        slot.dirty |= due;
        let frame = slot.link.recv(now, pool);
        slot.ready = frame.is_some();
        if let Some(frame) = &frame {
            slot.stats.rx_frames += 1;
            slot.stats.rx_bytes += frame.len() as u64;
        }
        frame
    }

    /// Sends what left the node. A full link loses frames, as a switch's full queue does.
    pub(crate) fn deliver(&mut self, now: u64, out: &mut Vec<(u16, Frame)>, pool: &mut FramePool) {
        for (port, frame) in out.drain(..) {
            let slot = self.slot_of.get(usize::from(port)).and_then(|&i| self.slots.get_mut(i));
            let Some(slot) = slot else {
                self.astray += 1;
                pool.put(frame);
                continue;
            };
            if let Err(frame) = slot.send(now, frame, pool) {
                slot.stats.refused += 1;
                pool.put(frame);
            }
        }
    }

    /// Sends up to `burst` frames that `next` makes for a port, as long as the link has room. Returns how many.
    pub(crate) fn transmit(
        &mut self,
        i: usize,
        now: u64,
        burst: usize,
        pool: &mut FramePool,
        mut next: impl FnMut(u16, &mut FramePool) -> Option<Frame>,
    ) -> usize {
        let slot = &mut self.slots[i];
        for n in 0..burst {
            // Frames would only wait here instead of there.
            if slot.link.is_blocked() {
                return n;
            }
            let Some(frame) = slot.held.take().or_else(|| next(slot.port, pool)) else { return n };
            if let Err(frame) = slot.send(now, frame, pool) {
                slot.held = Some(frame);
                return n;
            }
        }
        burst
    }

    /// Whether to receive nothing now, so that frames wait at their senders and are not lost here.
    pub(crate) fn is_paused(&self, now: u64) -> bool {
        self.slots.iter().any(|slot| slot.full_since.is_some_and(|since| now < since + PAUSE_NS))
    }

    /// Hands over what was sent, and has the system say when it takes what it did not take. Calls `queued` with the
    /// port and with how much that is, when it has changed. Returns how many polled ports have room again.
    pub(crate) fn flush(
        &mut self,
        now: u64,
        pool: &mut FramePool,
        mut queued: impl FnMut(u16, usize),
    ) -> Result<usize, LinkError> {
        let mut freed = 0;
        for slot in &mut self.slots {
            // No descriptor tells when a polled port has room again.
            let dirty = std::mem::take(&mut slot.dirty) || (slot.polled && slot.waiting > 0);
            if !dirty {
                continue;
            }
            if slot.polled || !slot.link.is_blocked() {
                slot.link.flush(now, pool);
            }
            let waiting = slot.link.waiting();
            slot.full_since = match slot.full_since {
                _ if !slot.polled || waiting < PAUSE => None,
                None => Some(now),
                since => since,
            };
            freed += usize::from(slot.polled && waiting == 0 && slot.waiting > 0);
            if waiting != slot.waiting {
                slot.waiting = waiting;
                queued(slot.port, waiting);
            }
            let blocked = slot.link.is_blocked();
            if blocked != slot.watched
                && !slot.polled
                && let Some(fd) = slot.link.fd()
            {
                self.poller.watch_writable(fd, u64::from(slot.port), blocked)?;
                slot.watched = blocked;
            }
        }
        Ok(freed)
    }

    /// When a port wants to be looked at though nothing has arrived.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.slots.iter().filter_map(|s| s.link.next_due()).min()
    }

    /// Sleeps until a port has frames or room, somebody wakes, or the time is over. `false`: frames came before, which
    /// matters only if the loop does not pause.
    pub(crate) fn sleep(&mut self, time: Option<Duration>, paused: bool) -> Result<bool, LinkError> {
        if !paused && !self.slots.iter_mut().all(|slot| slot.link.may_sleep()) {
            return Ok(false);
        }
        self.poller.sleep(time)?;
        Ok(true)
    }

    /// Tells of troubles, and reports.
    pub(crate) fn report(&mut self, reports: &mut Vec<PortReport>) {
        reports.clear();
        for slot in &mut self.slots {
            let error = slot.link.trouble();
            let over = error.is_none() && slot.troubled && !slot.link.is_troubled();
            if error.is_some() || over {
                slot.troubled = !over;
                if let Some(tell) = &self.trouble {
                    tell(slot.port, error.as_ref());
                }
            }
            reports.push(PortReport {
                port: slot.port,
                stats: slot.stats,
                lost: slot.link.lost(),
                faults: slot.link.faults(),
            });
        }
    }

    pub(crate) fn into_links(self) -> Vec<(u16, AnyPort)> {
        self.slots.into_iter().map(|s| (s.port, s.link)).collect()
    }
}
