//! Flows of `zsr::testing` keep the promises of real ones.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::thread;
use std::time::Duration;

use zsr::api::EventKind;
use zsr::testing::{self, Flow};
use zsr::{FlowConsumer, FlowProducer, Options, Popped, ProgramError, Session};

/// More than the rings of one way hold together.
const MANY: u64 = 40_000;

/// Producer, number in its stream, and the consumer it is for.
type Record = (u32, u64, u32);

const SCHEMA: &str = "producer: u32, number: u64, at: u32";

fn tuple((producer, number, at): Record) -> Vec<u8> {
    [&producer.to_le_bytes()[..], &number.to_le_bytes(), &at.to_le_bytes()].concat()
}

fn record(tuple: &[u8]) -> Record {
    let word = |at: usize| u32::from_le_bytes(tuple[at..at + 4].try_into().unwrap());
    (word(0), u64::from_le_bytes(tuple[4..12].try_into().unwrap()), word(12))
}

fn push_many(mut producer: FlowProducer, own: u32, consumers: u32) {
    for number in 0..MANY {
        producer.push(&tuple((own, number, number as u32 % consumers))).unwrap();
    }
    producer.close().unwrap();
}

fn pop_all(mut consumer: FlowConsumer) -> Vec<Record> {
    let mut all = Vec::new();
    while let Some(batch) = consumer.pop().unwrap() {
        all.extend(batch.records().map(|tuple| record(tuple.unwrap())));
    }
    all
}

