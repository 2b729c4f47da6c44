//! How many packets per second one core of this machine takes through a program: the given one with the given
//! frame, or the transport rewrite of the tests.
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
    let start = Instant::now();
    let mut sum = 0u64;
    for i in 0..packets {
        // The frame is copied in, as a link would.
        let mut frame: Frame = pool.take();
        frame.append(&bytes);
        switch.process(i * 500, 1, frame, &mut pool, &mut out);
        for (_, f) in out.drain(..) {
            sum += f.len() as u64;
            pool.put(f);
        }
    }
    let t = start.elapsed();
    let ns = t.as_nanos() as f64 / packets as f64;
    println!("{packets} packets, {sum} bytes out, {ns:.1} ns per packet, {:.2} M packets/s", 1e3 / ns);
    println!("{:?}", switch.stats());
}
