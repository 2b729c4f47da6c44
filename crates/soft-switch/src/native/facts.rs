//! What is known where code begins, and which of it decides where control goes.
//!
//! A place that is reached in several ways is compiled once for each set of constants that decide something behind it,
//! up to a limit. So where a table has said what a packet is, the code behind it is that of such packets alone. (Partial
//! evaluation with polyvariant specialization, by binding times; of the tables only those that never change say
//! something here.)

use std::collections::HashMap;

use super::fixed::Fixed;
use super::flow::{At, Graph};
use super::fold;
use super::{NoCode, backward};
use crate::compile::operands::Writes;
use crate::exec::core::Entry;
use crate::image::Image;
use crate::op::{Op, R};

/// Slots that decide something behind each place.
pub(super) struct Deciding {
    /// Slots that decide anything anywhere, and their bits.
    bits: HashMap<R, usize>,
    /// By place, the slots whose present content decides something behind it.
    live: HashMap<At, Box<[u64]>>,
}

impl Deciding {
    pub(super) fn new(graph: &mut Graph, fixed: &Fixed) -> Deciding {
        let image = graph.image;
        let places = graph.places();
        let bits = deciding_slots(image, &places, fixed);
        let words = bits.len().div_ceil(64);
        let number: HashMap<At, usize> = places.iter().enumerate().map(|(i, at)| (*at, i)).collect();
        let mut nexts: Vec<Vec<usize>> = Vec::with_capacity(places.len());
        let mut next = Vec::new();
        for at in &places {
            graph.successors(*at, &mut next);
            nexts.push(next.drain(..).filter_map(|at| number.get(&at).copied()).collect());
        }
        let live = backward::solve(&nexts, words, |i, now| {
            if let Some(op) = image.code.get(places[i].pc as usize) {
                in_front_of(image, op, &bits, fixed, now);
            }
        });
        let live = places.into_iter().zip(live).map(|(at, live)| (at, live.into())).collect();
        Deciding { bits, live }
    }

    /// Whether the content of `r` at a place decides something behind it.
    pub(super) fn is(&self, at: At, r: R) -> bool {
        let (Some(bit), Some(live)) = (self.bits.get(&r), self.live.get(&at)) else { return false };
        live[bit / 64] >> (bit % 64) & 1 == 1
    }
}

/// The slots whose comparison steers, or which are keys of fixed tables; and from which these are computed.
fn deciding_slots(image: &Image, places: &[At], fixed: &Fixed) -> HashMap<R, usize> {
    let mut made_of: HashMap<R, Vec<R>> = HashMap::new();
    let mut todo = Vec::new();
    for at in places {
        let Some(&op) = image.code.get(at.pc as usize) else { continue };
        steers(image, op, fixed, &mut |r| todo.push(r));
        match op {
            Op::Copy { d, a } => made_of.entry(d).or_default().push(a),
            Op::Copies { first, n } => {
                for &(d, a) in &image.pairs[first as usize..][..n as usize] {
                    made_of.entry(d).or_default().push(a);
                }
            }
            op => {
                if let Some((d, operands)) = fold::operands(op) {
                    made_of.entry(d).or_default().extend(operands);
                }
            }
        }
    }
    let mut bits = HashMap::new();
    while let Some(r) = todo.pop() {
        if image.const_value(r).is_none() && !bits.contains_key(&r) {
            bits.insert(r, bits.len());
            todo.extend(made_of.get(&r).into_iter().flatten());
        }
    }
    bits
}

/// The slots by which an instruction steers.
fn steers(image: &Image, op: Op, fixed: &Fixed, f: &mut dyn FnMut(R)) {
    match op {
        Op::Br { a, b, .. } | Op::BrEq { a, b, .. } | Op::BrNe { a, b, .. } => [a, b].into_iter().for_each(f),
        Op::BrZ { a, .. } | Op::BrNz { a, .. } => f(a),
        Op::Apply { t } if fixed.get(t as usize).is_some() => {
            image.tables[t as usize].key.parts.iter().for_each(|part| f(part.slot));
        }
        _ => {}
    }
}

