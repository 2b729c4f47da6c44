//! Look-ups through flows: one to the host of the tree, with keys, and one back, whose tuples have an explicit target.

use zsr_ring::{Consumer, PopError, Producer, PushError};

use super::super::cluster::{Cluster, Hosts};
use super::super::run::Program;
use super::super::{Flow, Hint, Kind, MTU, Members, zsr};
use super::{Answer, Requests, Tree};

/// Bytes of a key with its reader and number, and of an answer with that number.
const TUPLE: usize = 16;
/// Bytes of each ring.
const RING: usize = 64 << 10;
/// Flag of an answer: the key was found. Its number is in the lower half.
const FOUND: u64 = 1 << 32;

/// A program of one of the hosts.
pub enum Part {
    /// At the tree.
    Host(Host),
    /// A host that looks keys up.
    Reader(Reader),
}

/// Looks up the keys of readers, at the host of the tree.
pub struct Host {
    tree: Tree,
    keys: Consumer,
    /// By reader.
    answers: Vec<Producer>,
    /// Answers that are not yet in rings, by reader.
    out: Vec<Vec<u8>>,
    /// Look-ups that one turn allows, and that are allowed now.
    pace: f64,
    allowed: f64,
}

/// Pushes a batch of keys as soon as the batch before it is answered.
pub struct Reader {
    /// The keys that the reader looks up.
    pub requests: Requests,
    number: u64,
    keys: Producer,
    answers: Consumer,
    batch: usize,
    tuples: Vec<u8>,
}

impl Host {
    fn look_up(&mut self) -> usize {
        self.allowed = (self.allowed + self.pace).min(self.pace + 1.0);
        let mut done = 0;
        while self.allowed >= 1.0 {
            let mut view = match self.keys.peek_at_most(self.allowed.min(1e6) as usize) {
                Ok(view) => view,
                Err(PopError::Empty) => break,
                Err(e) => panic!("{e}"),
            };
            let len = view.len();
            for tuple in view.bytes().as_chunks::<TUPLE>().0 {
                let (key, whose) = super::words(tuple);
                let number = whose & u64::from(u32::MAX);
                let (value, number) = match self.tree.get(key) {
                    Some(value) => (value, number | FOUND),
                    None => (0, number),
                };
                let answer = u128::from(number) << 64 | u128::from(value);
                self.out[(whose >> 32) as usize].extend_from_slice(&answer.to_le_bytes());
            }
            view.advance(len);
            self.allowed -= len as f64;
            done += len;
        }
        for (out, ring) in self.out.iter_mut().zip(&mut self.answers) {
            match ring.try_push_slice(out) {
                Ok(pushed) => drop(out.drain(..pushed * TUPLE)),
                Err(PushError::Full) => {}
                Err(e) => panic!("{e}"),
            }
        }
        done
    }
}

impl Reader {
    fn turn(&mut self) -> usize {
        let (requests, mut steps) = (&mut self.requests, 0);
        while requests.answered < requests.asked {
            let view = match self.answers.peek() {
                Ok(view) => view,
                Err(PopError::Empty) => return steps,
                Err(e) => panic!("{e}"),
            };
            for tuple in view.bytes().as_chunks::<TUPLE>().0 {
                let (value, number) = super::words(tuple);
                let answer = if number & FOUND == 0 { Answer::Absent } else { Answer::Found(value) };
                requests.answer(number as u32 as usize, answer);
                steps += 1;
            }
        }
        self.tuples.clear();
        for (number, &key) in requests.keys.iter().enumerate().skip(requests.asked).take(self.batch) {
            let tuple = u128::from(self.number << 32 | number as u64) << 64 | u128::from(key);
            self.tuples.extend_from_slice(&tuple.to_le_bytes());
        }
        match self.keys.try_push_slice(&self.tuples) {
            Ok(pushed) => requests.asked += pushed,
            Err(PushError::Full) => {}
            Err(e) => panic!("{e}"),
        }
        steps
    }
}

impl Program for Part {
    fn push(&mut self) -> usize {
        if let Part::Reader(reader) = self { reader.turn() } else { 0 }
    }

    fn consume(&mut self) -> usize {
        if let Part::Host(host) = self { host.look_up() } else { 0 }
    }

    fn is_done(&self) -> bool {
        if let Part::Reader(reader) = self { reader.requests.is_done() } else { true }
    }
}

impl Part {
    /// The keys of a reader; none of the tree's host.
    pub fn requests(&self) -> Option<&Requests> {
        if let Part::Reader(reader) = self { Some(&reader.requests) } else { None }
    }
}

/// A host with the tree and one for each reader. Readers push `batch` keys at a time, `poll_us` is that of the flows,
/// and the host looks up at most `pace` keys in a turn.
pub fn hosts(
    tree: &Tree,
    requests: Vec<Requests>,
    batch: usize,
    poll_us: u64,
    pace: f64,
) -> (Hosts, Vec<Part>) {
    assert!((1..=RING / TUPLE).contains(&batch), "{batch} keys");
    let flow =
        |members| Flow { ring: RING, members, poll_us, ..Flow::new(Kind::Shuffle, Hint::Latency, TUPLE) };
    let flows = [flow(Members::ToFirst), flow(Members::FromFirst)];
    let hosts = Hosts::new(requests.len() + 1, 1, &flows, MTU);
    let host = Host {
        tree: tree.clone(),
        keys: zsr::consumers(&hosts, 0, 0).remove(0),
        answers: zsr::producers(&hosts, 1, 0),
        out: vec![Vec::new(); requests.len()],
        pace,
        allowed: 0.0,
    };
    let reader = |(number, requests)| {
        let keys = zsr::producers(&hosts, 0, number).pop().expect("a ring to the host of the tree");
        let answers = zsr::consumers(&hosts, 1, number).remove(0);
        let number = number as u64;
        Part::Reader(Reader { requests, number, keys, answers, batch, tuples: Vec::new() })
    };
    let readers = requests.into_iter().enumerate().map(reader);
    let parts = std::iter::once(Part::Host(host)).chain(readers).collect();
    (hosts, parts)
}

/// The [`hosts`] as a cluster, whose host takes no rest.
pub fn cluster(tree: &Tree, requests: Vec<Requests>, batch: usize) -> (Cluster, Vec<Part>) {
    let (hosts, parts) = hosts(tree, requests, batch, super::super::cluster::TICK_US, f64::INFINITY);
    (Cluster::new(hosts), parts)
}
