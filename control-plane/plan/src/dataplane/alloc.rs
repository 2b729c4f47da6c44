//! Numbers in the data plane for flows that come and go: workers, producer rings, connections, and one per flow.
//!
//! The switch's registers keep their values when a flow goes. So a number that was given back rests until
//! [`Allocator::reusable`] is told that its registers are clean again. A connection that is used again has another
//! queue pair number, so that late packets find nobody.

use super::{FIRST_FLOW_GROUP, Qp, qp};
use crate::p4::{Schema, SchemaError};
use std::collections::BTreeSet;

/// A generation's bits in a queue pair number; the bits above them name a pipe ([`Qp::in_pipe`]). All ones is no queue
/// pair's number.
const GENERATION: u8 = 0x3f;
const LAST_GENERATION: u8 = GENERATION - 1;

/// A number that a flow has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Number {
    /// Of a worker.
    Worker(u16),
    /// Of a producer ring.
    Producer(u16),
    /// Of a connection.
    Qp(u16),
    /// Of a flow: its rate cap, and its multicast groups.
    Flow(u16),
}

/// A kind of number, as a variant of [`Number`].
pub type NumberOf = fn(u16) -> Number;

/// Sizes of the P4 program. Number 0 of each kind is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Workers. The last one belongs to no flow: it answers when asked ([`Room::probe`]).
    pub workers: u32,
    /// Producer rings.
    pub producers: u32,
    /// Connections.
    pub qps: u32,
    /// Flows.
    pub flows: u32,
}

impl Default for Room {
    /// The sizes of p4/common/types.p4, the largest that numbers allow.
    fn default() -> Self {
        Room { workers: 16384, producers: 32768, qps: 65536, flows: 16384 }
    }
}

impl Room {
    /// The sizes of a program, whose registers are as large as its tables.
    ///
    /// # Errors
    /// When the program lacks one of the tables.
    pub fn of(schema: &Schema) -> Result<Self, SchemaError> {
        let most = Room::default();
        Ok(Room {
            workers: schema.size("workers")?.min(most.workers),
            producers: schema.size("producers")?.min(most.producers),
            qps: schema.size("peers")?.min(most.qps),
            flows: schema.size("flows")?.min(most.flows),
        })
    }

    /// A worker that never runs; its answer shows that the data plane has come so far.
    pub fn probe(&self) -> u16 {
        self.workers.saturating_sub(1) as u16
    }
}

/// Numbers that were given back, and the era of the switch that remembers them.
pub type Resting = (u32, Vec<Number>);

/// The generation before a connection's first one. Numbers of one generation differ in the lower bits only, and a
/// Tofino finds entries by hashes of their keys. A Tofino had room for two thirds of such connections, and for all but
/// a fiftieth of connections with a generation each.
fn generation_before(index: usize) -> u8 {
    ((index as u32).wrapping_mul(0x9e37_79b1) >> 26) as u8 % LAST_GENERATION
}

/// The multicast group of a flow's data connections; the next number is that of its poll connections.
pub fn group_of(flow: u16) -> u16 {
    FIRST_FLOW_GROUP + 2 * flow
}

/// No number is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the switch has no room for more {what}{}: {in_use} of {room} are in use{}",
    if *shares > 1 { format!(" in one pipe, which has one of {shares}") } else { String::new() },
    match resting {
        0 => "; delete flows that nobody needs".into(),
        _ => format!(", and {resting} rest until the switch has forgotten them; delete flows, or try again in a moment"),
    }
)]
pub struct Exhausted {
    /// "workers", "producer rings", …
    pub what: &'static str,
    /// The number in use.
    pub in_use: u32,
    /// The number that there are.
    pub room: u32,
    /// The number given back that may not be used yet.
    pub resting: u32,
    /// The number of shares that they are divided into.
    pub shares: u32,
}

/// Numbers of one kind.
#[derive(Clone, Debug)]
struct Kind {
    what: &'static str,
    first: u32,
    /// The next number that was never used, and the end.
    next: u32,
    end: u32,
    free: Vec<u16>,
    resting: u32,
}

impl Kind {
    fn new(what: &'static str, first: u32, end: u32) -> Self {
        Kind { what, first, next: first, end, free: Vec::new(), resting: 0 }
    }

