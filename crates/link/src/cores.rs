//! A thread that keeps to some cores while much passes.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that a thread keeps to, and those that it had before. All is about the calling thread.
#[derive(Debug)]
pub(crate) struct Cores {
    wanted: CpuSet,
    before: Option<CpuSet>,
}

impl Cores {
    pub(crate) fn new(wanted: CpuSet) -> Self {
        Cores { wanted, before: None }
    }

    /// Keeps to the wanted cores from now on. Without effect if the thread may not use all of them.
    pub(crate) fn keep(&mut self) {
        if self.before.is_some() {
            return;
        }
        let Ok(before) = sched_getaffinity(None) else { return };
        let usable = (0..CpuSet::MAX_CPU).all(|core| before.is_set(core) || !self.wanted.is_set(core));
        if usable && sched_setaffinity(None, &self.wanted).is_ok() {
            self.before = Some(before);
        }
    }

    /// Goes back to the cores from before, unless somebody else has chosen others meanwhile.
    pub(crate) fn release(&mut self) {
        let Some(before) = self.before.take() else { return };
        if sched_getaffinity(None).is_ok_and(|now| now == self.wanted) {
            // It fails only where these cores are gone; the thread runs on at those that it has.
            let _ = sched_setaffinity(None, &before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(cores: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        cores.iter().for_each(|core| set.set(*core));
        set
    }

    /// In a thread of its own, with the cores that the process has.
    fn on_some_cores(test: impl FnOnce(CpuSet, &[usize]) + Send) {
        let all = sched_getaffinity(None).unwrap();
        let each: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core)).collect();
        std::thread::scope(|scope| scope.spawn(|| test(all, &each)).join().unwrap());
    }

    #[test]
    fn a_thread_keeps_to_a_core_and_goes_back_to_all() {
        on_some_cores(|all, each| {
            let one = set(&each[..1]);
            let mut cores = Cores::new(one);
            for _ in 0..2 {
                cores.keep();
                cores.keep();
                assert_eq!(sched_getaffinity(None).unwrap(), one);
                cores.release();
                cores.release();
                assert_eq!(sched_getaffinity(None).unwrap(), all);
            }
        });
    }

    #[test]
    fn what_others_choose_for_the_thread_stays() {
        on_some_cores(|_, each| {
            let (first, last) = (set(&each[..1]), set(&each[each.len() - 1..]));
            if first == last {
                println!("SKIPPED: one core");
                return;
            }
            let mut cores = Cores::new(first);
            cores.keep();
            sched_setaffinity(None, &last).unwrap();
            cores.release();
            assert_eq!(sched_getaffinity(None).unwrap(), last);
            cores.keep();
            assert_eq!(sched_getaffinity(None).unwrap(), last, "the wanted core is not one of those");
        });
    }
}
