//! Rings against a `VecDeque`: random pushes, pops, bulk operations, views and closings, with the switch
//! played by the test, counters starting anywhere, both byte orders.

use std::collections::VecDeque;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use zsr_ring::memory::ByteOrder;
use zsr_ring::{Cancel, Consumer, NullSwitch, PopError, Producer, PushError, Ring, RingSpec, Role};

#[derive(Debug, Clone)]
enum Op {
    Push,
    PushSlice(usize),
    Reserve { ask: usize, publish: usize },
    Pop,
    PopSlice(usize),
    Peek { advance: usize, keep: bool },
    Switch(u32),
    Reattach,
    Lag(u32),
    Close,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => Just(Op::Push),
        2 => (0usize..12).prop_map(Op::PushSlice),
        2 => (0usize..12, 0usize..12).prop_map(|(ask, publish)| Op::Reserve { ask, publish }),
        4 => Just(Op::Pop),
        2 => (0usize..12).prop_map(Op::PopSlice),
        2 => (0usize..12, any::<bool>()).prop_map(|(advance, keep)| Op::Peek { advance, keep }),
        6 => (0u32..400).prop_map(Op::Switch),
        1 => Just(Op::Reattach),
        1 => (0u32..200).prop_map(Op::Lag),
        1 => Just(Op::Close),
    ]
}

#[derive(Debug, Clone)]
struct Setup {
    item_shift: u32,
    from_shift: u32,
    to_shift: u32,
    from_start: u32,
    to_start: u32,
    from_order: ByteOrder,
    to_order: ByteOrder,
    local: bool,
}

fn order() -> impl Strategy<Value = ByteOrder> {
    prop_oneof![Just(ByteOrder::Little), Just(ByteOrder::Big)]
}

/// Anywhere, and often just before the counters wrap.
fn start() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), any::<u32>(), (0u32..400).prop_map(|back| u32::MAX - back)]
}

fn setup() -> impl Strategy<Value = Setup> {
    (2u32..6, 0u32..4, 0u32..4, start(), start(), order(), order(), any::<bool>()).prop_map(
        |(item_shift, from, to, from_start, to_start, from_order, to_order, local)| Setup {
            item_shift,
            from_shift: item_shift + from,
            to_shift: item_shift + to,
            from_start,
            to_start,
            from_order,
            to_order,
            local,
        },
    )
}

/// What must be where: items pushed and not yet moved, items moved and not yet popped.
struct Model {
    item: usize,
    producer: Option<Producer>,
    consumer: Consumer,
    rings: Option<(Arc<Ring>, Arc<Ring>, NullSwitch)>,
    at_producer: VecDeque<Vec<u8>>,
    at_consumer: VecDeque<Vec<u8>>,
    capacity: (usize, usize),
    next: u64,
    closed: bool,
    pushed: u64,
    popped: u64,
    lag: usize,
}

impl Model {
    fn new(setup: &Setup) -> Self {
        let spec = |shift: u32, order| {
            RingSpec::new(1 << setup.item_shift, 1 << shift).expect("powers of two").with_byte_order(order)
        };
        let from = spec(setup.from_shift, setup.from_order);
        let to = spec(setup.to_shift, setup.to_order);
        let item = 1usize << setup.item_shift;
        let (producer, consumer, rings) = if setup.local {
            let (tx, rx) = Ring::loopback_from(from, setup.from_start).expect("memory");
            (tx, rx, None)
        } else {
            let a = Ring::with_start(Role::Producer, from, setup.from_start, 3).expect("memory");
            let b = Ring::with_start(Role::Consumer, to, setup.to_start, 9).expect("memory");
            let switch = NullSwitch::new(Arc::clone(&a), Arc::clone(&b), 77).expect("matching rings");
            let tx = a.attach_producer(Cancel::new()).expect("first handle");
            let rx = b.attach_consumer(Cancel::new()).expect("first handle");
            (tx, rx, Some((a, b, switch)))
        };
        let capacity = (from.capacity() as usize, to.capacity() as usize);
        Self {
            item,
            producer: Some(producer),
            consumer,
            rings,
            at_producer: VecDeque::new(),
            at_consumer: VecDeque::new(),
            capacity,
            next: 1,
            closed: false,
            pushed: 0,
            popped: 0,
            lag: 0,
        }
    }