    fn take(&mut self) -> Result<u16, Exhausted> {
        self.take_of((1, 0))
    }

    /// The same, of the numbers whose remainder by `shares` is `share`.
    fn take_of(&mut self, (shares, share): (u32, u32)) -> Result<u16, Exhausted> {
        let is_of = |number: &u16| u32::from(*number) % shares == share;
        if let Some(at) = self.free.iter().rposition(is_of) {
            return Ok(self.free.swap_remove(at));
        }
        while self.next < self.end {
            let number = self.next as u16;
            self.next += 1;
            if is_of(&number) {
                return Ok(number);
            }
            self.free.push(number);
        }
        let (in_use, room) = (self.in_use(), self.room());
        Err(Exhausted { what: self.what, in_use, room, resting: self.resting, shares })
    }

    fn room(&self) -> u32 {
        self.end.saturating_sub(self.first)
    }

    fn in_use(&self) -> u32 {
        self.next - self.first - self.free.len() as u32 - self.resting
    }

    /// Takes `number` as in use; those skipped rest.
    fn note(&mut self, number: u16) {
        self.skip(number);
        self.resting = self.resting.saturating_sub(1);
    }

    /// Numbers up to `number` may have been used: those that are not noted rest.
    fn skip(&mut self, number: u16) {
        let next = (u32::from(number) + 1).clamp(self.next, self.end);
        self.resting += next - self.next;
        self.next = next;
    }
}

/// Hands out numbers and takes them back.
#[derive(Clone, Debug)]
pub struct Allocator {
    workers: Kind,
    producers: Kind,
    qps: Kind,
    flows: Kind,
    /// For each connection: how often it was handed out, modulo 127.
    generations: Vec<u8>,
    era: u32,
    room: Room,
}

/// How many numbers are in use, or can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse {
    /// Workers.
    pub workers: u32,
    /// Producer rings.
    pub producers: u32,
    /// Connections.
    pub qps: u32,
}

impl Default for Allocator {
    fn default() -> Self {
        Self::with(Room::default())
    }
}

impl Allocator {
    /// All numbers of a program with this room.
    pub fn with(room: Room) -> Self {
        Allocator {
            workers: Kind::new("workers", 1, u32::from(room.probe())),
            producers: Kind::new("producer rings", 1, room.producers),
            qps: Kind::new("connections", 2, room.qps),
            flows: Kind::new("flows", 1, room.flows),
            generations: Vec::new(),
            era: 0,
            room,
        }
    }

    /// A worker from share number `share` of `shares` ([`Pipes::share`](zsr_topology::Pipes::share)).
    ///
    /// # Errors
    /// When none is left. So for all kinds.
    pub fn worker(&mut self, share: (u32, u32)) -> Result<u16, Exhausted> {
        self.workers.take_of(share)
    }

    /// A producer ring.
    pub fn producer(&mut self) -> Result<u16, Exhausted> {
        self.producers.take()
    }

    /// A flow.
    pub fn flow(&mut self) -> Result<u16, Exhausted> {
        self.flows.take()
    }

    /// A connection, under a queue pair number that it has not had lately.
    pub fn qp(&mut self) -> Result<Qp, Exhausted> {
        let index = self.qps.take()?;
        let generation = self.generation(index);
        *generation = *generation % LAST_GENERATION + 1;
        Ok(qp(index, *generation))
    }

    fn generation(&mut self, index: u16) -> &mut u8 {
        let at = usize::from(index);
        let known = self.generations.len();
        self.generations.extend((known..=at).map(generation_before));
        &mut self.generations[at]
    }

    /// Notes that numbers are in use, as found in a store; `qps` are connections with their queue pair numbers.
    pub fn note(&mut self, numbers: &[Number], qps: impl Iterator<Item = Qp>) {
        numbers.iter().for_each(|&n| {
            let (kind, n) = self.kind(n);
            kind.note(n);
        });
        for qp in qps {
            *self.generation(qp.index) = (qp.qpn >> 16) as u8 & GENERATION;
        }
    }

