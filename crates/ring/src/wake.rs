//! Sleeping until the other side of a ring has done something, where that is a NIC which says so.
//!
//! Two words of the ring's control page serve programs of this machine. No peer reads or writes them.
//!
//! - `wakes` is 1 if the NIC is a program that wakes who sleeps.
//! - `waits` is 1 while a processing unit sleeps, or is about to. Whoever has changed a control word makes it 0, and wakes the sleeper.
//!
//! Where nobody wakes, the processing unit looks again and again.

use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;

use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::memory::{self, Memory};

const WAITS_OFFSET: usize = zsr_wire::ring::WAITS as usize;
const WAKES_OFFSET: usize = zsr_wire::ring::WAKES as usize;
/// Between two looks of who can't be woken.
const UNABLE: Duration = Duration::from_micros(500);

/// Says in a ring's memory that whoever writes its control words calls [`tell`] afterwards. Memory that is not coherent has no sleepers.
pub fn offer(memory: &dyn Memory) {
    if let Some(wakes) = word(memory, WAKES_OFFSET) {
        wakes.store(1, Ordering::Release);
    }
}

/// Wakes who sleeps at a ring, after a control word of it was written.
#[inline]
pub fn tell(memory: &dyn Memory) {
    if let Some(waits) = word(memory, WAITS_OFFSET) {
        Sleeper(NonNull::from(waits)).wake();
    }
}

/// A word of the control page, if processors reach it as any memory.
fn word(memory: &dyn Memory, offset: usize) -> Option<&AtomicU32> {
    // SAFETY: an atomic, at a multiple of 4 bytes.
    unsafe { memory::atomics(memory, offset) }
}

/// The place where a processing unit sleeps. Whoever has one keeps the ring's memory alive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sleeper(NonNull<AtomicU32>);

// SAFETY: an atomic may be used from any thread.
unsafe impl Send for Sleeper {}

impl Sleeper {
    /// None where nobody would wake it.
    pub(crate) fn at(memory: &dyn Memory) -> Option<Self> {
        let wakes = word(memory, WAKES_OFFSET)?.load(Ordering::Acquire) == 1;
        word(memory, WAITS_OFFSET).filter(|_| wakes).map(|waits| Sleeper(NonNull::from(waits)))
    }

    fn waits(&self) -> &AtomicU32 {
        // SAFETY: whoever has this keeps the memory.
        unsafe { self.0.as_ref() }
    }

    /// Is about to sleep. A look at the ring has to follow: what is written from now on wakes, but what was written before does not.
    pub(crate) fn announce(&self) {
        self.waits().store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Does not sleep after all.
    pub(crate) fn stay_awake(&self) {
        self.waits().store(0, Ordering::Relaxed);
    }

    /// Wakes whoever sleeps here, or is about to.
    pub(crate) fn wake(&self) {
        // Between the control word that was written and the look for a sleeper.
        fence(Ordering::SeqCst);
        if self.waits().load(Ordering::Relaxed) != 0 {
            self.waits().store(0, Ordering::Relaxed);
            let _ = futex::wake(self.waits(), futex::Flags::empty(), i32::MAX as u32);
        }
    }

    /// Sleeps at all of `places`, which have announced it, until one is woken, or `time` is over.
    pub(crate) fn sleep(places: &[Sleeper], time: Duration) {
        let slept = match places {
            [one] => futex::wait(one.waits(), futex::Flags::empty(), 1, timespec(time).as_ref()),
            several => {
                let places: Vec<futex::Wait> = several.iter().map(Sleeper::wanted).collect();
                let now = clock_gettime(ClockId::Monotonic);
                let end = timespec(time).and_then(|time| now.checked_add(time));
                let flags = futex::WaitvFlags::empty();
                futex::waitv(&places, flags, end.as_ref(), futex::ClockId::Monotonic).map(|_| ())
            }
        };
        match slept {
            // Woken, also before it slept, or too late.
            Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
            // Linux before 5.16 sleeps at one place only.
            Err(_) => std::thread::sleep(time.min(UNABLE)),
        }
    }

    fn wanted(&self) -> futex::Wait {
        let mut wait = futex::Wait::new();
        wait.val = 1;
        wait.uaddr = futex::WaitPtr::new(self.0.as_ptr().cast());
        wait.flags = futex::WaitFlags::SIZE_U32;
        wait
    }
}

fn timespec(time: Duration) -> Option<Timespec> {
    Timespec::try_from(time).ok()
}

impl fmt::Debug for Sleeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sleeper")
    }
}

#[cfg(all(test, not(feature = "loom"), not(miri)))]
mod tests {
    use super::*;
    use crate::memory::HostMemory;
    use crate::wait::Cancel;
    use std::sync::Arc;

    /// Far longer than any test may take: only a wake-up can end it.
    const LONG: Duration = Duration::from_secs(3600);

    fn memory() -> Arc<HostMemory> {
        let memory = Arc::new(HostMemory::anonymous(8192).expect("memory"));
        offer(&*memory);
        memory
    }

    fn is_awaited(memory: &HostMemory) -> bool {
        word(memory, WAITS_OFFSET).expect("a word").load(Ordering::Relaxed) != 0
    }

    #[test]
    fn nobody_sleeps_where_nobody_wakes() {
        let memory = HostMemory::anonymous(8192).expect("memory");
        assert_eq!(Sleeper::at(&memory), None);
        offer(&memory);
        assert!(Sleeper::at(&memory).is_some());
    }

    #[test]
    fn a_word_that_was_written_wakes_who_sleeps_and_who_is_about_to() {
        let memory = memory();
        let place = Sleeper::at(&*memory).expect("a place");
        place.announce();
        tell(&*memory);
        // It was told before it slept.
        Sleeper::sleep(&[place], LONG);
        for places in [1, 3] {
            let others: Vec<_> = (1..places).map(|_| self::memory()).collect();
            let here = memory.clone();
            let sleeper = std::thread::spawn(move || {
                let all = others.iter().chain([&here]).map(|at| Sleeper::at(&**at).expect("a place"));
                let all: Vec<Sleeper> = all.collect();
                all.iter().for_each(Sleeper::announce);
                Sleeper::sleep(&all, LONG);
            });
            while !is_awaited(&memory) {
                std::thread::yield_now();
            }
            tell(&*memory);
            sleeper.join().expect("the sleeper");
        }
    }

    #[test]
    fn a_token_wakes_who_sleeps_at_a_ring() {
        let (memory, cancel) = (memory(), Cancel::new());
        let sleeper = std::thread::spawn({
            let (memory, cancel) = (memory.clone(), cancel.clone());
            move || {
                let place = Sleeper::at(&*memory).expect("a place");
                place.announce();
                cancel.sleep_at(&[place], LONG)
            }
        });
        while !is_awaited(&memory) {
            std::thread::yield_now();
        }
        cancel.cancel();
        assert!(sleeper.join().expect("the sleeper"));
    }
}
