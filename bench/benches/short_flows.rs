//! The cost of a flow with hardly any data: made, one record pushed and popped, ended, deleted. Flows follow one
//! another, or `AT_ONCE` threads (default 1) have one each. `FLOWS` is the number of flows (default 200), `RING` the
//! bytes of each ring (default 1 MiB). Figures stand in bench/results/short-flows.md.

use std::time::{Duration, Instant};
use zsr::{Contact, FlowConsumer, FlowProducer, Options, Place, Session};
use zsr_api::controller as proto;
use zsr_bench::live::{Live, processor_time_of};

const STEPS: [&str; 6] =
    ["made", "consumer attached", "producer attached", "record popped", "stream ended", "deleted"];

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |n| n.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

fn main() {
    let (flows, at_once) = (number("FLOWS", 200), number("AT_ONCE", 1));
    println!("{}", zsr_bench::machine());
    let live = Live::up(2);
    let contact = Contact::from(&Place::find(Some("bench")).expect("it is up"));
    // One connection for all flows, as in programs that make many.
    let _session = Session::shared(&contact).unwrap_or_else(|e| panic!("{e}"));
    // Work that is done only once does not count.
    for n in 0..10 {
        life(&contact, &format!("warm{n}"));
    }
    let (own, others, begun) = (processor_time_of("self"), live.processor_times(), Instant::now());
    let mut times: Vec<[Duration; 6]> = std::thread::scope(|scope| {
        let contact = &contact;
        let threads: Vec<_> = (0..at_once)
            .map(|t| {
                scope.spawn(move || {
                    let mine = (t..flows).step_by(at_once);
                    mine.map(|n| life(contact, &format!("f{n}"))).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|t| t.join().expect("a thread")).collect()
    });
    let each = |time: Duration| time.as_secs_f64() * 1e3 / flows as f64;
    println!("{flows} flows, {at_once} at once: {:.2} ms per flow", each(begun.elapsed()));
    for (step, name) in STEPS.iter().enumerate() {
        times.sort_by_key(|t| t[step]);
        println!("  {name:<18} median {:>6.2} ms", times[flows / 2][step].as_secs_f64() * 1e3);
    }
    println!("  processor ms per flow: this program {:.2}", each(processor_time_of("self") - own));
    for (process, time) in live.processor_times() {
        println!("    {process:<12} {:.2}", each(time - others.get(&process).copied().unwrap_or_default()));
    }
}

/// The times of the steps of a flow's life.
fn life(contact: &Contact, name: &str) -> [Duration; 6] {
    let session = Session::shared(contact).unwrap_or_else(|e| panic!("{e}"));
    let member = |host: &str| proto::Member { host: host.into(), ..Default::default() };
    let request = proto::CreateFlowRequest {
        name: name.into(),
        producers: vec![member("h1")],
        consumers: vec![member("h2")],
        item_size: 64 << 10,
        ring_size: number("RING", 1 << 20) as u32,
        ..Default::default()
    };
    let mut at = Instant::now();
    let mut step = || std::mem::replace(&mut at, Instant::now()).elapsed();
    session.change(|mut c| async move { c.create_flow(request).await }).unwrap_or_else(|e| panic!("{e}"));
    let made = step();
    let mut consumer = FlowConsumer::attach(contact, name, &Options::default()).expect("a consumer");
    let consumer_is_there = step();
    let mut producer = FlowProducer::attach(contact, name, &Options::default()).expect("a producer");
    let producer_is_there = step();
    producer.push(b"a record").and_then(|()| producer.flush()).expect("pushed");
    consumer.pop().expect("popped").expect("a record");
    let popped = step();
    producer.close().expect("closed");
    assert!(consumer.pop().expect("popped").is_none(), "the end of the stream");
    drop(consumer);
    let ended = step();
    let request = proto::DeleteFlowRequest { name: name.into(), force: true };
    session.change(|mut c| async move { c.delete_flow(request).await }).unwrap_or_else(|e| panic!("{e}"));
    [made, consumer_is_there, producer_is_there, popped, ended, step()]
}