    /// Notes that numbers up to these may have been in use. [`idle`](Self::idle) returns those that rest.
    pub fn skip(&mut self, numbers: &[Number]) {
        numbers.iter().for_each(|&n| {
            let (kind, n) = self.kind(n);
            kind.skip(n);
        });
    }

    /// As many more connections may have been in use as a member needs that was about to join a group.
    pub fn skip_joiner(&mut self) {
        self.qps.skip((self.qps.next + 1) as u16);
    }

    /// When no number was given back yet: the numbers that rest, since they are not in use and may have been.
    pub fn idle(&self, in_use: &BTreeSet<Number>) -> Vec<Number> {
        let kinds: [(&Kind, NumberOf); 4] = [
            (&self.workers, Number::Worker),
            (&self.producers, Number::Producer),
            (&self.qps, Number::Qp),
            (&self.flows, Number::Flow),
        ];
        let all = kinds
            .into_iter()
            .flat_map(|(kind, number)| (kind.first..kind.next).map(move |n| number(n as u16)));
        all.filter(|n| !in_use.contains(n)).collect()
    }

    /// Gives numbers back whose registers the switch still remembers.
    pub fn rest(&mut self, numbers: &[Number]) {
        numbers.iter().for_each(|&n| self.kind(n).0.resting += 1);
    }

    /// Makes resting numbers usable, since their registers are fresh. Only this call does so.
    pub fn reusable(&mut self, numbers: &[Number]) {
        for &n in numbers {
            let (kind, n) = self.kind(n);
            kind.resting -= 1;
            kind.free.push(n);
        }
    }

    /// Gives numbers back that the switch was never told of: they may be used at once.
    pub fn untouched(&mut self, numbers: &[Number]) {
        self.rest(numbers);
        self.reusable(numbers);
    }

    /// The switch remembers nothing any more: no number is in use, and none rests. A new era begins; numbers given back
    /// in the era before no longer matter. Queue pair numbers go on.
    pub fn forget(&mut self) {
        *self = Allocator {
            generations: std::mem::take(&mut self.generations),
            era: self.era + 1,
            ..Allocator::with(self.room)
        };
    }

    /// How often the switch has forgotten everything.
    pub fn era(&self) -> u32 {
        self.era
    }

    /// How many numbers are in use.
    pub fn in_use(&self) -> InUse {
        InUse { workers: self.workers.in_use(), producers: self.producers.in_use(), qps: self.qps.in_use() }
    }

    /// How many numbers can be in use.
    pub fn most(&self) -> InUse {
        InUse { workers: self.workers.room(), producers: self.producers.room(), qps: self.qps.room() }
    }

