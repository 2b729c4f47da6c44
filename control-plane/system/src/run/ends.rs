//! The end of a ring in a run: a CPU, or the verilated design of an FPGA, where there is one.

use super::design::{Design, Feed, Owner, Pop, Relay, Started};
use super::error::RunError;
use super::hosts::Hosts;
use super::system::System;
use zsr_ring::{Cancel, Consumer, Producer};
use zsr_topology::MemoryKind;

/// An end of a ring: `H` is the run's handle of it.
pub struct End<H> {
    /// The handle by which items go in, or come out.
    pub handle: H,
    /// Records per second of the end.
    pub pace: Option<u32>,
    /// A device that has its own place, for people.
    pub device: Option<String>,
    /// The device that a CPU stands in for, its speed and the reason, for people.
    pub stand_in: Option<String>,
}

impl System<'_> {
    /// The end at `ring`, by its index in the topology, of the producer that is called `name`.
    pub fn producer(&mut self, name: &str, ring: usize, cancel: &Cancel) -> Result<End<Producer>, RunError> {
        self.end::<Feed>(format!("producer `{name}`"), ring, cancel, Hosts::producer)
    }

    /// The end at `ring`, by its index in the topology, of the consumer that is called `name`.
    pub fn consumer(&mut self, name: &str, ring: usize, cancel: &Cancel) -> Result<End<Consumer>, RunError> {
        self.end::<Pop>(format!("consumer `{name}`"), ring, cancel, Hosts::consumer)
    }

    fn end<R: Relay>(
        &mut self,
        of: String,
        ring: usize,
        cancel: &Cancel,
        cpu: impl FnOnce(&Hosts, usize) -> Result<R::Handle, RunError>,
    ) -> Result<End<R::Handle>, RunError> {
        let topology = self.topology();
        let host = &topology.hosts[topology.rings[ring].host];
        let memory = topology.rings[ring].memory.unwrap_or(host.memory);
        let of_fpga = memory == MemoryKind::FpgaSim;
        if of_fpga && let Some(Started { design, handle, text }) = self.design::<R>(&of, ring, cancel)? {
            self.designs.push(design);
            return Ok(End { handle, pace: None, device: Some(format!("{of}: {text}")), stand_in: None });
        }
        let speed = match host.stand_in {
            Some(pace) => format!("at {pace} records/s"),
            None => "as fast as it can".to_owned(),
        };
        let stand_in = if of_fpga {
            let program = R::PROGRAM;
            Some(format!(
                "{of}: a CPU stands in for its FPGA, {speed}: {program} is neither beside zsr nor on PATH \
                 (fpga/cosim/build makes it, with Verilator)"
            ))
        } else {
            host.stand_in.map(|_| format!("{of}: a CPU stands in for it, {speed}"))
        };
        Ok(End { handle: cpu(&self.hosts, ring)?, pace: host.stand_in, device: None, stand_in })
    }

    fn design<R: Relay>(
        &self,
        of: &str,
        ring: usize,
        cancel: &Cancel,
    ) -> Result<Option<Started<R::Handle>>, RunError> {
        let (agent, ring) = self.hosts.of_ring(ring);
        let refused = |reason| RunError::Design { of: of.to_owned(), reason };
        let ring = agent.ring(ring).map_err(|e| refused(e.to_string()))?.ring;
        let owner = Owner { name: of.to_owned(), cancel: cancel.clone(), reports: self.reports.clone() };
        Design::start::<R>(&ring, owner).map_err(refused)
    }
}
