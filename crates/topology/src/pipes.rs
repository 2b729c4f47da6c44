//! Pipes of a switch: ports belong to them, and each has registers of its own.

use super::build::Builder;
use super::model::SwitchKind;
use super::read::Table;
use super::tofino::Chip;

/// Ports of a pipe; a port's pipe is in the upper bits of its number, as on a Tofino.
const PORT_BITS: u32 = 7;

/// The pipes in which flows can be: whose registers are their workers'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pipes {
    homes: u32,
    /// From one of them to the next: between them a Tofino 1 has those that hold the second half of ingress.
    step: u32,
}

impl Default for Pipes {
    fn default() -> Self {
        Pipes { homes: 1, step: 1 }
    }
}

impl Pipes {
    /// Those of a switch that has `pipes` of them.
    pub(crate) fn of(kind: &SwitchKind, pipes: u32) -> Pipes {
        match kind.tofino().map(|tofino| tofino.chip) {
            Some(Chip::Tofino) => Pipes { homes: pipes.div_ceil(2), step: 2 },
            Some(Chip::Tofino2) | None => Pipes { homes: pipes, step: 1 },
        }
    }

    /// Whether flows can be in more than one.
    pub fn are_several(&self) -> bool {
        self.homes > 1
    }

    /// Numbers of the pipes in which flows can be.
    pub fn homes(&self) -> impl Iterator<Item = u32> + use<> {
        let step = self.step;
        (0..self.homes).map(move |home| home * step)
    }

    /// The pipe that a port belongs to; 0 where there is only one.
    pub fn of_port(&self, port: u32) -> u32 {
        if self.are_several() { port >> PORT_BITS } else { 0 }
    }

    /// The pipe that holds a worker's registers.
    pub fn of_worker(&self, worker: u16) -> u32 {
        u32::from(worker) % self.homes * self.step
    }

    /// How many shares workers are in, and which of them has those of `pipe`: by the remainder of their numbers.
    pub fn share(&self, pipe: u32) -> (u32, u32) {
        (self.homes, pipe / self.step)
    }

    /// Port `port` of pipe 0, as pipe `pipe` has it.
    pub fn port_in(pipe: u32, port: u32) -> u32 {
        pipe << PORT_BITS | port
    }

    /// The number that a port would have in pipe 0.
    pub(crate) fn local(&self, port: u32) -> u32 {
        if self.are_several() { port & ((1 << PORT_BITS) - 1) } else { port }
    }

    /// Whether hosts can be at that port, as far as its pipe is concerned.
    pub(crate) fn take(&self, port: u32) -> bool {
        let pipe = self.of_port(port);
        self.homes().any(|home| home == pipe)
    }
}

impl Builder<'_> {
    /// `pipes` of a switch.
    pub(crate) fn pipes(&mut self, table: &Table<'_>, kind: &SwitchKind) -> Pipes {
        let Some(at) = self.reader.integer(table, "pipes", 1..=4) else { return Pipes::default() };
        if let SwitchKind::Bmv2(_) = kind {
            let message = format!("{} is a bmv2, which has one set of registers", table.what);
            self.reader.error(at.place, message, "pipes with kind: soft or tofino");
            return Pipes::default();
        }
        Pipes::of(kind, at.value as u32)
    }

    /// Reports links to ports at pipes that a software switch does not have.
    pub(crate) fn ports_of_pipes(&mut self) {
        let links = self.topology.links.iter();
        let wrong = links.filter(|link| {
            let switch = &self.topology.switches[link.switch];
            switch.kind.tofino().is_none() && !switch.pipes.take(link.port)
        });
        let found: Vec<_> = wrong.map(|link| (link.place, link.port, link.switch)).collect();
        for (place, port, switch) in found {
            let switch = &self.topology.switches[switch];
            let (name, homes) = (&switch.name, switch.pipes.homes);
            let message = format!(
                "port {port} would be at pipe {} of switch '{name}', which has {homes}",
                port >> PORT_BITS
            );
            let expected = format!(
                "a port below {} (pipe 0 has 1 to 127, pipe 1 has 128 to 255, and so on)",
                homes << PORT_BITS
            );
            self.reader.error(place, message, expected);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_shared_among_the_pipes_that_hold_flows() {
        let soft = Pipes::of(&SwitchKind::Soft, 4);
        assert_eq!((0..5).map(|w| soft.of_worker(w)).collect::<Vec<_>>(), [0, 1, 2, 3, 0]);
        assert_eq!(soft.share(3), (4, 3));
        let folded = Pipes { homes: 2, step: 2 };
        assert_eq!((0..3).map(|w| folded.of_worker(w)).collect::<Vec<_>>(), [0, 2, 0]);
        assert_eq!((folded.share(2), folded.homes().collect::<Vec<_>>()), ((2, 1), vec![0, 2]));
        assert_eq!(
            (folded.of_port(136), folded.of_port(264), folded.take(136), folded.take(264)),
            (1, 2, false, true)
        );
    }

    #[test]
    fn one_pipe_has_all_ports() {
        let one = Pipes::default();
        assert_eq!(
            (one.of_port(499), one.of_worker(77), one.take(499), one.are_several()),
            (0, 0, true, false)
        );
    }
}
