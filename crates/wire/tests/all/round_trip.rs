//! Properties of every format: emit and parse agree, and no input makes a view panic or read past the end.

use proptest::prelude::*;
use zsr_wire::ring::{ByteOrder, CommitRecord, ControlWord, Flags};
use zsr_wire::roce::{IP_AT, Packet, Repr};
use zsr_wire::{Frame, Psn, aeth, arp, atomic, bth, deth, ethernet, icrc, ipv4, reth, udp};

/// Calls everything that looks at bytes.
fn look_at(bytes: &[u8]) {
    if let Ok(p) = ethernet::Packet::new_checked(bytes) {
        let _ = (ethernet::Repr::parse(&p), p.payload().len());
    }
    if let Ok(p) = arp::Packet::new_checked(bytes) {
        let _ = arp::Repr::parse(&p);
    }
    if let Ok(p) = ipv4::Packet::new_checked(bytes) {
        let _ = (ipv4::Repr::parse(&p), p.payload().len());
    }
    if let Ok(p) = udp::Packet::new_checked(bytes) {
        let _ = (udp::Repr::parse(&p), p.payload().len(), p.checksum());
    }
    if let Ok(p) = bth::Packet::new_checked(bytes) {
        let _ = bth::Repr::parse(&p);
    }
    if let Ok(p) = reth::Packet::new_checked(bytes) {
        let _ = reth::Repr::parse(&p);
    }
    if let Ok(p) = aeth::Packet::new_checked(bytes) {
        let _ = aeth::Repr::parse(&p);
    }
    let _ = (atomic::Repr::parse(bytes), deth::Repr::parse(bytes));
    if let Ok(p) = Packet::new_checked(bytes) {
        let _ = (Repr::parse(&p), p.payload().len(), p.icrc_ok(), p.bth().psn(), p.immediate());
        assert!(p.frame_len() <= bytes.len());
    }
    let _ = (icrc::verify(bytes), icrc::verify_frame(bytes), icrc::compute(bytes));
}

