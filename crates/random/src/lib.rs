//! Small seeded generators whose numbers never change, so that a seed in a bug report stays good. For faults and tests, not for
//! secrets.

#![no_std]
#![forbid(unsafe_code)]

/// What [`SplitMix64`] adds at each step.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A number made of `x`, which looks as if it had nothing to do with it: a step of [`SplitMix64`].
#[inline]
pub const fn mix(x: u64) -> u64 {
    let z = x.wrapping_add(STEP);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The next number of the [`SplitMix64`] whose state is `state`, for who keeps states as plain numbers.
#[inline]
pub const fn split_mix(state: &mut u64) -> u64 {
    let bits = mix(*state);
    *state = state.wrapping_add(STEP);
    bits
}

/// SplitMix64 (Steele, Lea, Flood 2014). Any seed is good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The sequence of this seed.
    #[inline]
    pub const fn new(seed: u64) -> Self {
        SplitMix64(seed)
    }

    /// 64 random bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        split_mix(&mut self.0)
    }

    /// A number below `n`; 0 if `n` is 0.
    #[inline]
    pub const fn below(&mut self, n: u64) -> u64 {
        ((self.bits() as u128 * n as u128) >> 64) as u64
    }

    /// `true` with this probability.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        // 53 bits fit a double exactly.
        probability > 0.0 && ((self.bits() >> 11) as f64) < probability * (1u64 << 53) as f64
    }

    /// A generator for a part of the whole, whose numbers do not depend on how often this one is asked later.
    #[inline]
    pub const fn fork(&mut self) -> Self {
        SplitMix64(self.bits())
    }
}

/// xorshift64 with shifts 13, 7, 17 (Marsaglia 2003). A seed of 0 stays 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XorShift64(u64);

impl XorShift64 {
    /// The sequence of this seed.
    #[inline]
    pub const fn new(seed: u64) -> Self {
        XorShift64(seed)
    }

    /// 64 random bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// xorshift64* with shifts 12, 25, 27 (Vigna 2014). A seed of 0 stays 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XorShift64Star(u64);

impl XorShift64Star {
    /// The sequence of this seed.
    #[inline]
    pub const fn new(seed: u64) -> Self {
        XorShift64Star(seed)
    }

    /// 64 random bits.
    #[inline]
    pub const fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_what_they_always_were() {
        let mut split = SplitMix64::new(0);
        assert_eq!(
            [(); 3].map(|()| split.bits()),
            [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]
        );
        let mut xor = XorShift64::new(1);
        assert_eq!(
            [(); 3].map(|()| xor.bits()),
            [0x0000_0000_4082_2041, 0x1000_4106_0c01_1441, 0x9b1e_842f_6e86_2629]
        );
        let mut star = XorShift64Star::new(1);
        assert_eq!(
            [(); 3].map(|()| star.bits()),
            [0x47e4_ce4b_896c_dd1d, 0xabcf_a6a8_e079_651d, 0xb9d1_0d8f_eb73_1f57]
        );
        let mut of_seed = SplitMix64::new(7);
        assert_eq!(
            (of_seed.below(100), of_seed.chance(0.5), of_seed.fork().bits()),
            (38, true, 0x9c84_dc3a_ae97_b406)
        );
    }

    #[test]
    fn chance_keeps_its_rate_and_its_ends() {
        let mut rng = SplitMix64::new(1);
        assert!((0..1000).all(|_| rng.chance(1.0)));
        assert!((0..1000).all(|_| !rng.chance(0.0)));
        let hits = (0..100_000).filter(|_| rng.chance(0.02)).count();
        assert!((1800..2200).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| rng.below(7) < 7));
        assert_eq!(rng.below(0), 0);
    }
}
