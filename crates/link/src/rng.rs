//! A small seeded generator whose numbers never change, so that a seed in a bug report stays good.

/// SplitMix64. For faults and tests, not for secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng(u64);

impl Rng {
    /// The sequence of this seed.
    pub const fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// 64 random bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub const fn below(&mut self, n: u64) -> u64 {
        ((self.bits() as u128 * n as u128) >> 64) as u64
    }

    /// `true` with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        // 53 bits fit a double exactly.
        probability > 0.0 && ((self.bits() >> 11) as f64) < probability * (1u64 << 53) as f64
    }

    /// A generator for a part of the whole, whose numbers do not depend on how often this one is asked later.
    pub const fn fork(&mut self) -> Rng {
        Rng(self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_keeps_its_rate_and_its_ends() {
        let mut rng = Rng::new(1);
        assert!((0..1000).all(|_| rng.chance(1.0)));
        assert!((0..1000).all(|_| !rng.chance(0.0)));
        let hits = (0..100_000).filter(|_| rng.chance(0.02)).count();
        assert!((1800..2200).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| rng.below(7) < 7));
        assert_eq!(rng.below(0), 0);
    }
}