    /// Every item differs from its neighbours in every aligned 4 bytes.
    fn make(&mut self) -> Vec<u8> {
        let seed = self.next;
        self.next += 1;
        (0..self.item)
            .map(|i| (seed.wrapping_mul(0x9e37_79b9) >> (i % 4 * 8)) as u8 ^ (i / 4) as u8)
            .collect()
    }

    fn pushed_one(&mut self, item: Vec<u8>) {
        self.pushed += 1;
        if self.rings.is_some() {
            self.at_producer.push_back(item);
        } else {
            self.at_consumer.push_back(item);
        }
    }

    /// Free items at the producer: exactly (no lag), or at least.
    fn free(&self) -> usize {
        let there = if self.rings.is_some() { &self.at_producer } else { &self.at_consumer };
        self.capacity.0 - there.len()
    }

    fn check_free(&self, got: usize) {
        if self.rings.is_some() || self.lag == 0 {
            assert_eq!(got, self.free());
        } else {
            assert!(got <= self.free() && got + self.lag / self.item >= self.free());
        }
    }

    fn end(&self) -> PopError {
        if self.closed && self.at_producer.is_empty() && self.told() {
            PopError::Closed
        } else {
            PopError::Empty
        }
    }

    fn told(&self) -> bool {
        self.rings.as_ref().is_none_or(|(_, _, switch)| switch.is_closed())
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Push => {
                let item = self.make();
                let free = self.free();
                let Some(tx) = &mut self.producer else { return };
                match tx.try_push(&item) {
                    Ok(()) => self.pushed_one(item),
                    Err(PushError::Full) if self.lag == 0 || self.rings.is_some() => assert_eq!(free, 0),
                    Err(PushError::Full) => self.check_free(0),
                    Err(other) => panic!("{other}"),
                }
            }
            Op::PushSlice(count) => {
                let items: Vec<_> = (0..*count).map(|_| self.make()).collect();
                let Some(tx) = &mut self.producer else { return };
                match tx.try_push_slice(&items.concat()) {
                    Ok(done) => {
                        if done < *count {
                            self.check_free(done);
                        }
                        items.into_iter().take(done).for_each(|item| self.pushed_one(item));
                    }
                    Err(PushError::Full) => self.check_free(0),
                    Err(other) => panic!("{other}"),
                }
            }
            Op::Reserve { ask, publish } => {
                let items: Vec<_> = (0..*publish).map(|_| self.make()).collect();
                let Some(tx) = &mut self.producer else { return };
                match tx.reserve(*ask) {
                    Ok(mut slots) => {
                        assert!((1..=(*ask).max(1)).contains(&slots.len()));
                        let done = items.len().min(slots.len());
                        for (index, item) in items.iter().take(done).enumerate() {
                            slots.item(index).expect("within the reservation").copy_from_slice(item);
                        }
                        let beyond = slots.len();
                        assert!(slots.item(beyond).is_none());
                        slots.publish(done);
                        items.into_iter().take(done).for_each(|item| self.pushed_one(item));
                    }
                    Err(PushError::Full) => self.check_free(0),
                    Err(other) => panic!("{other}"),
                }
            }
            Op::Pop => {
                let mut buffer = vec![0; self.item];
                match self.consumer.try_pop(&mut buffer) {
                    Ok(()) => self.popped_one(&buffer),
                    Err(error) => self.check_end(error),
                }
            }
            Op::PopSlice(count) => {
                let mut buffer = vec![0; self.item * count];
                match self.consumer.try_pop_slice(&mut buffer) {
                    Ok(done) => {
                        assert_eq!(done, self.at_consumer.len().min(*count));
                        buffer.chunks(self.item).take(done).for_each(|item| self.popped_one(item));
                    }
                    Err(error) => self.check_end(error),
                }
            }
            Op::Peek { advance, keep } => {
                let looked = self.consumer.peek().map(|mut view| {
                    let seen: Vec<_> = view.iter().map(<[u8]>::to_vec).collect();
                    assert_eq!(seen.len(), view.len());
                    let first = (*advance).min(seen.len());
                    view.advance(*advance);
                    assert_eq!(view.len(), seen.len() - first);
                    assert_eq!(view.bytes(), seen[first..].concat());
                    if *keep {
                        view.keep()
                    } else {
                        drop(view)
                    }
                    (first, seen)
                });
                let (first, seen) = match looked {
                    Ok(looked) => looked,
                    Err(error) => return self.check_end(error),
                };
                let gone = if *keep { first } else { seen.len() };
                seen[..gone].iter().for_each(|item| self.popped_one(item));
                assert!(seen[gone..].iter().eq(self.at_consumer.iter().take(seen.len() - gone)));
            }
            Op::Switch(max) => {
                let Some((_, _, switch)) = &mut self.rings else { return };
                let moved = switch.step(*max) as usize / self.item;
                let room = self.capacity.1 - self.at_consumer.len();
                assert!(moved <= room && moved <= self.at_producer.len());
                if self.lag == 0 {
                    // A step stops only for want of items or room, or at a wrap.
                    assert!(moved > 0 || room == 0 || self.at_producer.is_empty());
                }
                self.at_consumer.extend(self.at_producer.drain(..moved));
            }
            Op::Reattach => {
                let Some((a, b, _)) = &self.rings else { return };
                let (a, b) = (Arc::clone(a), Arc::clone(b));
                if let Some(tx) = self.producer.take() {
                    assert!(a.attach_producer(Cancel::new()).is_err(), "two producers");
                    tx.detach();
                    self.producer = Some(a.attach_producer(Cancel::new()).expect("free again"));
                }
                assert!(b.attach_consumer(Cancel::new()).is_err(), "two consumers");
                // There is no moment without a handle in the model, so swap it against a local one.
                let (_, spare) = Ring::loopback(RingSpec::new(4, 4).expect("powers of two")).expect("memory");
                std::mem::replace(&mut self.consumer, spare).detach();
                self.consumer = b.attach_consumer(Cancel::new()).expect("free again");
                self.lag = 0;
            }
            Op::Lag(bytes) => {
                self.consumer.set_publish_lag(*bytes);
                self.lag = *bytes as usize;
            }
            Op::Close => {
                if let Some(tx) = self.producer.take() {
                    tx.close();
                    self.closed = true;
                }
            }
        }
    }

    fn popped_one(&mut self, item: &[u8]) {
        self.popped += 1;
        assert_eq!(Some(item), self.at_consumer.pop_front().as_deref());
    }

    fn check_end(&self, error: PopError) {
        assert!(self.at_consumer.is_empty(), "{error} with items in the ring");
        assert_eq!(error, self.end());
    }

    /// Lets everything out, and compares the totals.
    fn finish(mut self) {
        self.apply(&Op::Close);
        let mut buffer = vec![0; self.item];
        loop {
            self.apply(&Op::Switch(u32::MAX));
            match self.consumer.try_pop(&mut buffer) {
                Ok(()) => self.popped_one(&buffer),
                Err(PopError::Closed) => break,
                Err(PopError::Empty) => assert!(!self.told() || !self.at_producer.is_empty()),
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(self.popped, self.pushed);
        let stats = self.consumer.stats();
        assert_eq!((stats.items, stats.bytes), (self.popped, self.popped * self.item as u64));
        let stats = match &self.rings {
            Some((a, ..)) => a.push_stats(),
            None => self.consumer.ring().push_stats(),
        };
        assert_eq!(stats.items, self.pushed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    #[test]
    fn a_ring_behaves_like_a_queue(setup in setup(), ops in prop::collection::vec(op(), 0..160)) {
        let mut model = Model::new(&setup);
        for op in &ops {
            model.apply(op);
        }
        model.finish();
    }
}
