//! Keys: how fields are gathered into words, and how the control API's fields become words and masks.

use crate::control::MatchField;
use crate::error::ControlError;
use crate::exec::plan::Slots;
use crate::info::{KeyInfo, MatchKind};
use crate::op::R;

/// Most words of a key: 2048 bits.
pub(crate) const MAX_WORDS: usize = 32;

/// A limb of a key field, and where it lies in the packed key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub slot: R,
    pub word: u8,
    pub shift: u8,
    pub mask: u64,
    /// Whether the key has all of the slot, and not only what a static mask leaves of it.
    pub whole: bool,
}

/// How a table's key is gathered. Fields of up to 64 bits share words and never straddle two.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyPlan {
    pub parts: Vec<Part>,
    /// Per field: its first part (least significant limb) and number of parts.
    pub fields: Vec<(usize, usize)>,
    pub infos: Vec<KeyInfo>,
    pub words: usize,
    /// Bits used if the key is one word.
    pub bits: u32,
}

impl KeyPlan {
    /// Adds a field; `statics` is the static mask, a limb each.
    pub(crate) fn push(&mut self, info: KeyInfo, slot: R, statics: Option<&[u64]>) {
        let first = self.parts.len();
        let limbs = (info.width as usize).div_ceil(64).max(1);
        for l in 0..limbs {
            let width = (info.width.max(1) - 64 * l as u32).min(64);
            if self.words == 0 || self.bits + width > 64 {
                self.words += 1;
                self.bits = 0;
            }
            let all = u64::MAX >> (64 - width);
            let mut mask = all;
            if let Some(s) = statics {
                mask &= s.get(l).copied().unwrap_or(0);
            }
            let (word, shift) = ((self.words - 1) as u8, self.bits as u8);
            self.parts.push(Part { slot: slot + l as R, word, shift, mask, whole: mask == all });
            self.bits += width;
        }
        self.fields.push((first, limbs));
        self.infos.push(info);
    }

    #[inline]
    pub(crate) fn one_word(&self, slots: &Slots) -> u64 {
        let mut key = 0;
        for p in &self.parts {
            key |= (slots[p.slot as usize] & p.mask) << p.shift;
        }
        key
    }

    /// The key in `N` words, of which `words` are used. `N` is a power of two.
    #[inline]
    pub(crate) fn gather<const N: usize>(&self, slots: &Slots) -> [u64; N] {
        let mut key = [0; N];
        for p in &self.parts {
            key[p.word as usize % N] |= (slots[p.slot as usize] & p.mask) << p.shift;
        }
        key
    }
}

/// A range field's bounds, by part, least significant limb first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    pub first: usize,
    pub low: Box<[u64]>,
    pub high: Box<[u64]>,
}

/// A key in words. Two rules with equal words, bounds and priority are the same entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Rule {
    pub value: Box<[u64]>,
    pub mask: Box<[u64]>,
    pub bounds: Box<[Bounds]>,
    /// Larger wins. For lpm tables the prefix length.
    pub priority: i64,
}

/// Big-endian bytes as `n` limbs, `None` if the value has more than `width` bits.
pub(crate) fn to_limbs(bytes: &[u8], width: u32) -> Option<Vec<u64>> {
    let n = (width as usize).div_ceil(64).max(1);
    let mut limbs = vec![0u64; n];
    for (i, &b) in bytes.iter().rev().enumerate() {
        if b == 0 {
            continue;
        }
        let bit = i as u32 * 8;
        if bit + 8 - b.leading_zeros() > width {
            return None;
        }
        limbs[(bit / 64) as usize] |= u64::from(b) << (bit % 64);
    }
    Some(limbs)
}

/// Limbs as big-endian bytes: all of them for `width` bits.
pub(crate) fn to_bytes(limbs: &[u64], width: u32) -> Vec<u8> {
    let n = (width as usize).div_ceil(8).max(1);
    (0..n).rev().map(|i| limbs.get(i / 8).map_or(0, |l| (l >> (i % 8 * 8)) as u8)).collect()
}

