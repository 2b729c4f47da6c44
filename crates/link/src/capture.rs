//! Captures what passes a port: both directions of the link in one file.

use zsr_wire::{Frame, FramePool};

use crate::pcap::PcapSink;
use crate::port::{Port, SendError};

/// A port that records every frame that it sends or receives. Wrap one end of a link, not both.
#[derive(Debug)]
pub struct Capture<P> {
    inner: P,
    sink: PcapSink,
}

impl<P: Port> Capture<P> {
    /// Records into `sink`; keep a clone of it to learn of errors and to finish the file.
    pub fn new(inner: P, sink: PcapSink) -> Capture<P> {
        Capture { inner, sink }
    }
}

impl<P: Port> Port for Capture<P> {
    fn send(&mut self, now_ns: u64, frame: Frame, pool: &mut FramePool) -> Result<(), SendError> {
        // The frame is gone after it is sent, and must not be recorded if it is refused.
        let mut copy = pool.take();
        copy.append(frame.bytes());
        let sent = self.inner.send(now_ns, frame, pool);
        if sent.is_ok() {
            self.sink.record(now_ns, copy.bytes());
        }
        pool.put(copy);
        sent
    }

    fn recv(&mut self, now_ns: u64, pool: &mut FramePool) -> Option<Frame> {
        let frame = self.inner.recv(now_ns, pool)?;
        self.sink.record(now_ns, frame.bytes());
        Some(frame)
    }

    crate::port::forward!(self, self.inner);
}
