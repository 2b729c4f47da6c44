//! The two hints of a flow, by tuple size, through a live system. Measures how long a tuple takes from the push in one
//! thread to the pop in another, if about a thousand come in a second and nobody flushes. Also measures the rate of a
//! stream of tuples. Figures stand in bench/results/hints.md.

use std::time::{Duration, Instant};
use zsr::{Contact, FlowConsumer, FlowProducer, Options, Place};
use zsr_api::controller as proto;
use zsr_bench::live::Live;
use zsr_bench::{uneven, within_us};
use zsr_ring::segment::HEADER_LEN;

const SIZES: [usize; 7] = [16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10];
/// Tuples whose way is timed.
const PACED: usize = 2000;
/// Tuples of a stream between two looks at the clock.
const CLOCK_EVERY: usize = 64;
/// Time for which a stream is pushed.
const STREAM: Duration = Duration::from_millis(1000);

fn main() {
    println!("{}", zsr_bench::machine());
    let live = Live::up(2);
    let contact = Contact::from(&Place::find(Some("bench")).expect("it is up"));
    println!("| tuple | item | hint | one way, us: median | 9th decile | stream: ns per tuple | MB/s |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for size in SIZES {
        for (hint, name) in [(proto::Hint::Bandwidth, "bandwidth"), (proto::Hint::Latency, "latency")] {
            let flow = format!("{name}{size}");
            // Items travel whole: a large one would be a long way for one tuple, a small one the end of batches.
            let item = (size + HEADER_LEN).next_power_of_two().max(4096) as u32;
            let settings = proto::Settings { hint: Some(hint.into()), ..Default::default() };
            let more = proto::CreateFlowRequest {
                item_size: item,
                ring_size: (32 * item).max(1 << 20),
                settings: Some(settings),
                ..Default::default()
            };
            live.create(&flow, &["h1"], &["h2"], more);
            let options = Options { record_size: Some(size as u32), ..Options::default() };
            let mut producer = FlowProducer::attach(contact.clone(), &flow, &options).expect("a producer");
            let mut consumer = FlowConsumer::attach(contact.clone(), &flow, &options).expect("a consumer");
            let times = paced(&mut producer, &mut consumer, size);
            let (tuples, time) = stream(producer, consumer, size);
            println!(
                "| {size} B | {item} B | {name} | {:.0} | {:.0} | {:.1} | {:.1} |",
                within_us(&times, 5),
                within_us(&times, 9),
                time.as_nanos() as f64 / tuples as f64,
                (tuples * size) as f64 / 1e6 / time.as_secs_f64()
            );
            let request = proto::DeleteFlowRequest { name: flow, force: true };
            let deleted = live.session.change(|mut c| async move { c.delete_flow(request).await });
            deleted.unwrap_or_else(|e| panic!("{e}"));
        }
    }
}

/// Sorted times from push to pop of tuples that are pushed every 0.5 to 1.5 ms. Tuples that are still kept behind the
/// last one are flushed.
fn paced(producer: &mut FlowProducer, consumer: &mut FlowConsumer, size: usize) -> Vec<Duration> {
    let mut tuple = vec![0; size];
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let popping = scope.spawn(move || {
            let mut times = Vec::with_capacity(PACED);
            while times.len() < PACED {
                let batch = consumer.pop().expect("popped").expect("no end");
                let now = begun.elapsed();
                for tuple in batch.as_they_lie().0.chunks(size) {
                    let pushed = u64::from_le_bytes(tuple[..8].try_into().expect("eight bytes"));
                    times.push(now - Duration::from_nanos(pushed));
                }
            }
            times.sort();
            times
        });
        for n in 0..PACED as u32 {
            std::thread::sleep(uneven(Duration::from_millis(1), n));
            tuple[..8].copy_from_slice(&(begun.elapsed().as_nanos() as u64).to_le_bytes());
            producer.push(&tuple).expect("pushed");
        }
        producer.flush().expect("flushed");
        popping.join().expect("it pops")
    })
}

/// How many tuples came, and the time from the first push to the last pop.
fn stream(mut producer: FlowProducer, mut consumer: FlowConsumer, size: usize) -> (usize, Duration) {
    let tuple = vec![1; size];
    let begun = Instant::now();
    let popping = std::thread::spawn(move || {
        let mut popped = 0;
        while let Some(batch) = consumer.pop().expect("popped") {
            popped += batch.len();
        }
        (popped, begun.elapsed())
    });
    let mut pushed = 0;
    while begun.elapsed() < STREAM {
        for _ in 0..CLOCK_EVERY {
            producer.push(&tuple).expect("pushed");
        }
        pushed += CLOCK_EVERY;
    }
    producer.close().expect("closed");
    let (popped, time) = popping.join().expect("it pops");
    assert_eq!(popped, pushed, "every tuple arrives once");
    (popped, time)
}