/// What each consumer of `flow` pops, all of whose producers push [`MANY`].
fn run(flow: &Flow) -> Vec<Vec<Record>> {
    let consumers = flow.consumers() as u32;
    thread::scope(|threads| {
        for number in 0..flow.producers() {
            let producer = flow.producer(number).unwrap();
            threads.spawn(move || push_many(producer, number as u32, consumers));
        }
        let popping = (0..flow.consumers()).map(|number| {
            let consumer = flow.consumer(number).unwrap();
            threads.spawn(|| pop_all(consumer))
        });
        popping.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn assert_in_order(popped: &[Record], producers: u32) {
    for producer in 0..producers {
        let of_it = popped.iter().filter(|r| r.0 == producer).map(|r| r.1);
        assert!(of_it.is_sorted_by(|a, b| a < b), "records of producer {producer} are out of order");
    }
}

#[test]
fn a_shuffle_brings_each_record_once_to_its_consumer_in_order() {
    let flow = testing::shuffle(2, 3).schema(SCHEMA).routing("explicit(at)").start().unwrap();
    for (own, popped) in run(&flow).into_iter().enumerate() {
        assert!(popped.iter().all(|r| r.2 == own as u32), "a record is at another consumer");
        assert_in_order(&popped, 2);
        let wanted = 2 * (0..MANY).filter(|n| n % 3 == own as u64).count();
        assert_eq!(popped.len(), wanted);
    }
}

#[test]
fn a_load_balance_brings_each_record_once_to_some_consumer() {
    let flow = testing::load_balance(2, 3).schema(SCHEMA).start().unwrap();
    let popped = run(&flow);
    for of_one in &popped {
        assert!(!of_one.is_empty(), "a consumer got nothing");
        assert_in_order(of_one, 2);
    }
    let all: Vec<Record> = popped.into_iter().flatten().collect();
    assert_eq!(all.len() as u64, 2 * MANY);
    assert_eq!(all.into_iter().collect::<HashSet<_>>().len() as u64, 2 * MANY);
}

#[test]
fn consumers_of_a_load_balance_take_turns() {
    let flow = testing::load_balance(1, 3).latency().start().unwrap();
    let mut producer = flow.producer(0).unwrap();
    for number in 0..6u8 {
        producer.push(&[number]).unwrap();
    }
    producer.close().unwrap();
    for own in 0..3u8 {
        let mut consumer = flow.consumer(own.into()).unwrap();
        for number in [own, own + 3] {
            assert_eq!(consumer.pop().unwrap().unwrap().newest().unwrap(), Some(&[number][..]));
        }
        assert!(consumer.pop().unwrap().is_none());
    }
}

#[test]
fn a_replicate_brings_all_records_to_all_consumers_in_one_order() {
    let flow = testing::replicate(2, 3).schema(SCHEMA).start().unwrap();
    let popped = run(&flow);
    assert_eq!(popped[0].len() as u64, 2 * MANY);
    assert_in_order(&popped[0], 2);
    assert!(popped.iter().all(|of_one| *of_one == popped[0]), "consumers have different orders");
}

/// Pushes until there is no room for a while; says how many records went in.
fn fill(producer: &mut FlowProducer) -> u64 {
    let mut number = 0;
    while producer.push_timeout(&tuple((0, number, 0)), Duration::from_millis(200)).unwrap() {
        number += 1;
    }
    number
}

#[test]
fn a_push_waits_for_a_consumer_that_does_not_pop() {
    // 4 items of at most 15 records in each of two rings.
    let flow = testing::replicate(1, 2).schema(SCHEMA).sizes(256, 1024).start().unwrap();
    let mut producer = flow.producer(0).unwrap();
    let (mut eager, lazy) = (flow.consumer(0).unwrap(), flow.consumer(1).unwrap());
    let taken = fill(&mut producer);
    assert!((60..=120).contains(&taken), "{taken} records went into 8 items");
    assert!(!producer.try_push(&tuple((0, taken, 0))).unwrap());
    // What one of them pops makes no room: the other lacks it.
    let mut popped = 0;
    while let Popped::Batch(batch) = eager.pop_timeout(Duration::from_millis(200)).unwrap() {
        popped += batch.len() as u64;
    }
    assert!(popped < taken);
    assert!(!producer.push_timeout(&tuple((0, taken, 0)), Duration::from_millis(200)).unwrap());

    let pushing = thread::spawn(move || {
        producer.push(&tuple((0, taken, 0))).unwrap();
        producer.close().unwrap();
    });
    let numbers = |all: Vec<Record>| all.into_iter().map(|r| r.1).collect::<Vec<_>>();
    let rest = thread::spawn(|| pop_all(eager));
    assert_eq!(numbers(pop_all(lazy)), (0..=taken).collect::<Vec<_>>());
    assert_eq!(numbers(rest.join().unwrap()), (popped..=taken).collect::<Vec<_>>());
    pushing.join().unwrap();
}

#[test]
fn a_program_that_gives_up_fails_the_flow_for_all() {
    let flow = testing::shuffle(2, 1).start().unwrap();
    let mut consumer = flow.consumer(0).unwrap();
    let (dying, mut other) = (flow.producer(0).unwrap(), flow.producer(1).unwrap());
    drop(dying);
    let why = consumer.pop().err().expect("a producer has died");
    assert!(matches!(&why, ProgramError::Failed { reason, .. } if reason.contains("`flow.p0.c0`")), "{why}");
    let why = loop {
        match other.push(b"x").and_then(|()| other.flush()) {
            Ok(()) => thread::yield_now(),
            Err(why) => break why,
        }
    };
    assert!(matches!(why, ProgramError::Ended { .. }), "{why}");
    let session = Session::open(flow.place()).unwrap();
    let events: Vec<_> = session.events(Some(0), false).unwrap().map(Result::unwrap).collect();
    assert_eq!(events.iter().map(|e| e.kind()).collect::<Vec<_>>(), [EventKind::FlowFailed]);
}

#[test]
fn a_consumer_that_leaves_has_a_successor() {
    let flow = testing::shuffle(1, 1).latency().start().unwrap();
    let mut producer = flow.producer(0).unwrap();
    let mut first = flow.consumer(0).unwrap();
    let taken = flow.consumer(0).err().expect("it is taken").to_string();
    assert!(taken.contains("flow.c0"), "{taken}");
    for record in [b"one", b"two"] {
        producer.push(record).unwrap();
    }
    assert_eq!(first.pop().unwrap().unwrap().newest().unwrap(), Some(&b"one"[..]));
    first.leave();
    let mut second = flow.consumer(0).unwrap();
    assert_eq!(second.pop().unwrap().unwrap().newest().unwrap(), Some(&b"two"[..]));
    producer.close().unwrap();
    assert!(second.pop().unwrap().is_none());
}

#[test]
fn programs_find_several_flows_of_one_system_by_name() {
    let orders = testing::shuffle(1, 1).named("orders").start().unwrap();
    let totals = testing::shuffle(1, 1).named("totals").start_beside(&orders).unwrap();
    let system = totals.place();
    for (flow, record) in [("orders", b"an order"), ("totals", b"a total!")] {
        let mut producer = FlowProducer::attach(system, flow, &Options::default()).unwrap();
        let mut consumer = FlowConsumer::attach(system, flow, &Options::default()).unwrap();
        producer.push(record).unwrap();
        producer.close().unwrap();
        assert_eq!(consumer.pop().unwrap().unwrap().newest().unwrap(), Some(&record[..]));
    }
    let why = FlowProducer::attach(system, "nothing", &Options::default()).err().unwrap().to_string();
    assert!(why.contains("`nothing`"), "{why}");
    let twice = testing::replicate(1, 1).named("orders").start_beside(&orders).err().unwrap();
    assert_eq!(twice.kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_flow_that_can_not_be_is_refused() {
    let setups = [
        testing::shuffle(0, 1),
        testing::replicate(1, 0),
        testing::shuffle(1, 1).sizes(100, 1000),
        testing::shuffle(1, 1).routing("by magic"),
        testing::shuffle(1, 1).schema("id: u64").routing("hash(who)"),
        testing::load_balance(1, 1).schema("id: number"),
    ];
    for setup in setups {
        let why = setup.clone().start().err().unwrap_or_else(|| panic!("{setup:?}"));
        assert_eq!(why.kind(), ErrorKind::InvalidInput, "{why}");
    }
}
