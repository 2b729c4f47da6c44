//! Counts what passes a port.

use zsr_wire::{Frame, FramePool};

use crate::port::{Port, SendError};

/// What has passed a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PortStats {
    /// Frames sent.
    pub tx_frames: u64,
    /// Bytes in them.
    pub tx_bytes: u64,
    /// Frames received.
    pub rx_frames: u64,
    /// Bytes in them.
    pub rx_bytes: u64,
    /// Frames that the link refused, each time that it did.
    pub refused: u64,
}

/// A port that counts.
#[derive(Debug)]
pub struct Counted<P> {
    inner: P,
    stats: PortStats,
}

impl<P: Port> Counted<P> {
    /// Counts from zero.
    pub fn new(inner: P) -> Counted<P> {
        Counted { inner, stats: PortStats::default() }
    }

    /// The counters.
    pub fn stats(&self) -> &PortStats {
        &self.stats
    }

    /// The port that is counted.
    pub fn into_inner(self) -> P {
        self.inner
    }
}

impl<P: Port> Port for Counted<P> {
    #[inline]
    fn send(&mut self, now_ns: u64, frame: Frame, pool: &mut FramePool) -> Result<(), SendError> {
        let len = frame.len() as u64;
        let sent = self.inner.send(now_ns, frame, pool);
        match sent {
            Ok(()) => {
                self.stats.tx_frames += 1;
                self.stats.tx_bytes += len;
            }
            Err(_) => self.stats.refused += 1,
        }
        sent
    }

    #[inline]
    fn recv(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<Frame> {
        let frame = self.inner.recv(now_ns, pool)?;
        self.stats.rx_frames += 1;
        self.stats.rx_bytes += frame.len() as u64;
        Some(frame)
    }

    crate::port::forward!(self, self.inner);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::memory_link;

    #[test]
    fn counts_both_ways_and_refusals() {
        let mut pool = FramePool::default();
        let (a, mut b) = memory_link(1);
        let mut a = Counted::new(a);
        a.send(0, Frame::copy_from(&[1; 60]).unwrap(), &mut pool).unwrap();
        a.send(0, Frame::copy_from(&[1; 60]).unwrap(), &mut pool).unwrap_err();
        b.send(0, Frame::copy_from(&[1; 100]).unwrap(), &mut pool).unwrap();
        assert_eq!(a.recv(0, &mut pool).unwrap().len(), 100);
        let want = PortStats { tx_frames: 1, tx_bytes: 60, rx_frames: 1, rx_bytes: 100, refused: 1 };
        assert_eq!(*a.stats(), want);
    }
}
