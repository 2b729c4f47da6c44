//! Every view of `zsr-wire` over any bytes: no panic, and what parses is written back as the same value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zsr_wire::roce::{Packet, Repr};
use zsr_wire::{Frame, aeth, arp, bth, ethernet, icrc, ipv4, reth, udp};

fuzz_target!(|bytes: &[u8]| {
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
    let _ = (icrc::verify(bytes), icrc::verify_frame(bytes));
});
