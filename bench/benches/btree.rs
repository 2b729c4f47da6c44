//! A remote B-tree: look-ups through flows beside READs that follow pointers, over the same soft NICs.
//!
//! `cargo bench -p zsr-bench --bench btree`. First processor time, of all parts in one thread step by step. Then
//! instructions, counted by valgrind where it is installed. Then virtual time: NICs and switch take none, links have
//! 100 Gbit/s, and a host's program looks up as fast as this machine did before. All answers are compared with the
//! standard library's tree.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use zsr_bench::baseline::btree::{Requests, Tree, chase, flows, pairs};
use zsr_bench::baseline::cluster::{Cluster, Hosts};
use zsr_bench::baseline::counts;
use zsr_bench::baseline::run::{Count, Program, Spent, stepped};
use zsr_bench::baseline::virtual_time::VirtualTime;
use zsr_bench::{Times, machine};
use zsr_simnet::LinkConfig;

type Pairs = BTreeMap<u64, u64>;

const NODE: usize = 1 << 10;
/// Pairs of trees with 1 to 4 levels of such nodes.
const SIZES: [u64; 4] = [50, 3_000, 200_000, 300_000];
/// Runs of each, of which the median counts.
const RUNS: usize = 5;
const READERS: usize = 2;
/// Look-ups of each reader, by the clock and under valgrind.
const COUNT: usize = 20_000;
const COUNTED: usize = 2_048;
/// Between two looks of a program, in nanoseconds, as in `virtual_time`.
const STEP: u64 = 100;
const WARM_UP: u64 = 300_000;
const MEASURED: u64 = 1_000_000;

/// The way to look keys up.
#[derive(Clone, Copy)]
enum Way {
    /// The number of keys in a batch, and the microseconds between polls.
    Flows(usize, u64),
    /// The number of look-ups under way, and whether readers have copies of inner nodes.
    Chase(usize, bool),
}

impl Way {
    fn name(self) -> String {
        match self {
            Way::Flows(batch, poll) => format!("flows, batches of {batch}, polls every {poll} us"),
            Way::Chase(window, false) => format!("READs, {window} at a time"),
            Way::Chase(window, true) => format!("READs of leaves, {window} at a time"),
        }
    }
}

/// The name of a run's part for callgrind.
fn label(way: Way, pairs: u64, count: Count) -> String {
    format!("{}, {pairs}, {count:?}", way.name())
}

/// The number of nodes of which readers keep copies.
fn kept(tree: &Tree, keeps: bool) -> usize {
    if keeps { tree.inner } else { 0 }
}

fn requests(readers: usize, count: usize, pairs: u64) -> Vec<Requests> {
    (0..readers).map(|reader| Requests::random(reader, count, pairs)).collect()
}

/// Runs to the end, and compares all answers with the pairs of which the tree was made.
fn run(way: Way, tree: &Tree, oracle: &Pairs, count: usize, part: Count) -> (Spent, Cluster) {
    let asked = requests(READERS, count, oracle.len() as u64);
    match way {
        Way::Flows(batch, _) => {
            let (cluster, mut parts) = flows::cluster(tree, asked, batch);
            let mut cluster = Some(cluster);
            let spent = stepped(&mut cluster, &mut parts, part);
            parts.iter().filter_map(|part| part.requests()).for_each(|requests| requests.check(oracle));
            (spent, cluster.expect("still there"))
        }
        Way::Chase(window, keeps) => {
            let (cluster, mut readers) = chase::cluster(tree, asked, window, kept(tree, keeps));
            let mut cluster = Some(cluster);
            let spent = stepped(&mut cluster, &mut readers, part);
            readers.iter().for_each(|reader| reader.requests.check(oracle));
            (spent, cluster.expect("still there"))
        }
    }
}

const WAYS: [Way; 4] =
    [Way::Flows(16, 20), Way::Flows(1024, 20), Way::Chase(16, false), Way::Chase(16, true)];

/// Under valgrind: runs of which it counts parts.
fn count() {
    for of in SIZES {
        let oracle = pairs(of);
        let tree = Tree::new(&oracle, NODE);
        for way in WAYS {
            for part in [Count::Push, Count::Consume] {
                run(way, &tree, &oracle, COUNTED, part);
                counts::dump(&label(way, of, part));
            }
        }
    }
}

fn processors(counted: Option<&counts::Counts>) {
    println!("\n## Processor time and instructions per look-up, {READERS} readers\n");
    println!(
        "| levels | way | look-ups/s | ns: programs | NICs, links, switch | frames at the switch | instructions: reader | host |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for of in SIZES {
        let oracle = pairs(of);
        let tree = Tree::new(&oracle, NODE);
        for way in WAYS {
            let runs: Vec<_> = (0..RUNS).map(|_| run(way, &tree, &oracle, COUNT, Count::Nothing)).collect();
            assert!(runs.iter().all(|(_, cluster)| cluster.lost == 0), "frames");
            let all = (READERS * COUNT) as f64;
            let median =
                |f: &dyn Fn(&(Spent, Cluster)) -> f64| Times::of(runs.iter().map(f).collect()).median / all;
            let each = |part| {
                let counted = counted.map(|counts| counts.of(&label(way, of, part)));
                counted.map_or("not counted".into(), |n| format!("{:.0}", n / (READERS * COUNTED) as f64))
            };
            println!(
                "| {} | {} | {:.2} M | {:.0} | {:.0} | {:.2} | {} | {} |",
                tree.height,
                way.name(),
                1e3 / median(&|run| run.0.wall.as_nanos() as f64),
                median(&|run| run.0.programs.as_nanos() as f64),
                median(&|run| run.0.hardware.as_nanos() as f64),
                median(&|run| run.1.frames as f64),
                each(Count::Push),
                each(Count::Consume),
            );
        }
    }
}

