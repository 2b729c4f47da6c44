//! Messages that go where the other side has posted a receive: SENDs of a connection, and datagrams.

use crate::common::{Bench, Host, Pair, ip, mac, pattern};
use zsr_soft_nic::*;
use zsr_wire::aeth::{self, NakCode, Syndrome};
use zsr_wire::message::Message;
use zsr_wire::roce::Packet;
use zsr_wire::{Psn, deth};

const KEY: u32 = 0x1234_5678;

fn receive(host: &Host, wr_id: u64, address: u64, len: u32) -> Receive {
    Receive { wr_id, local: Some(Sge { lkey: host.rkey, address, len }) }
}

#[test]
fn a_send_waits_for_a_receive_and_fills_it() {
    let mut p = Pair::new(Mtu::Mtu256, |rtr, _| rtr.min_rnr_timer = 2);
    let bytes = pattern(700, 3);
    p.a.memory.write(0, &bytes);
    p.a.nic.post_send(p.a.qpn, p.work(1, Operation::Send, 0, 0, 700)).unwrap();
    p.a.nic.post_send(p.a.qpn, p.work(2, Operation::SendImm(9), 100, 0, 40)).unwrap();
    p.pump(0, |_| false);
    assert_eq!(p.completions(), []);
    p.b.nic.post_recv(p.b.qpn, receive(&p.b, 5, 1000, 700)).unwrap();
    p.b.nic.post_recv(p.b.qpn, receive(&p.b, 6, 2000, 64)).unwrap();
    p.run(|_| false, 10);
    assert_eq!(p.completions(), [(1, Status::Success), (2, Status::Success)]);
    let came: Vec<_> = std::iter::from_fn(|| p.b.nic.poll_completion()).collect();
    let kinds = came.iter().map(|c| (c.wr_id, c.kind, c.status, c.len)).collect::<Vec<_>>();
    let with = |immediate| CompletionKind::Receive { immediate };
    assert_eq!(kinds, [(5, with(None), Status::Success, 700), (6, with(Some(9)), Status::Success, 40)]);
    assert_eq!(p.b.bytes(1000, 700), bytes);
    assert_eq!(p.b.bytes(2000, 41), [&bytes[100..140], &[0]].concat());
}

#[test]
fn a_send_that_does_not_fit_breaks_the_connection_and_both_are_told() {
    for (room, operation) in [(Some(500), Operation::Send), (None, Operation::SendImm(1))] {
        let mut p = Pair::new(Mtu::Mtu256, |_, _| {});
        let local = room.map(|len| Sge { lkey: p.b.rkey, address: 0, len });
        p.b.nic.post_recv(p.b.qpn, Receive { wr_id: 5, local }).unwrap();
        p.a.nic.post_send(p.a.qpn, p.work(1, operation, 0, 0, 513)).unwrap();
        p.run(|_| false, 10);
        assert_eq!(p.completions(), [(1, Status::RemoteInvalidRequest)]);
        let told = p.b.nic.poll_completion().unwrap();
        assert_eq!((told.wr_id, told.status), (5, Status::LocalLength));
        assert_eq!(p.b.nic.poll_completion(), None);
        assert_eq!(p.b.nic.qp_info(p.b.qpn).unwrap().state, QpState::Error);
    }
}

#[test]
fn memory_of_a_receive_that_is_gone_is_an_operational_error() {
    let mut p = Pair::new(Mtu::Mtu256, |_, _| {});
    p.b.nic.post_recv(p.b.qpn, receive(&p.b, 5, 0, 64)).unwrap();
    let foreign = Receive { wr_id: 6, local: Some(Sge { lkey: p.b.rkey, address: 1 << 20, len: 1 }) };
    assert!(matches!(p.b.nic.post_recv(p.b.qpn, foreign), Err(PostError::ReceiveMemory(_))));
    p.b.nic.deregister_mr(p.b.rkey).unwrap();
    p.a.nic.post_send(p.a.qpn, p.work(1, Operation::Send, 0, 0, 8)).unwrap();
    p.run(|_| false, 10);
    assert_eq!(p.completions(), [(1, Status::RemoteOperational)]);
    assert_eq!(p.b.nic.poll_completion().map(|c| c.status), Some(Status::LocalProtection));
}

