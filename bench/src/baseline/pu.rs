//! The program of a node's processing unit: it makes tuples, routes each by its key, pushes it, and looks at all that
//! arrive.

use super::run::{PUSHES, Program};
use super::{Ends, Kind, Took};

/// Spreads keys.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// A key that looks random, and that comes back after 2^64 others.
#[inline]
pub fn next_key(key: u64) -> u64 {
    key.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

/// The keys that a node pushes.
pub fn keys(node: usize, count: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(next_key((node as u64) << 48)), |&key| Some(next_key(key)))
        .take(count as usize)
}

/// The node of `nodes` that a key belongs to.
#[inline]
pub fn route(key: u64, nodes: usize) -> usize {
    (((key.wrapping_mul(MIX) >> 32) * nodes as u64) >> 32) as usize
}

/// The check sum of tuples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of tuples.
    pub tuples: u64,
    /// Sum of keys.
    pub keys: u64,
    /// Sum of all words of all tuples, of each multiplied by its place.
    pub words: u64,
}

impl Tally {
    /// Takes one more tuple into account, all of it.
    pub fn add(&mut self, tuple: &[u8]) {
        self.tuples += 1;
        for (place, word) in tuple.chunks_exact(8).enumerate() {
            let word = u64::from_le_bytes(word.try_into().expect("8 bytes"));
            if place == 0 {
                self.keys = self.keys.wrapping_add(word);
            }
            self.words = self.words.wrapping_add(word.wrapping_mul(2 * place as u64 + 1));
        }
    }
}

/// A node's program, for tuples of `SIZE` bytes, which a program knows when it is compiled.
pub struct Node<E, const SIZE: usize> {
    ends: E,
    kind: Kind,
    nodes: usize,
    node: usize,
    tuple: [u8; SIZE],
    /// Key and target of the tuple that is pushed next.
    key: u64,
    to: usize,
    left: u64,
    finished: bool,
    /// The streams of all sources have ended.
    pub ended: bool,
    /// Tuples that have come, and the sum of their keys.
    pub tuples: u64,
    /// As `tuples`.
    pub keys: u64,
    /// Tuples that belong to another node.
    pub strays: u64,
    /// All of what has come, if all of it is to be looked at.
    pub whole: Option<Tally>,
}

impl<E: Ends, const SIZE: usize> Node<E, SIZE> {
    /// Node `node` of `nodes`, which pushes `count` tuples; `whole`: it looks at all bytes that come.
    pub fn new(ends: E, kind: Kind, (node, nodes): (usize, usize), count: u64, whole: bool) -> Self {
        let mut made = Node {
            ends,
            kind,
            nodes,
            node,
            tuple: std::array::from_fn(|n| (n * 7) as u8),
            key: (node as u64) << 48,
            to: 0,
            left: count,
            finished: false,
            ended: false,
            tuples: 0,
            keys: 0,
            strays: 0,
            whole: whole.then(Tally::default),
        };
        made.make();
        made
    }

    /// The next tuple: a key, and the same behind it.
    #[inline]
    fn make(&mut self) {
        self.key = next_key(self.key);
        if let Some(place) = self.tuple.first_chunk_mut::<16>() {
            *place = (u128::from(self.key) << 64 | u128::from(self.key)).to_le_bytes();
        }
        self.to = if self.kind == Kind::Replicate { 0 } else { route(self.key, self.nodes) };
    }

    /// Keeps the stream open though nothing is left to be pushed.
    #[must_use]
    pub fn open(mut self) -> Self {
        self.finished = true;
        self
    }

    /// Pushes one tuple more; there must be room.
    pub fn push_one(&mut self) {
        assert!(self.ends.try_push(self.to, &self.tuple), "no room");
        self.make();
    }

    /// Pushes at most `most` tuples, as long as there is room, and ends the stream behind the last one. Returns the
    /// number of steps.
    fn push_some(&mut self, most: usize) -> usize {
        let mut pushed = 0;
        while pushed < most && self.left > 0 && self.ends.try_push(self.to, &self.tuple) {
            self.left -= 1;
            pushed += 1;
            self.make();
        }
        if self.left == 0 && !self.finished {
            self.finished = self.ends.try_finish();
            pushed += usize::from(self.finished);
        }
        pushed
    }

    /// Looks at tuples that have come, `most` times. Returns how often there were some.
    fn consume_some(&mut self, most: usize) -> usize {
        let Node { ends, tuples, keys, strays, whole, .. } = self;
        let (here, all) = (self.node, self.nodes);
        let routed = self.kind == Kind::Shuffle;
        let mut sink = |run: &[u8]| {
            for tuple in run.as_chunks::<SIZE>().0 {
                let Some(key) = tuple.first_chunk::<8>() else { continue };
                let key = u64::from_le_bytes(*key);
                *tuples += 1;
                *keys = keys.wrapping_add(key);
                if let Some(whole) = whole {
                    whole.add(tuple);
                    *strays += u64::from(routed && route(key, all) != here);
                }
            }
        };
        for taken in 0..most {
            match ends.consume(&mut sink) {
                Took::Some => {}
                Took::Nothing => return taken,
                Took::End => {
                    self.ended = true;
                    return taken;
                }
            }
        }
        most
    }
}

impl<E: Ends, const SIZE: usize> Program for Node<E, SIZE> {
    fn push(&mut self) -> usize {
        self.push_some(PUSHES)
    }

    fn consume(&mut self) -> usize {
        self.consume_some(usize::MAX)
    }

    fn is_done(&self) -> bool {
        self.finished && self.ended
    }
}

/// The tally of all tuples that all nodes push.
pub fn expected(nodes: usize, tuple: usize, count: u64) -> Tally {
    let mut tally = Tally::default();
    let mut bytes: Vec<u8> = (0..tuple).map(|n| (n * 7) as u8).collect();
    for node in 0..nodes {
        for key in keys(node, count) {
            bytes[..16].copy_from_slice(&[key.to_le_bytes(), key.to_le_bytes()].concat());
            tally.add(&bytes);
        }
    }
    tally
}
