//! A port with the latency and the rate of another cable.

use std::collections::VecDeque;

use zsr_wire::{Frame, FramePool};

use crate::holding::{Holding, Lane};
use crate::port::Port;

/// Bytes that a frame takes on a cable besides its own: preamble, check sequence, gap.
const AROUND: u64 = 24;
/// Most frames of one direction that wait for the cable: a switch port's buffer.
const MAX_WAITING: usize = 1024;
/// Most frames of one direction, those on the cable included.
const MAX_HELD: usize = 1 << 14;
const PS_PER_S: u128 = 1_000_000_000_000;

/// How long and how fast a cable is, in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pace {
    /// Nanoseconds from one end to the other.
    pub latency_ns: u64,
    /// Bits per second, each frame counted with the 24 bytes that Ethernet has around it; `None`: any.
    pub rate: Option<u64>,
}

impl Pace {
    /// Whether frames pass at once.
    pub fn is_none(&self) -> bool {
        self.latency_ns == 0 && self.rate.is_none()
    }

    /// Picoseconds that a frame of `len` bytes takes.
    fn time_ps(&self, len: usize) -> u64 {
        let bits = u128::from((len as u64 + AROUND) * 8);
        self.rate
            .map_or(0, |rate| u64::try_from(bits * PS_PER_S / u128::from(rate.max(1))).unwrap_or(u64::MAX))
    }
}

/// A frame on its way.
struct Held {
    /// When it has the cable, and when it has arrived, in nanoseconds.
    begins: u64,
    due: u64,
    frame: Frame,
}

/// One direction of a [`Paced`] port.
pub struct Cable {
    pace: Pace,
    held: VecDeque<Held>,
    /// When the cable is free, in picoseconds: a short frame takes less than a nanosecond of a fast cable.
    free_ps: u64,
}

impl Cable {
    fn new(pace: Pace) -> Cable {
        Cable { pace, held: VecDeque::new(), free_ps: 0 }
    }
}

impl Lane for Cable {
    fn take(&mut self, now: u64, frame: Frame, _pool: &mut FramePool) {
        let begins = self.free_ps.max(now.saturating_mul(1000));
        self.free_ps = begins.saturating_add(self.pace.time_ps(frame.len()));
        let due = (self.free_ps / 1000).saturating_add(self.pace.latency_ns);
        self.held.push_back(Held { begins: begins / 1000, due, frame });
    }

    fn put_back(&mut self, frame: Frame) {
        self.held.push_front(Held { begins: 0, due: 0, frame });
    }

    fn due(&self) -> Option<u64> {
        self.held.front().map(|held| held.due)
    }

    fn pop(&mut self) -> Option<Frame> {
        self.held.pop_front().map(|held| held.frame)
    }

    fn is_full(&self, now: u64) -> bool {
        self.held.len() >= MAX_HELD || (self.held.len() >= MAX_WAITING && self.waiting(now) >= MAX_WAITING)
    }

    /// Frames that do not have the cable yet.
    fn waiting(&self, now: u64) -> usize {
        self.held.len() - self.held.partition_point(|held| held.begins <= now)
    }
}

/// A port behind a cable of that pace. Frames keep their order. They arrive when their time has come and the port is used
/// again: see [`Port::next_due`]. What comes faster than the cable takes it waits, and is then refused
/// ([`SendError::Full`](crate::SendError::Full)) or left at the other end.
pub type Paced<P> = Holding<P, Cable>;

