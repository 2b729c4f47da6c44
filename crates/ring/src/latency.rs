//! How long segments take from push to pop, by the stamps that some of them carry in their headers.
//!
//! Whoever pops a stamped segment counts its time in the control page of the consumer ring, where the ring's agent reads it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::memory::{self, Memory};

/// The number of buckets that times are counted in.
pub const BUCKETS: usize = zsr_wire::ring::LATENCY_BUCKETS;
/// The most that a stamp may lie ahead of the clock here, microseconds, since hosts' clocks differ. Times above 70 minutes can't be told.
const AHEAD: u32 = 60_000_000;

/// The counts, and the sum of all times in microseconds.
type Times = [AtomicU64; BUCKETS + 1];
const _: () = assert!(size_of::<Times>() == zsr_wire::ring::LATENCY_LEN);

/// Stamped segments that were popped out of a ring, by their time from push to pop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Latency {
    /// How many took at most the time of their bucket ([`upper_us`]), and longer than that of the one before.
    pub buckets: [u64; BUCKETS],
    /// All their times together, microseconds.
    pub sum_us: u64,
}

/// The longest time of a bucket, a power of two, microseconds. The last one has no end.
pub fn upper_us(bucket: usize) -> Option<u64> {
    (bucket + 1 < BUCKETS).then(|| 1 << bucket)
}

impl Latency {
    /// What was counted at a ring. `None`: no stamped segment was popped there, or the memory is a device's, where nobody counts.
    pub fn at(memory: &dyn Memory) -> Option<Self> {
        let (sum, counts) = times(memory)?.split_last()?;
        let mut latency = Latency { sum_us: sum.load(Ordering::Relaxed), ..Default::default() };
        for (bucket, count) in latency.buckets.iter_mut().zip(counts) {
            *bucket = count.load(Ordering::Relaxed);
        }
        (latency.buckets != [0; BUCKETS]).then_some(latency)
    }
}

/// The time of day in microseconds, modulo 2³²: what a stamp is.
pub(crate) fn now() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u32)
}

/// Counts a segment that was stamped with `stamp` and is popped `now`. One program at a time pops.
#[cold]
pub(crate) fn count(memory: &dyn Memory, stamp: u32, now: u32) {
    let Some((sum, counts)) = times(memory).and_then(|times| times.split_last()) else { return };
    let us = match now.wrapping_sub(stamp) {
        us if us > u32::MAX - AHEAD => 0,
        us => u64::from(us),
    };
    let add = |word: &AtomicU64, n: u64| {
        word.store(word.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    };
    let fits = |bucket: usize| upper_us(bucket).is_none_or(|upper| us <= upper);
    if let Some((_, count)) = counts.iter().enumerate().find(|(bucket, _)| fits(*bucket)) {
        add(count, 1);
        add(sum, us);
    }
}

/// Forgets what was counted at a ring.
pub(crate) fn clear(memory: &dyn Memory) {
    times(memory).into_iter().flatten().for_each(|word| word.store(0, Ordering::Relaxed));
}

fn times(memory: &dyn Memory) -> Option<&Times> {
    // SAFETY: it consists of atomics.
    unsafe { memory::atomics(memory, zsr_wire::ring::LATENCY as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::HostMemory;

    #[test]
    fn times_are_told_apart_by_powers_of_two() {
        let longest = u32::MAX - AHEAD;
        for (us, bucket) in [
            (0, 0),
            (1, 0),
            (2, 1),
            (3, 2),
            (4, 2),
            (5, 3),
            (1 << 23, 23),
            ((1 << 23) + 1, 24),
            (40 * 60_000_000, 24),
            (longest, 24),
        ] {
            let memory = HostMemory::anonymous(8192).expect("memory");
            assert_eq!(Latency::at(&memory), None);
            count(&memory, 5, us + 5);
            let mut expected = Latency { sum_us: us.into(), ..Default::default() };
            expected.buckets[bucket] = 1;
            assert_eq!(Latency::at(&memory), Some(expected), "{us} µs");
        }
    }

    #[test]
    fn times_add_up_until_they_are_cleared() {
        let memory = HostMemory::anonymous(8192).expect("memory");
        count(&memory, u32::MAX - 1, 8); // over the end of the counter
        count(&memory, 5, 8);
        count(&memory, 9, 8); // from a clock that is ahead
        let latency = Latency::at(&memory).expect("times");
        assert_eq!(latency.buckets[..6], [1, 0, 1, 0, 1, 0]);
        assert_eq!((latency.buckets.iter().sum::<u64>(), latency.sum_us), (3, 13));
        clear(&memory);
        assert_eq!(Latency::at(&memory), None);
    }

    #[test]
    fn memory_without_room_for_them_has_none() {
        let short = HostMemory::anonymous(zsr_wire::ring::LATENCY as usize).expect("memory");
        count(&short, 5, 8);
        assert_eq!(Latency::at(&short), None);
    }
}
