//! Tickets from a sequencer of the switch beside FETCH_ADD at a host's memory: the same clients, the same requests, in
//! virtual time.
//!
//! `cargo bench -p zsr-bench --bench sequencer`. NICs and switch take no time but for what is said of atomic
//! operations; links carry 100 Gbit/s and take 500 ns. Every client has one request outstanding. All tickets are
//! checked: unique, no gaps, in the order of real time.

use zsr_simnet::LinkConfig;
use zsr_tests::tickets::{Counter, Spec, Taken, Tickets};

/// Requests of each client.
const REQUESTS: usize = 2_000;
/// Tickets that do not count: at the beginning and at the end not all clients are there.
const EDGE: usize = 100;

fn main() {
    println!(
        "100 Gbit/s, 500 ns per link; one request outstanding per client; {REQUESTS} requests of one ticket each\n"
    );
    println!(
        "| counter | NIC's time for an atomic operation | clients | tickets/s | median, us | 99 %, us |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    let counters =
        [Counter::Switch].into_iter().chain([0, 100, 450].map(|atomic_ns| Counter::Host { atomic_ns }));
    for counter in counters {
        for clients in [1, 8, 32] {
            row(counter, clients);
        }
    }
}

fn row(counter: Counter, clients: usize) {
    let link = LinkConfig::FAST;
    let mut tickets =
        Tickets::new(Spec { counter, clients, requests: REQUESTS, most: 1, first: 0, link, seed: 1 });
    tickets.run(|_| ());
    tickets.check().unwrap_or_else(|e| panic!("{e}"));
    let inner: Vec<Taken> =
        tickets.taken().flat_map(|taken| &taken[EDGE..REQUESTS - EDGE]).copied().collect();
    let mut times: Vec<u64> = inner.iter().map(|taken| taken.got_ns - taken.asked_ns).collect();
    times.sort();
    // All clients are as fast: what they get between the first and the last of these answers.
    let (first, last) = inner
        .iter()
        .fold((u64::MAX, 0), |(first, last), taken| (first.min(taken.got_ns), last.max(taken.got_ns)));
    let (name, nic) = match counter {
        Counter::Switch => ("switch", "none is asked".into()),
        Counter::Host { atomic_ns } => ("host", format!("{atomic_ns} ns")),
    };
    println!(
        "| {name} | {nic} | {clients} | {:.2} M | {:.3} | {:.3} |",
        (inner.len() - 1) as f64 * 1e3 / (last - first) as f64,
        times[times.len() / 2] as f64 / 1e3,
        times[times.len() * 99 / 100] as f64 / 1e3,
    );
}
