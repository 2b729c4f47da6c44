//! zsr beside DFI's design, over the same NICs and links.

use super::{Curve, Drawn, Figure, Stated, at_least, at_most};
use crate::baseline::dfi::{self, BatchSource};
use crate::baseline::multicast;
use crate::baseline::virtual_time::{THREADS, goodput};
use crate::baseline::{Flow, Hint, Kind, RING, zsr};

const TUPLE: usize = 1024;
const MTU: u32 = 4096;
const GIB: f64 = (1_u64 << 30) as f64;

pub(super) const DFI: Figure = Figure {
    name: "12.9",
    title: "shuffles of n to n nodes of 4 programs, tuples of 1 KiB in batches",
    says: "Zero-sided RDMA, figure 12.9: goodput grows with the nodes, and is that of DFI or more. Here it is about level with DFI's design \
           where consumers have two lanes.",
    broken: "lanes: each consumer has one ring, and one producer at a time is read for it",
    draw: shuffles,
};

fn shuffles(broken: bool) -> Drawn {
    let lanes = if broken { 1 } else { 2 };
    let flow = Flow::new(Kind::Shuffle, Hint::Bandwidth, TUPLE);
    let ours = |lanes| {
        (1..=4).map(move |n| {
            let flow = Flow { lanes, ..flow };
            (n as f64, goodput::<_, TUPLE>(zsr::hosts::<true>, (n, n, THREADS), flow, MTU) / GIB)
        })
    };
    let theirs = (1..=4).map(|n| {
        (n as f64, goodput::<_, TUPLE>(dfi::hosts::<BatchSource>, (n, n, THREADS), flow, MTU) / GIB)
    });
    let curves = vec![Curve::new("zsr", ours(lanes)), Curve::new("DFI's design", theirs)];
    let ratios = curves[0].values().zip(curves[1].values()).map(|(zsr, dfi)| zsr / dfi);
    let rules = vec![
        at_least(
            "the smallest ratio of zsr to DFI's design (by the paper 1)",
            ratios.fold(f64::INFINITY, f64::min),
            0.85,
        ),
        at_least("4 nodes over 1", curves[0].last() / curves[0].first(), 3.2),
    ];
    Drawn { x: "nodes", y: "GiB/s", log_x: false, curves, stated: Vec::new(), rules }
}

pub(super) const REPLICATE: Figure = Figure {
    name: "12.12",
    title: "replication from 1 to n nodes, tuples of 1 KiB, all targets together",
    says: "Zero-sided RDMA, figure 12.12, and DFI 7.8: what all targets get grows with their number where the switch makes the copies, as \
           by zsr, which keeps one order for all, and by DFI's multicast. A sequencer, which DFI needs for one order, costs a round trip \
           per segment. WRITEs to each target share the source's link.",
    broken: "the switch's copies: the source WRITEs to each target",
    draw: replicas,
};

fn replicas(broken: bool) -> Drawn {
    let flow = Flow::new(Kind::Replicate, Hint::Bandwidth, TUPLE);
    let naive = |n: usize| goodput::<_, TUPLE>(dfi::hosts::<BatchSource>, (1, n, 1), flow, MTU) / GIB;
    let ours = |n: usize, ring: usize| match broken {
        true => naive(n),
        false => goodput::<_, TUPLE>(zsr::hosts::<true>, (1, n, 1), Flow { ring, ..flow }, MTU) / GIB,
    };
    let of = |each: &dyn Fn(usize) -> f64| [1, 2, 4, 8].map(|n| (n as f64, each(n)));
    let curves = vec![
        Curve::new("zsr, rings of 256 KiB", of(&|n| ours(n, RING))),
        Curve::new("zsr, rings of 2 MiB", of(&|n| ours(n, 8 * RING))),
        Curve::new("DFI by multicast", of(&|n| multicast::goodput(1, n, false) / GIB)),
        Curve::new("the same in one order", of(&|n| multicast::goodput(1, n, true) / GIB)),
        Curve::new("a WRITE for each target", of(&naive)),
    ];
    let [ours, large, unordered, ordered, writes] = [0, 1, 2, 3, 4].map(|n| curves[n].last());
    let rules = vec![
        at_least("8 targets over 1, zsr,", ours / curves[0].first(), 6.0),
        at_least("8 targets over 1, DFI by multicast,", unordered / curves[2].first(), 6.0),
        at_least("zsr over DFI in one order, to 8 targets,", ours / ordered, 2.0),
        at_least(
            "zsr with rings of 2 MiB over DFI by multicast without order, to 8 targets,",
            large / unordered,
            0.9,
        ),
        at_most("8 targets, a WRITE for each, in GiB/s, of which a link carries 11.64,", writes, 11.64),
    ];
    let stated = vec![
        Stated { what: "DFI by multicast to 8, GiB/s", paper: 64.0, ours: unordered },
        Stated { what: "DFI by WRITEs to 8, GiB/s", paper: 11.64, ours: writes },
    ];
    Drawn { x: "targets", y: "GiB/s", log_x: false, curves, stated, rules }
}
