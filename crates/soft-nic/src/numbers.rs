//! Where keys and queue pair numbers come from.

/// A source of random numbers.
pub(crate) enum Numbers {
    /// The system's generator: nobody can work them out.
    System,
    /// A seed, for tests and simulations.
    Seeded(SplitMix),
}

impl Numbers {
    /// Numbers made of `seed`, others than those of another `salt`; without a seed the system's.
    pub(crate) fn new(seed: Option<u64>, salt: u64) -> Numbers {
        seed.map_or(Numbers::System, |seed| Numbers::Seeded(SplitMix(seed ^ salt)))
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        match self {
            // Fails only where the kernel has no generator, and there is no safe way to go on.
            Numbers::System => getrandom::u64().expect("the system's generator of random numbers"),
            Numbers::Seeded(numbers) => numbers.next(),
        }
    }
}

/// A small seeded generator; not for secrets.
pub(crate) struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}
