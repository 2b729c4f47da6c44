//! The eight designs of a shuffle.

use super::{Curve, Drawn, Figure, Rule, Stated, at_least, at_most};
use crate::baseline::shuffles::{Counts, Design, Notice, Setup, Shuffle, Way};
use crate::baseline::virtual_time::{LINK, THREADS, goodput};
use crate::baseline::{Flow, Hint, Kind, zsr};

/// The nodes and threads of the paper's experiments, and nodes that are enough for the same shape.
const NODES: usize = 8;
const CORES: usize = 14;
const FEWER: usize = 4;

pub(super) const SIZES: Figure = Figure {
    name: "S2 18",
    title: "eight designs of a shuffle, 4 nodes of 14 threads: GB/s of a node by bytes of a message",
    says: "RDMA-aware data shuffling, figures 14 to 18 and 13: endpoints that threads share starve where messages are small, since they \
           can't post enough requests; others don't. A WRITE takes 2 requests for each message, 3, or 2.5, by how the receiver learns of \
           it. Datagrams need less than 1 MiB. That a request takes 30 ns of an endpoint, for each thread that shares it, is assumed here.",
    broken: "sharing: each thread has an endpoint of its own in all designs",
    draw: sizes,
};

const MESSAGES: [usize; 3] = [4096, 8192, 16384];

/// Bytes per nanosecond of a node, over three rounds of all buffers.
fn run(design: Design, setup: Setup) -> (f64, Counts) {
    let round = setup.nodes * setup.threads * setup.buffers * setup.message / 12;
    Shuffle::new(design, setup, LINK).goodput(800_000.max(3 * round as u64))
}

fn sizes(broken: bool) -> Drawn {
    let curve = |design: Design| {
        let sizes = if design.way == Way::Datagram { &MESSAGES[..1] } else { &MESSAGES[..] };
        let shared = Design { multi: design.multi || broken, ..design };
        let points = sizes.iter().map(|message| {
            let setup = Setup { message: *message, ..Setup::new(design, FEWER, CORES) };
            (*message as f64, run(shared, setup).0)
        });
        Curve::new(design.name(), points)
    };
    let curves: Vec<Curve> = Design::ALL.into_iter().map(curve).collect();
    let mut rules = Vec::new();
    for (multi, single) in (0..4).zip(4..) {
        let (multi, single) = (&curves[multi], &curves[single]);
        let text = format!("{} over {} at 4 KiB", single.name, multi.name);
        rules.push(at_most(&text, single.first() / multi.first(), 0.7));
    }
    for curve in &curves[..3] {
        rules.push(at_least(
            &format!("{}, its least over its most,", curve.name),
            curve.least() / curve.most(),
            0.75,
        ));
    }
    for (multi, single) in (0..3).zip(4..) {
        let (multi, single) = (&curves[multi], &curves[single]);
        let text = format!("{} over {} at 16 KiB", single.name, multi.name);
        rules.push(at_least(&text, single.last() / multi.last(), 0.9));
    }
    let requests = |notice| {
        let design = Design { multi: true, way: Way::Write(notice) };
        run(design, Setup { message: 8192, ..Setup::new(design, 2, 2) }).1.per_message()
    };
    let footprint = |way, buffers| {
        let design = Design { multi: true, way };
        Shuffle::new(design, Setup { buffers, ..Setup::new(design, NODES, CORES) }, LINK)
    };
    let (sixteen, datagrams) = (footprint(Way::Send, 16), footprint(Way::Datagram, 2));
    let stated = vec![
        Stated { what: "requests per message, pollbuff", paper: 2.0, ours: requests(Notice::Buffer) },
        Stated { what: "requests per message, pollmq", paper: 3.0, ours: requests(Notice::Queue) },
        Stated { what: "requests per message, pollcq", paper: 2.5, ours: requests(Notice::Completion) },
        Stated {
            what: "GB pinned by 16 buffers of 64 KiB per thread and node, all nodes",
            paper: 0.94,
            ours: (sixteen.pinned * NODES) as f64 / 1e9,
        },
        Stated { what: "queue pairs of a node, MEMQ", paper: 112.0, ours: sixteen.queue_pairs as f64 },
        Stated { what: "queue pairs of a node, MESQ", paper: 14.0, ours: datagrams.queue_pairs as f64 },
    ];
    let mib = datagrams.pinned as f64 / f64::from(1 << 20);
    rules.push(at_most("MiB of send buffers that MESQ/SR pins on a node", mib, 1.0));
    Drawn { x: "bytes of a message", y: "GB/s of a node", log_x: true, curves, stated, rules }
}

pub(super) const NODES_FIGURE: Figure = Figure {
    name: "S2 19",
    title: "a shuffle of rows of 16 B, n to n nodes of 4 threads: GB/s of a node",
    says: "RDMA-aware data shuffling, figures 19 to 21: a node gets as much in a large cluster as in a small one, by datagrams with as few \
           queue pairs. The paper's fall of READs in broadcasts does not show here, where no node is slower than another. zsr has rings of \
           256 KiB and two lanes.",
    broken: "datagrams: MEMQ/SR stands in place of MESQ/SR",
    draw: nodes,
};

fn nodes(broken: bool) -> Drawn {
    let counts = [2, 4, 8];
    let datagrams = Design { multi: true, way: if broken { Way::Send } else { Way::Datagram } };
    let write = Way::Write(Notice::Completion);
    let designs = [Way::Send, Way::Read, write].map(|way| Design { multi: true, way });
    let of = |design: Design, name: &str, broadcast| {
        let setup = |nodes| Setup { broadcast, ..Setup::new(design, nodes, THREADS) };
        Curve::new(name, counts.map(|nodes| (nodes as f64, run(design, setup(nodes)).0)))
    };
    let mut curves = vec![of(datagrams, "MESQ/SR", false)];
    curves.extend(designs.map(|design| of(design, &design.name(), false)));
    let flow = Flow { lanes: 2, ..Flow::new(Kind::Shuffle, Hint::Bandwidth, 16) };
    let ours = counts.map(|n| {
        let all = goodput::<_, 16>(zsr::hosts::<true>, (n, n, THREADS), flow, crate::baseline::MTU);
        (n as f64, all / 1e9 / n as f64)
    });
    curves.push(Curve::new("zsr", ours));
    curves.extend(designs[..2].iter().map(|d| of(*d, &format!("{}, broadcast", d.name()), true)));
    let queue_pairs =
        |nodes| Shuffle::new(datagrams, Setup::new(datagrams, nodes, THREADS), LINK).queue_pairs;
    let (few, many) = (queue_pairs(2), queue_pairs(8));
    let slowest = curves[..4].iter().map(Curve::last).fold(f64::INFINITY, f64::min);
    let fastest = curves[..4].iter().map(Curve::last).fold(0.0, f64::max);
    let rules = vec![
        Rule {
            text: format!(
                "queue pairs of a node by MESQ/SR: {few} in a cluster of 2 nodes, {many} in one of 8"
            ),
            holds: few == many,
        },
        at_least("MESQ/SR, 8 nodes over 2,", curves[0].last() / curves[0].first(), 0.9),
        at_least("the slowest of the four designs over the fastest, 8 nodes,", slowest / fastest, 0.9),
        at_least("zsr over the fastest of them, 8 nodes,", curves[4].last() / fastest, 0.6),
    ];
    Drawn { x: "nodes", y: "GB/s of a node", log_x: false, curves, stated: Vec::new(), rules }
}