/// A program that waits for its receives hears of the end, whoever broke the connection.
#[test]
fn receives_of_a_broken_queue_pair_are_flushed() {
    for own in [true, false] {
        let mut p = Pair::new(Mtu::Mtu256, |_, _| {});
        for id in 5..8 {
            p.b.nic.post_recv(p.b.qpn, receive(&p.b, id, 0, 64)).unwrap();
        }
        match own {
            true => p.b.nic.modify_qp(p.b.qpn, Modify::Error).unwrap(),
            false => {
                p.a.nic.post_send(p.a.qpn, p.work(1, Operation::Send, 0, 0, 65)).unwrap();
                p.run(|_| false, 10);
            }
        }
        let ends: Vec<_> =
            std::iter::from_fn(|| p.b.nic.poll_completion()).map(|c| (c.wr_id, c.status)).collect();
        let first = if own { Status::Flushed } else { Status::LocalLength };
        assert_eq!(ends, [(5, first), (6, Status::Flushed), (7, Status::Flushed)]);
    }
}

#[test]
fn packets_of_different_messages_do_not_mix() {
    let first = |b: &Bench| Message::WriteFirst(b.reth(0, 600));
    for (before, then) in [
        (None, Message::SendMiddle),
        (None, Message::SendLast),
        (Some(Message::SendFirst), Message::SendFirst),
        (Some(Message::SendFirst), Message::SendOnly),
        (Some(Message::SendFirst), Message::WriteLast),
        (Some(Message::SendFirst), Message::SendLastImm(0)),
    ] {
        let mut b = Bench::new(Mtu::Mtu256, 0);
        b.host.nic.post_recv(b.host.qpn, receive(&b.host, 1, 0, 2000)).unwrap();
        if let Some(before) = before {
            b.send(0, before, &[1; 256]);
        }
        b.send(before.is_some().into(), then, &[2; 256]);
        let ends = matches!(then, Message::SendLastImm(_));
        assert_eq!(b.state() == QpState::Error, !ends, "{before:?}, then {then:?}");
    }
    for (write, then) in [(true, Message::SendLast), (false, Message::WriteMiddle)] {
        let mut b = Bench::new(Mtu::Mtu256, 0);
        b.host.nic.post_recv(b.host.qpn, receive(&b.host, 1, 0, 2000)).unwrap();
        b.send(0, if write { first(&b) } else { Message::SendFirst }, &[1; 256]);
        b.send(1, then, &[2; 256]);
        let refused = aeth::Repr { syndrome: Syndrome::Nak(NakCode::InvalidRequest), msn: 0 };
        assert_eq!(b.replies()[1], (1, Message::Acknowledge(refused), vec![]));
    }
}

/// A host with a queue pair for datagrams.
fn unconnected(n: u8) -> Host {
    let mut host = Host::new(n);
    for n in 1..4 {
        host.nic.add_neighbour(ip(n), mac(n));
    }
    let attr = UdAttr { mtu: Mtu::Mtu1024, qkey: KEY, sq_psn: Psn::new(0xff_ffff) };
    host.nic.modify_qp(host.qpn, Modify::Init { access: Access::NONE }).unwrap();
    host.nic.modify_qp(host.qpn, Modify::Datagrams(attr)).unwrap();
    host
}

fn datagram(from: &Host, wr_id: u64, at: u64, len: u32, to: To) -> WorkRequest {
    let local = Sge { lkey: from.rkey, address: at, len };
    WorkRequest {
        wr_id,
        operation: Operation::Datagram(to),
        local,
        remote_address: 0,
        rkey: zsr_wire::Rkey(0),
    }
}

