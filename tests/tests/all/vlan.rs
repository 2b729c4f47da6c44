//! Hosts on VLANs: what the switch tags, what it takes, and what it drops and counts. The switch's node asserts tags,
//! priorities and DSCP of every packet of every test (`nodes.rs`).

use zsr_simnet::FaultRates;
use zsr_tests::system::{Spec, System};
use zsr_topology::FlowKind;
use zsr_wire::{Frame, Mac, arp, ethernet, vlan};

/// Index of the counter `drops` (p4/common/types.p4).
const DROP_VLAN: usize = 7;
const TAGGED: Spec =
    Spec { kind: FlowKind::Shuffle, producers: 2, consumers: 2, items: 60, vlans: [Some(100); 2], ..DEFAULT };
const DEFAULT: Spec = Spec { items: 60, psn_from: 0xff_fff0, ..Spec::PLAIN };

fn deliver(spec: Spec) -> System {
    let mut system = System::new(spec);
    system.run(|_| {});
    assert_eq!(system.drops(DROP_VLAN), 0);
    system
}

#[test]
fn every_kind_of_flow_between_hosts_on_vlans_and_on_none() {
    for kind in [FlowKind::Shuffle, FlowKind::LoadBalance, FlowKind::Replicate] {
        for vlans in [[Some(100), Some(100)], [Some(1), Some(4094)], [Some(100), None], [None, Some(100)]] {
            deliver(Spec { kind, vlans, ..TAGGED });
        }
    }
}

#[test]
fn tagged_packets_are_lost_and_overtaken() {
    let faults =
        FaultRates { loss: 0.03, reorder: 0.1, reorder_ns: 50_000, duplicate: 0.03, ..FaultRates::NONE };
    for kind in [FlowKind::Shuffle, FlowKind::LoadBalance, FlowKind::Replicate] {
        deliver(Spec { kind, vlans: [Some(100), None], faults, seed: 5, ..TAGGED });
    }
}

/// An ARP request of host p0 for the switch's address, with a tag, and what leaves the switch for it.
fn ask(system: &mut System, tci: Option<u16>) -> Option<Vec<u8>> {
    let (switch, host) = ([10, 0, 0, 1], [10, 0, 1, 1]);
    let mut frame = Frame::new();
    let out = frame.grow_back(ethernet::MIN_FRAME).expect("room");
    out.fill(0);
    let src = Mac(system.mac(0));
    ethernet::Repr { dst: Mac::BROADCAST, src, ethertype: ethernet::ARP }.emit(out).expect("room");
    let request = arp::Repr {
        operation: arp::Operation::Request,
        sender_mac: src,
        sender_ip: host.into(),
        target_mac: Mac::default(),
        target_ip: switch.into(),
    };
    request.emit(&mut out[ethernet::LEN..]).expect("room");
    if let Some(tci) = tci {
        assert!(vlan::put(&mut frame, tci));
    }
    system.switch().ask(1, frame.bytes())
}

#[test]
fn the_switch_answers_arp_on_the_vlan_of_the_port_only() {
    // A priority without a VLAN is as good as no tag.
    for (vlan, good, bad) in [
        (Some(100), &[Some(100), Some(0x6064)][..], &[None, Some(200), Some(0x6000)][..]),
        (None, &[None, Some(0x6000)], &[Some(100), Some(0x6064)]),
    ] {
        let mut system = System::new(Spec { vlans: [vlan; 2], ..DEFAULT });
        for &tci in good {
            let reply = ask(&mut system, tci).expect("an answer");
            assert_eq!(vlan::tag(&reply), tci, "as it came");
        }
        assert_eq!(system.drops(DROP_VLAN), 0);
        for (n, &tci) in bad.iter().enumerate() {
            assert_eq!(ask(&mut system, tci), None, "{tci:?}");
            assert_eq!((system.drops(DROP_VLAN), system.on_other_vlans(1)), (n as u64 + 1, n as u64 + 1));
        }
        assert_eq!(system.on_other_vlans(2), 0);
    }
}

/// Answers that have lost their tag, or got another, complete nothing; the flow goes on with those that are right.
#[test]
fn answers_on_another_vlan_are_dropped_and_counted() {
    let mut system = System::new(Spec { vlans: [Some(100), Some(100)], ..DEFAULT });
    let copies = std::rc::Rc::<std::cell::RefCell<Vec<(u16, Vec<u8>)>>>::default();
    let (sink, switch) = (copies.clone(), system.switch);
    system.net.observe(move |_, end, bytes| {
        if end.node == switch {
            sink.borrow_mut().push((end.port, bytes.to_vec()));
        }
    });
    let mut injected = 0;
    system.run(|system| {
        for (port, bytes) in copies.take() {
            for tci in [None, Some(vlan::tci(101, 3))] {
                let mut frame = Frame::copy_from(&bytes).expect("a frame");
                vlan::take(&mut frame).expect("NICs tag");
                tci.is_none_or(|tci| vlan::put(&mut frame, tci)).then_some(()).expect("headroom");
                assert_eq!(system.switch().ask(port, frame.bytes()), None);
                injected += 1;
            }
        }
    });
    assert!(injected > 100);
    assert_eq!(system.drops(DROP_VLAN), injected);
}

/// Frames between hosts keep what tag they have.
#[test]
fn what_is_not_for_the_switch_is_forwarded_as_it_is() {
    let mut system = System::new(Spec { vlans: [Some(100), None], ..DEFAULT });
    let to = system.mac(1);
    for tag in [&[][..], &[0x81, 0, 0x60, 0x64], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6]] {
        let ip = [&[0x45, 0, 0, 60, 0, 0, 0, 0, 64, 1, 0, 0][..], &[10, 0, 1, 1], &[10, 0, 1, 2], &[7; 40]]
            .concat();
        let frame = [&to[..], &system.mac(0), tag, &[8, 0], &ip].concat();
        assert_eq!(system.switch().ask(1, &frame), Some(frame));
    }
}
