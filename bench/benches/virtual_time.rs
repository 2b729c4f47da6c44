//! zsr and DFI with NICs and a switch at line rate, in virtual time: first the figures that the papers state, then
//! others.
//!
//! `cargo bench -p zsr-bench --bench virtual_time`; with `-- shapes` only shuffles by the number of hosts, programs and lanes.
//! Links have 100 Gbit/s. Processing units are never the limit, so no figure here is about processors. The papers' texts give few
//! numbers; curves that are pictures only are not claimed.

use zsr_bench::baseline::dfi::{self, BatchSource, CreditSource};
use zsr_bench::baseline::pu::Node;
use zsr_bench::baseline::virtual_time::{LINK, STEP, THREADS, VirtualTime, goodput};
use zsr_bench::baseline::{Ends, Flow, Hint, Kind, RING, cluster::Hosts, zsr};

/// As many programs per node as DFI's experiment with eight nodes has.
const MANY: usize = 14;
const GIB: f64 = (1u64 << 30) as f64;
/// Path MTUs: InfiniBand's, and what fits an Ethernet frame of 1500 bytes.
const INFINIBAND: u32 = 4096;
const ETHERNET: u32 = 1024;

fn shuffle(hint: Hint, tuple: usize) -> Flow {
    Flow::new(Kind::Shuffle, hint, tuple)
}

/// Nanoseconds from pushing one tuple of 64 bytes to an idle flow until it is consumed.
fn one_way<E: Ends>(make: impl Fn(usize, usize, &[Flow], u32) -> (Hosts, Vec<Vec<E>>), mtu: u32) -> u64 {
    const STEP: u64 = 20;
    let flow = shuffle(Hint::Latency, 64);
    let (hosts, mut ends) = make(2, 1, &[flow], mtu);
    let mut time = VirtualTime::new(hosts, LINK);
    let mut latencies = Vec::new();
    let node = |(node, ends)| Node::<E, 64>::new(ends, flow.kind, (node, 2), 0, false).open();
    let mut programs: Vec<_> = ends.remove(0).into_iter().enumerate().map(node).collect();
    for n in 0..31 {
        // At another moment of the switch's interval each time.
        time.run_for(&mut programs, 200_000 + n * 1_370, STEP);
        let (begun, before) = (time.now(), programs[0].tuples + programs[1].tuples);
        programs[0].push_one();
        while programs[0].tuples + programs[1].tuples == before {
            time.run_for(&mut programs, STEP, STEP);
        }
        latencies.push(time.now() - begun);
    }
    latencies.sort_unstable();
    latencies[latencies.len() / 2]
}

/// A paper's figure beside the model's; returns whether they are within a tenth of each other. Most of these figures
/// are sizes and rates of full links. So they show that links and layout are right, and not how a system behaves.
fn checked(what: &str, unit: &str, paper: f64, model: f64) -> bool {
    let off = model / paper - 1.0;
    println!("| {what} | {paper} {unit} | {model:.2} {unit} | {:+.1} % |", off * 100.0);
    off.abs() <= 0.1
}

/// Shuffles of 1 KiB in batches, with more or fewer hosts and programs, and consumers of several lanes.
fn shapes() {
    println!(
        "| hosts x programs, MTU | lanes | zsr, GiB/s | DFI, GiB/s | zsr / DFI |\n| --- | --- | --- | --- | --- |"
    );
    for (nodes, threads, lanes) in [(4, 1, &[1, 2, 4][..]), (4, 4, &[1, 2, 4]), (8, 2, &[1, 2, 4, 8])] {
        for mtu in [ETHERNET, INFINIBAND] {
            let (shape, flow) = ((nodes, nodes, threads), shuffle(Hint::Bandwidth, 1024));
            let dfi = goodput::<_, 1024>(dfi::hosts::<BatchSource>, shape, flow, mtu) / GIB;
            for &lanes in lanes {
                let zsr = goodput::<_, 1024>(zsr::hosts::<true>, shape, Flow { lanes, ..flow }, mtu) / GIB;
                let ratio = zsr / dfi;
                println!("| {nodes} x {threads}, {mtu} | {lanes} | {zsr:.2} | {dfi:.2} | {ratio:.2} |");
            }
        }
    }
}

