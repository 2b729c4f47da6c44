//! Where keys and queue pair numbers come from.

use zsr_random::SplitMix64;

/// A source of random numbers.
pub(crate) enum Numbers {
    /// The system's generator: nobody can work them out.
    System,
    /// A seed, for tests and simulations.
    Seeded(SplitMix64),
}

impl Numbers {
    /// Numbers made of `seed`, others than those of another `salt`; without a seed the system's.
    pub(crate) fn new(seed: Option<u64>, salt: u64) -> Numbers {
        seed.map_or(Numbers::System, |seed| Numbers::Seeded(SplitMix64::new(seed ^ salt)))
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        match self {
            // Fails only where the kernel has no generator, and there is no safe way to go on.
            Numbers::System => getrandom::u64().expect("the system's generator of random numbers"),
            Numbers::Seeded(numbers) => numbers.bits(),
        }
    }
}
