//! Finding an entry by key: direct index, hash, longest prefix, rules by priority.

use super::flat::FlatMap;
use super::key::{KeyPlan, MAX_WORDS, Rule};
use super::rules::Rules;
use crate::exec::plan::Slots;
use crate::info::MatchKind;

/// Exact keys of up to so many bits are an array index.
const DIRECT_BITS: u32 = 16;

/// Whether all fields of a key are matched exactly.
pub(crate) fn is_exact(plan: &KeyPlan) -> bool {
    plan.infos.iter().all(|k| k.kind == MatchKind::Exact)
}

/// Whether a table with such a key has a direct index.
pub(crate) fn is_direct(plan: &KeyPlan) -> bool {
    plan.words == 1 && plan.bits <= DIRECT_BITS && is_exact(plan)
}

/// The search structure of a table.
#[derive(Clone, Debug)]
pub(crate) enum Lookup {
    /// No key: always a miss.
    None,
    /// Entry number plus 1 by key.
    Direct(Vec<u32>),
    /// By a hash of one word.
    Hash1(FlatMap),
    /// Several words.
    Hash(FlatMap),
    Rules(Rules),
}

impl Lookup {
    pub(crate) fn new(plan: &KeyPlan, size: usize) -> Lookup {
        let exact = is_exact(plan);
        match plan.words {
            0 => Lookup::None,
            1 if is_direct(plan) => Lookup::Direct(vec![0; 1 << plan.bits]),
            1 if exact => Lookup::Hash1(FlatMap::new(1, size.min(1024))),
            words if exact => Lookup::Hash(FlatMap::new(words, size.min(1024))),
            words => {
                let ranges = plan.infos.iter().any(|k| k.kind == MatchKind::Range);
                Lookup::Rules(Rules::new(words, ranges))
            }
        }
    }

    /// The number plus 1 of the entry that matches, 0 for a miss.
    #[inline]
    pub(crate) fn find(&self, plan: &KeyPlan, slots: &Slots) -> u32 {
        match self {
            Lookup::None => 0,
            Lookup::Direct(list) => list.get(plan.one_word(slots) as usize).copied().unwrap_or(0),
            Lookup::Hash1(map) => map.get1(plan.one_word(slots)),
            Lookup::Hash(map) if plan.words <= 2 => map.get(&plan.gather::<2>(slots)),
            Lookup::Hash(map) if plan.words <= 4 => map.get(&plan.gather::<4>(slots)),
            Lookup::Hash(map) => map.get(&plan.gather::<MAX_WORDS>(slots)),
            Lookup::Rules(rules) => match plan.words {
                1 => rules.find(plan, &[plan.one_word(slots)]),
                2 => rules.find(plan, &plan.gather::<2>(slots)),
                3 | 4 => rules.find(plan, &plan.gather::<4>(slots)),
                _ => rules.find(plan, &plan.gather::<MAX_WORDS>(slots)),
            },
        }
    }

    /// [`find`](Self::find) of a key of one word.
    #[inline]
    pub(crate) fn find_word<'p>(&self, plan: impl Fn() -> &'p KeyPlan, key: u64) -> u32 {
        match self {
            Lookup::Direct(list) => list.get(key as usize).copied().unwrap_or(0),
            Lookup::Hash1(map) => map.get1(key),
            Lookup::Rules(rules) => rules.find(plan(), &[key]),
            Lookup::None | Lookup::Hash(_) => 0,
        }
    }

    /// [`find`](Self::find) of a key of two words.
    #[inline]
    pub(crate) fn find_pair<'p>(&self, plan: impl Fn() -> &'p KeyPlan, key: [u64; 2]) -> u32 {
        match self {
            Lookup::Hash(map) => map.get2(key),
            Lookup::Rules(rules) => rules.find(plan(), &key),
            Lookup::None | Lookup::Direct(_) | Lookup::Hash1(_) => 0,
        }
    }

    /// The slot of the entry with this very rule.
    pub(crate) fn slot(&self, rule: &Rule) -> Option<u32> {
        match self {
            Lookup::None => None,
            Lookup::Direct(list) => list.get(rule.value[0] as usize)?.checked_sub(1),
            Lookup::Hash1(map) | Lookup::Hash(map) => map.get(&rule.value).checked_sub(1),
            Lookup::Rules(rules) => rules.slot(rule),
        }
    }

    /// Adds the entry in `slot`; none has its rule.
    pub(crate) fn insert(&mut self, rule: Rule, slot: u32) {
        match self {
            Lookup::None => {}
            Lookup::Direct(list) => {
                if let Some(e) = list.get_mut(rule.value[0] as usize) {
                    *e = slot + 1;
                }
            }
            Lookup::Hash1(map) | Lookup::Hash(map) => map.insert(&rule.value, slot + 1),
            Lookup::Rules(rules) => rules.insert(rule, slot),
        }
    }

    /// Takes out the entry in `slot`, whose rule this is.
    pub(crate) fn remove(&mut self, rule: &Rule, slot: u32) {
        match self {
            Lookup::None => {}
            Lookup::Direct(list) => {
                if let Some(e) = list.get_mut(rule.value[0] as usize) {
                    *e = 0;
                }
            }
            Lookup::Hash1(map) | Lookup::Hash(map) => map.remove(&rule.value),
            Lookup::Rules(rules) => rules.remove(slot),
        }
    }
}
