//! Requests that come in another order: which are kept, when a missing one is reported, and the memory at the end. It
//! is the same as if they had come in order.

use crate::common::*;
use proptest::prelude::*;
use zsr_soft_nic::*;
use zsr_wire::aeth::{NakCode, Syndrome};
use zsr_wire::message::Message;
use zsr_wire::{Psn, aeth};

const MTU: usize = 256;

/// Packet `n` of a WRITE of `packets` packets from address 0 on.
fn part(b: &Bench, n: usize, packets: usize) -> Message {
    let reth = b.reth(0, (packets * MTU) as u32);
    match n {
        0 if packets == 1 => Message::WriteOnly(reth),
        0 => Message::WriteFirst(reth),
        n if n + 1 == packets => Message::WriteLast,
        _ => Message::WriteMiddle,
    }
}

/// Sends packets of one WRITE in this order at these times.
fn send(b: &mut Bench, packets: usize, order: &[(usize, u64)]) {
    let data = pattern(packets * MTU, 5);
    for &(n, now) in order {
        let message = part(b, n, packets);
        let mut repr = b.repr(Psn::new(b.psn.get() + n as u32), message);
        repr.ack_req = n + 1 == packets;
        let mut frame = b.host.pool.take();
        repr.emit(&data[n * MTU..(n + 1) * MTU], &mut frame).unwrap();
        b.host.nic.on_timeout(now);
        b.host.nic.handle(now, frame, &mut b.host.pool);
    }
}

fn at_once(order: impl IntoIterator<Item = usize>) -> Vec<(usize, u64)> {
    order.into_iter().map(|n| (n, 0)).collect()
}

fn naks(b: &mut Bench) -> Vec<i32> {
    let is_nak = |m: &Message| {
        matches!(m, Message::Acknowledge(aeth::Repr { syndrome: Syndrome::Nak(NakCode::PsnSequence), .. }))
    };
    b.replies().into_iter().filter(|(_, m, _)| is_nak(m)).map(|(psn, ..)| psn).collect()
}

fn complete(b: &Bench, packets: usize) -> bool {
    b.host.bytes(0, packets * MTU) == pattern(packets * MTU, 5)
}

#[test]
fn what_came_before_a_missing_packet_need_not_come_again() {
    let mut b = Bench::new(Mtu::Mtu256, 0xff_fff0);
    send(&mut b, 40, &at_once((0..40).filter(|n| *n != 3)));
    assert_eq!(naks(&mut b), [3]);
    assert!(!complete(&b, 40));
    send(&mut b, 40, &at_once([3]));
    assert!(complete(&b, 40));
    let ok = Message::Acknowledge(aeth::Repr { syndrome: Syndrome::ACK, msn: 1 });
    assert_eq!(b.replies(), [(39, ok, vec![])]);
    assert_eq!(b.host.nic.stats().kept, 36);
}

#[test]
fn a_nic_that_keeps_nothing_drops_what_is_behind() {
    let mut b = Bench::with(NicConfig { reorder_window: 0, ..NicConfig::new(mac(1), ip(1)) }, Mtu::Mtu256, 0);
    send(&mut b, 40, &at_once((0..40).filter(|n| *n != 3).chain([3])));
    assert_eq!(naks(&mut b), [3]);
    assert_eq!(b.host.nic.qp_info(b.host.qpn).unwrap().expected_psn.get(), 4);
    assert_eq!(b.host.nic.stats().dropped(DropReason::OutOfSequence), 36);
}

#[test]
fn no_more_is_kept_than_the_window() {
    let mut b = Bench::with(NicConfig { reorder_window: 8, ..NicConfig::new(mac(1), ip(1)) }, Mtu::Mtu256, 0);
    send(&mut b, 40, &at_once(1..40));
    let stats = *b.host.nic.stats();
    assert_eq!((stats.kept, stats.dropped(DropReason::OutOfSequence)), (8, 31));
    send(&mut b, 40, &at_once([0]));
    assert_eq!(b.host.nic.qp_info(b.host.qpn).unwrap().expected_psn.get(), 9);
}