impl<P: Port> Paced<P> {
    /// `inner` as it would be at the end of such a cable.
    pub fn new(inner: P, pace: Pace) -> Paced<P> {
        Holding::behind(inner, Cable::new(pace), Cable::new(pace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::memory_link;

    /// 100 bytes with what is around them, at 8 Gbit/s: 100 ns.
    const LEN: usize = 76;
    const PACE: Pace = Pace { latency_ns: 5000, rate: Some(8_000_000_000) };

    fn frame(n: u8) -> Frame {
        Frame::copy_from(&[n; LEN]).expect("a short frame")
    }

    /// When frames arrive that are sent at these times, in steps of a nanosecond.
    fn arrivals(sent: &[u64], until: u64, inward: bool) -> Vec<(u64, u8)> {
        let mut pool = FramePool::with_frames(4);
        let (near, mut far) = memory_link(64);
        let mut near = Paced::new(near, PACE);
        let mut got = Vec::new();
        for now in 0..until {
            for (n, _) in sent.iter().enumerate().filter(|(_, at)| **at == now) {
                let from: &mut dyn Port = if inward { &mut far } else { &mut near };
                assert!(from.send(now, frame(n as u8), &mut pool).is_ok());
            }
            let (to, other): (&mut dyn Port, &mut dyn Port) =
                if inward { (&mut near, &mut far) } else { (&mut far, &mut near) };
            other.flush(now, &mut pool);
            while let Some(frame) = to.recv(now, &mut pool) {
                got.push((now, frame.bytes()[0]));
            }
        }
        got
    }

    #[test]
    fn frames_arrive_one_after_the_other_and_later() {
        for inward in [false, true] {
            let got = arrivals(&[0, 0, 10, 1000], 7000, inward);
            assert_eq!(got, [(5100, 0), (5200, 1), (5300, 2), (6100, 3)], "inward: {inward}");
        }
    }

    #[test]
    fn it_says_when_to_look_and_how_many_wait() {
        let mut pool = FramePool::with_frames(4);
        let (near, mut far) = memory_link(64);
        let mut near = Paced::new(near, PACE);
        assert_eq!(near.next_due(), None);
        for n in 0..3 {
            assert!(near.send(0, frame(n), &mut pool).is_ok());
        }
        near.flush(0, &mut pool);
        assert_eq!((near.next_due(), near.waiting()), (Some(5100), 2), "the first has the cable");
        near.flush(250, &mut pool);
        assert_eq!(near.waiting(), 0);
        assert!(far.recv(250, &mut pool).is_none());
        near.flush(5100, &mut pool);
        assert!(far.recv(5100, &mut pool).is_some() && far.recv(5100, &mut pool).is_none());
        assert_eq!(near.next_due(), Some(5200));
    }

    #[test]
    fn a_cable_takes_no_more_than_its_rate_and_its_buffer() {
        let mut pool = FramePool::with_frames(4);
        let (near, mut far) = memory_link(4096);
        let mut near = Paced::new(near, Pace { latency_ns: 0, ..PACE });
        let sent = (0..3000).take_while(|_| near.send(0, frame(0), &mut pool).is_ok()).count();
        assert_eq!(sent, MAX_WAITING + 1, "one has the cable");
        // 1000 frames of 100 ns.
        near.flush(100_000, &mut pool);
        assert_eq!(std::iter::from_fn(|| far.recv(100_000, &mut pool)).count(), 1000);
        // What comes in too fast stays where it is.
        for _ in 0..3000 {
            assert!(far.send(100_000, frame(0), &mut pool).is_ok());
        }
        assert!(near.recv(100_000, &mut pool).is_none());
        assert_eq!(near.inward.held.len(), MAX_WAITING + 1);
        assert_eq!(std::iter::from_fn(|| near.recv(400_000, &mut pool)).count(), MAX_WAITING + 1);
    }

    #[test]
    fn a_fast_cable_counts_parts_of_a_nanosecond() {
        let pace = Pace { latency_ns: 0, rate: Some(400_000_000_000) };
        let (mut lane, mut pool) = (Cable::new(pace), FramePool::default());
        (0..1000).for_each(|_| lane.take(0, frame(0), &mut pool));
        assert_eq!(lane.held.back().map(|held| held.due), Some(2000), "1000 times 100 bytes at 400 Gbit/s");
    }
}