    fn kind(&mut self, number: Number) -> (&mut Kind, u16) {
        match number {
            Number::Worker(n) => (&mut self.workers, n),
            Number::Producer(n) => (&mut self.producers, n),
            Number::Qp(n) => (&mut self.qps, n),
            Number::Flow(n) => (&mut self.flows, n),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_given_back_rest_until_they_are_clean() {
        let mut all = Allocator::default();
        let (worker, producer, qp) =
            (all.worker((1, 0)).unwrap(), all.producer().unwrap(), all.qp().unwrap());
        assert_eq!((worker, producer, qp.index), (1, 1, 2));
        assert_eq!(all.in_use(), InUse { workers: 1, producers: 1, qps: 1 });
        let back = [Number::Producer(producer), Number::Qp(qp.index)];
        all.rest(&back);
        assert_eq!(all.in_use(), InUse { workers: 1, producers: 0, qps: 0 });
        assert_eq!((all.producer().unwrap(), all.qp().unwrap().index), (2, 3));
        all.reusable(&back);
        assert_eq!(all.producer().unwrap(), producer);
        let again = all.qp().unwrap();
        assert!(again.index == qp.index && again.qpn != qp.qpn, "another queue pair number");
    }

    #[test]
    fn each_pipe_has_its_share_of_the_workers() {
        let mut all = Allocator::default();
        let taken: Vec<u16> = [1, 1, 0, 3].map(|share| all.worker((4, share)).unwrap()).into();
        assert_eq!(taken, [1, 5, 4, 3]);
        // Numbers that were passed over belong to no flow.
        assert_eq!(all.in_use().workers, 4);
        assert_eq!(all.worker((4, 2)), Ok(2));
        let left = std::iter::from_fn(|| all.worker((4, 2)).ok()).count() as u32;
        let e = all.worker((4, 2)).unwrap_err();
        assert_eq!((left, e.shares), (Room::default().workers / 4 - 1, 4));
        assert!(e.to_string().contains("no room for more workers in one pipe, which has one of 4"), "{e}");
        assert!(all.worker((4, 1)).is_ok());
    }

    #[test]
    fn generations_never_reach_zero() {
        let mut all = Allocator::default();
        for _ in 0..300 {
            let qp = all.qp().unwrap();
            assert_eq!(qp.index, 2);
            assert!((1..=62).contains(&(qp.qpn >> 16)));
            all.untouched(&[Number::Qp(2)]);
        }
    }

    #[test]
    fn connections_are_of_all_generations() {
        let mut all = Allocator::default();
        let mut generations = std::collections::BTreeMap::<u32, u32>::new();
        for _ in 0..1000 {
            *generations.entry(all.qp().unwrap().qpn >> 16).or_default() += 1;
        }
        assert_eq!(generations.len(), usize::from(LAST_GENERATION));
        assert!(generations.values().all(|of_one| *of_one <= 40), "{generations:?}");
    }

    #[test]
    fn the_end_is_an_error_that_says_how_many_there_are() {
        let mut all = Allocator::default();
        let taken = std::iter::from_fn(|| all.worker((1, 0)).ok()).count() as u32;
        // Without the first number, which is not used, and the probe.
        assert_eq!((taken, all.most().workers), (Room::default().workers - 2, taken));
        let e = all.worker((1, 0)).unwrap_err();
        assert_eq!((e.what, e.in_use, e.room, e.resting), ("workers", taken, taken, 0));
        assert!(e.to_string().ends_with("are in use; delete flows that nobody needs"), "{e}");
        all.rest(&[Number::Worker(7)]);
        let e = all.worker((1, 0)).unwrap_err();
        assert!(e.resting == 1 && e.to_string().ends_with("or try again in a moment"), "{e}");
        all.reusable(&[Number::Worker(7)]);
        assert_eq!(all.worker((1, 0)), Ok(7));
    }

    #[test]
    fn a_switch_that_forgets_makes_everything_free_under_other_queue_pair_numbers() {
        let mut all = Allocator::default();
        let (worker, qp) = (all.worker((1, 0)).unwrap(), all.qp().unwrap());
        all.rest(&[Number::Worker(worker)]);
        all.forget();
        assert_eq!((all.in_use(), all.era()), (InUse { workers: 0, producers: 0, qps: 0 }, 1));
        assert_eq!(all.worker((1, 0)), Ok(worker));
        let again = all.qp().unwrap();
        assert!(again.index == qp.index && again.qpn != qp.qpn);
    }

    #[test]
    fn what_a_store_names_is_not_handed_out_again() {
        let mut all = Allocator::default();
        all.note(&[Number::Worker(3), Number::Worker(1), Number::Qp(2)], [qp(2, 5)].into_iter());
        assert_eq!(all.in_use(), InUse { workers: 2, producers: 0, qps: 1 });
        assert_eq!((all.worker((1, 0)), all.producer()), (Ok(4), Ok(1)));
        all.untouched(&[Number::Qp(2)]);
        assert_eq!(all.qp().unwrap().qpn >> 16, 6);
    }

    #[test]
    fn what_may_have_been_used_rests_and_is_told() {
        let mut all = Allocator::default();
        let used = [Number::Worker(4), Number::Worker(1)];
        all.note(&used, std::iter::empty());
        all.skip(&[Number::Worker(5), Number::Worker(2), Number::Flow(1)]);
        let idle = all.idle(&used.into());
        assert_eq!(idle, [Number::Worker(2), Number::Worker(3), Number::Worker(5), Number::Flow(1)]);
        assert_eq!((all.in_use().workers, all.workers.resting), (2, 3));
        all.reusable(&idle);
        assert_eq!((all.in_use().workers, all.worker((1, 0)), all.flow()), (2, Ok(5), Ok(1)));
    }
}
