//! The unit of a program's times: the one place where durations become numbers of the program.

use std::time::Duration;

/// The longest interval that a switch may get: differences are taken modulo 2^32, and a retry waits 64 times as long.
const LONGEST: u128 = u32::MAX as u128 / 4;

/// A unit of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// Microseconds: v1model.
    #[default]
    Microseconds,
    /// 256 nanoseconds: bits 8 to 39 of a Tofino's timestamp (p4/arch/tna/main.p4).
    Slices,
}

impl Clock {
    /// `time` in whole units, at least one. Slices are rounded up, as one of them is no time at all.
    pub fn units(self, time: Duration) -> u32 {
        let units = match self {
            Clock::Microseconds => time.as_micros(),
            Clock::Slices => time.as_nanos().div_ceil(256),
        };
        units.clamp(1, LONGEST) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fit_the_data_plane() {
        let (us, slices) = (Clock::Microseconds, Clock::Slices);
        assert_eq!((us.units(Duration::from_nanos(10)), slices.units(Duration::from_nanos(10))), (1, 1));
        assert_eq!(us.units(Duration::from_millis(2)), 2000);
        // 1000 / 256 units each microsecond, rounded up.
        assert_eq!(slices.units(Duration::from_millis(2)), 7813);
        assert_eq!(slices.units(Duration::from_micros(256)), 1000);
        for clock in [us, slices] {
            assert!(clock.units(Duration::from_secs(1 << 40)) < 1 << 31);
        }
    }
}
