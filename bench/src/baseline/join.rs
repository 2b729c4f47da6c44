//! Two distributed joins over any transport. The radix join shuffles both tables by key. Fragment-and-replicate sends
//! the inner table to all nodes and leaves the outer one where it is. Thostrup et al., "DFI", section 6.3.1.

use std::collections::HashMap;

use super::pu::route;
use super::run::{PUSHES, Program};
use super::{Ends, Took};

/// Bytes of a row: a key and a number.
pub const ROW: usize = 16;
/// Parts that a node divides its part of a table into, so that a hash table of one stays in the cache.
const PARTS: usize = 64;
/// Makes keys of numbers, each of another.
const KEYS: u64 = 0xd134_2543_de82_ef95;
/// Chooses a key's part, and its place in a hash table, by other bits than the node.
const MIX: u64 = 0xbf58_476d_1ce4_e5b9;

/// Rows of both tables, over all nodes.
#[derive(Clone, Copy, Debug)]
pub struct Tables {
    /// Rows of the inner table, whose keys are unique.
    pub inner: u64,
    /// Rows of the outer table. Of its keys, half are in the inner one.
    pub outer: u64,
}

type Row = (u64, u64);

impl Tables {
    /// Row `n` of the inner table.
    #[inline]
    pub fn inner_row(&self, n: u64) -> Row {
        ((n + 1).wrapping_mul(KEYS), n)
    }

    /// Row `n` of the outer table.
    #[inline]
    pub fn outer_row(&self, n: u64) -> Row {
        let mut x = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x = (x ^ (x >> 30)).wrapping_mul(MIX);
        x ^= x >> 31;
        ((x % (2 * self.inner) + 1).wrapping_mul(KEYS), n)
    }
}

/// The result of a join.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// Pairs of rows.
    pub pairs: u64,
    /// Sum over all pairs of a function of both rows' numbers, modulo 2^64.
    pub sum: u64,
}

impl Joined {
    #[inline]
    fn add(&mut self, inner: u64, outer: u64) {
        self.pairs += 1;
        self.sum = self.sum.wrapping_add(inner.wrapping_mul(31).wrapping_add(1).wrapping_mul(outer + 7));
    }

    /// The joint result of several nodes.
    pub fn of(parts: impl IntoIterator<Item = Joined>) -> Joined {
        parts.into_iter().fold(Joined::default(), |a, b| Joined {
            pairs: a.pairs + b.pairs,
            sum: a.sum.wrapping_add(b.sum),
        })
    }

    /// The same join on one machine, by the standard library's hash table.
    pub fn on_one_machine(tables: &Tables) -> Joined {
        let inner: HashMap<u64, u64> = (0..tables.inner).map(|n| tables.inner_row(n)).collect();
        let mut joined = Joined::default();
        for (key, outer) in (0..tables.outer).map(|n| tables.outer_row(n)) {
            if let Some(&inner) = inner.get(&key) {
                joined.add(inner, outer);
            }
        }
        joined
    }
}

/// Rows that one side of a join has to push.
struct Side<E> {
    ends: E,
    next: u64,
    finished: bool,
    ended: bool,
    parts: Vec<Vec<Row>>,
}

impl<E: Ends> Side<E> {
    fn new(ends: E, first: u64) -> Side<E> {
        Side { ends, next: first, finished: false, ended: false, parts: vec![Vec::new(); PARTS] }
    }

    /// Pushes the rows from `next` to `end`, of which every `nodes`-th is this node's.
    fn push(&mut self, end: u64, nodes: usize, replicate: bool, row: impl Fn(u64) -> Row) -> usize {
        let mut steps = 0;
        while self.next < end && steps < PUSHES {
            let (key, number) = row(self.next);
            let bytes = (u128::from(number) << 64 | u128::from(key)).to_le_bytes();
            if !self.ends.try_push(if replicate { 0 } else { route(key, nodes) }, &bytes) {
                return steps;
            }
            self.next += nodes as u64;
            steps += 1;
        }
        if self.next >= end && !self.finished {
            self.finished = self.ends.try_finish();
            steps += usize::from(self.finished);
        }
        steps
    }

