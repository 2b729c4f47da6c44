//! Finding an entry by key: direct index, hash, longest prefix, rules by priority.

use super::flat::FlatMap;
use super::key::{KeyPlan, MAX_WORDS, Rule};
use crate::exec::plan::Slots;
use crate::info::MatchKind;

/// Up to so many rules are scanned; beyond, rules with the same mask share a hash.
const SCAN_LIMIT: usize = 12;
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

/// Rules with one mask, and the best priority among them.
#[derive(Clone, Debug)]
struct Group {
    mask: Vec<u64>,
    best: i64,
    /// Masked key to the number (plus 1) of the best rule with it.
    map: FlatMap,
}

/// A stored rule: its words, priority and entry number.
#[derive(Clone, Debug)]
struct Stored {
    rule: Rule,
    entry: u32,
    /// Of equal priorities the entry that came first wins.
    order: u64,
}

impl Stored {
    fn beats(&self, other: &Stored) -> bool {
        (self.rule.priority, other.order) > (other.rule.priority, self.order)
    }
}

/// Rules by priority. `rules` is sorted, best first, and scanned while short (or where ranges need it).
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    rules: Vec<Stored>,
    /// Value and mask words of `rules`, one after the other, for the scan.
    flat: Vec<u64>,
    groups: Vec<Group>,
    ranges: bool,
    order: u64,
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
            _ => {
                let ranges = plan.infos.iter().any(|k| k.kind == MatchKind::Range);
                Lookup::Rules(Rules { ranges, ..Rules::default() })
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

    pub(crate) fn insert(&mut self, rule: &Rule, entry: u32) {
        match self {
            Lookup::None => {}
            Lookup::Direct(list) => {
                if let Some(e) = list.get_mut(rule.value[0] as usize) {
                    *e = entry + 1;
                }
            }
            Lookup::Hash1(map) | Lookup::Hash(map) => map.insert(&rule.value, entry + 1),
            Lookup::Rules(rules) => rules.insert(rule, entry),
        }
    }

    pub(crate) fn remove(&mut self, rule: &Rule) {
        match self {
            Lookup::None => {}
            Lookup::Direct(list) => {
                if let Some(e) = list.get_mut(rule.value[0] as usize) {
                    *e = 0;
                }
            }
            Lookup::Hash1(map) | Lookup::Hash(map) => map.remove(&rule.value),
            Lookup::Rules(rules) => rules.remove(rule),
        }
    }
}

impl Rules {
    #[inline]
    fn find<const N: usize>(&self, plan: &KeyPlan, key: &[u64; N]) -> u32 {
        if !self.ranges && self.rules.len() > SCAN_LIMIT {
            return self.find_grouped(plan.words, key);
        }
        // With up to two words their number is known here, so that the comparison has no loop.
        let words = if N <= 2 { N } else { plan.words };
        for (i, w) in self.flat.chunks_exact(words * 2).enumerate() {
            let (value, mask) = w.split_at(words);
            let differ = value.iter().zip(mask).zip(key).fold(0, |d, ((v, m), k)| d | (k & m) ^ v);
            if differ == 0
                && let Some(stored) = self.rules.get(i)
                && (stored.rule.bounds.is_empty() || plan.within(key, &stored.rule.bounds))
            {
                return stored.entry + 1;
            }
        }
        0
    }

    fn find_grouped<const N: usize>(&self, words: usize, key: &[u64; N]) -> u32 {
        let mut found: Option<&Stored> = None;
        let mut masked = [0; N];
        for g in &self.groups {
            if found.is_some_and(|f| f.rule.priority > g.best) {
                break;
            }
            for ((to, k), m) in masked[..words].iter_mut().zip(key).zip(&g.mask) {
                *to = k & m;
            }
            let i = g.map.get(&masked);
            if i != 0
                && let Some(s) = self.rules.get(i as usize - 1)
                && found.is_none_or(|f| s.beats(f))
            {
                found = Some(s);
            }
        }
        found.map_or(0, |s| s.entry + 1)
    }

    fn insert(&mut self, rule: &Rule, entry: u32) {
        self.order += 1;
        let new = Stored { rule: rule.clone(), entry, order: self.order };
        if self.grouped() {
            // Rules are numbered in the groups, so they stay where they are.
            self.rules.push(new);
            self.group(self.rules.len() - 1);
            return;
        }
        let at = self.rules.partition_point(|s| s.beats(&new));
        self.rules.insert(at, new);
        self.rebuild();
    }

    fn grouped(&self) -> bool {
        !self.ranges && self.rules.len() > SCAN_LIMIT
    }

    fn remove(&mut self, rule: &Rule) {
        let Some(i) = self.rules.iter().position(|s| s.rule == *rule) else { return };
        if !self.grouped() || self.rules.len() == SCAN_LIMIT + 1 {
            self.rules.remove(i);
            self.rules.sort_by_key(|s| (std::cmp::Reverse(s.rule.priority), s.order));
            self.rebuild();
            return;
        }
        let last = self.rules.len() - 1;
        let moved = self.rules[last].rule.clone();
        self.rules.swap_remove(i);
        self.regroup(rule);
        if i != last {
            self.regroup(&moved);
        }
    }

    /// Recomputes what a group says about one masked key.
    fn regroup(&mut self, rule: &Rule) {
        let same = |s: &Stored| s.rule.mask == rule.mask;
        let best = (0..self.rules.len())
            .filter(|&i| same(&self.rules[i]) && self.rules[i].rule.value == rule.value)
            .reduce(|a, b| if self.rules[b].beats(&self.rules[a]) { b } else { a });
        let top = self.rules.iter().filter(|s| same(s)).map(|s| s.rule.priority).max();
        let Some(at) = self.groups.iter().position(|g| g.mask == rule.mask) else { return };
        match best {
            Some(i) => self.groups[at].map.insert(&rule.value, i as u32 + 1),
            None => self.groups[at].map.remove(&rule.value),
        }
        match top {
            Some(best) => self.groups[at].best = best,
            None => drop(self.groups.remove(at)),
        }
        self.groups.sort_by_key(|g| std::cmp::Reverse(g.best));
    }

    /// Adds rule number `i` to its group.
    fn group(&mut self, i: usize) {
        let (value, mask, priority) = {
            let r = &self.rules[i].rule;
            (r.value.clone(), r.mask.clone(), r.priority)
        };
        let at = self.groups.iter().position(|g| g.mask == mask).unwrap_or_else(|| {
            let map = FlatMap::new(value.len(), 16);
            self.groups.push(Group { mask, best: priority, map });
            self.groups.len() - 1
        });
        let held = self.groups[at].map.get(&value);
        if held == 0 || self.rules[i].beats(&self.rules[held as usize - 1]) {
            self.groups[at].map.insert(&value, i as u32 + 1);
        }
        self.groups[at].best = self.groups[at].best.max(priority);
        self.groups.sort_by_key(|g| std::cmp::Reverse(g.best));
    }

    fn rebuild(&mut self) {
        self.flat.clear();
        self.groups.clear();
        if self.grouped() {
            for i in 0..self.rules.len() {
                self.group(i);
            }
            return;
        }
        for s in &self.rules {
            self.flat.extend(&s.rule.value);
            self.flat.extend(&s.rule.mask);
        }
    }
}