#[test]
fn one_queue_pair_sends_datagrams_to_many() {
    let (mut a, mut b, mut c) = (unconnected(1), unconnected(2), unconnected(3));
    let bytes = pattern(1024, 8);
    a.memory.write(0, &bytes);
    let mut to = |host: &Host, n, qkey, immediate| To {
        address: a.nic.create_address(&AddressAttr::new(ip(n))).unwrap(),
        qpn: host.qpn,
        qkey,
        immediate,
    };
    let (to_b, to_c, wrong) = (to(&b, 2, KEY, None), to(&c, 3, KEY, Some(77)), to(&c, 3, KEY ^ 1, None));
    b.nic.post_recv(b.qpn, receive(&b, 1, 0, 1064)).unwrap();
    b.nic.post_recv(b.qpn, receive(&b, 2, 2000, 1063)).unwrap();
    c.nic.post_recv(c.qpn, receive(&c, 3, 0, 100)).unwrap();
    for (id, to, len) in [(0, to_b, 1024), (1, to_b, 1024), (2, wrong, 8), (3, to_c, 60), (4, to_c, 60)] {
        a.nic.post_send(a.qpn, datagram(&a, id, 0, len, to)).unwrap();
    }
    let frames = a.drain(0);
    let psns: Vec<u32> = frames.iter().map(|f| Packet::new_checked(f.bytes()).unwrap().psn().get()).collect();
    assert_eq!(psns, [0xff_ffff, 0, 1, 2, 3]);
    let header = frames[0].bytes()[14..34].to_vec();
    for frame in frames {
        let host = if frame.bytes()[..6] == mac(2).0 { &mut b } else { &mut c };
        host.nic.handle(0, frame, &mut host.pool);
    }
    let sent: Vec<_> = std::iter::from_fn(|| a.nic.poll_completion()).map(|c| (c.wr_id, c.status)).collect();
    assert_eq!(sent, (0..5).map(|id| (id, Status::Success)).collect::<Vec<_>>(), "nobody knows more");
    let of = |host: &mut Host| {
        let all = std::iter::from_fn(|| host.nic.poll_completion());
        all.map(|c| (c.wr_id, c.kind, c.status, c.len)).collect::<Vec<_>>()
    };
    let with = |immediate| CompletionKind::Datagram { from: a.qpn, immediate };
    assert_eq!(
        of(&mut b),
        [(1, with(None), Status::Success, 1064), (2, with(None), Status::LocalLength, 1064)]
    );
    assert_eq!(of(&mut c), [(3, with(Some(77)), Status::Success, 100)]);
    assert_eq!((b.bytes(20, 20), b.bytes(40, 1024)), (header, bytes.clone()));
    assert_eq!(b.bytes(2000, 1063), [0; 1063], "what is too long changes nothing");
    assert_eq!(c.bytes(40, 61), [&bytes[..60], &[0]].concat());
    let dropped = |reason| c.nic.stats().dropped(reason);
    assert_eq!((dropped(DropReason::QKey), dropped(DropReason::NoReceive)), (1, 1));
}

#[test]
fn services_do_not_mix() {
    let mut d = unconnected(1);
    let to = To {
        address: d.nic.create_address(&AddressAttr::new(ip(2))).unwrap(),
        qpn: d.qpn,
        qkey: KEY,
        immediate: None,
    };
    let good = datagram(&d, 0, 0, 8, to);
    let send = WorkRequest { operation: Operation::Send, ..good };
    assert!(matches!(d.nic.post_send(d.qpn, send), Err(PostError::Service { .. })));
    let mut long = good;
    long.local.len = 1025;
    assert_eq!(d.nic.post_send(d.qpn, long), Err(PostError::LongDatagram { len: 1025, mtu: 1024 }));
    d.nic.post_send(d.qpn, good).unwrap();
    assert_eq!(d.nic.qp_info(d.qpn).unwrap().outstanding, 1);
    d.nic.modify_qp(d.qpn, Modify::Error).unwrap();
    assert_eq!(d.nic.poll_completion().map(|c| c.status), Some(Status::Flushed));
    assert!(d.drain(0).is_empty());

    let mut p = Pair::new(Mtu::Mtu256, |_, _| {});
    let unknown = p.a.nic.post_send(p.a.qpn, good);
    assert!(matches!(unknown, Err(PostError::Service { .. })), "{unknown:?}");

    let mut b = Bench::new(Mtu::Mtu256, 0);
    b.send(0, Message::Datagram(deth::Repr { qkey: KEY, src_qp: b.host.qpn }), &[1; 8]);
    assert_eq!((b.replies(), b.state()), (vec![], QpState::ReadyToReceive));
    assert_eq!(b.host.nic.stats().dropped(DropReason::Service), 1);
    let mut c = Bench { host: unconnected(1), psn: Psn::ZERO };
    c.send(0, Message::SendOnly, &[1; 8]);
    assert_eq!((c.replies(), c.state()), (vec![], QpState::ReadyToSend));
    assert_eq!(c.host.nic.stats().dropped(DropReason::Service), 1);
}

/// Nothing of a queue pair that is gone keeps a completion's place.
#[test]
fn places_of_completions_come_back() {
    let mut d = unconnected(1);
    let caps = QpCaps { send_depth: 2, recv_depth: 2 };
    d.nic.destroy_qp(d.qpn).unwrap();
    for _ in 0..5 {
        let qpn = d.nic.create_qp(caps).unwrap();
        d.nic.modify_qp(qpn, Modify::Init { access: Access::NONE }).unwrap();
        d.nic
            .modify_qp(qpn, Modify::Datagrams(UdAttr { mtu: Mtu::Mtu256, qkey: KEY, sq_psn: Psn::ZERO }))
            .unwrap();
        let address = d.nic.create_address(&AddressAttr::new(ip(2))).unwrap();
        for id in 0..2 {
            d.nic.post_recv(qpn, receive(&d, id, 0, 64)).unwrap();
            let to = To { address, qpn, qkey: KEY, immediate: None };
            d.nic.post_send(qpn, datagram(&d, id, 0, 8, to)).unwrap();
        }
        d.nic.destroy_qp(qpn).unwrap();
    }
}