/// Without leading zero bytes, but at least one byte: P4Runtime's canonical form.
pub(crate) fn canonical(mut bytes: Vec<u8>) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|b| **b == 0).count().min(bytes.len().saturating_sub(1));
    bytes.drain(..zeros);
    bytes
}

fn ones(width: u32, keep: u32) -> Vec<u64> {
    let n = (width as usize).div_ceil(64).max(1);
    let mut out = vec![0u64; n];
    for bit in width - keep..width {
        out[(bit / 64) as usize] |= 1 << (bit % 64);
    }
    out
}

impl KeyPlan {
    /// Checks a control key and turns it into words.
    pub(crate) fn rule(&self, key: &[MatchField], priority: i32) -> Result<Rule, ControlError> {
        if key.len() != self.infos.len() {
            return Err(ControlError::KeyCount { got: key.len(), expected: self.infos.len() });
        }
        let (mut value_words, mut mask_words) = (vec![0; self.words], vec![0; self.words]);
        let (mut bounds, mut priority) = (Vec::new(), i64::from(priority));
        for (i, (field, info)) in key.iter().zip(&self.infos).enumerate() {
            let wide = ControlError::TooWide { what: "key field", index: i, width: info.width };
            let limbs = |b: &[u8]| to_limbs(b, info.width).ok_or(wide.clone());
            let all = || ones(info.width, info.width);
            let (value, mask) = match (field, info.kind) {
                (MatchField::Exact(v), MatchKind::Exact) => (limbs(v)?, all()),
                (MatchField::Optional(None), MatchKind::Optional | MatchKind::Ternary) => {
                    (limbs(&[])?, limbs(&[])?)
                }
                (MatchField::Optional(Some(v)), MatchKind::Optional | MatchKind::Ternary) => {
                    (limbs(v)?, all())
                }
                (MatchField::Ternary { value, mask }, MatchKind::Ternary) => (limbs(value)?, limbs(mask)?),
                (MatchField::Lpm { value, prefix_len }, MatchKind::Lpm) => {
                    if *prefix_len > info.width {
                        let reason = "the prefix is longer than the field";
                        return Err(ControlError::BadKey { field: i, reason });
                    }
                    // In a table without priorities the longest prefix wins.
                    if !self.infos.iter().any(|k| !matches!(k.kind, MatchKind::Exact | MatchKind::Lpm)) {
                        priority = i64::from(*prefix_len);
                    }
                    (limbs(value)?, ones(info.width, *prefix_len))
                }
                (MatchField::Range { low, high }, MatchKind::Range) => {
                    let (low, high) = (limbs(low)?, limbs(high)?);
                    if low.iter().rev().gt(high.iter().rev()) {
                        let reason = "the range's low end is above its high end";
                        return Err(ControlError::BadKey { field: i, reason });
                    }
                    let (low, high) = (low.into(), high.into());
                    bounds.push(Bounds { first: self.fields[i].0, low, high });
                    continue;
                }
                _ => return Err(ControlError::KeyKind { field: i, expected: info.kind }),
            };
            let outside = value.iter().zip(&mask).any(|(v, m)| v & !m != 0);
            if outside {
                let reason = "the value has bits that the mask or prefix leaves out";
                return Err(ControlError::BadKey { field: i, reason });
            }
            let (first, n) = self.fields[i];
            for (l, p) in self.parts[first..first + n].iter().enumerate() {
                value_words[p.word as usize] |= (value[l] & p.mask) << p.shift;
                mask_words[p.word as usize] |= (mask[l] & p.mask) << p.shift;
            }
        }
        Ok(Rule { value: value_words.into(), mask: mask_words.into(), bounds: bounds.into(), priority })
    }

    /// Whether a packed key lies within all bounds.
    pub(crate) fn within(&self, key: &[u64], bounds: &[Bounds]) -> bool {
        bounds.iter().all(|b| {
            let limb = |l: usize| {
                let p = &self.parts[b.first + l];
                key[p.word as usize] >> p.shift & p.mask
            };
            let n = b.low.len();
            let at_least = (0..n).rev().map(limb).ge(b.low.iter().rev().copied());
            at_least && (0..n).rev().map(limb).le(b.high.iter().rev().copied())
        })
    }
}
