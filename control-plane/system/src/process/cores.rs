//! Which cores the threads run on that move frames, where a machine has fewer cores than such threads.
//!
//! They look for frames rather than sleep, so the scheduler takes all of them for busy. It shares the switch's core with NICs that wait for
//! the switch. With a core for the switch, and the others for the NICs, waiting NICs hinder each other only (bench/results/processes.md).

use rustix::thread::{CpuSet, sched_getaffinity};
use zsr::Place;
use zsr_topology::{NicKind, SwitchKind, Topology};

/// Cores of the system's threads that move frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cores {
    /// Of the switch and its standby.
    pub switch: CpuSet,
    /// Of the soft NICs.
    pub nics: CpuSet,
}

/// Divides the cores that this process may use. `None` where each thread can have one, or where there is nothing to divide. All processes
/// of a system that may use the same cores come to the same result.
pub(super) fn divide(place: &Place, topology: &Topology) -> Option<Cores> {
    if !matches!(topology.switches.first()?.kind, SwitchKind::Soft) {
        return None;
    }
    let here = topology.hosts.iter().filter(|h| h.agent.is_none() && matches!(h.nic, NicKind::Soft { .. }));
    let usable = sched_getaffinity(None).ok()?;
    // Systems beside each other should not all choose the same core.
    let choice = place.folder().as_os_str().as_encoded_bytes().iter().map(|byte| usize::from(*byte)).sum();
    among(&usable, 1 + here.count(), choice)
}

fn among(usable: &CpuSet, threads: usize, choice: usize) -> Option<Cores> {
    let mut cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| usable.is_set(*core)).collect();
    if cores.len() < 2 || cores.len() >= threads {
        return None;
    }
    let mut switch = CpuSet::new();
    switch.set(cores.remove(choice % cores.len()));
    let mut nics = CpuSet::new();
    cores.into_iter().for_each(|core| nics.set(core));
    Some(Cores { switch, nics })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(cores: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        cores.iter().for_each(|core| set.set(*core));
        set
    }

    #[test]
    fn the_switch_has_a_core_and_the_nics_have_the_others() {
        let divided = |usable: &[usize], threads, choice| {
            among(&set(usable), threads, choice).map(|cores| (cores.switch, cores.nics))
        };
        assert_eq!(divided(&[0, 1], 3, 6), Some((set(&[0]), set(&[1]))));
        assert_eq!(divided(&[0, 1], 3, 7), Some((set(&[1]), set(&[0]))));
        assert_eq!(divided(&[2, 5, 70], 9, 1), Some((set(&[5]), set(&[2, 70]))));
        assert_eq!(divided(&[4], 3, 0), None, "nothing to divide");
        assert_eq!(divided(&[0, 1, 2], 3, 0), None, "each can have its own");
    }
}