    fn consume(&mut self) -> usize {
        let parts = &mut self.parts;
        let mut sink = |run: &[u8]| run.as_chunks::<ROW>().0.iter().for_each(|row| put(parts, row));
        let mut taken = 0;
        while !self.ended {
            match self.ends.consume(&mut sink) {
                Took::Some => taken += 1,
                Took::Nothing => break,
                Took::End => self.ended = true,
            }
        }
        taken
    }
}

#[inline]
fn put(parts: &mut [Vec<Row>], row: &[u8; ROW]) {
    let row = u128::from_le_bytes(*row);
    let (key, number) = (row as u64, (row >> 64) as u64);
    parts[part(key)].push((key, number));
}

#[inline]
fn part(key: u64) -> usize {
    key.wrapping_mul(MIX) as usize >> (64 - PARTS.trailing_zeros())
}

/// A node's program.
pub struct JoinNode<E> {
    inner: Side<E>,
    /// None: the outer table stays where it is.
    outer: Option<Side<E>>,
    tables: Tables,
    node: usize,
    nodes: usize,
    /// The pairs that this node has found, when all is done.
    pub joined: Option<Joined>,
}

impl<E: Ends> JoinNode<E> {
    /// Node `node` of `nodes`: with ends of two shuffle flows a radix join, with those of a replicate flow
    /// fragment-and-replicate.
    pub fn new(inner: E, outer: Option<E>, tables: Tables, node: usize, nodes: usize) -> JoinNode<E> {
        let first = node as u64;
        let outer = outer.map(|ends| Side::new(ends, first));
        JoinNode { inner: Side::new(inner, first), outer, tables, node, nodes, joined: None }
    }
}

impl<E: Ends> Program for JoinNode<E> {
    fn push(&mut self) -> usize {
        let (tables, nodes) = (self.tables, self.nodes);
        let mut steps = 0;
        if !self.inner.finished {
            steps += self.inner.push(tables.inner, nodes, self.outer.is_none(), |n| tables.inner_row(n));
        }
        match &mut self.outer {
            Some(outer) if self.inner.finished && !outer.finished => {
                steps + outer.push(tables.outer, nodes, false, |n| tables.outer_row(n))
            }
            _ => steps,
        }
    }

    fn consume(&mut self) -> usize {
        self.inner.consume() + self.outer.as_mut().map_or(0, Side::consume)
    }

    fn compute(&mut self) {
        let ready = self.inner.ended && self.outer.as_ref().is_none_or(|outer| outer.ended);
        if !ready || self.joined.is_some() {
            return;
        }
        if let Some(outer) = &self.outer {
            let parts = self.inner.parts.iter().zip(&outer.parts);
            self.joined =
                Some(Joined::of(parts.map(|(inner, outer)| Index::of(inner).join(outer.iter().copied()))));
        } else {
            let inner: Vec<Row> = self.inner.parts.iter().flatten().copied().collect();
            let own = (self.node as u64..self.tables.outer).step_by(self.nodes);
            self.joined = Some(Index::of(&inner).join(own.map(|n| self.tables.outer_row(n))));
        }
    }

    fn is_done(&self) -> bool {
        self.joined.is_some() && self.inner.finished && self.outer.as_ref().is_none_or(|outer| outer.finished)
    }
}

/// A hash table of rows with unique keys. No key is 0.
struct Index {
    slots: Vec<Row>,
}

impl Index {
    fn of(rows: &[Row]) -> Index {
        let mut slots = vec![(0, 0); (2 * rows.len()).next_power_of_two().max(2)];
        for &row in rows {
            let mut at = Self::slot(row.0, slots.len());
            while slots[at].0 != 0 {
                at = (at + 1) & (slots.len() - 1);
            }
            slots[at] = row;
        }
        Index { slots }
    }

    #[inline]
    fn slot(key: u64, slots: usize) -> usize {
        (key.wrapping_mul(MIX) >> 20) as usize & (slots - 1)
    }

    fn join(&self, outer: impl Iterator<Item = Row>) -> Joined {
        let mut joined = Joined::default();
        for (key, number) in outer {
            let mut at = Self::slot(key, self.slots.len());
            while self.slots[at].0 != 0 {
                if self.slots[at].0 == key {
                    joined.add(self.slots[at].1, number);
                    break;
                }
                at = (at + 1) & (self.slots.len() - 1);
            }
        }
        joined
    }
}
