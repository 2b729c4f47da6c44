//! Meters: two rates, three colours, colour-blind, as bmv2 computes them.

use crate::control::MeterConfig;

/// Meter colours as P4 sees them.
const GREEN: u64 = 0;
const YELLOW: u64 = 1;
const RED: u64 = 2;

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    tokens: u64,
    /// Tokens since the meter was set, as of the last packet.
    earned: u64,
}

impl Bucket {
    /// Takes `need` tokens after adding what came since; `false` if there are too few.
    fn take(&mut self, elapsed_us: u64, rate: u64, burst: u64, need: u64) -> bool {
        let earned = (u128::from(elapsed_us) * u128::from(rate) / 1_000_000) as u64;
        let new = earned.saturating_sub(self.earned);
        self.earned = self.earned.max(earned);
        self.tokens = self.tokens.saturating_add(new).min(burst);
        if self.tokens < need {
            return false;
        }
        self.tokens -= need;
        true
    }
}

/// One meter cell. Without configuration every packet is green.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Meter {
    config: Option<MeterConfig>,
    start_us: Option<u64>,
    committed: Bucket,
    peak: Bucket,
}

impl Meter {
    pub(crate) fn config(&self) -> Option<MeterConfig> {
        self.config
    }

    /// Sets rates; both buckets start full.
    pub(crate) fn set(&mut self, config: Option<MeterConfig>) {
        *self = Meter { config, ..Meter::default() };
        if let Some(c) = config {
            self.committed.tokens = c.cburst;
            self.peak.tokens = c.pburst;
        }
    }

    /// The colour of a packet that needs `cost` tokens.
    pub(crate) fn execute(&mut self, now_us: u64, cost: u64) -> u64 {
        let Some(c) = self.config else { return GREEN };
        let start = *self.start_us.get_or_insert(now_us);
        let elapsed = now_us.saturating_sub(start);
        if !self.peak.take(elapsed, c.pir, c.pburst, cost) {
            return RED;
        }
        if !self.committed.take(elapsed, c.cir, c.cburst, cost) {
            return YELLOW;
        }
        GREEN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_follow_both_buckets() {
        let mut m = Meter::default();
        assert_eq!(m.execute(0, 1_000_000), GREEN);
        m.set(Some(MeterConfig { cir: 10, cburst: 2, pir: 20, pburst: 4 }));
        let colours: Vec<u64> = (0..5).map(|_| m.execute(1000, 1)).collect();
        assert_eq!(colours, [GREEN, GREEN, YELLOW, YELLOW, RED]);
        // A tenth of a second later: one committed token, two peak tokens.
        let colours: Vec<u64> = (0..3).map(|_| m.execute(101_000, 1)).collect();
        assert_eq!(colours, [GREEN, YELLOW, RED]);
    }
}
