//! How much of a switch each flow gets: the law by which weights become rates. Pure; the controller's `tuning::shares`
//! measures and writes.
//!
//! Flows that want more than they get share the capacity in proportion to their weights, whatever they compete for: a
//! link, a NIC, the processor of a software switch. All of them are limited to `unit * weight`. The heaviest flows show
//! which flows are squeezed. As long as these get as much for their weight as the others, the unit grows; when they get
//! less, it shrinks.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// The part of its limit at which a flow counts as reaching it.
const REACHED: f64 = 0.9;
/// The rate of the heaviest flows for each weight, against that of the others, at the best limits. It is a little less
/// than equal: if it were equal, nobody could tell that the capacity is used up. Above the second value, the others are
/// the squeezed ones.
const EVEN: f64 = 0.97;
const TURNED: f64 = 1.15;
/// How fast limits follow the difference from that.
const GAIN_OF_LAW: f64 = 0.6;
/// The weight of a new measurement beside those before it, unless it differs from them by the second value.
const FRESH: f64 = 0.5;
const ANOTHER: f64 = 0.15;
/// Limits are above the exact parts by this factor, so that capacity that comes free is noticed.
const MARGIN: f64 = 1.005;
/// How fast the unit grows at first and at most, per step; it gains by half in between.
const GROWTH: (f64, f64) = (0.01, 0.1);
/// The factor by which limits exceed the rates that are reached, at most.
const BEYOND: f64 = 1.5;
/// Limiting others for a flow may be in vain: all together move less than this part of their recent rate, and the flow
/// does not gain by this factor. After this number of steps, another cause limits the flow.
const WASTE: f64 = 0.8;
const GAIN: f64 = 1.1;
const IN_VAIN: u32 = 3;
/// The number of steps for which such a flow takes no part.
const APART: u32 = 20;
/// The number of recent steps.
const LATELY: usize = 8;
/// No flow is limited to less than this part of the rate that its weight would have given it recently: a law that errs
/// must not starve.
const FLOOR: f64 = 0.5;

/// A flow since the step before.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// The flow's name.
    pub flow: String,
    /// The flow's weight.
    pub weight: u32,
    /// The flow's rate, bytes per second.
    pub rate: f64,
    /// Whether the flow would move more: its producers have items, and its consumers room.
    pub hungry: bool,
    /// The flow's own rate cap, bytes per second.
    pub cap: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Competitor {
    weight: u32,
    /// The flow's rate when it began to compete.
    first: f64,
    /// The flow's rate, averaged.
    rate: f64,
}

impl Competitor {
    /// The part of its limit that the flow reaches.
    fn reached(&self, unit: f64) -> f64 {
        (self.rate / (unit * f64::from(self.weight))).min(1.0)
    }
}

/// Limits, and the state that is kept from step to step.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    /// Bytes per second and weight; 0 while nobody competes.
    unit: f64,
    growth: f64,
    /// The known capacity: the rate of all flows together when one did not reach its limit.
    capacity: f64,
    /// The recent rates of all competing flows together.
    totals: VecDeque<f64>,
    /// The number of steps for which limiting others was in vain.
    in_vain: u32,
    /// Flows that compete.
    competing: BTreeMap<String, Competitor>,
    /// Flows that another cause limits, with the steps until they are tried again.
    apart: HashMap<String, u32>,
}

impl Sharing {
    /// The limit of each flow, in bytes per second, until the next step; flows that are left out are not limited.
    pub fn step(&mut self, demands: &[Demand]) -> BTreeMap<String, f64> {
        self.apart.retain(|_, steps| {
            *steps -= 1;
            *steps > 0
        });
        if let Some(slow) = self.compete(demands) {
            self.apart.insert(slow, APART);
            // The others could have the capacity from before they were limited.
            self.capacity = self.most();
            self.competing.clear();
            self.compete(demands);
        }
        self.competing.iter().map(|(flow, c)| (flow.clone(), self.unit * f64::from(c.weight))).collect()
    }

    /// A single step; returns a flow that does not take the rate that is left for it.
    fn compete(&mut self, demands: &[Demand]) -> Option<String> {
        let unit = self.unit;
        let takes_part = |d: &&Demand| {
            let free = d.cap.is_none_or(|cap| unit == 0.0 || cap > unit * f64::from(d.weight));
            d.hungry && free && !self.apart.contains_key(&d.flow)
        };
        let here: Vec<&Demand> = demands.iter().filter(takes_part).collect();
        let same = here.len() == self.competing.len()
            && here.iter().all(|d| self.competing.get(&d.flow).is_some_and(|c| c.weight == d.weight));
        let total: f64 = here.iter().map(|d| d.rate).sum();
        let weights: f64 = here.iter().map(|d| f64::from(d.weight)).sum();
        if here.len() < 2 || total <= 0.0 {
            *self = Sharing { apart: std::mem::take(&mut self.apart), ..Default::default() };
            return None;
        }
        if !same {
            // A flow that leaves gives its part to the others, a flow that comes gets one: the capacity has not
            // changed.
            self.capacity = self.capacity.max(total);
            self.unit = self.capacity / weights * MARGIN;
            self.begin(&here, total);
            return None;
        }
        self.totals.push_back(total);
        if self.totals.len() > LATELY {
            self.totals.pop_front();
        }
        self.adapt(&here, total, weights)
    }

