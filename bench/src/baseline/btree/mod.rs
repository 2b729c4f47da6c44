//! A B-tree in the memory of one host, and programs of other hosts that look keys up in it.
//!
//! * [`flows`]: readers push keys into a flow to the host of the tree. Its program looks them up and pushes each
//!   answer to the reader that asked.
//! * [`chase`]: readers READ root, inner nodes and leaf one after the other, from memory that the host has
//!   registered. The host runs no program.
//!
//! The tree is packed from sorted pairs and never changes while it is read. So there are no splits that a READ could
//! meet, and nothing (version words, locks) that would detect them. Keys and values are words, 16 bytes for a pair, as
//! in the zero-sided RDMA thesis, 8.4.
//!
//! All work of readers is in [`push`](super::run::Program::push), all work of the tree's host in
//! [`consume`](super::run::Program::consume). So instructions of each can be [counted](super::run::Count) apart.

pub mod chase;
pub mod flows;

use std::collections::BTreeMap;

use super::memory::Block;
use super::pu::next_key;

/// Bytes of an entry. The header in front of all entries of a node has the same size: its level, 0 for leaves, and its
/// number of entries.
const ENTRY: usize = 16;

/// The next step of a look-up, from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The number of the node below.
    Down(usize),
    /// The end: the key's value, if it has one.
    End(Option<u64>),
}

/// A tree in memory that can be registered, with its levels one behind the other: the root is node 0.
#[derive(Clone)]
pub struct Tree {
    block: Block,
    /// Bytes of a node.
    node: usize,
    /// Nodes that are no leaves.
    pub inner: usize,
    /// Levels, leaves included; an empty tree has one.
    pub height: usize,
}

impl Tree {
    /// The tree of these pairs, with nodes of `node` bytes, a power of two from 64 on.
    pub fn new(pairs: &BTreeMap<u64, u64>, node: usize) -> Tree {
        assert!(node.is_power_of_two() && node >= 64, "{node} bytes");
        let fan = node / ENTRY - 1;
        let leaves: Vec<(u64, u64)> = pairs.iter().map(|(&key, &value)| (key, value)).collect();
        // From the leaves up: entries of all nodes of a level. Entries of inner nodes are a child's least key and its
        // number in its level.
        let mut levels = vec![leaves];
        while let below = levels.last().expect("leaves")
            && below.len() > fan
        {
            let above = below.chunks(fan).enumerate().map(|(number, child)| (child[0].0, number as u64));
            let above = above.collect();
            levels.push(above);
        }
        let nodes = |level: &Vec<_>| level.len().div_ceil(fan).max(1);
        let all: usize = levels.iter().map(nodes).sum();
        let inner = all - nodes(&levels[0]);
        let block = Block::new(all * node);
        let mut at = 0;
        for (level, entries) in levels.iter().enumerate().rev() {
            let children = at + nodes(entries);
            for number in 0..nodes(entries) {
                let entries = entries.chunks(fan).nth(number).unwrap_or_default();
                let word = |n: usize, value| block.store((at + number) * node + n * 8, value);
                word(0, level as u64);
                word(1, entries.len() as u64);
                for (n, &(key, value)) in entries.iter().enumerate() {
                    word(2 * n + 2, key);
                    word(2 * n + 3, if level > 0 { value + children as u64 } else { value });
                }
            }
            at = children;
        }
        Tree { block, node, inner, height: levels.len() }
    }

    /// The value of a key, looked up where the tree lies.
    #[inline]
    pub fn get(&self, key: u64) -> Option<u64> {
        let mut number = 0;
        loop {
            // SAFETY: nobody writes a tree that is made.
            match step(unsafe { self.block.bytes(number * self.node, self.node) }, key) {
                Step::Down(child) => number = child,
                Step::End(value) => return value,
            }
        }
    }
}

/// Searches one node for a key.
#[inline]
fn step(node: &[u8], key: u64) -> Step {
    let (header, entries) = node.as_chunks::<ENTRY>().0.split_first().expect("a header");
    let (level, len) = words(header);
    let entries = &entries[..entries.len().min(len as usize)];
    let above = entries.partition_point(|entry| words(entry).0 <= key);
    if level > 0 {
        // A key that is less than all keys is looked for in the first child.
        return Step::Down(entries.get(above.saturating_sub(1)).map_or(0, |entry| words(entry).1) as usize);
    }
    let last = above.checked_sub(1).map(|at| words(&entries[at]));
    Step::End(last.filter(|found| found.0 == key).map(|found| found.1))
}

/// The two words of an entry.
#[inline]
fn words(entry: &[u8; ENTRY]) -> (u64, u64) {
    let both = u128::from_le_bytes(*entry);
    (both as u64, (both >> 64) as u64)
}

/// The answer of a look-up, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing yet.
    Pending,
    /// The key is not in the tree.
    Absent,
    /// The key's value.
    Found(u64),
}

impl From<Option<u64>> for Answer {
    fn from(value: Option<u64>) -> Answer {
        value.map_or(Answer::Absent, Answer::Found)
    }
}

/// The keys that a reader looks up, in this order, and the answers.
#[derive(Clone, Debug)]
pub struct Requests {
    keys: Vec<u64>,
    /// By the number of the key.
    pub answers: Vec<Answer>,
    /// The number of keys that were asked for.
    asked: usize,
    /// The number of answers that have come.
    pub answered: usize,
}

impl Requests {
    /// Nothing was asked for yet.
    pub fn new(keys: Vec<u64>) -> Requests {
        Requests { answers: vec![Answer::Pending; keys.len()], keys, asked: 0, answered: 0 }
    }

    /// `count` keys that look random, of which a tree of so many [`pairs`] has about half.
    pub fn random(reader: usize, count: usize, pairs: u64) -> Requests {
        let seed = next_key((reader as u64 + 1) << 48);
        let keys = std::iter::successors(Some(seed), |&key| Some(next_key(key)));
        Requests::new(keys.take(count).map(|key| (key >> 20) % (2 * pairs).max(1)).collect())
    }

    /// Whether all answers have come.
    pub fn is_done(&self) -> bool {
        self.answered == self.keys.len()
    }

    fn answer(&mut self, number: usize, answer: Answer) {
        self.answers[number] = answer;
        self.answered += 1;
    }

    /// Every answer that has come is that of the standard library's tree, and each came once.
    ///
    /// # Panics
    /// Otherwise.
    pub fn check(&self, pairs: &BTreeMap<u64, u64>) {
        let mut came = 0;
        for (key, &answer) in self.keys.iter().zip(&self.answers) {
            if answer != Answer::Pending {
                came += 1;
                assert_eq!(answer, Answer::from(pairs.get(key).copied()), "key {key}");
            }
        }
        assert_eq!(came, self.answered, "answers");
    }
}

/// Pairs with even keys from 0 on.
pub fn pairs(count: u64) -> BTreeMap<u64, u64> {
    (0..count).map(|n| (2 * n, next_key(n))).collect()
}
