//! Tables that say the same as long as the program runs: entries and default action are the program's own.

use std::rc::Rc;

use crate::control::EntryAction;
use crate::image::Image;
use crate::op::R;
use crate::table::key::{KeyPlan, Rule, to_limbs};

/// A table with more entries is looked up when it is applied.
const MOST_RULES: usize = 64;

/// An action with its argument words.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub action: usize,
    pub words: Rc<[u64]>,
}

#[derive(Debug)]
pub(super) struct FixedTable {
    /// The best first.
    pub rules: Vec<(Rule, Call)>,
    pub default: Option<Call>,
}

/// Whether a key matches a rule, as far as the key is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Match {
    Yes,
    No,
    Maybe,
}

impl FixedTable {
    /// The rules among `candidates` that a key can match of which `known` knows some slots; the last one may match for
    /// sure, and is then the only one that does.
    pub(super) fn possible(
        &self,
        plan: &KeyPlan,
        candidates: &[usize],
        known: impl Fn(R) -> Option<u64>,
    ) -> (Vec<usize>, bool) {
        let mut left = Vec::new();
        for &c in candidates {
            match self.matches(plan, c, &known) {
                Match::No => {}
                Match::Maybe => left.push(c),
                Match::Yes => {
                    left.push(c);
                    return (left, true);
                }
            }
        }
        (left, false)
    }

    fn matches(&self, plan: &KeyPlan, rule: usize, known: impl Fn(R) -> Option<u64>) -> Match {
        let rule = &self.rules[rule].0;
        let mut sure = Match::Yes;
        for part in &plan.parts {
            let (value, mask) = in_part(rule, part.word, part.shift, part.mask);
            match known(part.slot) {
                Some(v) if v & mask != value => return Match::No,
                None if mask != 0 => sure = Match::Maybe,
                _ => {}
            }
        }
        sure
    }

    /// A part of the key that is a whole slot, is not known, and that all of these rules want exactly.
    pub(super) fn exact_part(
        &self,
        plan: &KeyPlan,
        rules: &[usize],
        known: impl Fn(R) -> Option<u64>,
    ) -> Option<usize> {
        let exact = |part: &crate::table::key::Part| {
            let whole =
                |c: &usize| in_part(&self.rules[*c].0, part.word, part.shift, part.mask).1 == part.mask;
            part.whole && known(part.slot).is_none() && rules.iter().all(whole)
        };
        plan.parts.iter().position(exact)
    }
}

/// A rule's value and mask in a part of the key.
pub(super) fn in_part(rule: &Rule, word: u8, shift: u8, mask: u64) -> (u64, u64) {
    let (value, own) = (rule.value[word as usize] >> shift & mask, rule.mask[word as usize] >> shift & mask);
    (value & own, own)
}

/// The fixed tables of a program, by number.
#[derive(Debug)]
pub(super) struct Fixed(Vec<Option<FixedTable>>);

impl Fixed {
    pub(super) fn new(image: &Image) -> Fixed {
        Fixed((0..image.tables.len()).map(|t| table(image, t)).collect())
    }

    pub(super) fn get(&self, t: usize) -> Option<&FixedTable> {
        self.0.get(t)?.as_ref()
    }
}

fn table(image: &Image, t: usize) -> Option<FixedTable> {
    let (def, info) = (&image.tables[t], &image.info.tables[t]);
    let is_fixed = info.const_entries && info.const_default && def.profile.is_none();
    if !is_fixed || !def.is_plain() || def.key.words == 0 || def.entries.len() > def.size.min(MOST_RULES) {
        return None;
    }
    let call = |action: &EntryAction| {
        let EntryAction::Call(call) = action else { return None };
        let plan = &image.actions[call.action.index()];
        let mut words = Vec::new();
        for (value, (_, width)) in call.params.iter().zip(&plan.params) {
            words.extend(to_limbs(value, *width)?);
        }
        let is_legal = info.actions.contains(&call.action) && words.len() == plan.words;
        is_legal.then(|| Call { action: call.action.index(), words: words.into() })
    };
    let mut rules: Vec<(Rule, Call)> = Vec::new();
    for entry in &def.entries {
        // An entry that the switch would refuse is not there.
        if (entry.priority > 0) != info.has_priority || entry.priority < 0 {
            return None;
        }
        let rule = def.key.rule(&entry.key, entry.priority).ok().filter(|rule| rule.bounds.is_empty())?;
        // Of equal keys the first stays.
        if !rules.iter().any(|(other, _)| *other == rule) {
            rules.push((rule, call(&entry.action)?));
        }
    }
    // Stable: of equal priorities the entry that came first wins.
    rules.sort_by_key(|(rule, _)| std::cmp::Reverse(rule.priority));
    let default = match &def.default {
        Some(action) => Some(call(action)?),
        None => None,
    };
    Some(FixedTable { rules, default })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::MatchField;
    use crate::info::{KeyInfo, MatchKind};

    #[test]
    fn rules_by_what_is_known_of_a_key() {
        let info = |width| KeyInfo { name: String::new(), width, kind: MatchKind::Ternary };
        let mut plan = KeyPlan::default();
        plan.push(info(8), 1, None);
        // Of this field the key has only the lower four bits.
        plan.push(info(8), 2, Some(&[0x0f]));
        let exact = |v| MatchField::Ternary { value: vec![v], mask: vec![0xff] };
        let rule = |a, b, priority| plan.rule(&[a, b], priority).unwrap();
        let rules = [
            rule(exact(5), exact(3), 3),
            rule(exact(5), MatchField::Optional(None), 2),
            rule(exact(6), exact(3), 1),
        ];
        let call = || Call { action: 0, words: [].into() };
        let table = FixedTable { rules: rules.map(|rule| (rule, call())).into(), default: None };
        let all = [0, 1, 2];
        let nothing = |_| None;
        assert_eq!(table.possible(&plan, &all, nothing), (vec![0, 1, 2], false));
        assert_eq!(table.exact_part(&plan, &all, nothing), Some(0));
        let first = |r| (r == 1).then_some(5);
        assert_eq!(table.possible(&plan, &all, first), (vec![0, 1], true));
        // The second field is no whole slot: a value of the slot would say more than the rule does.
        assert_eq!(table.exact_part(&plan, &[0], first), None);
        let both = |r| Some(if r == 1 { 5 } else { 0xf3 });
        assert_eq!(table.possible(&plan, &all, both), (vec![0], true));
        assert_eq!(table.possible(&plan, &all, |_| Some(9)), (vec![], false));
    }
}
