//! Watching a port while it works: copies of its frames go to whoever has attached, as long as they can keep up.
//!
//! ```text
//!  Tapped<P> ── copy ──► bounded ring of bytes ──► TapReader (another thread) ──► a file, a socket
//! ```
//! The port never waits for a reader: what finds the ring full is counted and forgotten. While nobody is attached, a
//! frame costs one look at a flag.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rtrb::{Consumer, Producer, RingBuffer};
use zsr_wire::frame::MAX_FRAME;
use zsr_wire::{Frame, FramePool};

use crate::port::{Port, SendError};

/// Bytes before each frame's.
const HEADER: usize = 24;

/// Which way a frame went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// It arrived at the port.
    In,
    /// It left by the port.
    Out,
}

/// One entry of what a [`TapReader`] reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapRecord<'a> {
    /// Nanoseconds since 1970, as of the round of the port's loop that moved the frame.
    pub time_ns: u64,
    /// Frames that this tap lost before, since it was attached.
    pub lost: u64,
    /// The frame; `None` in a record that only tells what was lost.
    pub frame: Option<TapFrame<'a>>,
}

/// A frame in a [`TapRecord`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapFrame<'a> {
    /// Which way it went.
    pub direction: Direction,
    /// The frame's whole length.
    pub len: usize,
    /// The frame's beginning, as far as it was asked for.
    pub bytes: &'a [u8],
}

impl<'a> TapRecord<'a> {
    /// The first record in `bytes`, and what is behind it. `None` if it is not whole yet.
    pub fn split(bytes: &'a [u8]) -> Option<(TapRecord<'a>, &'a [u8])> {
        let (header, rest) = bytes.split_first_chunk::<HEADER>()?;
        let (time, rest_of_header) = header.split_first_chunk::<8>()?;
        let (lost, sizes) = rest_of_header.split_first_chunk::<8>()?;
        let held = usize::from(u16::from_le_bytes([sizes[2], sizes[3]]));
        let (bytes, rest) = rest.split_at_checked(held)?;
        let direction = match sizes[4] {
            0 => Some(Direction::In),
            1 => Some(Direction::Out),
            _ => None,
        };
        let len = usize::from(u16::from_le_bytes([sizes[0], sizes[1]]));
        let record = TapRecord {
            time_ns: u64::from_le_bytes(*time),
            lost: u64::from_le_bytes(*lost),
            frame: direction.map(|direction| TapFrame { direction, len, bytes }),
        };
        Some((record, rest))
    }

    /// Puts the record behind what is in `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (direction, len, bytes) = match &self.frame {
            Some(f) => (u8::from(f.direction == Direction::Out), f.len, f.bytes),
            None => (u8::MAX, 0, &[][..]),
        };
        let bytes = bytes.get(..MAX_FRAME).unwrap_or(bytes);
        out.extend_from_slice(&self.time_ns.to_le_bytes());
        out.extend_from_slice(&self.lost.to_le_bytes());
        out.extend_from_slice(&(len.min(usize::from(u16::MAX)) as u16).to_le_bytes());
        out.extend_from_slice(&(bytes.len() as u16).to_le_bytes());
        out.extend_from_slice(&[direction, 0, 0, 0]);
        out.extend_from_slice(bytes);
    }
}

/// One reader's end at the port.
struct Tap {
    ring: Producer<u8>,
    snaplen: usize,
    /// From the port's time to nanoseconds since 1970; known from the first frame on.
    epoch: Option<u64>,
    lost: Arc<AtomicU64>,
}

impl Tap {
    fn record(&mut self, now: u64, direction: Direction, len: usize, bytes: &[u8], scratch: &mut Vec<u8>) {
        let epoch = *self.epoch.get_or_insert_with(|| {
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            (wall.as_nanos() as u64).wrapping_sub(now)
        });
        let bytes = bytes.get(..self.snaplen).unwrap_or(bytes);
        let lost = self.lost.load(Ordering::Relaxed);
        let frame = TapFrame { direction, len, bytes };
        scratch.clear();
        TapRecord { time_ns: epoch.wrapping_add(now), lost, frame: Some(frame) }.write(scratch);
        // Whole or not at all, so that a reader finds whole records.
        if self.ring.push_entire_slice(scratch).is_err() {
            self.lost.store(lost + 1, Ordering::Relaxed);
        }
    }
}

#[derive(Default)]
struct Shared {
    /// Somebody waits in `new`.
    waiting: AtomicBool,
    new: Mutex<Vec<Tap>>,
}

/// Where readers attach to a [`Tapped`] port, from any thread. Clones are the same place.
#[derive(Clone, Default)]
pub struct TapPoint(Arc<Shared>);

impl TapPoint {
    /// A place without readers.
    pub fn new() -> TapPoint {
        TapPoint::default()
    }

