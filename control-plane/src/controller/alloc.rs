//! Numbers in the data plane for flows that come and go: workers, producer rings, queue pairs.
//!
//! The switch's registers keep their values when a flow goes, so a number that was given back rests until somebody says
//! that what it names is clean again ([`Allocator::reusable`]); until then fresh ones are handed out. A queue pair number
//! that is used again has another generation in its upper bits, so that late packets find no connection.

use crate::plan::{Qp, RingIds};

// Sizes of the P4 program (p4/common/types.p4). Producer 0 is none.
const MAX_WORKERS: u32 = 16384;
const MAX_PRODUCERS: u32 = 32768;
const MAX_QPS: u32 = 65536;
const LAST_GENERATION: u8 = 127;

/// No number is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the switch has no room for more {what}: {in_use} of {room} are in use, and {resting} rest until the switch has \
     forgotten them; delete flows, or restart the switch"
)]
pub struct Exhausted {
    /// "workers", "producer rings", "queue pairs".
    pub what: &'static str,
    /// How many are in use.
    pub in_use: u32,
    /// How many there are.
    pub room: u32,
    /// How many were given back and may not be used yet.
    pub resting: u32,
}

/// One kind of number.
#[derive(Clone, Debug)]
struct Numbers {
    what: &'static str,
    /// The next that was never used, and the end.
    next: u32,
    end: u32,
    first: u32,
    free: Vec<u16>,
    resting: u32,
}

impl Numbers {
    fn new(what: &'static str, first: u32, end: u32) -> Self {
        Numbers { what, next: first, end, first, free: Vec::new(), resting: 0 }
    }

    fn take(&mut self) -> Result<u16, Exhausted> {
        if let Some(number) = self.free.pop() {
            return Ok(number);
        }
        if self.next == self.end {
            let (in_use, room) = (self.in_use(), self.end - self.first);
            return Err(Exhausted { what: self.what, in_use, room, resting: self.resting });
        }
        self.next += 1;
        Ok((self.next - 1) as u16)
    }

    fn in_use(&self) -> u32 {
        self.next - self.first - self.free.len() as u32 - self.resting
    }
}

/// Hands out numbers and takes them back.
#[derive(Clone, Debug)]
pub struct Allocator {
    workers: Numbers,
    producers: Numbers,
    qps: Numbers,
    /// Per queue pair: how often it was handed out, modulo 127.
    generations: Vec<u8>,
}

/// How many numbers are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse {
    /// Workers.
    pub workers: u32,
    /// Producer rings.
    pub producers: u32,
    /// Queue pairs.
    pub qps: u32,
}

impl Default for Allocator {
    fn default() -> Self {
        Allocator {
            workers: Numbers::new("workers", 0, MAX_WORKERS),
            producers: Numbers::new("producer rings", 1, MAX_PRODUCERS),
            qps: Numbers::new("queue pairs", 0, MAX_QPS),
            generations: Vec::new(),
        }
    }
}

impl Allocator {
    /// Numbers of a consumer ring and the worker that fills it.
    ///
    /// # Errors
    /// When no number is left; then none was taken.
    pub fn consumer(&mut self) -> Result<RingIds, Exhausted> {
        let worker = self.workers.take()?;
        let [data, poll] = match self.pair() {
            Ok(pair) => pair,
            Err(e) => {
                self.workers.free.push(worker);
                return Err(e);
            }
        };
        Ok(RingIds { id: worker, worker, is_producer: false, data, poll })
    }

    /// Numbers of a producer ring that `worker` drains.
    ///
    /// # Errors
    /// When no number is left; then none was taken.
    pub fn producer(&mut self, worker: u16) -> Result<RingIds, Exhausted> {
        let id = self.producers.take()?;
        let [data, poll] = match self.pair() {
            Ok(pair) => pair,
            Err(e) => {
                self.producers.free.push(id);
                return Err(e);
            }
        };
        Ok(RingIds { id, worker, is_producer: true, data, poll })
    }

    fn pair(&mut self) -> Result<[Qp; 2], Exhausted> {
        let data = self.qps.take()?;
        match self.qps.take() {
            Ok(poll) => Ok([self.qp(data), self.qp(poll)]),
            Err(e) => {
                self.qps.free.push(data);
                Err(e)
            }
        }
    }

    /// The queue pair of an index, in a generation that it has not had lately. Registers start at zero, so PSNs do.
    fn qp(&mut self, index: u16) -> Qp {
        let at = usize::from(index);
        if self.generations.len() <= at {
            self.generations.resize(at + 1, 0);
        }
        let generation = &mut self.generations[at];
        *generation = *generation % LAST_GENERATION + 1;
        Qp { index, qpn: u32::from(*generation) << 16 | u32::from(index), psn: 0 }
    }