    fn begin(&mut self, here: &[&Demand], total: f64) {
        (self.growth, self.in_vain) = (GROWTH.0, 0);
        self.totals = VecDeque::from([total]);
        let competitor = |d: &&Demand| Competitor { weight: d.weight, first: d.rate, rate: d.rate };
        self.competing = here.iter().map(|d| (d.flow.clone(), competitor(d))).collect();
    }

    /// The most that was moved lately.
    fn most(&self) -> f64 {
        self.totals.iter().copied().fold(0.0, f64::max)
    }

    /// Adapts the unit to the rates of flows that competed before. Returns a flow that does not take its rate.
    fn adapt(&mut self, here: &[&Demand], total: f64, weights: f64) -> Option<String> {
        let unit = self.unit;
        let heaviest = here.iter().map(|d| d.weight).max().unwrap_or(1);
        // Of the heaviest, and of the others: sums of rates, of weights.
        let (mut heavy, mut light, mut best) = ([0.0; 2], [0.0; 2], 0.0f64);
        for d in here {
            let Some(c) = self.competing.get_mut(&d.flow) else { continue };
            let near = (d.rate - c.rate).abs() < ANOTHER * c.rate;
            c.rate = if near { c.rate + FRESH * (d.rate - c.rate) } else { d.rate };
            best = best.max(c.reached(unit));
            let side = if d.weight == heaviest { &mut heavy } else { &mut light };
            *side = [side[0] + c.rate, side[1] + f64::from(d.weight)];
        }
        let ratio = (heavy[0] * light[1]) / (heavy[1] * light[0]).max(1.0);
        let even = match ratio {
            _ if light[1] == 0.0 => 1.0,
            ratio if ratio > TURNED => 1.0 / ratio,
            ratio => ratio.min(1.0),
        };
        if even >= EVEN {
            let growth = (GAIN_OF_LAW * (even - EVEN)).max(self.growth - GROWTH.0);
            self.unit = (unit * (1.0 + growth)).min((BEYOND * total / weights).max(unit));
            self.growth = (1.5 * self.growth).min(GROWTH.1);
            self.in_vain = 0;
            return None;
        }
        self.growth = GROWTH.0;
        self.capacity = total;
        if best < REACHED {
            // Limits do not hold the flows: there is less capacity than before. Nobody knows for how long, so a machine
            // that was busy with other work for a moment is not taken at its word.
            self.unit = unit.min(self.most() / weights / REACHED);
            for d in here {
                if let Some(c) = self.competing.get_mut(&d.flow) {
                    c.first = d.rate;
                }
            }
            return None;
        }
        let short = |d: &&&Demand| {
            self.competing.get(&d.flow).is_some_and(|c| c.reached(unit) < REACHED && d.rate < GAIN * c.first)
        };
        let slow = here.iter().find(short).filter(|_| total < WASTE * self.most());
        let slow = slow.map(|d| d.flow.clone());
        self.in_vain = if slow.is_some() { self.in_vain + 1 } else { 0 };
        if self.in_vain >= IN_VAIN {
            return slow;
        }
        let shrunk = unit * (1.0 - GAIN_OF_LAW * (EVEN - even));
        self.unit = shrunk.max(FLOOR * self.most() / weights);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flows in a system with `capacity` for all, shared evenly as far as limits allow, and other limits of each flow.
    struct Plant {
        capacity: f64,
        flows: Vec<(u32, f64)>,
        rates: Vec<f64>,
        law: Sharing,
    }

    impl Plant {
        fn new(capacity: f64, flows: &[(u32, f64)]) -> Self {
            let mut plant =
                Plant { capacity, flows: flows.to_vec(), rates: Vec::new(), law: Sharing::default() };
            plant.share(&BTreeMap::new());
            plant
        }

        /// All flows get the same rate, but no more than their limits.
        fn share(&mut self, limits: &BTreeMap<String, f64>) {
            let most =
                |n: usize| self.flows[n].1.min(limits.get(&n.to_string()).copied().unwrap_or(f64::MAX));
            let mut order: Vec<usize> = (0..self.flows.len()).collect();
            order.sort_by(|&a, &b| most(a).total_cmp(&most(b)));
            let mut rates = vec![0.0; order.len()];
            let mut left = self.capacity;
            for (done, &n) in order.iter().enumerate() {
                rates[n] = most(n).min(left / (order.len() - done) as f64);
                left -= rates[n];
            }
            self.rates = rates;
        }

        fn steps(&mut self, steps: usize) {
            for _ in 0..steps {
                let demand = |(n, &(weight, _)): (usize, &(u32, f64))| Demand {
                    flow: n.to_string(),
                    weight,
                    rate: self.rates[n],
                    hungry: true,
                    cap: None,
                };
                let demands: Vec<Demand> = self.flows.iter().enumerate().map(demand).collect();
                let limits = self.law.step(&demands);
                self.share(&limits);
            }
        }

        /// How far the parts are from those by weight, at most.
        fn off(&self) -> f64 {
            let weights: f64 = self.flows.iter().map(|f| f64::from(f.0)).sum();
            let exact = |n: usize| self.capacity * f64::from(self.flows[n].0) / weights;
            (0..self.rates.len()).map(|n| (self.rates[n] / exact(n) - 1.0).abs()).fold(0.0, f64::max)
        }
    }

    const FREE: f64 = f64::MAX;

    #[test]
    fn parts_are_those_by_weight_after_one_step_and_stay_so() {
        for weights in [&[1, 2, 4][..], &[1, 1], &[1, 1000], &[20, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]] {
            let flows: Vec<_> = weights.iter().map(|&w| (w, FREE)).collect();
            let mut plant = Plant::new(1e9, &flows);
            for _ in 0..100 {
                plant.steps(1);
                assert!(plant.off() < 0.05, "{weights:?}: {:?}", plant.rates);
            }
        }
    }

    #[test]
    fn another_weight_and_another_capacity_count_at_once() {
        let mut plant = Plant::new(1e9, &[(1, FREE), (2, FREE)]);
        plant.steps(10);
        plant.flows[0].0 = 4;
        plant.steps(1);
        assert!(plant.off() < 0.05, "{:?}", plant.rates);
        plant.capacity = 3e8;
        plant.steps(15);
        assert!(plant.off() < 0.05, "{:?}", plant.rates);
        plant.capacity = 1e9;
        plant.steps(50);
        assert!(plant.off() < 0.05, "{:?}", plant.rates);
    }

    #[test]
    fn a_flow_that_leaves_leaves_its_part_to_the_others() {
        let mut plant = Plant::new(1e9, &[(1, FREE), (2, FREE), (5, FREE)]);
        plant.steps(10);
        plant.flows.pop();
        plant.rates.pop();
        plant.steps(1);
        assert!(plant.off() < 0.05, "{:?}", plant.rates);
        plant.flows.pop();
        plant.rates.pop();
        plant.steps(1);
        assert_eq!(plant.rates, [1e9], "alone, it is not limited");
    }

    #[test]
    fn nobody_waits_for_a_flow_that_something_else_limits() {
        // The first one's own link has a hundredth of what the switch has.
        let mut plant = Plant::new(1e9, &[(4, 1e7), (1, FREE), (2, FREE)]);
        let mut moved = 0.0;
        for _ in 0..100 {
            plant.steps(1);
            moved += plant.rates.iter().sum::<f64>();
        }
        assert!(moved > 0.85 * 100.0 * 1e9, "{moved}");
        assert!((plant.rates[2] / plant.rates[1] - 2.0).abs() < 0.1, "{:?}", plant.rates);
    }

    #[test]
    fn on_a_restless_machine_parts_are_right_on_average_and_little_is_lost() {
        for seed in 1..=20u64 {
            let mut plant = Plant::new(1e9, &[(4, FREE), (2, FREE), (1, FREE)]);
            let (mut moved, mut there) = ([0.0; 3], 0.0);
            let mut random = seed;
            for step in 0..200 {
                // xorshift; the capacity jumps by up to a fifth, and the rate of a flow by up to a tenth.
                let mut dice = || {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    (random >> 11) as f64 / (1u64 << 53) as f64
                };
                plant.capacity = 1e9 * (0.8 + 0.2 * dice());
                let noise: Vec<f64> = (0..3).map(|_| 0.9 + 0.1 * dice()).collect();
                plant.steps(1);
                plant.rates.iter_mut().zip(noise).for_each(|(rate, n)| *rate *= n);
                if step >= 20 {
                    moved.iter_mut().zip(&plant.rates).for_each(|(m, r)| *m += r);
                    there += plant.capacity;
                }
            }
            let total: f64 = moved.iter().sum();
            assert!(total > 0.8 * there, "seed {seed}: {} of what there was", total / there);
            for (moved, weight) in moved.iter().zip([4.0, 2.0, 1.0]) {
                let off = moved / (total * weight / 7.0) - 1.0;
                assert!(off.abs() < 0.15, "seed {seed}: weight {weight} is off by {off}");
            }
        }
    }

    #[test]
    fn own_caps_hold_and_their_rest_goes_to_the_others() {
        let mut law = Sharing::default();
        let demand = |flow: &str, rate, cap| Demand { flow: flow.into(), weight: 1, rate, hungry: true, cap };
        let mut rates: [f64; 3] = [1e7, 4.5e8, 5.4e8];
        let mut limits = BTreeMap::new();
        for _ in 0..10 {
            let demands =
                [demand("a", rates[0], Some(1e7)), demand("b", rates[1], None), demand("c", rates[2], None)];
            limits = law.step(&demands);
            let half: f64 = (1e9 - 1e7) / 2.0;
            rates = [1e7, half.min(limits["b"]), half.min(limits["c"])];
        }
        assert!(!limits.contains_key("a"));
        assert!(limits["b"] >= 4.9e8 && limits["b"] == limits["c"], "{limits:?}");
    }
}
