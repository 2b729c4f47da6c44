//! A simulated link: two directions, each a line that sends one frame after the other.

use thiserror::Error;
use zsr_link::{FaultError, FaultRates, FaultStats, Faults, Rng, Verdict};
use zsr_wire::{Frame, FramePool};

use crate::network::End;

/// The properties of a link. Both directions are alike but for their faults.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkConfig {
    /// Bits per second; `None` is without limit.
    pub bandwidth_bps: Option<u64>,
    /// Time from the last bit's departure to its arrival, in nanoseconds.
    pub latency_ns: u64,
    /// A node stops transmitting while frames that it has already sent need longer than this to leave, in nanoseconds.
    pub backlog_ns: u64,
    /// Faults from the first end to the second, and back.
    pub faults: [FaultRates; 2],
}

impl LinkConfig {
    /// 100 Gbit/s, 500 ns, 2 µs of backlog, no faults.
    pub const FAST: LinkConfig = LinkConfig {
        bandwidth_bps: Some(100_000_000_000),
        latency_ns: 500,
        backlog_ns: 2_000,
        faults: [FaultRates::NONE; 2],
    };

    /// The same link with these faults in both directions.
    #[must_use]
    pub const fn with_faults(self, rates: FaultRates) -> LinkConfig {
        LinkConfig { faults: [rates; 2], ..self }
    }
}

/// Why a link can't be.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum LinkError {
    /// A node is not in this network.
    #[error("node {0} is not in this network: it has nodes 0 to {last}", last = .1.saturating_sub(1))]
    NoNode(usize, usize),
    /// A port has a link already.
    #[error("port {1} of node {0} already has a link")]
    PortTaken(usize, u16),
    /// A bandwidth of zero.
    #[error("the bandwidth is 0 bit/s: expected at least 1, or none for no limit")]
    NoBandwidth,
    /// A fault rate is out of range.
    #[error(transparent)]
    Faults(#[from] FaultError),
}

/// Counts of the frames that one direction of a link has carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkStats {
    /// Frames sent.
    pub frames: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Nanoseconds during which the line was sending.
    pub busy_ns: u64,
}

/// One direction of a link.
pub(crate) struct Line {
    pub(crate) to: End,
    config: LinkConfig,
    faults: Faults,
    /// The last frame's last bit leaves at this time.
    free_at: u64,
    pub(crate) stats: LinkStats,
}

impl Line {
    pub(crate) fn new(
        config: LinkConfig,
        rates: FaultRates,
        to: End,
        rng: &mut Rng,
    ) -> Result<Line, LinkError> {
        if config.bandwidth_bps == Some(0) {
            return Err(LinkError::NoBandwidth);
        }
        let faults = Faults::new(rates, rng.bits())?;
        Ok(Line { to, config, faults, free_at: 0, stats: LinkStats::default() })
    }

    pub(crate) fn set_faults(&mut self, rates: FaultRates, seed: u64) -> Result<(), FaultError> {
        self.faults = Faults::new(rates, seed)?;
        Ok(())
    }

    pub(crate) fn fault_stats(&self) -> &FaultStats {
        self.faults.stats()
    }

    /// Until when a sender should wait, if it should.
    pub(crate) fn blocked_until(&self, now: u64) -> Option<u64> {
        let ready = self.free_at.saturating_sub(self.config.backlog_ns);
        (ready > now).then_some(ready)
    }

    /// Sends a frame; calls `arrives` with the time and the frame for each copy that comes through.
    pub(crate) fn send(
        &mut self,
        now: u64,
        frame: Frame,
        pool: &mut FramePool,
        mut arrives: impl FnMut(u64, Frame),
    ) {
        let len = frame.len() as u64;
        let took = match self.config.bandwidth_bps {
            // 24 bytes more on the wire: preamble, FCS, gap.
            Some(bps) => ((len + 24) * 8).saturating_mul(1_000_000_000).div_ceil(bps),
            None => 0,
        };
        self.free_at = self.free_at.max(now).saturating_add(took);
        self.stats.frames += 1;
        self.stats.bytes += len;
        self.stats.busy_ns += took;
        let at = self.free_at.saturating_add(self.config.latency_ns);
        if let Verdict::Arrives { frame, delay_ns, copy } = self.faults.decide(frame, pool) {
            arrives(at.saturating_add(delay_ns), frame);
            if let Some((copy, delay_ns)) = copy {
                arrives(at.saturating_add(delay_ns), copy);
            }
        }
    }
}
