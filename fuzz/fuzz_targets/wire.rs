//! Every view of `zsr-wire` over any bytes: no panic, and what parses is written back as the same value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zsr_wire::roce::{BTH_AT, IP_AT, Packet, Repr, UDP_AT};
use zsr_wire::{Frame, aeth, arp, bth, ethernet, icrc, ipv4, reth, udp};

fuzz_target!(init: zsr_tests::fuzz::write_seeds("wire"), |bytes: &[u8]| {
    let mut out = [0; 64];
    if let Ok(p) = ethernet::Packet::new_checked(bytes) {
        ethernet::Repr::parse(&p).emit(&mut out).unwrap();
        assert_eq!(out[..ethernet::LEN], bytes[..ethernet::LEN]);
    }
    if let Ok(repr) = arp::Packet::new_checked(bytes).and_then(|p| arp::Repr::parse(&p)) {
        repr.emit(&mut out).unwrap();
        assert_eq!(out[..arp::LEN], bytes[..arp::LEN]);
    }
    if let Ok(p) = ipv4::Packet::new_checked(bytes) {
        ipv4::Repr::parse(&p).emit(&mut out).unwrap();
        assert_eq!(out[..10], bytes[..10]);
        assert_eq!(out[12..20], bytes[12..20]);
    }
    if let Ok(p) = udp::Packet::new_checked(bytes) {
        udp::Repr::parse(&p).emit(&mut out).unwrap();
        assert_eq!(out[..6], bytes[..6]);
    }
    if let Ok(repr) = bth::Packet::new_checked(bytes).and_then(|p| bth::Repr::parse(&p)) {
        repr.emit(&mut out).unwrap();
        let again = bth::Packet::new_checked(&out[..]).and_then(|p| bth::Repr::parse(&p)).unwrap();
        assert_eq!(again, repr);
    }
    if let Ok(p) = reth::Packet::new_checked(bytes) {
        reth::Repr::parse(&p).emit(&mut out).unwrap();
        assert_eq!(out[..reth::LEN], bytes[..reth::LEN]);
    }
    if let Ok(repr) = aeth::Packet::new_checked(bytes).and_then(|p| aeth::Repr::parse(&p)) {
        repr.emit(&mut out).unwrap();
        assert_eq!(out[..aeth::LEN], bytes[..aeth::LEN]);
    }
    roce(bytes);
    // The same with Ethernet, IPv4 and UDP put right, since a checksum is hard to guess.
    if let Some(frame) = with_headers(bytes) {
        roce(frame.bytes());
        roce(&frame.bytes()[..frame.len() - 1]);
    }
    let _ = (icrc::verify(bytes), icrc::verify_frame(bytes));
});

/// `bytes` as BTH and what follows, behind sound headers.
fn with_headers(bytes: &[u8]) -> Option<Frame> {
    let mut frame = Frame::new();
    let out = frame.grow_back(BTH_AT)?;
    out.fill(0);
    out[12] = 8;
    let udp_len = udp::LEN + bytes.len();
    let ip = ipv4::Repr {
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, 0, 2].into(),
        protocol: ipv4::UDP,
        tos: 0,
        ident: 0,
        dont_fragment: true,
        ttl: 64,
        payload_len: udp_len as u16,
    };
    ip.emit(&mut out[IP_AT..]).ok()?;
    let u = udp::Repr { src_port: 1, dst_port: udp::ROCE_PORT, payload_len: bytes.len() as u16 };
    u.emit(&mut out[UDP_AT..]).ok()?;
    frame.append(bytes).then_some(frame)
}

fn roce(bytes: &[u8]) {
    if let Ok(packet) = Packet::new_checked(bytes) {
        let _ = packet.icrc_ok();
        if let Ok(repr) = Repr::parse(&packet) {
            let mut frame = Frame::new();
            repr.emit(packet.payload(), &mut frame).unwrap();
            let again = Packet::new_checked(frame.bytes()).unwrap();
            assert!(again.icrc_ok());
            assert_eq!(Repr::parse(&again).unwrap(), repr);
            assert_eq!(again.payload(), packet.payload());
        }
    }
}
