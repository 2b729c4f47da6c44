//! The routing function: key to consumer, the same on every host.
//!
//! `hash`: XXH3-64 (seed 0) of the key's bytes as they stand in the tuple. The high half of `hash × consumers` maps it
//! to `0..consumers`, which is as even as a remainder and needs no division. The key of a synthetic item is its
//! sequence number, 8 bytes, least significant first.

use xxhash_rust::xxh3::xxh3_64;

use crate::model::{Bound, Routing};
use crate::words::shorten;

/// A routing function over a number of consumers.
#[derive(Clone, Debug)]
pub struct Router {
    rule: Rule,
    consumers: usize,
}

#[derive(Clone, Debug)]
enum Rule {
    /// Only one consumer: nothing to compute.
    One,
    Hash,
    RangeInt(Vec<i64>),
    RangeText(Vec<Vec<u8>>),
    /// The key is the consumer's number.
    Target,
    /// The tuple's number in its producer's stream, modulo the number of consumers.
    RoundRobin,
}

/// Why a key has no consumer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// A whole number was needed.
    #[error("its key '{0}' is not a whole number")]
    NotANumber(String),
    /// Explicit routing names a consumer that the flow does not have.
    #[error("its key names consumer {target}, but consumers are numbered from 0 to {last}")]
    NoSuchConsumer {
        /// The number in the tuple.
        target: u64,
        /// The highest number.
        last: usize,
    },
}

/// How the bytes of a key stand for a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// Decimal digits.
    Text,
    /// Up to 8 bytes, least significant first, unsigned.
    Binary,
    /// 1 to 8 bytes, least significant first, two's complement.
    Signed,
}

impl Router {
    /// The function that `routing` describes, for `consumers` consumers (at least one).
    pub fn new(routing: &Routing, consumers: usize) -> Self {
        use crate::model::KeyRef::Whole;
        let text = |b: &Bound| match b {
            Bound::Int(n) => n.to_string().into_bytes(),
            Bound::Text(t) => t.clone().into_bytes(),
        };
        let rule = match routing {
            _ if consumers <= 1 => Rule::One,
            Routing::Hash(_) => Rule::Hash,
            Routing::Explicit(Whole) => Rule::RoundRobin,
            Routing::Explicit(_) => Rule::Target,
            Routing::Range { bounds, .. } => {
                let numbers: Option<Vec<i64>> =
                    bounds.iter().map(|b| if let Bound::Int(n) = b { Some(*n) } else { None }).collect();
                match numbers {
                    Some(numbers) => Rule::RangeInt(numbers),
                    None => Rule::RangeText(bounds.iter().map(text).collect()),
                }
            }
        };
        Router { rule, consumers }
    }

    /// How many consumers it chooses from.
    pub fn consumers(&self) -> usize {
        self.consumers
    }

    /// Whether the consumer follows from the key alone, so that a receiver can check it.
    pub fn uses_key(&self) -> bool {
        !matches!(self.rule, Rule::One | Rule::RoundRobin)
    }

    /// The consumer of a tuple. `number` counts the tuples of its producer from 0.
    ///
    /// # Errors
    /// When the key is no number where one is needed, or names no consumer.
    #[inline]
    pub fn tuple(&self, key: &[u8], form: KeyForm, number: u64) -> Result<usize, RouteError> {
        match &self.rule {
            Rule::One => Ok(0),
            Rule::Hash => Ok(self.spread(xxh3_64(key))),
            Rule::RoundRobin => Ok((number % self.consumers as u64) as usize),
            Rule::RangeText(bounds) => Ok(bounds.partition_point(|b| b.as_slice() <= key)),
            Rule::RangeInt(bounds) => {
                let key = integer(key, form).ok_or_else(|| not_a_number(key))?;
                Ok(bounds.partition_point(|b| i128::from(*b) <= key))
            }
            Rule::Target => {
                let target = integer(key, form).and_then(|n| u64::try_from(n).ok());
                let target = target.ok_or_else(|| not_a_number(key))?;
                let last = self.consumers - 1;
                match usize::try_from(target) {
                    Ok(consumer) if consumer <= last => Ok(consumer),
                    _ => Err(RouteError::NoSuchConsumer { target, last }),
                }
            }
        }
    }

    /// The consumer of synthetic item `sequence`.
    #[inline]
    pub fn item(&self, sequence: u64) -> usize {
        match &self.rule {
            Rule::One => 0,
            Rule::Hash => self.spread(xxh3_64(&sequence.to_le_bytes())),
            Rule::RangeInt(bounds) => bounds.partition_point(|b| i128::from(*b) <= i128::from(sequence)),
            // Text bounds and targets need columns, which the topology refuses for synthetic items.
            Rule::RoundRobin | Rule::RangeText(_) | Rule::Target => {
                (sequence % self.consumers as u64) as usize
            }
        }
    }

