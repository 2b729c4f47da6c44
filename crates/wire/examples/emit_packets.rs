//! Prints seeded packets as JSON lines (frame bytes in hex, and the fields that went in) for another implementation
//! to look at: `tests/scapy/run`.
//!
//! `cargo run -p zsr-wire --example emit_packets [COUNT [SEED]]`

use std::net::Ipv4Addr;

use serde_json::json;
use zsr_random::SplitMix64;
use zsr_wire::message::Message;
use zsr_wire::roce::{Path, Repr};
use zsr_wire::{Frame, Mac, Psn, Qpn, Rkey, aeth, arp, deth, ethernet, reth};

/// Kinds of packets, of which the last one is ARP.
const KINDS: u64 = 22;
const ARP: u64 = KINDS - 1;

struct Rng(SplitMix64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0.bits()
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn flag(&mut self) -> bool {
        self.next() & 1 == 1
    }

    fn mac(&mut self) -> Mac {
        let [a, b, c, d, e, f, ..] = self.next().to_be_bytes();
        Mac([a & 0xfe, b, c, d, e, f])
    }

    fn ip(&mut self) -> Ipv4Addr {
        Ipv4Addr::from(self.next() as u32)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn message(rng: &mut Rng, kind: u64) -> (Message, usize) {
    let r = reth::Repr {
        address: rng.next(),
        rkey: Rkey(rng.next() as u32),
        length: rng.below(u64::from(reth::MAX_MESSAGE) + 1) as u32,
    };
    let codes = [aeth::Syndrome::ACK.code(), 0x2a, 0x60, 0x61, 0x62, 0x63];
    let code = codes[rng.below(codes.len() as u64) as usize];
    let syndrome = aeth::Syndrome::from_code(code).unwrap_or(aeth::Syndrome::ACK);
    let a = aeth::Repr { syndrome, msn: rng.below(1 << 24) as u32 };
    let d = deth::Repr { qkey: rng.next() as u32, src_qp: Qpn::new(rng.next() as u32) };
    let mtu = 256 << rng.below(5);
    let (some, any) = (1 + rng.below(mtu) as usize, rng.below(mtu + 1) as usize);
    let mtu = mtu as usize;
    match kind {
        0 => (Message::ReadRequest(r), 0),
        1 => (Message::ReadResponseFirst(a), mtu),
        2 => (Message::ReadResponseMiddle, mtu),
        3 => (Message::ReadResponseLast(a), some),
        4 => (Message::ReadResponseOnly(a), any),
        5 => (Message::WriteFirst(r), mtu),
        6 => (Message::WriteMiddle, mtu),
        7 => (Message::WriteLast, some),
        8 => (Message::WriteLastImm(rng.next() as u32), some),
        9 => (Message::WriteOnly(r), any),
        10 => (Message::WriteOnlyImm(r, rng.next() as u32), any),
        11 => (Message::Acknowledge(a), 0),
        12 => (Message::SendFirst, mtu),
        13 => (Message::SendMiddle, mtu),
        14 => (Message::SendLast, some),
        15 => (Message::SendLastImm(rng.next() as u32), some),
        16 => (Message::SendOnly, any),
        17 => (Message::SendOnlyImm(rng.next() as u32), any),
        18 => (Message::Datagram(d), any),
        19 => (Message::DatagramImm(d, rng.next() as u32), any),
        _ => (Message::Cnp, 0),
    }
}

fn roce_line(rng: &mut Rng, kind: u64) -> serde_json::Value {
    let (message, len) = message(rng, kind);
    let path = Path {
        src_mac: rng.mac(),
        dst_mac: rng.mac(),
        src_ip: rng.ip(),
        dst_ip: rng.ip(),
        src_port: rng.next() as u16,
        tos: rng.next() as u8,
        ttl: rng.next() as u8,
    };
    let mut repr = Repr::new(path, Qpn::new(rng.next() as u32), Psn::new(rng.next() as u32), message);
    repr.ident = rng.next() as u16;
    repr.pkey = rng.next() as u16;
    (repr.ack_req, repr.solicited, repr.migration) = (rng.flag(), rng.flag(), rng.flag());
    (repr.fecn, repr.becn) = (rng.flag(), rng.flag());
    let payload: Vec<u8> = (0..len).map(|_| rng.next() as u8).collect();
    let mut frame = Frame::new();
    if let Err(error) = repr.emit(&payload, &mut frame) {
        panic!("{repr:?} can't be written: {error}");
    }
    let (mut reth, mut aeth, mut deth, mut imm) = (None, None, None, None);
    match message {
        Message::ReadRequest(r) | Message::WriteFirst(r) | Message::WriteOnly(r) => reth = Some(r),
        Message::WriteOnlyImm(r, i) => (reth, imm) = (Some(r), Some(i)),
        Message::WriteLastImm(i) | Message::SendLastImm(i) | Message::SendOnlyImm(i) => imm = Some(i),
        Message::Datagram(d) => deth = Some(d),
        Message::DatagramImm(d, i) => (deth, imm) = (Some(d), Some(i)),
        Message::SendFirst | Message::SendMiddle | Message::SendLast | Message::SendOnly => {}
        Message::ReadResponseFirst(a)
        | Message::ReadResponseLast(a)
        | Message::ReadResponseOnly(a)
        | Message::Acknowledge(a) => aeth = Some(a),
        Message::ReadResponseMiddle | Message::WriteMiddle | Message::WriteLast | Message::Cnp => {}
        // Scapy's RoCE layer has no atomic operations.
        Message::CompareSwap(_) | Message::FetchAdd(_) | Message::AtomicAcknowledge(..) => {}
    }
    json!({
        "kind": "roce", "frame": hex(frame.bytes()), "payload": hex(&payload),
        "opcode": message.opcode().code(), "name": message.opcode().name(),
        "src_mac": path.src_mac.to_string(), "dst_mac": path.dst_mac.to_string(),
        "src_ip": path.src_ip.to_string(), "dst_ip": path.dst_ip.to_string(),
        "sport": path.src_port, "tos": path.tos, "ttl": path.ttl, "ident": repr.ident, "pkey": repr.pkey,
        "dqpn": repr.dest_qp.get(), "psn": repr.psn.get(), "ackreq": repr.ack_req, "solicited": repr.solicited,
        "migreq": repr.migration, "fecn": repr.fecn, "becn": repr.becn,
        "reth": reth.map(|r| json!({"va": r.address, "rkey": r.rkey.0, "len": r.length})),
        "aeth": aeth.map(|a| json!({"syndrome": a.syndrome.code(), "msn": a.msn})),
        "deth": deth.map(|d| json!({"qkey": d.qkey, "src_qp": d.src_qp.get()})),
        "imm": imm,
    })
}

fn arp_line(rng: &mut Rng) -> serde_json::Value {
    let (sender, target) = ((rng.mac(), rng.ip()), (rng.mac(), rng.ip()));
    let reply = rng.flag();
    let operation = if reply { arp::Operation::Reply } else { arp::Operation::Request };
    let mut out = [0; ethernet::LEN + arp::LEN];
    let eth = ethernet::Repr { dst: target.0, src: sender.0, ethertype: ethernet::ARP };
    let arp = arp::Repr {
        operation,
        sender_mac: sender.0,
        sender_ip: sender.1,
        target_mac: target.0,
        target_ip: target.1,
    };
    if let Err(error) = eth.emit(&mut out).and_then(|at| arp.emit(&mut out[at..])) {
        panic!("{arp:?} can't be written: {error}");
    }
    json!({
        "kind": "arp", "frame": hex(&out), "op": if reply { 2 } else { 1 },
        "sender_mac": sender.0.to_string(), "sender_ip": sender.1.to_string(),
        "target_mac": target.0.to_string(), "target_ip": target.1.to_string(),
    })
}

fn main() {
    let mut args = std::env::args().skip(1).map(|a| match a.parse::<u64>() {
        Ok(n) => n,
        Err(_) => {
            eprintln!("{a:?} is not a number; usage: emit_packets [COUNT [SEED]]");
            std::process::exit(2)
        }
    });
    let count = args.next().unwrap_or(440);
    let mut rng = Rng(SplitMix64::new(args.next().unwrap_or(1)));
    for i in 0..count {
        let line = if i % KINDS == ARP { arp_line(&mut rng) } else { roce_line(&mut rng, i % KINDS) };
        println!("{line}");
    }
}
