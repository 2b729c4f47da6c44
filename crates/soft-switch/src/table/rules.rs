//! Rules by priority: a scan of few, a hash for each mask of many.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

use super::flat::FlatMap;
use super::key::{KeyPlan, Rule};

/// Up to so many rules are scanned; beyond, rules with the same mask share a hash.
const SCAN_LIMIT: usize = 12;

/// A rule of the table's entry in one slot.
#[derive(Clone, Debug)]
struct Stored {
    rule: Rule,
    /// Of equal priorities the entry that came first wins.
    order: u64,
    /// Slot plus 1 of the next best rule with the same mask and value, 0 for none. Rules that are scanned have none.
    next: u32,
}

impl Stored {
    fn beats(&self, other: &Stored) -> bool {
        (self.rule.priority, other.order) > (other.rule.priority, self.order)
    }
}

/// Rules with one mask.
#[derive(Clone, Debug)]
struct Group {
    mask: Box<[u64]>,
    /// The best priority among them.
    best: i64,
    /// How many rules have which priority.
    priorities: BTreeMap<i64, u32>,
    /// Masked key to the slot (plus 1) of the best rule with it.
    map: FlatMap,
}

/// Rules by priority.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    words: usize,
    /// Ranges are always scanned.
    ranges: bool,
    stored: Vec<Option<Stored>>,
    /// The slots, by hash of the rule.
    index: HashTable<u32>,
    hasher: RandomState,
    order: u64,
    /// Slots of the rules that are scanned, best first, and the value and mask words of each.
    scanned: Vec<u32>,
    flat: Vec<u64>,
    /// The one with the best priority first.
    groups: Vec<Group>,
}

impl Rules {
    pub(crate) fn new(words: usize, ranges: bool) -> Rules {
        Rules {
            words,
            ranges,
            stored: Vec::new(),
            index: HashTable::new(),
            hasher: RandomState::new(),
            order: 0,
            scanned: Vec::new(),
            flat: Vec::new(),
            groups: Vec::new(),
        }
    }

    /// The slot plus 1 of the best rule that a key matches, 0 if none does.
    #[inline]
    pub(crate) fn find<const N: usize>(&self, plan: &KeyPlan, key: &[u64; N]) -> u32 {
        if self.is_grouped() {
            return self.find_grouped(plan.words, key);
        }
        // With up to two words their number is known here, so that the comparison has no loop.
        let words = if N <= 2 { N } else { plan.words };
        for (w, &slot) in self.flat.chunks_exact(words * 2).zip(&self.scanned) {
            let (value, mask) = w.split_at(words);
            let differ = value.iter().zip(mask).zip(key).fold(0, |d, ((v, m), k)| d | (k & m) ^ v);
            if differ == 0 && (!self.ranges || self.is_within(plan, key, slot)) {
                return slot + 1;
            }
        }
        0
    }

    fn is_within(&self, plan: &KeyPlan, key: &[u64], slot: u32) -> bool {
        self.at(slot).is_some_and(|stored| plan.within(key, &stored.rule.bounds))
    }

    fn find_grouped<const N: usize>(&self, words: usize, key: &[u64; N]) -> u32 {
        let mut found: Option<(u32, &Stored)> = None;
        let mut masked = [0; N];
        for g in &self.groups {
            if found.is_some_and(|(_, f)| f.rule.priority > g.best) {
                break;
            }
            for ((to, k), m) in masked[..words].iter_mut().zip(key).zip(&g.mask) {
                *to = k & m;
            }
            let at = g.map.get(&masked);
            if at != 0
                && let Some(s) = self.at(at - 1)
                && found.is_none_or(|(_, f)| s.beats(f))
            {
                found = Some((at, s));
            }
        }
        found.map_or(0, |(at, _)| at)
    }

    #[inline]
    fn at(&self, slot: u32) -> Option<&Stored> {
        self.stored.get(slot as usize).and_then(Option::as_ref)
    }

    fn is_grouped(&self) -> bool {
        !self.ranges && self.index.len() > SCAN_LIMIT
    }

    /// The slot of the entry with this very rule.
    pub(crate) fn slot(&self, rule: &Rule) -> Option<u32> {
        let same = |slot: &u32| self.at(*slot).is_some_and(|s| s.rule == *rule);
        self.index.find(self.hasher.hash_one(rule), same).copied()
    }

