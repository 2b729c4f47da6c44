//! Items and batches.

use zsr_simnet::LinkConfig;
use zsr_tests::rig::Rig;

use super::{Curve, Drawn, Figure, at_least, at_most, gigabytes};

pub(super) const FIGURE: Figure = Figure {
    name: "12.7",
    title: "goodput of one flow by bytes per transfer, for items of three sizes",
    says: "Zero-sided RDMA, figure 12.7: items of 4 KiB reach the link's rate once many of them go in one transfer. It is the \
           bytes of a transfer that count, and not the size of an item.",
    broken: "batches: each transfer has one item of 4 KiB",
    draw,
};

const MS: u64 = 1_000_000;
/// What a link of 100 Gbit/s carries of payload over a path MTU of 4096, in GB/s.
const LINE: f64 = 12.5 * 4096.0 / (4096.0 + 82.0);

/// Goodput in GB/s of items of `item` bytes, in transfers of at most `batch` bytes.
fn goodput(item: u64, batch: u64) -> f64 {
    let yaml = format!(
        "
defaults: {{mtu: 4096}}
hosts: [h1, h2]
flows:
  - {{name: f, producers: [h1], consumers: [h2], item_size: {item}, ring_size: 4MiB, max_batch: {batch}}}
workload: {{kind: synthetic, items: 1}}
"
    );
    let mut rig = Rig::new(&yaml, LinkConfig::FAST, u64::MAX);
    rig.run_for(MS);
    let (begin, popped) = (rig.net.now(), rig.popped_in(4 * MS));
    gigabytes(popped[0], rig.net.now() - begin)
}

fn draw(broken: bool) -> Drawn {
    let batches = [4, 16, 64, 256, 1024].map(|kib: u64| kib << 10);
    let curves: Vec<Curve> = [4, 64, 1024]
        .iter()
        .map(|kib: &u64| {
            let item = kib << 10;
            let points = batches.iter().filter(|batch| **batch >= item).map(|batch| {
                let most = if broken { 4096.max(item) } else { *batch };
                ((batch >> 10) as f64, goodput(item, most))
            });
            Curve::new(format!("items of {kib} KiB"), points)
        })
        .collect();
    let small = &curves[0];
    let rules = vec![
        at_least("1 MiB of 4 KiB items in a transfer, of the link", small.last() / LINE, 0.8),
        at_most("a transfer per item of 4 KiB, of transfers of 1 MiB", small.first() / small.last(), 0.5),
        at_least("4 KiB items over 1 MiB items, in transfers of 1 MiB", small.last() / curves[2].last(), 0.9),
        at_least(
            "64 KiB items over 1 MiB items, in transfers of 1 MiB",
            curves[1].last() / curves[2].last(),
            0.9,
        ),
    ];
    Drawn { x: "KiB per transfer at most", y: "GB/s", log_x: true, curves, stated: Vec::new(), rules }
}