/// A program, and how long its turns took in which it found something to consume.
struct Timed(flows::Part, Duration);

impl Program for Timed {
    fn push(&mut self) -> usize {
        self.0.push()
    }

    fn consume(&mut self) -> usize {
        let begun = Instant::now();
        let done = self.0.consume();
        if done > 0 {
            self.1 += begun.elapsed();
        }
        done
    }

    fn is_done(&self) -> bool {
        self.0.is_done()
    }
}

/// Nanoseconds that the program at the tree takes for a look-up on this machine, from ring to ring: the median.
fn service(tree: &Tree, of: u64, batch: usize) -> f64 {
    let times = (0..RUNS).map(|_| {
        let (cluster, parts) = flows::cluster(tree, requests(1, COUNTED, of), batch);
        let mut timed: Vec<_> = parts.into_iter().map(|part| Timed(part, Duration::ZERO)).collect();
        stepped(&mut Some(cluster), &mut timed, Count::Nothing);
        timed.iter().map(|timed| timed.1.as_nanos() as f64).sum::<f64>() / COUNTED as f64
    });
    Times::of(times.collect()).median
}

/// Look-ups per second of all readers, and frames and bytes per look-up on all hosts' links.
fn measure<P: Program>(
    (hosts, mut programs): (Hosts, Vec<P>),
    requests: impl Fn(&P) -> Option<&Requests>,
    oracle: &Pairs,
) -> (f64, f64, f64) {
    let mut time = VirtualTime::new(hosts, LinkConfig::FAST);
    let answered =
        |programs: &[P]| programs.iter().filter_map(&requests).map(|r| r.answered).sum::<usize>() as f64;
    time.run_for(&mut programs, WARM_UP, STEP);
    let (before, carried, begun) = (answered(&programs), time.carried(), time.now());
    time.run_for(&mut programs, MEASURED, STEP);
    let (after, all) = (answered(&programs), time.carried());
    for requests in programs.iter().filter_map(&requests) {
        assert!(!requests.is_done(), "readers must have enough to ask for");
        requests.check(oracle);
    }
    let done = after - before;
    let rate = done * 1e9 / (time.now() - begun) as f64;
    (rate, (all.0 - carried.0) as f64 / done, (all.1 - carried.1) as f64 / done)
}

fn in_virtual_time(node: usize, of: u64, readers: usize, way: Way) {
    let oracle = pairs(of);
    let tree = Tree::new(&oracle, node);
    let asked = requests(readers, 200_000, of);
    let ((rate, frames, bytes), under_way, host) = match way {
        Way::Flows(batch, poll) => {
            let service = service(&tree, of, batch);
            let made = flows::hosts(&tree, asked, batch, poll, STEP as f64 / service);
            (measure(made, |part| part.requests(), &oracle), batch, format!("{service:.0}"))
        }
        Way::Chase(window, keeps) => {
            let made = chase::hosts(&tree, asked, window, kept(&tree, keeps));
            (measure(made, |reader| Some(&reader.requests), &oracle), window, "0".into())
        }
    };
    println!(
        "| {} | {node} B | {readers} | {} | {:.3} M | {:.1} | {frames:.2} | {bytes:.0} | {host} |",
        tree.height,
        way.name(),
        rate / 1e6,
        // Little's law: this number of look-ups is under way all the time; for batches it is the time until all are
        // answered.
        (readers * under_way) as f64 / rate * 1e6,
    );
}

fn main() {
    // A cluster that stays makes later programs cheap.
    let _keep = flows::cluster(&Tree::new(&pairs(0), NODE), requests(1, 1, 0), 1);
    if std::env::args().any(|arg| arg == "--count") {
        count();
        return;
    }
    println!("{}; nodes of {NODE} B, {RUNS} runs", machine());
    let asked: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |part: &str| asked.is_empty() || asked.iter().any(|arg| arg == part);
    if wanted("processors") {
        processors(counts::run(&["--count"]).as_ref());
    }
    if !wanted("virtual") {
        return;
    }
    println!(
        "\n## Virtual time: 100 Gbit/s, 500 ns between NIC and switch; mean latency, of whole batches, by Little's law; frames and bytes on all hosts' links\n"
    );
    println!(
        "| levels | node | readers | way | look-ups/s | latency, us | frames per look-up | bytes per look-up | host's ns per look-up |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    // By levels.
    for of in SIZES {
        for way in [Way::Chase(1, false), Way::Chase(1, true), Way::Flows(1, 20), Way::Flows(1, 5)] {
            in_virtual_time(NODE, of, 1, way);
        }
    }
    // By the number of look-ups under way.
    for way in [Way::Chase(16, false), Way::Chase(64, false), Way::Chase(16, true)] {
        in_virtual_time(NODE, SIZES[2], 1, way);
    }
    for batch in [16, 64, 256, 1024] {
        in_virtual_time(NODE, SIZES[2], 1, Way::Flows(batch, 5));
    }
    // By readers, who share the link and the program of the tree's host.
    for readers in [2, 4, 8] {
        for way in [Way::Chase(16, false), Way::Chase(16, true), Way::Flows(64, 5), Way::Flows(1024, 5)] {
            in_virtual_time(NODE, SIZES[2], readers, way);
        }
    }
    // By the size of nodes.
    for node in [512, 4096] {
        for way in [Way::Chase(1, false), Way::Chase(16, false)] {
            in_virtual_time(node, SIZES[2], 8, way);
        }
    }
}