    /// Adds the rule of the entry in `slot`; there is none like it.
    pub(crate) fn insert(&mut self, rule: Rule, slot: u32) {
        self.order += 1;
        if self.stored.len() <= slot as usize {
            self.stored.resize(slot as usize + 1, None);
        }
        let hash = self.hasher.hash_one(&rule);
        self.stored[slot as usize] = Some(Stored { rule, order: self.order, next: 0 });
        let Rules { stored, index, hasher, .. } = self;
        let hash_of = |slot: &u32| stored[*slot as usize].as_ref().map_or(0, |s| hasher.hash_one(&s.rule));
        index.insert_unique(hash, slot, hash_of);
        if !self.is_grouped() {
            self.scan(slot);
            return;
        }
        self.flat.clear();
        for scanned in std::mem::take(&mut self.scanned) {
            self.group(scanned);
        }
        self.group(slot);
    }

    /// Takes out the rule of the entry in `slot`.
    pub(crate) fn remove(&mut self, slot: u32) {
        let was_grouped = self.is_grouped();
        if was_grouped {
            self.ungroup(slot);
        }
        let Some(old) = self.stored.get_mut(slot as usize).and_then(Option::take) else { return };
        if let Ok(place) = self.index.find_entry(self.hasher.hash_one(&old.rule), |s| *s == slot) {
            place.remove();
        }
        if !was_grouped {
            let Some(at) = self.scanned.iter().position(|s| *s == slot) else { return };
            self.scanned.remove(at);
            self.flat.drain(at * 2 * self.words..(at + 1) * 2 * self.words);
        } else if !self.is_grouped() {
            self.groups.clear();
            for slot in 0..self.stored.len() {
                if let Some(stored) = &mut self.stored[slot] {
                    stored.next = 0;
                    self.scan(slot as u32);
                }
            }
        }
    }

    /// Has the rule in `slot` scanned.
    fn scan(&mut self, slot: u32) {
        let Some(new) = self.at(slot) else { return };
        let at = self.scanned.partition_point(|s| self.at(*s).is_some_and(|s| s.beats(new)));
        let words: Vec<u64> = new.rule.value.iter().chain(&new.rule.mask).copied().collect();
        self.scanned.insert(at, slot);
        let from = at * words.len();
        self.flat.splice(from..from, words);
    }

    /// Adds the rule in `slot` to its group.
    fn group(&mut self, slot: u32) {
        let Some(new) = self.at(slot) else { return };
        let Rule { value, mask, priority, .. } = &new.rule;
        let at = self.groups.iter().position(|g| g.mask == *mask);
        let first = at.map_or(0, |at| self.groups[at].map.get(value));
        // Behind those that beat it.
        let (mut before, mut next) = (0, first);
        while let Some(other) = self.linked(next)
            && other.beats(new)
        {
            (before, next) = (next, other.next);
        }
        let (value, mask, priority) = (value.clone(), mask.clone(), *priority);
        let at = at.unwrap_or_else(|| {
            let map = FlatMap::new(self.words, 16);
            self.groups.push(Group { mask, best: priority, priorities: BTreeMap::new(), map });
            self.groups.len() - 1
        });
        self.link(slot + 1, next);
        if before == 0 {
            self.groups[at].map.insert(&value, slot + 1);
        } else {
            self.link(before, slot + 1);
        }
        *self.groups[at].priorities.entry(priority).or_default() += 1;
        self.rank(at);
    }

    /// Takes the rule in `slot` out of its group.
    fn ungroup(&mut self, slot: u32) {
        let Some(Stored { rule, next, .. }) = self.at(slot).cloned() else { return };
        let Rule { value, mask, priority, .. } = &rule;
        let Some(at) = self.groups.iter().position(|g| g.mask == *mask) else { return };
        let group = &mut self.groups[at];
        if let Some(count) = group.priorities.get_mut(priority) {
            *count -= 1;
            if *count == 0 {
                group.priorities.remove(priority);
            }
        }
        match group.map.get(value) {
            first if first != slot + 1 => {
                let mut before = first;
                while let Some(other) = self.linked(before)
                    && other.next != slot + 1
                {
                    before = other.next;
                }
                self.link(before, next);
            }
            _ if next == 0 => group.map.remove(value),
            _ => group.map.insert(value, next),
        }
        self.rank(at);
    }

    /// The rule that a link names: a slot plus 1, or 0 for none.
    fn linked(&self, link: u32) -> Option<&Stored> {
        link.checked_sub(1).and_then(|slot| self.at(slot))
    }

    fn link(&mut self, link: u32, next: u32) {
        if let Some(Some(stored)) = link.checked_sub(1).and_then(|slot| self.stored.get_mut(slot as usize)) {
            stored.next = next;
        }
    }