proptest! {
    #[test]
    fn roce_round_trip((repr, payload) in crate::common::packet()) {
        let mut frame = Frame::new();
        repr.emit(&payload, &mut frame).unwrap();
        prop_assert_eq!(frame.len(), repr.frame_len(payload.len()));
        let packet = Packet::new_checked(frame.bytes()).unwrap();
        prop_assert_eq!(Repr::parse(&packet).unwrap(), repr);
        prop_assert_eq!(packet.payload(), &payload[..]);
        prop_assert!(packet.icrc_ok());
        prop_assert!(icrc::verify_frame(frame.bytes()));
        let before = frame.bytes().to_vec();
        let mut packet = Packet::new_checked(frame.bytes_mut()).unwrap();
        prop_assert!(packet.icrc_ok_in_place());
        prop_assert_eq!(Repr::parse(&packet.as_shared()).unwrap(), repr);
        prop_assert_eq!(frame.bytes(), &before[..]);
    }

    #[test]
    fn roce_ignores_ethernet_padding((repr, payload) in crate::common::packet(), padding in 1usize..64) {
        let mut frame = Frame::new();
        repr.emit(&payload, &mut frame).unwrap();
        frame.append(&vec![0xee; padding]);
        let packet = Packet::new_checked(frame.bytes()).unwrap();
        prop_assert_eq!(packet.payload(), &payload[..]);
        prop_assert!(packet.icrc_ok());
        prop_assert!(icrc::verify_frame(frame.bytes()));
    }

    #[test]
    fn roce_truncated_anywhere_is_an_error((repr, payload) in crate::common::packet()) {
        let mut frame = Frame::new();
        repr.emit(&payload, &mut frame).unwrap();
        for len in 0..frame.len() {
            let error = Packet::new_checked(&frame.bytes()[..len]).unwrap_err();
            prop_assert!(error.to_string().contains("cut short"), "{}: {}", len, error);
            look_at(&frame.bytes()[..len]);
        }
    }

    #[test]
    fn one_flipped_bit_is_noticed((repr, payload) in crate::common::packet(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut frame = Frame::new();
        repr.emit(&payload, &mut frame).unwrap();
        let at = IP_AT + at.index(frame.len() - IP_AT);
        frame.bytes_mut()[at] ^= 1 << bit;
        // The fields that the ICRC masks are the IPv4 checksum's business, or nobody's.
        let unprotected = [IP_AT + 26, IP_AT + 27, IP_AT + 32].contains(&at);
        let noticed = match Packet::new_checked(frame.bytes()) {
            Ok(packet) => !packet.icrc_ok(),
            Err(_) => true,
        };
        prop_assert_eq!(noticed, !unprotected);
        if let Ok(mut packet) = Packet::new_checked(frame.bytes_mut()) {
            prop_assert_eq!(packet.icrc_ok_in_place(), unprotected);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        look_at(&bytes);
    }

    #[test]
    fn damaged_packets_never_panic(
        (repr, payload) in crate::common::packet(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut frame = Frame::new();
        repr.emit(&payload, &mut frame).unwrap();
        for (at, value) in damage {
            let at = at.index(frame.len());
            frame.bytes_mut()[at] = value;
        }
        for at in [0, 14, 34, 42, 54] {
            look_at(&frame.bytes()[at..]);
        }
    }

    #[test]
    fn emit_refuses_short_buffers((repr, payload) in crate::common::packet()) {
        let mut out = [0; 128];
        let len = repr.emit_headers(payload.len(), &mut out).unwrap();
        for short in 0..len {
            prop_assert!(repr.emit_headers(payload.len(), &mut out[..short]).is_err());
        }
    }

    #[test]
    fn arp_round_trip(sender_mac in crate::common::mac(), sender_ip in crate::common::ip(), target_mac in crate::common::mac(),
                      target_ip in crate::common::ip(), request in any::<bool>()) {
        let operation = if request { arp::Operation::Request } else { arp::Operation::Reply };
        let repr = arp::Repr { operation, sender_mac, sender_ip, target_mac, target_ip };
        let mut out = [0; arp::LEN];
        prop_assert_eq!(repr.emit(&mut out).unwrap(), arp::LEN);
        prop_assert_eq!(arp::Repr::parse(&arp::Packet::new_checked(&out).unwrap()).unwrap(), repr);
        for len in 0..arp::LEN {
            prop_assert!(arp::Packet::new_checked(&out[..len]).is_err());
            let mut short = vec![0; len];
            prop_assert!(repr.emit(&mut short).is_err());
        }
    }

    #[test]
    fn ethernet_round_trip(dst in crate::common::mac(), src in crate::common::mac(), ethertype in any::<u16>()) {
        let repr = ethernet::Repr { dst, src, ethertype };
        let mut out = [0; ethernet::LEN];
        repr.emit(&mut out).unwrap();
        prop_assert_eq!(ethernet::Repr::parse(&ethernet::Packet::new_checked(&out).unwrap()), repr);
        for len in 0..ethernet::LEN {
            prop_assert!(ethernet::Packet::new_checked(&out[..len]).is_err());
        }
    }

    #[test]
    fn ipv4_and_udp_round_trip(src in crate::common::ip(), dst in crate::common::ip(), tos in any::<u8>(), ident in any::<u16>(),
                               ttl in any::<u8>(), df in any::<bool>(), ports in any::<(u16, u16)>(),
                               payload in proptest::collection::vec(any::<u8>(), 0..64)) {
        let u = udp::Repr { src_port: ports.0, dst_port: ports.1, payload_len: payload.len() as u16 };
        let i = ipv4::Repr { src, dst, protocol: ipv4::UDP, tos, ident, dont_fragment: df, ttl,
                             payload_len: (udp::LEN + payload.len()) as u16 };
        let mut out = vec![0; ipv4::LEN + udp::LEN];
        i.emit(&mut out).unwrap();
        u.emit(&mut out[ipv4::LEN..]).unwrap();
        out.extend_from_slice(&payload);
        let ip = ipv4::Packet::new_checked(&out).unwrap();
        prop_assert_eq!(ipv4::Repr::parse(&ip), i);
        let datagram = udp::Packet::new_checked(ip.payload()).unwrap();
        prop_assert_eq!(udp::Repr::parse(&datagram), u);
        prop_assert_eq!(datagram.payload(), &payload[..]);
        for len in 0..out.len() {
            prop_assert!(ipv4::Packet::new_checked(&out[..len]).is_err());
        }
    }

    #[test]
    fn ring_words_round_trip(counter in any::<u32>(), flags in any::<u32>(), producer_id in any::<u32>(),
                             producer_tail in any::<u32>()) {
        let head = ControlWord { counter, flags: Flags(flags) };
        let record = CommitRecord { head, producer_id, producer_tail };
        for order in [ByteOrder::Little, ByteOrder::Big] {
            prop_assert_eq!(ControlWord::from_bytes(head.to_bytes(order), order), head);
            prop_assert_eq!(CommitRecord::from_bytes(record.to_bytes(order), order), record);
            prop_assert_eq!(&record.to_bytes(order)[..8], &head.to_bytes(order)[..]);
        }
        prop_assert_eq!(ControlWord::from_native(head.to_native()), head);
    }

    #[test]
    fn psn_is_a_group(a in any::<u32>(), n in 0u32..1 << 23) {
        let a = Psn::new(a);
        prop_assert_eq!(a.plus(n).minus(n), a);
        prop_assert_eq!(a.plus(n).since(a), n as i32);
        prop_assert_eq!(a.minus(n).since(a), -(n as i32));
        prop_assert_eq!(a.plus(n).distance(a), n);
    }
}
