//! Damaged copies of sound input, from seeds, to everything that parses what others wrote. `fuzz/` does the same without end.

use zsr_link::{Direction, TapFrame, TapRecord};
use zsr_ring::segment::{SegmentConfig, SegmentWriter};
use zsr_ring::{Ring, RingSpec};
use zsr_tests::fuzz::{self, Damage};
use zsr_wire::message::Message;
use zsr_wire::roce::{Path, Repr};
use zsr_wire::{Frame, Mac, Psn, Qpn, Rkey, reth};

/// Runs `entry` on each seed as it is, and on damaged copies.
fn damaged(entry: impl Fn(&[u8]), seeds: &[&[u8]], copies: usize) {
    for (number, seed) in seeds.iter().enumerate() {
        entry(seed);
        let mut damage = Damage::new(number as u64);
        for _ in 0..copies {
            entry(&damage.of(seed));
        }
    }
}

#[test]
fn topologies() {
    let seeds: [&[u8]; 3] = [
        include_bytes!("../../topologies/shuffle-2x2.yaml"),
        include_bytes!("../../topologies/replicate.yaml"),
        include_bytes!("../../topologies/load-balance.yaml"),
    ];
    damaged(fuzz::topology, &seeds, 700);
}

#[test]
fn journals() {
    let seed = br#"{"End":{"name":"g","flow":null}}
{"Begin":{"name":"f","fallback":null}}
{"End":{"name":"f","flow":null}}
{"Begin":{"name":"h","fallback":null}}
"#;
    damaged(fuzz::journal, &[seed, b"", b"{\"End\":{\"name\":\"\xc3"], 300);
}

#[test]
fn segments() {
    let (producer, mut consumer) =
        Ring::loopback(RingSpec::new(128, 1024).expect("powers of two")).expect("memory");
    let config = SegmentConfig { producer: 3, checksum: true, first_sequence: 0 };
    let mut writer = SegmentWriter::records(producer, config).expect("128 B are enough");
    for n in 0..9 {
        writer.try_push(&[n; 40]).expect("room");
    }
    writer.close().expect("room");
    let (mut seed, mut item) = (Vec::new(), [0; 128]);
    while consumer.try_pop(&mut item).is_ok() {
        seed.extend(item);
    }
    assert!(seed.len() >= 512, "several segments");
    damaged(fuzz::segments, &[&seed], 2000);
}

#[test]
fn programs_of_switches() {
    let seeds: [&[u8]; 2] = [
        include_bytes!("../../crates/soft-switch/tests/programs/drops.json"),
        include_bytes!("../../crates/soft-switch/tests/programs/tables.json"),
    ];
    damaged(fuzz::program, &seeds, 100);
}

#[test]
fn p4infos() {
    let seed = include_bytes!("../../crates/soft-switch/tests/programs/p4runtime.p4info.txtpb");
    damaged(fuzz::p4info, &[seed], 300);
}

#[test]
fn programs_at_an_agent() {
    let bell: &[u8] = &[&fuzz::ATTACH[..11], &[1, 64, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
    let long: &[u8] = &[0xff, 0xff, 0xff, 0xff, 8, 1];
    damaged(fuzz::programs, &[fuzz::ATTACH, bell, long], 150);
}

#[test]
fn captures() {
    let mac = Mac([2, 0, 0, 0, 0, 1]);
    let path = |to| Path {
        src_mac: mac,
        dst_mac: mac,
        src_ip: [10, 0, 0, 254].into(),
        dst_ip: to,
        src_port: 1,
        tos: 0,
        ttl: 64,
    };
    let reth = |address, length| reth::Repr { address, rkey: Rkey(1), length };
    let mut commit = [0; 16];
    commit[8] = 1;
    let packets = [
        ((1, 3), 9, Message::ReadRequest(reth(4096, 1500)), &[][..]),
        ((2, 7), 5, Message::WriteFirst(reth(4096, 1100)), &[1; 1024]),
        ((2, 7), 6, Message::WriteLast, &[1; 76]),
        ((2, 7), 7, Message::WriteOnly(reth(0, 16)), &commit),
    ];
    let mut seed = Vec::new();
    for ((host, qpn), psn, message, payload) in packets {
        let to = [10, 0, 0, host];
        let mut frame = Frame::new();
        Repr::new(path(to.into()), Qpn::new(qpn), Psn::new(psn), message).emit(payload, &mut frame).unwrap();
        let frame = TapFrame { direction: Direction::Out, len: frame.len(), bytes: frame.bytes() };
        TapRecord { time_ns: 1, lost: 0, frame: Some(frame) }.write(&mut seed);
    }
    damaged(fuzz::capture, &[&seed], 2000);
}