    /// Puts a group whose rules have changed where its best priority belongs.
    fn rank(&mut self, at: usize) {
        let group = &mut self.groups[at];
        match group.priorities.last_key_value() {
            None => drop(self.groups.remove(at)),
            Some((best, _)) => {
                group.best = *best;
                if !self.groups.is_sorted_by_key(|g| std::cmp::Reverse(g.best)) {
                    self.groups.sort_by_key(|g| std::cmp::Reverse(g.best));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::{KeyInfo, MatchKind};
    use crate::table::key::Bounds;
    use proptest::prelude::*;

    /// A field of 64 bits for each word but the last, and there two of 4 bits; the second may be a range.
    fn plan(words: usize) -> KeyPlan {
        let mut plan = KeyPlan::default();
        let widths = std::iter::repeat_n(64, words - 1).chain([4, 4]);
        for (slot, width) in widths.enumerate() {
            let info = KeyInfo { name: String::new(), width, kind: MatchKind::Ternary };
            plan.push(info, slot as u16, None);
        }
        plan
    }

    /// A rule of one word.
    fn rule() -> impl Strategy<Value = Rule> {
        let masks = prop::sample::select(vec![0u64, 0x0f, 0xf0, 0x3c, 0xff]);
        (masks, 0u64..256, 1i64..5).prop_map(|(mask, value, priority)| Rule {
            value: [value & mask].into(),
            mask: [mask].into(),
            bounds: [].into(),
            priority,
        })
    }

    /// What a list of the rules, in the order in which they came, says of a key.
    fn listed(list: &[(Rule, u32)], plan: &KeyPlan, key: &[u64]) -> u32 {
        let is_in = |r: &Rule| {
            let words = key.iter().zip(&r.mask).zip(&r.value);
            words.fold(true, |all, ((k, m), v)| all && k & m == *v) && plan.within(key, &r.bounds)
        };
        let best = list.iter().filter(|(r, _)| is_in(r)).rev().max_by_key(|(r, _)| r.priority);
        best.map_or(0, |(_, slot)| slot + 1)
    }

    /// Rules come and go until none is left; after each change all keys find what a list of them says.
    fn compare<const WORDS: usize>(
        ops: Vec<(Rule, u64, u64, Option<prop::sample::Index>)>,
        ranges: bool,
    ) -> Result<(), TestCaseError> {
        let plan = plan(WORDS);
        let mut rules = Rules::new(WORDS, ranges);
        let mut list: Vec<(Rule, u32)> = Vec::new();
        let mut free: Vec<u32> = (0..ops.len() as u32).rev().collect();
        let wide = |last: u64| {
            let mut key = [last % 3; WORDS];
            key[WORDS - 1] = last;
            key
        };
        let all_agree = |rules: &Rules, list: &[(Rule, u32)]| {
            for key in (0..256).map(wide) {
                prop_assert_eq!(rules.find(&plan, &key), listed(list, &plan, &key), "key {:?}", key);
            }
            Ok(())
        };
        for (mut rule, a, b, removal) in ops {
            if ranges {
                let (low, high) = ([a.min(b)].into(), [a.max(b)].into());
                rule.mask[0] &= 0x0f;
                rule.value[0] &= 0x0f;
                rule.bounds = [Bounds { first: WORDS, low, high }].into();
            }
            // Words before the last count where `a` is odd.
            let before = vec![if a % 2 == 1 { u64::MAX } else { 0 }; WORDS - 1];
            rule.value = before.iter().map(|mask| (b % 3) & mask).chain(rule.value).collect();
            rule.mask = before.into_iter().chain(rule.mask).collect();
            let there = list.iter().find(|(other, _)| *other == rule).map(|(_, slot)| *slot);
            prop_assert_eq!(rules.slot(&rule), there);
            if there.is_none() {
                let slot = free.pop().expect("enough");
                rules.insert(rule.clone(), slot);
                list.push((rule, slot));
            }
            if let Some(removal) = removal {
                let (rule, slot) = list.remove(removal.index(list.len()));
                prop_assert_eq!(rules.slot(&rule), Some(slot));
                rules.remove(slot);
                free.push(slot);
            }
            all_agree(&rules, &list)?;
        }
        while let Some((rule, slot)) = list.pop() {
            rules.remove(slot);
            prop_assert_eq!(rules.slot(&rule), None);
            all_agree(&rules, &list)?;
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn finds_what_a_list_finds(
            ops in prop::collection::vec(
                (rule(), 0u64..16, 0u64..16, prop::option::weighted(0.3, any::<prop::sample::Index>())),
                1..60,
            ),
            ranges: bool,
        ) {
            compare::<1>(ops.clone(), ranges)?;
            compare::<2>(ops.clone(), ranges)?;
            compare::<4>(ops, ranges)?;
        }
    }
}
