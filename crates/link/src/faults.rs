//! What a bad link does to frames, decided by a seed.

use thiserror::Error;
use zsr_wire::{Frame, FramePool};

use zsr_random::SplitMix64 as Rng;

/// How often things go wrong in one direction; each a probability from 0 to 1 per frame.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct FaultRates {
    /// The frame vanishes.
    pub loss: f64,
    /// The frame arrives twice.
    pub duplicate: f64,
    /// The frame is held back by up to `reorder_ns`, so that later ones overtake it.
    pub reorder: f64,
    /// Longest time that a reordered frame is held back, in nanoseconds.
    pub reorder_ns: u64,
    /// One to three bits of the frame are flipped.
    pub corrupt: f64,
    /// Least time that every frame is delayed by, in nanoseconds.
    pub delay_ns: u64,
    /// Most additional time, random, in nanoseconds. Frames overtake each other if this is more than their distance.
    pub jitter_ns: u64,
}

impl FaultRates {
    /// Nothing goes wrong.
    pub const NONE: FaultRates = FaultRates {
        loss: 0.0,
        duplicate: 0.0,
        reorder: 0.0,
        reorder_ns: 0,
        corrupt: 0.0,
        delay_ns: 0,
        jitter_ns: 0,
    };

    /// The same rate of loss, duplication, reordering (by up to `reorder_ns`) and corruption.
    pub const fn all(rate: f64, reorder_ns: u64) -> FaultRates {
        FaultRates {
            loss: rate,
            duplicate: rate,
            reorder: rate,
            reorder_ns,
            corrupt: rate,
            ..FaultRates::NONE
        }
    }
}

/// Rates that can't be.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum FaultError {
    /// A probability is out of range.
    #[error("fault rate {name} is {value}: expected a probability from 0 to 1")]
    Rate {
        /// Which one.
        name: &'static str,
        /// The value given.
        value: f64,
    },
}

/// What has gone wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultStats {
    /// Frames looked at.
    pub frames: u64,
    /// Of these lost.
    pub lost: u64,
    /// Of these duplicated.
    pub duplicated: u64,
    /// Of these held back.
    pub reordered: u64,
    /// Of these damaged.
    pub corrupted: u64,
}

/// What becomes of a frame: nothing, or its arrival after a delay, perhaps with a copy after another.
#[derive(Debug)]
pub enum Verdict {
    /// It is lost; its buffer is back in the pool.
    Lost,
    /// It arrives.
    Arrives {
        /// The frame, perhaps damaged.
        frame: Frame,
        /// Nanoseconds until it arrives, on top of the link's own.
        delay_ns: u64,
        /// A second copy and its delay.
        copy: Option<(Frame, u64)>,
    },
}

/// The faults of one direction of a link.
#[derive(Debug, Clone)]
pub struct Faults {
    rates: FaultRates,
    rng: Rng,
    stats: FaultStats,
}

impl Faults {
    /// Faults at these rates; the same seed and the same frames give the same faults.
    pub fn new(rates: FaultRates, seed: u64) -> Result<Faults, FaultError> {
        for (name, value) in [
            ("loss", rates.loss),
            ("duplicate", rates.duplicate),
            ("reorder", rates.reorder),
            ("corrupt", rates.corrupt),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return Err(FaultError::Rate { name, value });
            }
        }
        Ok(Faults { rates, rng: Rng::new(seed), stats: FaultStats::default() })
    }

    /// What has gone wrong so far.
    pub fn stats(&self) -> &FaultStats {
        &self.stats
    }

    /// Decides about one frame. Buffers for copies come from `pool`.
    pub fn decide(&mut self, mut frame: Frame, pool: &mut FramePool) -> Verdict {
        self.stats.frames += 1;
        if self.rng.chance(self.rates.loss) {
            self.stats.lost += 1;
            pool.put(frame);
            return Verdict::Lost;
        }
        let copy = if self.rng.chance(self.rates.duplicate) {
            self.stats.duplicated += 1;
            let mut copy = pool.take();
            copy.append(frame.bytes());
            Some((copy, self.delay()))
        } else {
            None
        };
        // After copying: of a duplicated frame, one may be damaged and the other not.
        if self.rng.chance(self.rates.corrupt) && !frame.is_empty() {
            self.stats.corrupted += 1;
            for _ in 0..1 + self.rng.below(3) {
                let at = self.rng.below(frame.len() as u64) as usize;
                let bit = self.rng.below(8);
                frame.bytes_mut()[at] ^= 1 << bit;
            }
        }
        let delay_ns = self.delay();
        Verdict::Arrives { frame, delay_ns, copy }
    }

    fn delay(&mut self) -> u64 {
        let rates = self.rates;
        let mut delay = rates.delay_ns.saturating_add(self.rng.below(rates.jitter_ns.saturating_add(1)));
        if self.rng.chance(rates.reorder) {
            self.stats.reordered += 1;
            delay = delay.saturating_add(1 + self.rng.below(rates.reorder_ns));
        }
        delay
    }
}
