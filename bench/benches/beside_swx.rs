//! Our switch beside DPDK's software pipeline (SWX): the same program (programs/hop-v1model.p4, hop-pna.p4) on one core, with packets of
//! 100 bytes in memory.
//!
//!     cargo bench -p zsr-bench --bench beside_swx [-- SWX HOP.so]
//!
//! programs/swx.c says how SWX and HOP.so are made. 4096 packets, of as many flows, go round in bursts. Without SWX only ours is measured.

use std::process::Command;
use std::time::Instant;

use zsr_bench::{Times, machine, pin};
use zsr_soft_switch::{ActionCall, EntryAction, MatchField, Program, Switch, SwitchConfig, TableEntry};
use zsr_wire::{Frame, FramePool};

const PROGRAM: &str = include_str!("../programs/hop.json");
const FLOWS: u32 = 4096;
const BURST: usize = 256;
const ROUNDS: usize = 400;

/// Addresses of entries, in no order. A MAC address is 02:00 and this.
fn address(n: u32) -> [u8; 4] {
    (0x0a00_0000 | (n.wrapping_mul(2_654_435_761) & 0xff_ffff)).to_be_bytes()
}

fn mac(n: u32) -> Vec<u8> {
    [&[2, 0][..], &address(n)].concat()
}

fn packet(ip: bool, n: u32) -> Frame {
    let mut bytes = [0; 100];
    bytes[..6].copy_from_slice(&mac(n));
    bytes[6] = 4;
    if ip {
        bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
        bytes[22] = 64;
        bytes[30..34].copy_from_slice(&address(n));
    } else {
        bytes[12..14].copy_from_slice(&[0x88, 0xb5]);
    }
    Frame::copy_from(&bytes).expect("room")
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    println!("one core, M packets/s of 100 B; {}", machine());
    pin(0);
    let program = Program::from_json(PROGRAM).expect("our program");
    for ip in [true, false] {
        for entries in [1, 10_000, 100_000] {
            let kind = if ip { "ip" } else { "ethernet" };
            let (times, inserts) = ours(&program, ip, entries);
            println!(
                "{kind:>8} {entries:>7} entries: zsr {:.2} (least {:.2}, most {:.2}), {inserts:.0} inserts/s",
                1e3 / times.median,
                1e3 / times.max,
                1e3 / times.min
            );
            if let [swx, hop] = &args[..] {
                let done =
                    Command::new(swx).args([kind, &entries.to_string(), hop]).output().expect("it runs");
                assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
                println!(
                    "{kind:>8} {entries:>7} entries: SWX {}",
                    String::from_utf8_lossy(&done.stdout).trim()
                );
            }
        }
    }
}

/// Nanoseconds per packet, and entries per second.
fn ours(program: &Program, ip: bool, entries: u32) -> (Times, f64) {
    let mut switch = Switch::new(program, SwitchConfig::default());
    let (table, action) = if ip { ("In.hosts", "In.route") } else { ("In.stations", "In.forward") };
    let table = switch.info().table(table).expect("a table");
    let action = switch.info().table_action(table, action).expect("an action");
    let begun = Instant::now();
    for n in 0..entries {
        let (key, params) = match ip {
            true => (address(n).to_vec(), vec![vec![6, 0, 0, 0, 0, 1], vec![1]]),
            false => (mac(n), vec![vec![1]]),
        };
        let entry = TableEntry {
            key: vec![MatchField::Exact(key)],
            priority: 0,
            action: EntryAction::Call(ActionCall { action, params }),
            idle_timeout_ns: 0,
            metadata: Vec::new(),
        };
        switch.table_insert(table, entry).expect("room");
    }
    let inserts = f64::from(entries) / begun.elapsed().as_secs_f64();
    let mut pool = FramePool::with_frames(64);
    let mut packets: Vec<Frame> = (0..FLOWS).map(|n| packet(ip, n * 251 % entries)).collect();
    let (mut times, mut out) = (Vec::new(), Vec::with_capacity(BURST));
    let mut now = 0;
    for round in 0..=ROUNDS {
        let begun = Instant::now();
        let mut next = Vec::with_capacity(packets.len());
        let mut frames = packets.into_iter();
        while frames.len() > 0 {
            now += 1000;
            for frame in frames.by_ref().take(BURST) {
                switch.process(now, 0, frame, &mut pool, &mut out);
            }
            for (port, frame) in out.drain(..) {
                assert_eq!(port, 1);
                next.push(frame);
            }
        }
        packets = next;
        assert_eq!(packets.len(), FLOWS as usize, "packets were dropped");
        if round > 0 {
            times.push(begun.elapsed().as_nanos() as f64 / f64::from(FLOWS));
        }
    }
    (Times::of(times), inserts)
}
