//! A NIC on a VLAN: it tags all that it sends, and takes what has its VLAN, whatever the priority.

use std::net::Ipv4Addr;

use zsr_soft_nic::{Datagram, DropReason, MAX_PAYLOAD, Nic, NicConfig};
use zsr_wire::{Frame, FramePool, Mac, arp, ethernet, vlan};

const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER: (Mac, Ipv4Addr) = (Mac([2, 0, 0, 0, 0, 2]), Ipv4Addr::new(10, 0, 0, 2));

/// The tag of the NIC's answer to an ARP request with that tag.
fn answer(nic: &mut Nic, pool: &mut FramePool, tci: Option<u16>) -> Option<Option<u16>> {
    let mut frame = Frame::new();
    let out = frame.grow_back(ethernet::MIN_FRAME).expect("room");
    out.fill(0);
    ethernet::Repr { dst: Mac::BROADCAST, src: PEER.0, ethertype: ethernet::ARP }.emit(out).expect("room");
    let request = arp::Repr {
        operation: arp::Operation::Request,
        sender_mac: PEER.0,
        sender_ip: PEER.1,
        target_mac: Mac::default(),
        target_ip: IP,
    };
    request.emit(&mut out[ethernet::LEN..]).expect("room");
    if let Some(tci) = tci {
        assert!(vlan::put(&mut frame, tci));
    }
    nic.handle(0, frame, pool);
    let mut frame = nic.poll_transmit(0, pool)?;
    let tag = vlan::take(&mut frame);
    let reply = arp::Packet::new_checked(&frame.bytes()[ethernet::LEN..]).expect("an ARP packet");
    assert_eq!(arp::Repr::parse(&reply).expect("a reply").operation, arp::Operation::Reply);
    Some(tag)
}

#[test]
fn frames_of_other_vlans_are_dropped_and_counted() {
    let own = vlan::tci(100, 3);
    for (tci, good, bad) in [
        (own, [Some(own), Some(vlan::tci(100, 0))], [None, Some(vlan::tci(101, 3))]),
        (0, [None, Some(vlan::tci(0, 5))], [Some(own), Some(vlan::tci(1, 0))]),
    ] {
        let mut nic = Nic::new(NicConfig { tci, ..NicConfig::new(MAC, IP) });
        let mut pool = FramePool::with_frames(2);
        for asked in good {
            let tag = (tci != 0).then_some(tci);
            assert_eq!(answer(&mut nic, &mut pool, asked), Some(tag), "asked with {asked:x?}");
        }
        for asked in bad {
            assert_eq!(answer(&mut nic, &mut pool, asked), None, "asked with {asked:x?}");
        }
        assert_eq!(nic.stats().dropped(DropReason::Vlan), 2);
    }
}

#[test]
fn datagrams_are_tagged_and_bytes_are_counted_with_the_tag() {
    let mut nic = Nic::new(NicConfig { tci: 100, ..NicConfig::new(MAC, IP) });
    let mut pool = FramePool::with_frames(1);
    let datagram = Datagram { mac: PEER.0, ip: PEER.1, port: 7, payload: [0; MAX_PAYLOAD], len: 18 };
    assert!(nic.send_datagram(datagram));
    let frame = nic.poll_transmit(0, &mut pool).expect("a frame");
    assert_eq!((vlan::tag(frame.bytes()), frame.len()), (Some(100), ethernet::MIN_FRAME + vlan::LEN));
    assert_eq!(nic.stats().tx_bytes, frame.len() as u64);
}
