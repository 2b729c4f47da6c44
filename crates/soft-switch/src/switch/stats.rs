//! Counters of the switch itself.

/// Counts of the packets' fates since the switch was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Frames received, packet-outs and timer packets included.
    pub packets_in: u64,
    /// Frames sent, packet-ins included.
    pub packets_out: u64,
    /// Passes that ended with `egress_spec` at the drop port in ingress.
    pub ingress_drops: u64,
    /// Packets dropped in egress.
    pub egress_drops: u64,
    /// Passes whose parser ended with an error. They go on, as in bmv2.
    pub parser_errors: u64,
    /// Passes with a wrong checksum. They go on, as in bmv2.
    pub checksum_errors: u64,
    /// Packets recirculated.
    pub recirculations: u64,
    /// Packets resubmitted.
    pub resubmissions: u64,
    /// Packets dropped because they wanted too many passes, or the queue was full.
    pub recirculation_drops: u64,
    /// Clones made.
    pub clones: u64,
    /// Clones asked for with a session that does not exist.
    pub clones_without_session: u64,
    /// Copies that multicast made.
    pub replicas: u64,
    /// Packets to a multicast group that does not exist or is empty.
    pub multicast_without_group: u64,
    /// Frames cut by `truncate` or by a clone session.
    pub truncations: u64,
    /// Packets dropped for a priority beyond the queues.
    pub priority_drops: u64,
    /// Frames to ports that do not exist.
    pub unknown_port_drops: u64,
    /// Packets dropped because their headers grew beyond the longest frame.
    pub oversize_drops: u64,
    /// Notifications sent.
    pub notifications: u64,
    /// Notifications dropped: nobody listened, or too slowly.
    pub notifications_dropped: u64,
    /// Digest samples.
    pub digest_samples: u64,
    /// Digest samples dropped: the digest is not configured, or too many wait.
    pub digest_drops: u64,
    /// `assert` or `assume` that did not hold since the program was put in place (bmv2 would abort).
    pub assert_failures: u64,
    /// Packets dropped for that: see [`FailedAssert::Drop`](crate::FailedAssert::Drop).
    pub assert_drops: u64,
    /// Loops cut short by the loop limit.
    pub loop_limit_hits: u64,
    /// Accesses beyond the end of a register, counter or meter; they have no effect.
    pub bad_indices: u64,
}

/// Counters of one port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames received.
    pub rx_packets: u64,
    /// Bytes of the frames received.
    pub rx_bytes: u64,
    /// Frames sent.
    pub tx_packets: u64,
    /// Bytes of the frames sent.
    pub tx_bytes: u64,
    /// Packets that came in here and were dropped in ingress, or would have left here and were dropped in egress.
    pub drops: u64,
}

/// All counters.
#[derive(Clone, Debug)]
pub(crate) struct AllStats {
    pub all: Stats,
    ports: Box<[PortStats]>,
}

const PORTS: usize = 512;

impl Default for AllStats {
    fn default() -> Self {
        AllStats { all: Stats::default(), ports: vec![PortStats::default(); PORTS].into() }
    }
}

impl AllStats {
    pub(crate) fn port(&self, port: u16) -> PortStats {
        self.ports.get(port as usize).copied().unwrap_or_default()
    }

    #[inline]
    pub(crate) fn at(&mut self, port: u16) -> &mut PortStats {
        // Ports have 9 bits in v1model.
        &mut self.ports[port as usize % PORTS]
    }
}