    /// The first sequence number from `from` on, and below `end`, that goes to `consumer`.
    #[inline]
    pub fn next_item_for(&self, consumer: usize, from: u64, end: u64) -> Option<u64> {
        match self.rule {
            Rule::One => (from < end).then_some(from),
            Rule::RoundRobin => {
                let n = self.consumers as u64;
                let ahead = (consumer as u64 + n - from % n) % n;
                from.checked_add(ahead).filter(|s| *s < end)
            }
            _ => (from..end).find(|s| self.item(*s) == consumer),
        }
    }

    #[inline]
    fn spread(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.consumers as u128) >> 64) as usize
    }
}

fn not_a_number(key: &[u8]) -> RouteError {
    RouteError::NotANumber(shorten(key))
}

/// A key as a number.
fn integer(key: &[u8], form: KeyForm) -> Option<i128> {
    match form {
        KeyForm::Text => std::str::from_utf8(key).ok()?.trim().parse().ok(),
        KeyForm::Binary => {
            let mut bytes = [0; 8];
            bytes.get_mut(..key.len())?.copy_from_slice(key);
            Some(i128::from(u64::from_le_bytes(bytes)))
        }
        KeyForm::Signed => {
            let unsigned = integer(key, KeyForm::Binary)?;
            let above = 1 << (8 * key.len());
            Some(if unsigned >= above / 2 { unsigned - above } else { unsigned })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::KeyRef;

    fn router(routing: Routing, consumers: usize) -> Router {
        Router::new(&routing, consumers)
    }

    #[test]
    fn the_hash_is_fixed() {
        // XXH3-64 of "1" and of 8 zero bytes, seed 0, as published: routing must not change between versions.
        assert_eq!(xxh3_64(b""), 0x2d06_8005_38d3_94c2);
        let r = router(Routing::Hash(KeyRef::Number(1)), 4);
        let targets: Vec<usize> =
            (1..9).map(|n| r.tuple(n.to_string().as_bytes(), KeyForm::Text, 0).unwrap()).collect();
        let again: Vec<usize> =
            (1..9).map(|n| r.tuple(n.to_string().as_bytes(), KeyForm::Text, 99).unwrap()).collect();
        assert_eq!(targets, again);
    }

    #[test]
    fn hashing_is_even() {
        let r = router(Routing::Hash(KeyRef::Whole), 5);
        let mut counts = [0u32; 5];
        for n in 0..50_000 {
            counts[r.item(n)] += 1;
        }
        assert!(counts.iter().all(|c| (9_500..10_500).contains(c)), "{counts:?}");
    }

    #[test]
    fn ranges() {
        let r = router(
            Routing::Range { key: KeyRef::Number(1), bounds: vec![Bound::Int(-5), Bound::Int(10)] },
            3,
        );
        let to = |k: &str| r.tuple(k.as_bytes(), KeyForm::Text, 0);
        assert_eq!((to("-6"), to("-5"), to("9"), to("10")), (Ok(0), Ok(1), Ok(1), Ok(2)));
        assert_eq!(to("x"), Err(RouteError::NotANumber("x".into())));
        let text =
            router(Routing::Range { key: KeyRef::Number(1), bounds: vec![Bound::Text("m".into())] }, 2);
        assert_eq!(text.tuple(b"lz", KeyForm::Text, 0), Ok(0));
        assert_eq!(text.tuple(b"m", KeyForm::Text, 0), Ok(1));
        assert_eq!(r.tuple(&[9, 0, 0, 0], KeyForm::Binary, 0), Ok(1));
        assert!(r.tuple(&[0; 9], KeyForm::Binary, 0).is_err());
        let signed = |key: &[u8]| r.tuple(key, KeyForm::Signed, 0);
        assert_eq!((signed(&[0xfa]), signed(&[0xfb, 0xff]), signed(&[10])), (Ok(0), Ok(1), Ok(2)));
        assert_eq!((signed(&i64::MIN.to_le_bytes()), signed(&i64::MAX.to_le_bytes())), (Ok(0), Ok(2)));
        assert!(signed(&[0; 9]).is_err());
    }

    #[test]
    fn targets_and_turns() {
        let r = router(Routing::Explicit(KeyRef::Number(2)), 3);
        assert_eq!(r.tuple(b"2", KeyForm::Text, 0), Ok(2));
        assert_eq!(r.tuple(b"3", KeyForm::Text, 0), Err(RouteError::NoSuchConsumer { target: 3, last: 2 }));
        assert!(r.tuple(b"-1", KeyForm::Text, 0).is_err());
        let turns = router(Routing::Explicit(KeyRef::Whole), 3);
        let order: Vec<usize> = (0..4).map(|n| turns.tuple(b"", KeyForm::Text, n).unwrap()).collect();
        assert_eq!(order, [0, 1, 2, 0]);
    }

    #[test]
    fn the_next_item_is_the_next_that_is_routed_there() {
        for routing in [Routing::Hash(KeyRef::Whole), Routing::Explicit(KeyRef::Whole)] {
            for consumers in [1, 2, 3, 7] {
                let r = router(routing.clone(), consumers);
                for consumer in 0..consumers {
                    for from in 0..40 {
                        let slow = (from..40).find(|s| r.item(*s) == consumer);
                        assert_eq!(r.next_item_for(consumer, from, 40), slow);
                    }
                }
            }
        }
    }
}
