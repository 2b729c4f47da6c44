//! Load balance and replicate on a live system: the gain of consumers of different speeds over fixed parts, and the
//! rate on a producer's link when several consumers get all items. Figures stand in bench/results/processes.md.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use zsr::pu;
use zsr_api::controller as proto;
use zsr_bench::live::Live;
use zsr_ring::{Cancel, PopError};

const ITEM: usize = 4096;

fn main() {
    println!("{}", zsr_bench::machine());
    let live = Live::up(5);
    balance(&live);
    replicate(&live);
}

fn request(kind: proto::FlowKind) -> proto::CreateFlowRequest {
    proto::CreateFlowRequest {
        kind: kind.into(),
        item_size: ITEM as u32,
        ring_size: 64 << 10,
        settings: Some(proto::Settings { max_batch: Some(32 << 10), ..Default::default() }),
        ..Default::default()
    }
}

/// Pushes `items` items and closes the ring.
fn push(ring: &proto::Ring, items: usize) -> std::thread::JoinHandle<()> {
    let mut producer = pu::attach_producer(ring.programs.as_ref(), &ring.name, Cancel::new())
        .unwrap_or_else(|e| panic!("{e}"));
    std::thread::spawn(move || {
        let item = [7; ITEM];
        for _ in 0..items {
            producer.push(&item).unwrap_or_else(|e| panic!("{e}"));
        }
        producer.close();
    })
}

/// Consumers of different speeds, all well below that of the system, and one producer.
fn balance(live: &Live) {
    const ITEMS: usize = 25_000;
    let speeds = [8.0e6, 16.0e6, 32.0e6];
    let flow = live.create("balance", &["h1"], &["h2", "h3", "h4"], request(proto::FlowKind::LoadBalance));
    let begun = Instant::now();
    let counts: Vec<Arc<AtomicU64>> = speeds.iter().map(|_| Arc::default()).collect();
    let consumers: Vec<_> = flow
        .consumers
        .iter()
        .zip(speeds)
        .zip(&counts)
        .map(|((member, speed), count)| {
            let (ring, count) = (member.rings[0].clone(), count.clone());
            let mut consumer = pu::attach_consumer(ring.programs.as_ref(), &ring.name, Cancel::new())
                .unwrap_or_else(|e| panic!("{e}"));
            std::thread::spawn(move || {
                // Works off its items at its speed. Time without work is lost; time that a sleep was too long is not.
                let mut free_at = Instant::now();
                loop {
                    let waits = consumer.peek().map(|view| view.keep()).is_err();
                    let mut view = match consumer.wait() {
                        Ok(view) => view,
                        Err(PopError::Closed) => break,
                        Err(e) => panic!("{}: {e}", ring.name),
                    };
                    if waits {
                        free_at = free_at.max(Instant::now());
                    }
                    let items = view.len().min(4);
                    view.advance(items);
                    view.keep();
                    count.fetch_add((items * ITEM) as u64, Ordering::Relaxed);
                    free_at += Duration::from_secs_f64((items * ITEM) as f64 / speed);
                    std::thread::sleep(free_at.saturating_duration_since(Instant::now()));
                }
                begun.elapsed()
            })
        })
        .collect();
    push(&flow.producers[0].rings[0], ITEMS).join().expect("it pushes");
    let ended: Vec<Duration> = consumers.into_iter().map(|c| c.join().expect("it pops")).collect();
    let moved: Vec<u64> = counts.iter().map(|c| c.load(Ordering::Relaxed)).collect();
    let total: u64 = moved.iter().sum();
    assert_eq!(total, (ITEMS * ITEM) as u64, "every item arrives once");
    let last = ended.iter().max().expect("three").as_secs_f64();
    let fixed = total as f64 / 3.0 / speeds[0];
    let best = total as f64 / speeds.iter().sum::<f64>();
    println!("\nload balance, consumers of 8, 16 and 32 MB/s");
    println!("  MB: {:?}, ended after {ended:.2?}", moved.iter().map(|m| m / 1_000_000).collect::<Vec<_>>());
    println!(
        "  fixed parts would take {fixed:.2} s, at best it is {best:.2} s: gain {:.2} of {:.2}",
        fixed / last,
        fixed / best
    );
    delete(live, "balance");
}

fn replicate(live: &Live) {
    const ITEMS: usize = 20_000;
    println!(
        "\nreplicate, {} MB: on the links of producer and consumers, data packets' bytes over items' bytes",
        ITEMS * ITEM / 1_000_000
    );
    for consumers in [&["h2"][..], &["h2", "h3"], &["h2", "h3", "h4", "h5"]] {
        let flow = live.create("replicate", &["h1"], consumers, request(proto::FlowKind::Replicate));
        let popping: Vec<_> = flow
            .consumers
            .iter()
            .map(|member| {
                let ring = member.rings[0].clone();
                let mut consumer = pu::attach_consumer(ring.programs.as_ref(), &ring.name, Cancel::new())
                    .unwrap_or_else(|e| panic!("{e}"));
                std::thread::spawn(move || {
                    let mut bytes = 0;
                    while let Ok(mut view) = consumer.wait() {
                        bytes += view.bytes().len();
                        let items = view.len();
                        view.advance(items);
                    }
                    bytes
                })
            })
            .collect();
        let begun = Instant::now();
        push(&flow.producers[0].rings[0], ITEMS).join().expect("it pushes");
        let popped: Vec<usize> = popping.into_iter().map(|p| p.join().expect("it pops")).collect();
        let seconds = begun.elapsed().as_secs_f64();
        assert!(popped.iter().all(|bytes| *bytes == ITEMS * ITEM), "every item arrives once: {popped:?}");
        let stats = live.session.call(|mut c| async move {
            c.get_stats(proto::GetStatsRequest { flow: "replicate".into() }).await
        });
        let rings = stats.unwrap_or_else(|e| panic!("{e}")).flows.remove(0).rings;
        let part = |ring: &proto::RingStats| ring.wire_bytes as f64 / (ITEMS * ITEM) as f64;
        let parts: Vec<String> = rings.iter().map(|r| format!("{} {:.3}", r.host, part(r))).collect();
        println!(
            "  {} consumers: {}; {:.0} MB/s each",
            consumers.len(),
            parts.join(", "),
            (ITEMS * ITEM) as f64 / 1e6 / seconds
        );
        delete(live, "replicate");
    }
}

fn delete(live: &Live, name: &str) {
    let request = proto::DeleteFlowRequest { name: name.into(), force: true };
    live.session
        .change(|mut c| async move { c.delete_flow(request).await })
        .unwrap_or_else(|e| panic!("{e}"));
}