#[test]
fn what_comes_behind_a_packet_that_was_reported_teaches_patience() {
    let mut b = Bench::new(Mtu::Mtu256, 0);
    // Overtaken by five, 50 ns late, reported at once, so that it comes again.
    send(&mut b, 60, &[(1, 0), (2, 10), (3, 20), (4, 30), (5, 40), (0, 50), (0, 60)]);
    assert_eq!(naks(&mut b), [0]);
    // As late as that again: nobody has to know.
    send(&mut b, 60, &[(7, 100), (8, 110), (9, 120), (10, 130), (11, 140), (6, 149)]);
    assert_eq!(naks(&mut b), []);
    // Overtaken by one more: reported, ...
    send(&mut b, 60, &[(13, 200), (14, 201), (15, 202), (16, 203), (17, 204)]);
    assert_eq!(naks(&mut b), []);
    send(&mut b, 60, &[(18, 205)]);
    assert_eq!(naks(&mut b), [12]);
    // ... and lost: it comes once, what is behind it twice. Half of what it was from then on: two packets, ...
    send(&mut b, 60, &[(12, 210), (13, 220), (14, 230)]);
    b.replies();
    send(&mut b, 60, &[(20, 300), (21, 301)]);
    assert_eq!(naks(&mut b), []);
    send(&mut b, 60, &[(22, 302)]);
    assert_eq!(naks(&mut b), [19]);
    // ... then one, or 12 ns, of which a timer tells.
    send(&mut b, 60, &[(19, 310), (20, 320), (24, 400)]);
    assert_eq!(naks(&mut b), []);
    assert_eq!(b.host.nic.next_timeout(), Some(412));
    b.host.nic.on_timeout(411);
    assert_eq!(naks(&mut b), []);
    b.host.nic.on_timeout(412);
    assert_eq!(naks(&mut b), [23]);
    assert_eq!(b.host.nic.next_timeout(), None);
    // Three came before it, and then something new does: it had been late, which nothing has to be sent again to show.
    send(&mut b, 60, &[(25, 415), (26, 416), (23, 420), (27, 425)]);
    send(&mut b, 60, &[(29, 500), (30, 501), (31, 502)]);
    assert_eq!(naks(&mut b), []);
    send(&mut b, 60, &[(32, 503)]);
    assert_eq!(naks(&mut b), [28]);
}

#[test]
fn copies_of_what_came_do_not_put_a_report_off() {
    let mut b = Bench::new(Mtu::Mtu256, 0);
    send(&mut b, 60, &[(1, 0), (0, 50), (2, 60)]);
    assert_eq!(naks(&mut b), [0]);
    send(&mut b, 60, &[(4, 100), (0, 120), (1, 130)]);
    assert_eq!(b.host.nic.next_timeout(), Some(150));
    b.host.nic.on_timeout(150);
    assert_eq!(naks(&mut b), [3]);
}

#[test]
fn a_new_connection_has_nothing_of_the_one_before() {
    let mut b = Bench::new(Mtu::Mtu256, 0);
    send(&mut b, 40, &at_once(1..40));
    b.replies();
    b.host.nic.modify_qp(b.host.qpn, Modify::Reset).unwrap();
    b.connect(Mtu::Mtu256);
    send(&mut b, 2, &at_once([0]));
    assert_eq!(b.host.nic.qp_info(b.host.qpn).unwrap().expected_psn.get(), 1);
    assert_eq!(b.host.bytes(MTU, MTU), vec![0; MTU]);
}

proptest! {
    #[test]
    fn any_order_ends_as_in_order(
        packets in 1usize..80,
        window in 0u16..70,
        swaps in proptest::collection::vec((0usize..1000, 1usize..70), 0..30),
        twice in proptest::collection::vec(0usize..1000, 0..10),
    ) {
        let mut b = Bench::with(NicConfig { reorder_window: window, ..NicConfig::new(mac(1), ip(1)) }, Mtu::Mtu256, 0xff_fffa);
        let mut order: Vec<usize> = (0..packets).chain(twice.into_iter().map(|n| n % packets)).collect();
        for (at, by) in swaps {
            let at = at % order.len();
            let to = (at + by).min(order.len() - 1);
            order.swap(at, to);
        }
        let order: Vec<_> = order.into_iter().enumerate().map(|(i, n)| (n, i as u64 * 10)).collect();
        send(&mut b, packets, &order);
        // As a requester does: again from the first that is missing, which is what the responder says.
        for _ in 0..packets {
            let next = b.host.nic.qp_info(b.host.qpn).unwrap().expected_psn.since(b.psn) as usize;
            if next < packets {
                send(&mut b, packets, &[(next, 10_000)]);
            }
        }
        prop_assert!(complete(&b, packets));
        prop_assert_eq!(b.state(), QpState::ReadyToReceive);
        let stats = *b.host.nic.stats();
        prop_assert_eq!(stats.write_packets, packets as u64);
    }
}
