//! The state that a control finds: fields and register cells, the same for both sides of a pair. Each case has a seed.
//! A value is made when it is first asked for, from the seed and its name.

use std::collections::BTreeMap;

use zsr_random::mix;

#[derive(Clone, Debug, Default)]
pub struct Inputs {
    pub seed: u64,
    /// Fields of `m` (without `m.`) that are not left to chance.
    pub fixed: BTreeMap<String, i128>,
}

impl Inputs {
    pub fn field(&self, path: &str, width: u32) -> i128 {
        self.fixed.get(path).copied().unwrap_or_else(|| self.value(hash(path), width))
    }

    /// A word of a register's cell. Each cell has its own, so that a wrong index is seen.
    pub fn cell(&self, name: &str, index: i128, width: u32) -> i128 {
        self.value(mix(hash(name) ^ mix(index as u64)), width)
    }

    /// Ends of the range, the sign, one number that several names share and its neighbours, or any number.
    fn value(&self, name: u64, width: u32) -> i128 {
        let own = mix(self.seed ^ name);
        let any = i128::from(mix(own));
        let shared = i128::from(mix(self.seed));
        let sign = 1 << (width - 1);
        let value = match own % 18 {
            0 => 0,
            1 => 1,
            2 => 2,
            3 => -1,
            4 => -2,
            5 => sign,
            6 => sign - 1,
            7..=9 => shared,
            10 => shared + 1,
            11 => shared - 1,
            12 => shared ^ 1,
            13 => shared + sign,
            14 => shared + sign - 1,
            15 => shared + 0x100,
            16 => !shared,
            _ => any,
        };
        value & ((1 << width) - 1)
    }
}

fn hash(name: &str) -> u64 {
    name.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)))
}
