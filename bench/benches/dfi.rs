//! zsr beside DFI, and OpenMPI where it is, on one machine: goodput by tuple size, processing units' instructions per
//! tuple, joins.
//!
//! `cargo bench -p zsr-bench --bench dfi -- [PART...]`: parts are goodput, instructions, joins, openmpi; without one,
//! all. Instructions are counted by valgrind, where that is installed.

use std::time::Duration;

use zsr_bench::baseline::cluster::Cluster;
use zsr_bench::baseline::dfi::{BatchSource, CreditSource};
use zsr_bench::baseline::floor::FloorEnds;
use zsr_bench::baseline::join::{JoinNode, Joined, ROW, Tables};
use zsr_bench::baseline::pu::{Node, keys};
use zsr_bench::baseline::run::{Count, Program, Spent, stepped, threaded};
use zsr_bench::baseline::{Ends, Flow, Hint, Kind, RING, counts, dfi, mpi, zsr};
use zsr_bench::{Times, machine};

const SIZES: [usize; 7] = [16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10];
const NODES: usize = 2;
/// Runs of each, of which the median counts.
const RUNS: usize = 5;
/// Bytes that each node pushes, unless that is more tuples than are moved one by one in a reasonable time.
const BYTES: usize = 32 << 20;
const MOST_EACH: usize = 100_000;

/// Keys of programs under valgrind: systems, and forms of each.
const SYSTEMS: [&str; 3] = ["zsr", "DFI", "copies alone"];

fn main() {
    if std::env::args().any(|arg| arg == "--count") {
        count();
        return;
    }
    println!(
        "{}; {NODES} nodes, each source and target; rings of {} KiB; {RUNS} runs",
        machine(),
        RING >> 10
    );
    // A cluster that stays makes later programs cheap.
    let _keep = zsr::cluster::<true>(1, &[flow(Hint::Bandwidth, 16)]);
    let asked: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |part: &str| asked.is_empty() || asked.iter().any(|arg| arg == part);
    if wanted("goodput") {
        goodput();
    }
    let counted = wanted("instructions").then(|| counts::run(&["--count"])).flatten();
    if wanted("instructions") {
        instructions(counted.as_ref());
    }
    if wanted("joins") {
        joins(counted.as_ref());
    }
    if wanted("openmpi") {
        openmpi(wanted("instructions"));
    }
}

fn flow(hint: Hint, tuple: usize) -> Flow {
    Flow::new(Kind::Shuffle, hint, tuple)
}

fn nodes<E: Ends, const SIZE: usize>(ends: Vec<E>, count: usize) -> Vec<Node<E, SIZE>> {
    let all = ends.len();
    let node = |(node, ends)| Node::new(ends, Kind::Shuffle, (node, all), count as u64, false);
    ends.into_iter().enumerate().map(node).collect()
}

/// Everything came, once: the keys say so.
fn check<E: Ends, const SIZE: usize>(nodes: &[Node<E, SIZE>], count: usize) {
    let came = |f: &dyn Fn(&Node<E, SIZE>) -> u64| nodes.iter().map(f).fold(0, u64::wrapping_add);
    assert_eq!((came(&|n| n.tuples), came(&|n| n.keys)), pushed(nodes.len(), count));
}

/// How many tuples are pushed, and the sum of their keys.
fn pushed(nodes: usize, count: usize) -> (u64, u64) {
    let keys = (0..nodes).flat_map(|node| keys(node, count as u64)).fold(0, u64::wrapping_add);
    ((nodes * count) as u64, keys)
}

/// Measurements: a run with threads, a run step by step, and the frames at the switch.
type Measured = (Spent, Spent, u64);

fn measure<E: Ends, const SIZE: usize>(
    make: impl Fn(usize, &[Flow]) -> (Cluster, Vec<Vec<E>>),
    hint: Hint,
    count: usize,
) -> Measured {
    let (cluster, mut ends) = make(NODES, &[flow(hint, SIZE)]);
    let mut made = nodes::<E, SIZE>(ends.remove(0), count);
    let (spent, cluster) = threaded(cluster, &mut made);
    check(&made, count);
    assert_eq!(cluster.lost, 0, "frames");
    let frames = cluster.frames;
    let (cluster, mut ends) = make(NODES, &[flow(hint, SIZE)]);
    let mut made = nodes::<E, SIZE>(ends.remove(0), count);
    let alone = stepped(&mut Some(cluster), &mut made, Count::Nothing);
    check(&made, count);
    (spent, alone, frames)
}

