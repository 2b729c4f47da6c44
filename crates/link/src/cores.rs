//! A thread that keeps to some cores while much passes.

use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Much passes when so many bytes do within [`MUCH_TIME`]. Messages of 64 bytes, one after the other, are some 70 KiB at the switch.
const MUCH: u64 = 256 << 10;

/// How long a thread keeps to its cores behind the last time that much has passed.
pub(crate) const MUCH_TIME: Duration = Duration::from_millis(2);

/// The cores that a thread keeps to, and those that it has otherwise. All is about the calling thread.
#[derive(Debug)]
pub(crate) struct Cores {
    wanted: CpuSet,
    otherwise: CpuSet,
    is_kept: bool,
    /// When counting began, and the bytes that had passed by then.
    counted: (Instant, u64),
    /// When much had last passed.
    last: Instant,
}

impl Cores {
    /// For a thread that has the same cores as this one.
    pub(crate) fn new(wanted: CpuSet, now: Instant) -> Option<Self> {
        let otherwise = sched_getaffinity(None).ok()?;
        Some(Cores { wanted, otherwise, is_kept: false, counted: (now, 0), last: now })
    }

    /// Keeps to the wanted cores if much passes, and else goes back, where nobody else has chosen cores for the thread. So many `bytes` have
    /// passed by now.
    pub(crate) fn look(&mut self, now: Instant, bytes: u64) {
        let (begun, before) = self.counted;
        if bytes - before >= MUCH {
            self.counted = (now, bytes);
            self.last = now;
            if !self.is_kept {
                self.is_kept = true;
                Self::change(&self.otherwise, &self.wanted);
            }
        } else if now.duration_since(begun) >= MUCH_TIME {
            self.counted = (now, bytes);
        }
        if self.is_kept && now.duration_since(self.last) >= MUCH_TIME {
            self.is_kept = false;
            Self::change(&self.wanted, &self.otherwise);
        }
    }

    /// Whether it has to look again, although nothing passes.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept
    }

    fn change(from: &CpuSet, to: &CpuSet) {
        if sched_getaffinity(None).is_ok_and(|now| now == *from) {
            // It fails only where these cores are gone; the thread runs on at those that it has.
            let _ = sched_setaffinity(None, to);
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

    /// In a thread of its own that wants the first of the process's cores: these cores, and how the thread looks at a time in microseconds.
    fn on_the_first(test: impl FnOnce(&[usize], &mut dyn FnMut(u64, u64) -> CpuSet) + Send) {
        let all = sched_getaffinity(None).unwrap();
        let each: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core)).collect();
        let begin = Instant::now();
        let run = || {
            let mut cores = Cores::new(set(&each[..1]), begin).unwrap();
            test(&each, &mut |us, bytes| {
                cores.look(begin + Duration::from_micros(us), bytes);
                sched_getaffinity(None).unwrap()
            });
        };
        std::thread::scope(|scope| scope.spawn(run).join().unwrap());
    }

    #[test]
    fn a_thread_keeps_to_a_core_while_much_passes() {
        on_the_first(|each, look| {
            let (one, all) = (set(&each[..1]), set(each));
            assert_eq!(look(1000, 250_000), all);
            assert_eq!(look(1500, 280_000), one, "enough, and soon enough");
            assert_eq!(look(3000, 280_100), one, "not yet long ago");
            assert_eq!(look(3600, 280_200), all, "small frames still pass");
            assert_eq!(look(3700, 600_000), one);
            assert_eq!(look(9000, 600_000), all, "nothing passes");
        });
    }

    #[test]
    fn few_bytes_at_a_time_are_not_much() {
        on_the_first(|each, look| {
            for ms in 1..1000 {
                assert_eq!(look(ms * 1000, ms * 80_000), set(each));
            }
        });
    }

    #[test]
    fn cores_that_others_choose_for_the_thread_stay() {
        on_the_first(|each, look| {
            let last = set(&each[each.len() - 1..]);
            if each.len() == 1 {
                println!("SKIPPED: one core");
                return;
            }
            look(100, 300_000);
            sched_setaffinity(None, &last).unwrap();
            assert_eq!(look(5000, 300_000), last);
            assert_eq!(look(5100, 600_000), last);
        });
    }
}
