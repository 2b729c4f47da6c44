//! For how long flows stand still when their switch's process is killed and another one is started at once: time until the first and the
//! last of them moves again, from the kill, and the part of it that the new process took to be there. Figures stand in
//! bench/README.md.

use std::time::{Duration, Instant};
use zsr_api::controller as proto;
use zsr_bench::live::{Live, Stepper};

/// How long flows move before their switch dies.
const BEFORE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_micros(500);

fn main() {
    println!("{}", zsr_bench::machine());
    let live = Live::up(4);
    let mut flows = Vec::new();
    println!("{:>6} {:>12} {:>12} {:>12}", "flows", "switch ms", "first ms", "all ms");
    for count in [1, 100, 1000] {
        while flows.len() < count {
            let request = proto::CreateFlowRequest { item_size: 1024, ring_size: 8192, ..Default::default() };
            let name = format!("f{}", flows.len());
            flows.push(live.create(&name, &["h1", "h2"], &["h3", "h4"], request));
        }
        for _ in 0..3 {
            let stepper = Stepper::start(&flows);
            std::thread::sleep(BEFORE);
            let killed = Instant::now();
            live.replace_switch();
            let there = killed.elapsed();
            // What the old one had delivered has been popped by now.
            let (before, mut first) = (stepper.popped(), None);
            let all = loop {
                let now = stepper.popped();
                let moved = now.iter().zip(&before).filter(|(now, before)| now > before).count();
                if moved > 0 {
                    first.get_or_insert_with(|| killed.elapsed());
                }
                if moved == count {
                    break killed.elapsed();
                }
                std::thread::sleep(PAUSE);
            };
            let ms = |time: Duration| time.as_secs_f64() * 1e3;
            println!("{count:>6} {:>12.0} {:>12.0} {:>12.0}", ms(there), ms(first.unwrap_or(all)), ms(all));
            drop(stepper);
        }
    }
}