/// Calls a function for all sizes.
macro_rules! for_sizes {
    ($function:ident, $($argument:expr),*) => {
        $function::<{ SIZES[0] }>($($argument),*);
        $function::<{ SIZES[1] }>($($argument),*);
        $function::<{ SIZES[2] }>($($argument),*);
        $function::<{ SIZES[3] }>($($argument),*);
        $function::<{ SIZES[4] }>($($argument),*);
        $function::<{ SIZES[5] }>($($argument),*);
        $function::<{ SIZES[6] }>($($argument),*);
    };
}

fn goodput() {
    println!(
        "\n## Goodput, MB/s: with a thread for each node and one for NICs, links and switch, by the clock, the \
         best run; and all in one thread, step by step, by its processor time, the median\n"
    );
    println!(
        "| tuple | zsr | DFI | zsr / DFI | in one thread: zsr | DFI | zsr / DFI | nodes' programs, ns per tuple: zsr | DFI | NICs, links, switch, ns per tuple: zsr | DFI | frames at the switch per MiB: zsr | DFI |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for_sizes!(goodput_of, Hint::Bandwidth);
    for_sizes!(goodput_of, Hint::Latency);
}

fn goodput_of<const SIZE: usize>(hint: Hint) {
    let count = (BYTES / SIZE).min(if hint == Hint::Latency { MOST_EACH } else { usize::MAX });
    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..RUNS {
        match hint {
            Hint::Bandwidth => {
                runs[0].push(measure::<_, SIZE>(zsr::cluster::<true>, hint, count));
                runs[1].push(measure::<_, SIZE>(dfi::cluster::<BatchSource>, hint, count));
            }
            Hint::Latency => {
                runs[0].push(measure::<_, SIZE>(zsr::cluster::<false>, hint, count));
                runs[1].push(measure::<_, SIZE>(dfi::cluster::<CreditSource>, hint, count));
            }
        }
    }
    let all = (NODES * count) as f64;
    let of =
        |system: usize, f: &dyn Fn(&Measured) -> f64| Times::of(runs[system].iter().map(f).collect()).median;
    let best = |system: usize, f: &dyn Fn(&Measured) -> f64| runs[system].iter().map(f).fold(0.0, f64::max);
    let rate = |wall: Duration| all * SIZE as f64 / wall.as_secs_f64() / 1e6;
    let pair = |f: &dyn Fn(&Measured) -> f64| (of(0, f), of(1, f));
    let threads = (best(0, &|r| rate(r.0.wall)), best(1, &|r| rate(r.0.wall)));
    let alone = pair(&|r| rate(r.1.wall));
    let programs = pair(&|r| r.1.programs.as_nanos() as f64 / all);
    let hardware = pair(&|r| r.1.hardware.as_nanos() as f64 / all);
    let frames = pair(&|r| r.2 as f64 / (all * SIZE as f64 / (1 << 20) as f64));
    println!(
        "| {} | {:.0} | {:.0} | {:.2} | {:.0} | {:.0} | {:.2} | {:.1} | {:.1} | {:.0} | {:.0} | {:.0} | {:.0} |",
        name(hint, SIZE),
        threads.0,
        threads.1,
        threads.0 / threads.1,
        alone.0,
        alone.1,
        alone.0 / alone.1,
        programs.0,
        programs.1,
        hardware.0,
        hardware.1,
        frames.0,
        frames.1
    );
}

fn name(hint: Hint, size: usize) -> String {
    let size = if size < 1 << 10 { format!("{size} B") } else { format!("{} KiB", size >> 10) };
    match hint {
        Hint::Bandwidth => format!("{size}, in batches"),
        Hint::Latency => format!("{size}, one by one"),
    }
}

/// The name of a run's part for callgrind.
fn label(system: &str, what: &str, part: Count) -> String {
    format!("{system}, {what}, {part:?}")
}

/// Tuples of a counted run, per node.
fn counted_tuples(hint: Hint, size: usize) -> usize {
    ((4 << 20) / size).clamp(128, if hint == Hint::Latency { 4096 } else { 32768 })
}

const COUNTED: Tables = Tables { inner: 200_000, outer: 200_000 };
const COUNTED_SMALL: Tables = Tables { inner: 20_000, outer: 20_000 };

/// Under valgrind: runs of which it counts parts.
fn count() {
    let _keep = zsr::cluster::<true>(1, &[flow(Hint::Bandwidth, 16)]);
    for part in [Count::Push, Count::Consume] {
        for_sizes!(count_of, Hint::Bandwidth, part);
        for_sizes!(count_of, Hint::Latency, part);
        for all in [2, 4] {
            for (form, tables) in [(Form::Radix, COUNTED), (Form::Replicate, COUNTED_SMALL)] {
                for system in ["zsr", "DFI"] {
                    join(system, form, all, tables, Some(part));
                    counts::dump(&label(system, &form.name(all), part));
                }
            }
        }
    }
}

fn count_of<const SIZE: usize>(hint: Hint, part: Count) {
    let (count, what) = (counted_tuples(hint, SIZE), name(hint, SIZE));
    let flows = [flow(hint, SIZE)];
    match hint {
        Hint::Bandwidth => count_over::<_, SIZE>(zsr::cluster::<true>(NODES, &flows), count, part),
        Hint::Latency => count_over::<_, SIZE>(zsr::cluster::<false>(NODES, &flows), count, part),
    }
    counts::dump(&label("zsr", &what, part));
    match hint {
        Hint::Bandwidth => count_over::<_, SIZE>(dfi::cluster::<BatchSource>(NODES, &flows), count, part),
        Hint::Latency => count_over::<_, SIZE>(dfi::cluster::<CreditSource>(NODES, &flows), count, part),
    }
    counts::dump(&label("DFI", &what, part));
    let ends = (0..NODES).map(|_| FloorEnds::new(NODES)).collect();
    stepped(&mut None, &mut nodes::<_, SIZE>(ends, count), part);
    counts::dump(&label("copies alone", &what, part));
}

fn count_over<E: Ends, const SIZE: usize>(
    (cluster, mut ends): (Cluster, Vec<Vec<E>>),
    count: usize,
    part: Count,
) {
    let mut made = nodes::<E, SIZE>(ends.remove(0), count);
    stepped(&mut Some(cluster), &mut made, part);
    check(&made, count);
}

fn instructions(counted: Option<&counts::Counts>) {
    println!("\n## Instructions of processing units per tuple, pushed and consumed\n");
    let Some(counted) = counted else { return };
    println!(
        "| tuple | zsr: push | consume | both | DFI: push | consume | both | zsr / DFI | copies alone | beyond these: zsr | DFI | zsr / DFI |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |");
    for hint in [Hint::Bandwidth, Hint::Latency] {
        for size in SIZES {
            let (what, tuples) = (name(hint, size), (NODES * counted_tuples(hint, size)) as f64);
            let parts = SYSTEMS.map(|system| {
                [Count::Push, Count::Consume].map(|part| counted.of(&label(system, &what, part)) / tuples)
            });
            let [zsr, dfi, floor] = parts.map(|[push, consume]| push + consume);
            println!(
                "| {what} | {:.1} | {:.1} | {zsr:.1} | {:.1} | {:.1} | {dfi:.1} | {:.2} | {floor:.1} | {:.1} | {:.1} | {:.2} |",
                parts[0][0],
                parts[0][1],
                parts[1][0],
                parts[1][1],
                zsr / dfi,
                zsr - floor,
                dfi - floor,
                (zsr - floor) / (dfi - floor)
            );
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Radix,
    Replicate,
}

impl Form {
    fn name(self, nodes: usize) -> String {
        match self {
            Form::Radix => format!("radix join, {nodes} nodes"),
            Form::Replicate => format!("fragment and replicate, {nodes} nodes"),
        }
    }

    fn flows(self) -> Vec<Flow> {
        let flow = |kind| Flow::new(kind, Hint::Bandwidth, ROW);
        match self {
            Form::Radix => vec![flow(Kind::Shuffle); 2],
            Form::Replicate => vec![flow(Kind::Replicate)],
        }
    }

    /// Rows that leave their node or could.
    fn shuffled(self, tables: &Tables) -> u64 {
        tables.inner + if self == Form::Radix { tables.outer } else { 0 }
    }
}

/// A join: step by step if instructions are counted, else with threads.
fn join(system: &str, form: Form, nodes: usize, tables: Tables, count: Option<Count>) -> (Spent, Joined) {
    if system == "zsr" {
        join_over(zsr::cluster::<true>(nodes, &form.flows()), tables, count)
    } else {
        join_over(dfi::cluster::<BatchSource>(nodes, &form.flows()), tables, count)
    }
}

fn join_over<E: Ends>(
    (cluster, ends): (Cluster, Vec<Vec<E>>),
    tables: Tables,
    count: Option<Count>,
) -> (Spent, Joined) {
    let mut flows = ends.into_iter();
    let inner = flows.next().expect("a flow");
    let nodes = inner.len();
    let mut outer = flows.next().map(Vec::into_iter);
    let node =
        |(node, inner)| JoinNode::new(inner, outer.as_mut().and_then(Iterator::next), tables, node, nodes);
    let mut programs: Vec<_> = inner.into_iter().enumerate().map(node).collect();
    let spent = match count {
        Some(count) => stepped(&mut Some(cluster), &mut programs, count),
        None => threaded(cluster, &mut programs).0,
    };
    debug_assert!(programs.iter().all(Program::is_done));
    (spent, Joined::of(programs.iter().map(|p| p.joined.expect("done"))))
}

fn joins(counted: Option<&counts::Counts>) {
    println!("\n## Joins: rows of 16 B; the result is that of a join on one machine\n");
    println!(
        "| join | rows | zsr, ms | DFI, ms | zsr / DFI | instructions per shuffled row: zsr | DFI | zsr / DFI |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    let tables = |form| match form {
        Form::Radix => (Tables { inner: 1_000_000, outer: 1_000_000 }, COUNTED),
        Form::Replicate => (Tables { inner: 1_000, outer: 1_000_000 }, COUNTED_SMALL),
    };
    for form in [Form::Radix, Form::Replicate] {
        let (tables, few) = tables(form);
        let wanted = Joined::on_one_machine(&tables);
        for nodes in [2, 4] {
            let mut times = [Vec::new(), Vec::new()];
            for _ in 0..RUNS {
                for (system, times) in ["zsr", "DFI"].into_iter().zip(&mut times) {
                    let (spent, joined) = join(system, form, nodes, tables, None);
                    assert_eq!(joined, wanted, "{system}");
                    times.push(spent.wall.as_secs_f64() * 1e3);
                }
            }
            let [zsr, dfi] = times.map(|t| Times::of(t).median);
            let what = form.name(nodes);
            print!(
                "| {what} | {} and {} | {zsr:.0} | {dfi:.0} | {:.2} |",
                tables.inner,
                tables.outer,
                zsr / dfi
            );
            let Some(counted) = counted else {
                println!(" not counted | | |");
                continue;
            };
            let [zsr, dfi] = ["zsr", "DFI"].map(|system| {
                let parts = [Count::Push, Count::Consume].map(|part| counted.of(&label(system, &what, part)));
                parts.iter().sum::<f64>() / form.shuffled(&few) as f64
            });
            println!(" {zsr:.1} | {dfi:.1} | {:.2} |", zsr / dfi);
        }
    }
}

fn openmpi(counted: bool) {
    println!(
        "\n## The same shuffle by OpenMPI's alltoallv, a process per node, through shared memory: no NIC, link or switch\n"
    );
    let shuffle = match mpi::Shuffle::build() {
        Ok(shuffle) => shuffle,
        Err(why) => return println!("SKIPPED OpenMPI: {why}"),
    };
    let run = |tuple, count, counted| {
        let run = shuffle.run(NODES, tuple, count, counted).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((run.tuples, run.keys), pushed(NODES, count), "tuples of {tuple} B");
        run
    };
    println!("| tuple | MB/s | instructions per tuple, waiting included |");
    println!("| --- | --- | --- |");
    for size in SIZES {
        let count = BYTES / size;
        let seconds = Times::of((0..RUNS).map(|_| run(size, count, false).seconds).collect()).median;
        let few = counted_tuples(Hint::Bandwidth, size);
        let each = if counted {
            let count = run(size, few, true).instructions.expect("counted");
            format!("{:.1}", count as f64 / (NODES * few) as f64)
        } else {
            "not counted".into()
        };
        println!(
            "| {} | {:.0} | {each} |",
            name(Hint::Bandwidth, size),
            (NODES * count * size) as f64 / seconds / 1e6
        );
    }
}
