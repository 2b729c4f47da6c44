//! Pipes of a switch: ports belong to them, and each has registers of its own.

use super::build::Builder;
use super::model::SwitchKind;
use super::read::Table;
use super::tofino::Chip;

/// Ports of a pipe; a port's pipe is in the upper bits of its number, as on a Tofino.
const PORT_BITS: u32 = 7;

/// The pipes at which hosts can be, and those in which flows can be: whose registers are their workers'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pipes {
    count: u32,
    /// The distance from one pipe in which flows can be to the next. On a Tofino 1 each such pipe has another behind
    /// it, which holds the second half of ingress.
    step: u32,
}

impl Default for Pipes {
    fn default() -> Self {
        Pipes { count: 1, step: 1 }
    }
}

impl Pipes {
    /// The pipes of a switch that has `pipes` of them.
    pub(crate) fn of(kind: &SwitchKind, pipes: u32) -> Pipes {
        match kind.tofino().map(|tofino| tofino.chip) {
            Some(Chip::Tofino) => Pipes { count: pipes, step: 2 },
            Some(Chip::Tofino2) | None => Pipes { count: pipes, step: 1 },
        }
    }

    fn shares(&self) -> u32 {
        self.count.div_ceil(self.step)
    }

    /// Whether flows can be in more than one.
    pub fn are_several(&self) -> bool {
        self.shares() > 1
    }

    /// Numbers of the pipes in which flows can be.
    pub fn homes(&self) -> impl Iterator<Item = u32> + use<> {
        (0..self.count).step_by(self.step as usize)
    }

    /// Numbers of the pipes at which hosts can be.
    pub(crate) fn with_hosts(&self) -> std::ops::Range<u32> {
        0..self.count
    }

    /// The pipe to which what comes in at a port goes first, of those in which flows can be; 0 where there is only one.
    pub fn of_port(&self, port: u32) -> u32 {
        if self.are_several() { self.before(port >> PORT_BITS) } else { 0 }
    }

    /// Whether what comes in at a port gets to [`Pipes::of_port`] through the port that leads back into that pipe only.
    pub fn is_behind(&self, port: u32) -> bool {
        let pipe = port >> PORT_BITS;
        self.count > 1 && pipe != self.before(pipe)
    }

    fn before(&self, pipe: u32) -> u32 {
        pipe - pipe % self.step
    }

    /// Whether anything gets from one pipe to another.
    pub fn cross(&self) -> bool {
        self.count > 1
    }

    /// The pipe that holds a worker's registers.
    pub fn of_worker(&self, worker: u16) -> u32 {
        u32::from(worker) % self.shares() * self.step
    }

    /// How many shares workers are in, and which of them has those of `pipe`: by the remainder of their numbers.
    pub fn share(&self, pipe: u32) -> (u32, u32) {
        (self.shares(), pipe / self.step)
    }

    /// Port `port` of pipe 0, as pipe `pipe` has it.
    pub fn port_in(pipe: u32, port: u32) -> u32 {
        pipe << PORT_BITS | port
    }

    /// The number that a port would have in pipe 0.
    pub(crate) fn local(&self, port: u32) -> u32 {
        if self.cross() { port & ((1 << PORT_BITS) - 1) } else { port }
    }

    /// Whether hosts can be at that port, as far as its pipe is concerned.
    pub(crate) fn take(&self, port: u32) -> bool {
        !self.cross() || self.with_hosts().contains(&(port >> PORT_BITS))
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
            let (name, count) = (&switch.name, switch.pipes.count);
            let message = format!(
                "port {port} would be at pipe {} of switch '{name}', which has {count}",
                port >> PORT_BITS
            );
            let expected = format!(
                "a port below {} (pipe 0 has 1 to 127, pipe 1 has 128 to 255, and so on)",
                count << PORT_BITS
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
        let folded = Pipes { count: 4, step: 2 };
        assert_eq!((0..3).map(|w| folded.of_worker(w)).collect::<Vec<_>>(), [0, 2, 0]);
        assert_eq!((folded.share(2), folded.homes().collect::<Vec<_>>()), ((2, 1), vec![0, 2]));
        let at = |port| (folded.of_port(port), folded.is_behind(port));
        assert_eq!((at(8), at(136), at(264), at(392)), ((0, false), (0, true), (2, false), (2, true)));
        assert_eq!((folded.take(392), folded.take(520)), (true, false));
    }

    #[test]
    fn a_pipe_behind_the_only_one_with_flows_takes_hosts() {
        let folded = Pipes { count: 2, step: 2 };
        assert_eq!((folded.are_several(), folded.cross(), folded.of_port(136)), (false, true, 0));
        assert_eq!(
            (folded.take(136), folded.is_behind(136), folded.local(136), folded.take(264)),
            (true, true, 8, false)
        );
    }

    #[test]
    fn one_pipe_has_all_ports() {
        let one = Pipes::default();
        assert_eq!(
            (one.of_port(499), one.of_worker(77), one.take(499), one.are_several(), one.is_behind(499)),
            (0, 0, true, false, false)
        );
    }
}