/// From what decides behind an instruction to what does in front of it.
fn in_front_of(image: &Image, op: &Op, bits: &HashMap<R, usize>, fixed: &Fixed, live: &mut [u64]) {
    let put = |live: &mut [u64], r: R| {
        if let Some(bit) = bits.get(&r) {
            live[bit / 64] |= 1 << (bit % 64);
        }
    };
    let take = |live: &mut [u64], r: R| -> bool {
        let Some(bit) = bits.get(&r) else { return false };
        let was = live[bit / 64] >> (bit % 64) & 1 == 1;
        live[bit / 64] &= !(1 << (bit % 64));
        was
    };
    match *op {
        Op::Copy { d, a } => {
            if take(live, d) {
                put(live, a);
            }
        }
        Op::Copies { first, n } => {
            for &(d, a) in image.pairs[first as usize..][..n as usize].iter().rev() {
                if take(live, d) {
                    put(live, a);
                }
            }
        }
        Op::Args { first, n } => {
            for &(d, _) in &image.pairs[first as usize..][..n as usize] {
                take(live, d);
            }
        }
        op => {
            if let Some((d, operands)) = fold::operands(op) {
                if take(live, d) {
                    operands.into_iter().for_each(|r| put(live, r));
                }
            } else if let Writes::Pure(d, n) | Writes::Slots(d, n) = op.writes() {
                for r in d..=d.saturating_add((n.max(1) - 1) as R) {
                    take(live, r);
                }
            }
            steers(image, op, fixed, &mut |r| put(live, r));
        }
    }
}

/// The slots that count as 0 when an entry's code begins: written by nothing since the packet came. The code has 0 in
/// their place. Of those that it reads all the same, `stores` says that they have to be cleared.
pub(super) fn zeros(image: &Image, entry: Entry) -> Result<Vec<R>, NoCode> {
    let before: &[Entry] = match entry {
        Entry::Parser => &[],
        Entry::Ingress => &[Entry::Parser, Entry::Verify],
        Entry::Egress => &[Entry::Parser, Entry::Verify, Entry::Ingress, Entry::Egress],
        Entry::Verify | Entry::Update | Entry::Deparse => return Ok(Vec::new()),
    };
    let mut zero = vec![false; image.phv_slots];
    for run in &image.metadata_runs {
        zero[run.clone()].fill(true);
    }
    zero[image.metadata_slots..].fill(true);
    let lists = image.field_lists.values().flatten().map(|&(r, limbs)| (r, usize::from(limbs)));
    let alone = image.standard.slots().chain(image.tables.iter().filter_map(|t| t.meter.map(|(r, _)| r)));
    for (r, n) in lists.chain(alone.map(|r| (r, 1))) {
        zero[r as usize..][..n].fill(false);
    }
    for behind in before {
        // A copy that egress has made comes to egress again, with its headers, but with cleared metadata.
        let from = if *behind == entry { image.metadata_slots } else { 0 };
        let mut written = |first: usize, n: usize| {
            let end = zero.len().min(first + n);
            zero.get_mut(first.max(from).min(end)..end).into_iter().flatten().for_each(|z| *z = false);
        };
        let graph = Graph::new(image, image.entry(*behind), &mut { super::MAX_OPS })?;
        for at in graph.places() {
            let Some(op) = image.code.get(at.pc as usize) else { continue };
            match *op {
                Op::Copies { first, n } | Op::Args { first, n } => {
                    let pairs = &image.pairs[first as usize..][..n as usize];
                    pairs.iter().for_each(|(d, _)| written(*d as usize, 1));
                }
                Op::Extract { h } | Op::SetValid { h } | Op::SetInvalid { h } => {
                    let plan = &image.headers[h as usize];
                    written(plan.base as usize, plan.slots);
                    for s in &plan.siblings {
                        written(image.headers[*s as usize].base as usize, 1);
                    }
                }
                // Standard metadata, which is left out above.
                Op::Drop => {}
                Op::Apply { .. } => {}
                op => match op.writes() {
                    Writes::None => {}
                    Writes::Pure(d, n) | Writes::Slots(d, n) => written(d as usize, n),
                    Writes::Unknown => return Ok(Vec::new()),
                },
            }
        }
    }
    Ok((0..image.phv_slots).filter(|r| zero[*r]).map(|r| r as R).collect())
}