fn main() {
    if std::env::args().any(|arg| arg == "shapes") {
        return shapes();
    }
    let _keep = zsr::cluster::<true>(1, &[shuffle(Hint::Bandwidth, 16)]);
    let batches = dfi::hosts::<BatchSource>;
    println!("100 Gbit/s, {} ns between NIC and switch, programs look every {STEP} ns\n", LINK.latency_ns);
    println!("| stated by the papers | paper | model | off by |\n| --- | --- | --- | --- |");
    let mut all = true;
    for (nodes, threads, paper) in [(2, 4, 16.0), (8, 4, 64.0), (8, 14, 785.5)] {
        let what = format!("DFI 6.1.4: memory per node, {nodes} nodes of {threads} sources and targets");
        all &= checked(&what, "MiB", paper, dfi::memory(nodes, threads) as f64 / (1 << 20) as f64);
    }
    let flow = shuffle(Hint::Bandwidth, 1024);
    let one = goodput::<_, 1024>(batches, (1, 8, THREADS), flow, INFINIBAND) / GIB;
    all &= checked(
        "DFI figure 7a: shuffle from 1 server of 4 threads to 8, the link is the limit",
        "GiB/s",
        11.64,
        one,
    );
    let full = goodput::<_, 1024>(batches, (8, 8, MANY), flow, INFINIBAND) / GIB;
    all &=
        checked("DFI figure 7c: 8 servers of 14 threads to 8, linear in servers", "GiB/s", 8.0 * 11.64, full);
    for (segments, paper) in [(16, 0.973), (8, 0.92)] {
        let few = Flow { ring: RING * segments / 32, ..flow };
        let what = format!("DFI 6.1.4: 8 servers to 8 with {segments} segments, against 32");
        let model = goodput::<_, 1024>(batches, (8, 8, MANY), few, INFINIBAND) / GIB / full;
        all &= checked(&what, "", paper, model);
    }
    let replicate = Flow::new(Kind::Replicate, Hint::Bandwidth, 1024);
    let naive = goodput::<_, 1024>(batches, (1, 8, 1), replicate, INFINIBAND) / GIB;
    all &=
        checked("DFI figure 8a: naive replication to 8, limited by the sender's link", "GiB/s", 11.64, naive);
    // The paper does not say how large batches were: those that zsr makes if it is told nothing else.
    let large = Flow { ring: 2 << 20, ..flow };
    let items = goodput::<_, 1024>(zsr::hosts::<true>, (1, 1, 1), large, ETHERNET) / 1024.0 / 1e6;
    all &= checked(
        "zero-sided RDMA figure 12.10: items of 1 KiB, one to one, batches of 1 MiB",
        "M/s",
        10.0,
        items,
    );
    if !all {
        println!(
            "\nThe model is off by more than a tenth: nothing is said about what the papers do not state."
        );
        return;
    }
    println!("\n| not stated by the papers | zsr | DFI | zsr / DFI |\n| --- | --- | --- | --- |");
    let row = |what: &str, unit: &str, zsr: f64, dfi: f64| {
        println!("| {what} | {zsr:.2} {unit} | {dfi:.2} {unit} | {:.2} |", zsr / dfi);
    };
    macro_rules! sizes {
        ($($size:literal)*) => {$(
            let size = if $size < 1024 { format!("{} B", $size) } else { format!("{} KiB", $size >> 10) };
            let (ours, flow) = (zsr::hosts::<true>, shuffle(Hint::Bandwidth, $size));
            for mtu in [ETHERNET, INFINIBAND] {
                row(
                    &format!("4 to 4, {size}, in batches, MTU {mtu}"),
                    "GiB/s",
                    goodput::<_, $size>(ours, (4, 4, THREADS), flow, mtu) / GIB,
                    goodput::<_, $size>(batches, (4, 4, THREADS), flow, mtu) / GIB,
                );
            }
            let flow = shuffle(Hint::Latency, $size);
            row(
                &format!("4 to 4, {size}, one by one, MTU {INFINIBAND}"),
                "GiB/s",
                goodput::<_, $size>(zsr::hosts::<false>, (4, 4, THREADS), flow, INFINIBAND) / GIB,
                goodput::<_, $size>(dfi::hosts::<CreditSource>, (4, 4, THREADS), flow, INFINIBAND) / GIB,
            );
        )*};
    }
    sizes!(16 64 256 1024 4096 16384 65536);
    row(
        "replication from 1 to 8, 1 KiB, all targets together; DFI by a WRITE for each target",
        "GiB/s",
        goodput::<_, 1024>(zsr::hosts::<true>, (1, 8, 1), replicate, INFINIBAND) / GIB,
        naive,
    );
    row(
        "one way, 64 B, idle, median, zsr polls every 20 us",
        "us",
        one_way(zsr::hosts::<false>, INFINIBAND) as f64 / 1e3,
        one_way(dfi::hosts::<CreditSource>, INFINIBAND) as f64 / 1e3,
    );
}
