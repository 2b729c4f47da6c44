//! Measures how many packets per second one core of this machine takes through a program. The program and the frame are
//! the given ones, or the transport rewrite of the tests.
//!
//!     cargo run --release -p zsr-soft-switch --example rate [packets]

use std::time::Instant;

use zsr_soft_switch::*;
use zsr_wire::frame::{Frame, FramePool};

#[path = "../tests/support/transport.rs"]
mod transport;

fn main() {
    let packets: u64 = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(2_000_000);
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/transport.json"));
    let program = Program::from_json(&text.expect("the program is there")).expect("it loads");
    let mut switch = Switch::new(&program, SwitchConfig::default());
    transport::fill(&mut switch);
    let bytes = transport::packet(1024, 7);
    let mut pool = FramePool::with_frames(64);
    let mut out = Vec::with_capacity(64);
    let (mut sum, mut best) = (0u64, f64::MAX);
    let batch = (packets / 1000).max(1);
    let whole = Instant::now();
    for _ in 0..1000 {
        let start = Instant::now();
        for i in 0..batch {
            // The frame is copied in, as a link would.
            let mut frame: Frame = pool.take();
            frame.append(&bytes);
            switch.process(i * 500, 1, frame, &mut pool, &mut out);
            for (_, f) in out.drain(..) {
                sum += f.len() as u64;
                pool.put(f);
            }
        }
        best = best.min(start.elapsed().as_nanos() as f64 / batch as f64);
    }
    let mean = whole.elapsed().as_nanos() as f64 / (1000 * batch) as f64;
    println!("{sum} bytes out; mean {mean:.1} ns per packet, best of 1000 batches {best:.1} ns");
    println!("{:.2} M packets/s at best", 1e3 / best);
    println!("{:?}", switch.stats());
}
