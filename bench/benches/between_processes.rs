//! Goodput of one flow between processes (`zsr up`), beside TCP over loopback in the same run: as many bytes, the same
//! messages, copied from and to a buffer of the program's. Figures stand in bench/results/processes.md.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use zsr_api::controller as proto;
use zsr_bench::live::{Live, processor_time_of};
use zsr_bench::{Times, machine};

/// Bytes of a message.
const MESSAGE: usize = 64 << 10;
/// Bytes of each ring.
const RING: u32 = 4 << 20;
/// Messages per measurement.
const MESSAGES: usize = 4096;
const ROUNDS: usize = 7;

fn main() {
    println!(
        "{MESSAGES} messages of {MESSAGE} bytes, rings of {RING}, {ROUNDS} rounds in turn; {}",
        machine()
    );
    println!("{:>5}  MB/s (min median max): flow; TCP over loopback; ratio", "MTU");
    for mtu in [1024, 4096] {
        let live = Live::with_mtu(2, mtu);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let before = live.processor_times();
        let (mut programs, mut elapsed) = (Duration::ZERO, Duration::ZERO);
        for round in 0..=ROUNDS {
            let own = processor_time_of("self");
            let time = through_flow(&live, &format!("f{round}"));
            programs += processor_time_of("self") - own;
            elapsed += time;
            let tcp = rate(through_tcp());
            // The first round warms up.
            if round > 0 {
                ours.push(rate(time));
                theirs.push(tcp);
            }
        }
        let ratios = ours.iter().zip(&theirs).map(|(a, b)| a / b).collect();
        let [a, b, ratio] = [ours, theirs, ratios].map(Times::of);
        let figures = |t: &Times| format!("{:5.0} {:5.0} {:5.0}", t.min, t.median, t.max);
        println!(
            "{mtu:>5}  {}; {}; {:.2} {:.2} {:.2}",
            figures(&a),
            figures(&b),
            ratio.min,
            ratio.median,
            ratio.max
        );
        let of_a_core = |time: Duration| 100.0 * time.as_secs_f64() / elapsed.as_secs_f64();
        let after = live.processor_times();
        let each: Vec<String> = after
            .iter()
            .map(|(name, &time)| {
                let time = time - before.get(name).copied().unwrap_or_default();
                format!("{name} {:.0} %", of_a_core(time))
            })
            .collect();
        println!(
            "       of a core while the flow moves: {}, programs {:.0} %",
            each.join(", "),
            of_a_core(programs)
        );
    }
}

fn rate(time: Duration) -> f64 {
    (MESSAGES * MESSAGE) as f64 / 1e6 / time.as_secs_f64()
}

/// From the first push to the last pop.
fn through_flow(live: &Live, name: &str) -> Duration {
    let more = proto::CreateFlowRequest { item_size: MESSAGE as u32, ring_size: RING, ..Default::default() };
    let flow = live.create(name, &["h1"], &["h2"], more);
    let (mut producer, mut consumer) = Live::attach(&flow);
    let begun = Instant::now();
    let pushing = std::thread::spawn(move || {
        let mut message = vec![0x5a; MESSAGE];
        for n in 0..MESSAGES as u64 {
            message[..8].copy_from_slice(&n.to_le_bytes());
            producer.push(&message).unwrap_or_else(|e| panic!("{e}"));
        }
    });
    let mut message = vec![0; MESSAGE];
    for n in 0..MESSAGES as u64 {
        consumer.pop(&mut message).unwrap_or_else(|e| panic!("{e}"));
        check(&message, n);
    }
    let time = begun.elapsed();
    pushing.join().expect("it pushes");
    drop(consumer);
    live.delete(name);
    time
}

/// The same through a TCP connection.
fn through_tcp() -> Duration {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut to = TcpStream::connect(address).expect("it listens");
    let (mut from, _) = listener.accept().expect("it was connected");
    let begun = Instant::now();
    let pushing = std::thread::spawn(move || {
        let mut message = vec![0x5a; MESSAGE];
        for n in 0..MESSAGES as u64 {
            message[..8].copy_from_slice(&n.to_le_bytes());
            to.write_all(&message).expect("it is sent");
        }
    });
    let mut message = vec![0; MESSAGE];
    for n in 0..MESSAGES as u64 {
        from.read_exact(&mut message).expect("it is received");
        check(&message, n);
    }
    let time = begun.elapsed();
    pushing.join().expect("it sends");
    time
}

fn check(message: &[u8], n: u64) {
    assert_eq!(message[..8], n.to_le_bytes(), "messages come in order");
    assert_eq!(message[MESSAGE - 1], 0x5a);
}
