//! Who takes the items of a consumer's ring in a run: a CPU, or the verilated design of an FPGA, where there is one.

use super::design::{Design, PROGRAM, Started};
use super::error::RunError;
use super::system::System;
use zsr_ring::{Cancel, Consumer};
use zsr_topology::MemoryKind;

/// Who takes the items of a consumer's ring.
pub struct Taker {
    /// Where the items come out.
    pub consumer: Consumer,
    /// Records per second that it keeps to.
    pub pace: Option<u32>,
    /// A device that has its own place, for people.
    pub device: Option<String>,
    /// Whom a CPU stands in for, how fast it is, and why, for people.
    pub stand_in: Option<String>,
}

impl System<'_> {
    /// The one at `ring`, by its index in the topology, of the consumer that is called `name`.
    pub fn taker(&mut self, name: &str, ring: usize, cancel: &Cancel) -> Result<Taker, RunError> {
        let topology = self.topology();
        let host = &topology.hosts[topology.rings[ring].host];
        let memory = topology.rings[ring].memory.unwrap_or(host.memory);
        let of_fpga = memory == MemoryKind::FpgaSim;
        if of_fpga && let Some(Started { design, consumer, text }) = self.design(name, ring, cancel)? {
            self.designs.push(design);
            let device = Some(format!("consumer `{name}`: {text}"));
            return Ok(Taker { consumer, pace: None, device, stand_in: None });
        }
        let speed = match host.stand_in {
            Some(pace) => format!("at {pace} records/s"),
            None => "as fast as it can".to_owned(),
        };
        let stand_in = if of_fpga {
            Some(format!(
                "consumer `{name}`: a CPU stands in for its FPGA, {speed}: {PROGRAM} is neither beside zsr nor on PATH \
                 (fpga/cosim/build makes it, with Verilator)"
            ))
        } else {
            host.stand_in.map(|_| format!("consumer `{name}`: a CPU stands in for it, {speed}"))
        };
        Ok(Taker { consumer: self.hosts.consumer(ring)?, pace: host.stand_in, device: None, stand_in })
    }

    fn design(&self, name: &str, ring: usize, cancel: &Cancel) -> Result<Option<Started>, RunError> {
        let (agent, ring) = self.hosts.of_ring(ring);
        let refused = |reason| RunError::Design { consumer: name.to_owned(), reason };
        let ring = agent.ring(ring).map_err(|e| refused(e.to_string()))?.ring;
        Design::start(&ring, name, cancel, self.reports.clone()).map_err(refused)
    }
}
