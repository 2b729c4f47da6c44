//! Flow queues.

use zsr_simnet::LinkConfig;
use zsr_tests::rig::Rig;

use super::{Curve, Drawn, Figure, Rule, at_least, at_most};
use crate::baseline::structures::{Data, Design, Made, Space, Transfer, run};

pub(super) const FIGURE: Figure = Figure {
    name: "F2 6.9",
    title: "flow queues by one-sided RDMA and a flow of zsr: items per us by bytes of an item",
    says: "Data flow structures, figures 6.1 to 6.11: batches are far ahead where items are small, and level from 8 KiB on. Notices by \
           watermarks cost no requests. Room that is pushed costs many more requests than room that is pulled. SENDs to a small pool of RECVs lose rate: the paper's to \
           16, ours to 2, for a consumer posts anew at once here. In the paper programs are \
           the limit where items are small; here it is 64 requests under way, and the link.",
    broken: "batches: each item is a WRITE of its own",
    draw,
};

/// Virtual time that is measured, for items of up to 1 KiB and larger ones.
const NS: u64 = 400_000;
const LONG: u64 = 2_000_000;
const SIZES: [usize; 5] = [4, 64, 1024, 8192, 65536];

fn rate(made: &Made) -> f64 {
    made.items as f64 * 1e3 / made.ns as f64
}

/// Items per microsecond of a flow of zsr, and the requests that the hosts' NICs sent on their own, per item.
fn zsr(item: usize) -> (f64, f64) {
    let yaml = format!(
        "
defaults: {{mtu: 4096}}
hosts: [h1, h2]
flows:
  - {{name: f, producers: [h1], consumers: [h2], item_size: {item}, ring_size: {}, doorbell: false, poll_interval: 1us}}
workload: {{kind: synthetic, items: 1}}
",
        (8192 * item).clamp(1 << 17, 16 << 20)
    );
    let mut rig = Rig::new(&yaml, LinkConfig::FAST, u64::MAX);
    rig.run_for(NS / 2);
    // What a NIC sends is answers, or requests of its own.
    let own = |rig: &Rig| -> u64 {
        let sent = |host: usize| {
            let stats = rig.nic(host).stats();
            stats.tx_frames - stats.read_packets - stats.acks - stats.arp_replies
        };
        sent(0) + sent(1)
    };
    let (begun, before) = (rig.net.now(), own(&rig));
    let items = rig.popped_in(2 * NS)[0] / item as u64;
    let requests = own(&rig) - before;
    (items as f64 * 1e3 / (rig.net.now() - begun) as f64, requests as f64 / items as f64)
}

fn draw(broken: bool) -> Drawn {
    let design = |data, transfer, space| Design { data, transfer, space };
    let of =
        |design: Design| SIZES.map(|item| (item, run(design, item, if item > 1024 { LONG } else { NS })));
    let batch = if broken { Data::Push } else { Data::Batch };
    let mover = if broken { Data::Push } else { Data::Mover };
    let runs = [
        ("Basic", of(design(Data::Push, Transfer::Watermark, Space::Pull))),
        ("Batch", of(design(batch, Transfer::Watermark, Space::Pull))),
        ("Data Mover", of(design(mover, Transfer::Watermark, Space::Pull))),
        ("Basic, notices pushed", of(design(Data::Push, Transfer::Push, Space::Pull))),
        ("Basic, notices pulled", of(design(Data::Push, Transfer::Pull, Space::Pull))),
        ("Basic, room pushed", of(design(Data::Push, Transfer::Watermark, Space::Push))),
        ("Push-2, 64 RECVs", of(design(Data::Send { pool: 64 }, Transfer::Watermark, Space::Pull))),
        ("Push-2, 2 RECVs", of(design(Data::Send { pool: 2 }, Transfer::Watermark, Space::Pull))),
    ];
    let mut curves: Vec<Curve> = runs
        .iter()
        .map(|(name, runs)| Curve::new(*name, runs.iter().map(|(item, made)| (*item as f64, rate(made)))))
        .collect();
    let flows = SIZES.map(|item| (item, zsr(item)));
    curves.push(Curve::new("zsr", flows.map(|(item, (rate, _))| (item as f64, rate))));
    let per_item = |run: usize, size: usize, kind: usize| {
        let made = &runs[run].1[size].1;
        made.requests[kind] as f64 / made.items as f64
    };
    let at = |curve: usize, size: usize| curves[curve].points[size].1;
    let requests = flows.iter().map(|(_, (_, requests))| *requests).fold(0.0, f64::max);
    let rules = vec![
        at_least("Batch over Basic at 4 B", at(1, 0) / at(0, 0), 3.0),
        at_least("Data Mover over Batch at 4 B", at(2, 0) / at(1, 0), 0.9),
        at_most("Batch over Basic at 8 KiB", at(1, 3) / at(0, 3), 1.2),
        at_most("requests for notices per item, by watermarks,", per_item(0, 0, 1), 0.0),
        at_most("the same, pushed, at 4 B", per_item(3, 0, 1), 0.6),
        Rule {
            text: format!(
                "requests for room per item at 4 B are {:.4} where it is pulled, fewer than pushed, {:.4}",
                per_item(0, 0, 2),
                per_item(5, 0, 2)
            ),
            holds: per_item(0, 0, 2) < per_item(5, 0, 2) / 2.0,
        },
        at_least("Push-2 with 64 RECVs over Basic, 64 B", at(6, 1) / at(0, 1), 0.9),
        at_most("Push-2 with 2 RECVs over 64, 64 B", at(7, 1) / at(6, 1), 0.9),
        at_most("requests per item of zsr's hosts", requests, 0.0),
        at_least("zsr over Batch at 64 KiB", at(8, 4) / at(1, 4), 0.8),
    ];
    Drawn { x: "bytes of an item", y: "items per us", log_x: true, curves, stated: Vec::new(), rules }
}