    /// Notes that `ids` are in use, as found in a store.
    pub fn note(&mut self, ids: &RingIds) {
        let numbers = if ids.is_producer { &mut self.producers } else { &mut self.workers };
        // Whatever lies below and is in no store rests: its registers are of an earlier flow.
        numbers.skip_to(ids.id);
        for qp in [ids.data, ids.poll] {
            self.qps.skip_to(qp.index);
            let at = usize::from(qp.index);
            if self.generations.len() <= at {
                self.generations.resize(at + 1, 0);
            }
            self.generations[at] = (qp.qpn >> 16) as u8;
        }
    }

    /// Gives numbers back that the switch was never told of: they may be used at once.
    pub fn untouched(&mut self, ids: &RingIds) {
        self.rest(ids);
        self.reusable(ids);
    }

    /// Gives numbers back whose registers the switch still remembers.
    pub fn rest(&mut self, ids: &RingIds) {
        let numbers = if ids.is_producer { &mut self.producers } else { &mut self.workers };
        numbers.resting += 1;
        self.qps.resting += 2;
    }

    /// The one place to be told that the registers behind resting numbers are as fresh.
    pub fn reusable(&mut self, ids: &RingIds) {
        let numbers = if ids.is_producer { &mut self.producers } else { &mut self.workers };
        numbers.resting -= 1;
        numbers.free.push(ids.id);
        self.qps.resting -= 2;
        self.qps.free.extend([ids.data.index, ids.poll.index]);
    }

    /// How many numbers are in use.
    pub fn in_use(&self) -> InUse {
        InUse { workers: self.workers.in_use(), producers: self.producers.in_use(), qps: self.qps.in_use() }
    }
}

impl Numbers {
    /// Takes `number` as in use; those skipped rest.
    fn skip_to(&mut self, number: u16) {
        let number = u32::from(number);
        if number < self.next {
            self.resting = self.resting.saturating_sub(1);
        } else {
            self.resting += number - self.next;
            self.next = number + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_given_back_rest_until_they_are_clean() {
        let mut all = Allocator::default();
        let consumer = all.consumer().unwrap();
        let producer = all.producer(consumer.worker).unwrap();
        assert_eq!((consumer.id, producer.id, producer.data.index), (0, 1, 2));
        assert_eq!(all.in_use(), InUse { workers: 1, producers: 1, qps: 4 });
        all.rest(&producer);
        assert_eq!(all.in_use(), InUse { workers: 1, producers: 0, qps: 2 });
        assert_eq!(all.producer(0).unwrap().id, 2);
        all.reusable(&producer);
        let again = all.producer(0).unwrap();
        assert_eq!(again.id, producer.id);
        let qpns = [again.data.qpn, again.poll.qpn];
        assert!(
            !qpns.contains(&producer.data.qpn) && !qpns.contains(&producer.poll.qpn),
            "another generation"
        );
    }

    #[test]
    fn generations_never_reach_zero() {
        let mut all = Allocator::default();
        for _ in 0..300 {
            let ids = all.consumer().unwrap();
            assert_eq!(ids.id, 0);
            assert!((1..=127).contains(&(ids.data.qpn >> 16)));
            all.untouched(&ids);
        }
    }

    #[test]
    fn the_end_is_an_error_that_says_how_many_there_are() {
        let mut all = Allocator::default();
        let taken: Vec<_> = (0..MAX_WORKERS).map(|_| all.consumer().unwrap()).collect();
        let e = all.consumer().unwrap_err();
        assert_eq!((e.what, e.in_use, e.room, e.resting), ("workers", MAX_WORKERS, MAX_WORKERS, 0));
        all.rest(&taken[7]);
        assert_eq!(all.consumer().unwrap_err().resting, 1);
        all.reusable(&taken[7]);
        assert_eq!(all.consumer().unwrap().id, 7);
    }

    #[test]
    fn what_a_store_names_is_not_handed_out_again() {
        let mut first = Allocator::default();
        let consumers = [first.consumer().unwrap(), first.consumer().unwrap()];
        let producer = first.producer(1).unwrap();
        let mut second = Allocator::default();
        second.note(&consumers[1]);
        second.note(&producer);
        assert_eq!(second.in_use(), InUse { workers: 1, producers: 1, qps: 4 });
        assert_eq!(second.consumer().unwrap().id, 2);
    }
}
