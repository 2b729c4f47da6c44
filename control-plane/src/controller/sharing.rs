//! How much of a switch each flow gets: the law by which weights become rates. Pure; [`super::shares`] measures and writes.
//!
//! Flows that want more than they get share what there is in proportion to their weights, whatever it is that they compete
//! for: a link, a NIC, the processor of a software switch. All of them are held to `unit * weight`. As long as they reach
//! that, the unit grows; when they do not, the sum of what they reach is what there is, and the unit is its weighted part.

use std::collections::{BTreeMap, HashMap};

/// What all rates together, and each, may fall short of their limits and still count as reaching them.
const ALL_REACHED: f64 = 0.98;
const REACHED: f64 = 0.9;
/// Limits are that much above the exact parts, so that capacity that comes free is noticed.
const MARGIN: f64 = 1.005;
/// How fast the unit grows at first and at most, per step; it doubles in between.
const GROWTH: (f64, f64) = (0.005, 0.25);
/// A new measurement of what there is counts that much, unless it is far off.
const BLEND: f64 = 0.3;
/// When a measurement is far off, as a part.
const FAR: f64 = 0.1;
/// When holding others back for a flow has cost that much and it does not take what is left, something else limits it.
const WASTE: f64 = 0.8;
/// How much more it would have to move to show that it was for its good.
const GAIN: f64 = 1.1;
/// For how many steps it then takes no part.
const APART: u32 = 20;

/// A flow since the step before.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Its name.
    pub flow: String,
    /// Its weight.
    pub weight: u32,
    /// What it moved, bytes per second.
    pub rate: f64,
    /// Whether it would move more: its producers have items, and its consumers room.
    pub hungry: bool,
    /// A rate cap of its own, bytes per second.
    pub cap: Option<f64>,
}

/// Limits, and what is remembered from step to step.
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    /// Bytes per second and weight; 0 while nobody competes.
    unit: f64,
    growth: f64,
    /// What there is, as far as is known: what all moved together when one did not reach its limit.
    capacity: f64,
    /// The most that those who compete moved together.
    best: f64,
    /// Those that compete: their weights, and their rates when they began to.
    competing: BTreeMap<String, (u32, f64)>,
    /// Those that something else limits, with the steps until they are tried again.
    apart: HashMap<String, u32>,
}

impl Sharing {
    /// What each flow may move, in bytes per second, until the next step; flows that are left out are not limited.
    pub fn step(&mut self, demands: &[Demand]) -> BTreeMap<String, f64> {
        self.apart.retain(|_, steps| {
            *steps -= 1;
            *steps > 0
        });
        if let Some(slow) = self.compete(demands) {
            self.apart.insert(slow, APART);
            self.competing.clear();
            self.compete(demands);
        }
        self.competing
            .iter()
            .map(|(flow, &(weight, _))| (flow.clone(), self.unit * f64::from(weight)))
            .collect()
    }

    /// One step; names a flow that does not take what it is left.
    fn compete(&mut self, demands: &[Demand]) -> Option<String> {
        let unit = self.unit;
        let takes_part = |d: &&Demand| {
            let free = d.cap.is_none_or(|cap| unit == 0.0 || cap > unit * f64::from(d.weight));
            d.hungry && free && !self.apart.contains_key(&d.flow)
        };
        let here: Vec<&Demand> = demands.iter().filter(takes_part).collect();
        let same = here.len() == self.competing.len()
            && here
                .iter()
                .all(|d| self.competing.get(&d.flow).is_some_and(|(weight, _)| *weight == d.weight));
        let total: f64 = here.iter().map(|d| d.rate).sum();
        let weights: f64 = here.iter().map(|d| f64::from(d.weight)).sum();
        if here.len() < 2 || total <= 0.0 {
            *self = Sharing { apart: std::mem::take(&mut self.apart), ..Default::default() };
            return None;
        }
        if !same {
            // Who leaves leaves its part to the others, who comes gets one: what there is has not changed.
            self.capacity = self.capacity.max(total);
            self.unit = self.capacity / weights * MARGIN;
            (self.growth, self.best) = (GROWTH.0, total);
            self.competing = here.iter().map(|d| (d.flow.clone(), (d.weight, d.rate))).collect();
            return None;
        }
        self.best = total.max(self.best);
        if total >= ALL_REACHED * unit * weights {
            self.unit *= 1.0 + self.growth;
            self.growth = (2.0 * self.growth).min(GROWTH.1);
            return None;
        }
        self.growth = GROWTH.0;
        let gained = |d: &Demand| d.rate > GAIN * self.competing[&d.flow].1;
        let falls_short = |d: &&&Demand| d.rate < REACHED * unit * f64::from(d.weight);
        let short: Vec<&&Demand> = here.iter().filter(falls_short).collect();
        if let Some(slow) = short.iter().find(|d| !gained(d))
            && total < WASTE * self.best
            && short.len() < here.len()
        {
            return Some(slow.flow.clone());
        }
        self.capacity = total;
        let wanted = total / weights * MARGIN;
        let far = (wanted - unit).abs() > FAR * unit;
        self.unit = if far { wanted } else { unit + BLEND * (wanted - unit) };
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Flows in a system that has `capacity` for all, shared evenly as far as limits go, and what else limits each.
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

        /// Everyone gets the same, but no more than its limits.
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
        plant.steps(2);
        assert!(plant.off() < 0.05, "{:?}", plant.rates);
        plant.capacity = 1e9;
        plant.steps(10);
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
        assert!((limits["b"] / 4.95e8 - 1.0).abs() < 0.05, "{limits:?}");
    }
}
