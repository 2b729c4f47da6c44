//! Functions that parse bytes of others, each for any bytes: they must not panic, hang, or break their guarantees.
//! `fuzz/` runs them without end, and `tests/tests/all/fuzz.rs` on damaged copies of sound input.

mod files;
mod packets;
mod programs;
mod records;
mod rings;
mod seeds;
mod services;

pub use files::{capture, journal, p4info, program, topology};
pub use packets::switch;
pub use programs::{ATTACH, programs};
pub use records::records;
pub use rings::{rings, segments};
pub use seeds::{seeds, write_seeds};
pub use services::{agent, controller, p4runtime};

use zsr_random::XorShift64Star;

/// Makes damaged copies of sound input: bytes changed, left out, repeated, put in, from a seed.
#[derive(Debug)]
pub struct Damage(XorShift64Star);

impl Damage {
    /// The same seed makes the same damage.
    pub fn new(seed: u64) -> Damage {
        Damage(XorShift64Star::new(seed.wrapping_mul(2).wrapping_add(1)))
    }

    fn below(&mut self, n: usize) -> usize {
        (self.0.bits() >> 33) as usize % n.max(1)
    }

    /// A damaged copy.
    pub fn of(&mut self, sound: &[u8]) -> Vec<u8> {
        let mut bytes = sound.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            let end = (at + self.below(16)).min(bytes.len());
            match self.below(6) {
                0 => drop(bytes.drain(at..end)),
                1 => {
                    let again = bytes[at..end].to_vec();
                    bytes.splice(at..at, again);
                }
                2 => bytes.truncate(at),
                3 => bytes.insert(at, self.below(256) as u8),
                // Where numbers are, extremes are worth more than chance.
                4 => bytes[at..end].fill([0, 0xff, 0x80, b'9'][self.below(4)]),
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << self.below(8);
                    }
                }
            }
        }
        bytes
    }
}