    /// A reader of what passes the port from now on, up to `snaplen` bytes of each frame. `buffer` bytes may wait for
    /// it; what is more is lost and counted. Any number of readers can be attached; dropping one detaches it.
    pub fn attach(&self, snaplen: usize, buffer: usize) -> TapReader {
        let (producer, consumer) = RingBuffer::new(buffer.max(HEADER + MAX_FRAME));
        let lost = Arc::new(AtomicU64::new(0));
        let tap = Tap { ring: producer, snaplen, epoch: None, lost: lost.clone() };
        let mut new = self.0.new.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that no frame has come for.
        new.retain(|tap| !tap.ring.is_abandoned());
        new.push(tap);
        self.0.waiting.store(true, Ordering::Release);
        TapReader { ring: consumer, lost }
    }
}

impl std::fmt::Debug for TapPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TapPoint(waiting: {})", self.0.waiting.load(Ordering::Relaxed))
    }
}

/// Reads what a [`Tapped`] port copies for it.
pub struct TapReader {
    ring: Consumer<u8>,
    lost: Arc<AtomicU64>,
}

impl TapReader {
    /// Bytes that wait: whole records, see [`TapRecord::split`].
    pub fn waiting(&self) -> usize {
        self.ring.slots()
    }

    /// Moves the next bytes into `buffer`, as many as there are and fit; returns how many.
    pub fn read(&mut self, buffer: &mut [u8]) -> usize {
        self.ring.pop_partial_slice(buffer).0.len()
    }

    /// Frames that were lost so far because they found the buffer full.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Whether the port is gone: what waits is all that will ever come.
    pub fn is_ended(&self) -> bool {
        self.ring.is_abandoned()
    }
}

impl std::fmt::Debug for TapReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TapReader({} bytes wait, {} frames lost)", self.waiting(), self.lost())
    }
}

/// A port that can be watched through a [`TapPoint`].
pub struct Tapped<P> {
    inner: P,
    point: TapPoint,
    taps: Vec<Tap>,
    /// A copy of the frame that is sent, and a record in the making.
    copy: Vec<u8>,
    scratch: Vec<u8>,
}

impl<P: Port> Tapped<P> {
    /// Frames that `inner` takes or brings can be watched at `point`.
    pub fn new(inner: P, point: TapPoint) -> Tapped<P> {
        Tapped { inner, point, taps: Vec::new(), copy: Vec::new(), scratch: Vec::new() }
    }

    #[inline]
    fn is_watched(&self) -> bool {
        !self.taps.is_empty() || self.point.0.waiting.load(Ordering::Relaxed)
    }

    /// Takes in who has come, and forgets who has left.
    fn look(&mut self) {
        // Whoever attaches at this moment is taken in with the next frame.
        if self.point.0.waiting.load(Ordering::Acquire)
            && let Ok(mut new) = self.point.0.new.try_lock()
        {
            self.point.0.waiting.store(false, Ordering::Relaxed);
            self.taps.append(&mut new);
        }
        self.taps.retain(|tap| !tap.ring.is_abandoned());
    }

    #[cold]
    fn send_watched(&mut self, now: u64, frame: Frame, pool: &mut FramePool) -> Result<(), SendError> {
        self.look();
        // The frame is gone after it is sent, and must not be recorded if it is refused.
        let wanted = self.taps.iter().map(|t| t.snaplen).max().unwrap_or(0);
        let len = frame.len();
        self.copy.clear();
        self.copy.extend_from_slice(frame.bytes().get(..wanted).unwrap_or(frame.bytes()));
        let sent = self.inner.send(now, frame, pool);
        if sent.is_ok() {
            for tap in &mut self.taps {
                tap.record(now, Direction::Out, len, &self.copy, &mut self.scratch);
            }
        }
        sent
    }

    #[cold]
    fn record_received(&mut self, now: u64, frame: &Frame) {
        self.look();
        for tap in &mut self.taps {
            tap.record(now, Direction::In, frame.len(), frame.bytes(), &mut self.scratch);
        }
    }
}

impl<P: Port> Port for Tapped<P> {
    #[inline]
    fn send(&mut self, now_ns: u64, frame: Frame, pool: &mut FramePool) -> Result<(), SendError> {
        if self.is_watched() {
            return self.send_watched(now_ns, frame, pool);
        }
        self.inner.send(now_ns, frame, pool)
    }

    #[inline]
    fn recv(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<Frame> {
        let frame = self.inner.recv(now_ns, pool)?;
        if self.is_watched() {
            self.record_received(now_ns, &frame);
        }
        Some(frame)
    }

    crate::port::forward!(self, self.inner);
}

impl<P: std::fmt::Debug> std::fmt::Debug for Tapped<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tapped({:?}, {} readers)", self.inner, self.taps.len())
    }
}
