//! Comments, of packets as the switch and NICs make them.

use super::{Annotator, Names};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use zsr_api::controller as proto;
use zsr_link::{Direction, TapFrame};
use zsr_wire::aeth::{self, NakCode, Syndrome};
use zsr_wire::message::Message;
use zsr_wire::reth;
use zsr_wire::ring::{ByteOrder, CommitRecord, ControlWord, Flags, ITEMS};
use zsr_wire::roce::{Path, Repr};
use zsr_wire::{Frame, Mac, Psn, Qpn, Rkey};

const MTU: u32 = 1024;
const SIZE: u32 = 8192;
const SWITCH: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);
const H1: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const H3: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

fn ring(name: &str, host: &str, role: proto::Role, number: u32) -> proto::Ring {
    let base = if role == proto::Role::Producer { 0x100 * number } else { 0x1000 * number };
    proto::Ring {
        name: name.into(),
        host: host.into(),
        role: role.into(),
        size: SIZE,
        number,
        data_qpn: base + 1,
        poll_qpn: base + 2,
        nic_data_qpn: base + 3,
        nic_poll_qpn: base + 4,
        ..Default::default()
    }
}

fn member(rings: &[proto::Ring]) -> proto::FlowMember {
    proto::FlowMember {
        name: rings[0].host.clone(),
        host: rings[0].host.clone(),
        rings: rings.to_vec(),
        ..Default::default()
    }
}

/// Producers 1 and 2 (0x101.., 0x201..), consumer 3 (0x3001..).
fn names(kind: proto::FlowKind) -> Names {
    use proto::Role::{Consumer, Producer};
    let flow = proto::Flow {
        name: "rows".into(),
        kind: kind.into(),
        mtu: MTU,
        producers: vec![
            member(&[ring("rows.h1.h3", "h1", Producer, 1)]),
            member(&[ring("rows.h2.h3", "h1", Producer, 2)]),
        ],
        consumers: vec![member(&[ring("rows.h3", "h3", Consumer, 3)])],
        ..Default::default()
    };
    let host = |name: &str, ip: Ipv4Addr| proto::Host {
        name: name.into(),
        ip: ip.to_string(),
        ..Default::default()
    };
    Names::new(&[flow], &[host("h1", H1), host("h3", H3)])
}

struct Link {
    names: Names,
    annotator: Annotator,
    now: Instant,
}

impl Link {
    fn new(kind: proto::FlowKind) -> Link {
        Link { names: names(kind), annotator: Annotator::default(), now: Instant::now() }
    }

    fn packet(
        &mut self,
        (src, dst): (Ipv4Addr, Ipv4Addr),
        qpn: u32,
        psn: u32,
        message: Message,
        payload: &[u8],
    ) {
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        let path =
            Path { src_mac: mac, dst_mac: mac, src_ip: src, dst_ip: dst, src_port: 1, tos: 0, ttl: 64 };
        let mut frame = Frame::new();
        Repr::new(path, Qpn::new(qpn), Psn::new(psn), message).emit(payload, &mut frame).unwrap();
        let frame = TapFrame { direction: Direction::Out, len: frame.len(), bytes: frame.bytes() };
        self.annotator.take(self.now, (0, 0), &frame, &self.names);
    }

    fn down(&mut self, host: Ipv4Addr, qpn: u32, psn: u32, message: Message, payload: &[u8]) {
        self.packet((SWITCH, host), qpn, psn, message, payload);
    }

    fn up(&mut self, host: Ipv4Addr, qpn: u32, psn: u32, message: Message, payload: &[u8]) {
        self.packet((host, SWITCH), qpn, psn, message, payload);
    }

    /// Comments of what is ready.
    fn comments(&mut self, all: bool) -> Vec<String> {
        std::iter::from_fn(|| self.annotator.next_noted(self.now, all)).map(|n| n.comment).collect()
    }
}

fn reth(at: u32, length: u32) -> reth::Repr {
    reth::Repr { address: u64::from(at), rkey: Rkey(7), length }
}

fn ack(syndrome: Syndrome) -> aeth::Repr {
    aeth::Repr { syndrome, msn: 0 }
}

fn commit(producer: u32, tail: u32, order: ByteOrder) -> [u8; 16] {
    let head = ControlWord { counter: 0, flags: Flags(0) };
    CommitRecord { head, producer_id: producer, producer_tail: tail }.to_bytes(order)
}

const ITEM: u32 = ITEMS as u32;
const FULL: [u8; MTU as usize] = [5; MTU as usize];

#[test]
fn a_producers_link_names_each_fragment_and_repeats_as_the_first_time() {
    let mut link = Link::new(proto::FlowKind::Shuffle);
    let response = Message::ReadResponseMiddle;
    link.down(H1, 0x104, 9, Message::ReadRequest(reth(0, 8)), &[]);
    link.up(H1, 0x102, 9, Message::ReadResponseOnly(ack(Syndrome::ACK)), &[0; 8]);
    // PSNs run over their end.
    link.down(H1, 0x103, 0xff_ffff, Message::ReadRequest(reth(ITEM + 2048, 3000)), &[]);
    link.up(H1, 0x101, 0xff_ffff, Message::ReadResponseFirst(ack(Syndrome::ACK)), &FULL);
    link.up(H1, 0x101, 0, response, &FULL);
    // From the second fragment on once more.
    link.down(H1, 0x103, 0, Message::ReadRequest(reth(ITEM + 3072, 1976)), &[]);
    link.up(H1, 0x101, 1, Message::ReadResponseLast(ack(Syndrome::ACK)), &[1; 952]);
    let tail = ControlWord { counter: 5048, flags: Flags(0) }.to_bytes(ByteOrder::Little);
    link.down(H1, 0x103, 2, Message::WriteOnly(reth(64, 8)), &tail);
    link.up(H1, 0x101, 2, Message::Acknowledge(ack(Syndrome::ACK)), &[]);
    let of = "producer=rows.h1.h3 consumer=rows.h3 transfer=2048+3000";
    assert_eq!(
        link.comments(false),
        [
            "flow=rows what=poll producer=rows.h1.h3",
            "flow=rows what=word producer=rows.h1.h3",
            &format!("flow=rows what=read {of}"),
            &format!("flow=rows what=response {of} fragment=1/3"),
            &format!("flow=rows what=response {of} fragment=2/3"),
            &format!("flow=rows what=read {of}"),
            &format!("flow=rows what=response {of} fragment=3/3"),
            "flow=rows what=tail producer=rows.h1.h3",
            "flow=rows what=ack producer=rows.h1.h3",
        ]
    );
}

#[test]
fn a_consumers_link_names_the_producer_once_its_commit_record_has_come() {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let mut link = Link::new(proto::FlowKind::Shuffle);
        link.down(H3, 0x3003, 5, Message::WriteFirst(reth(ITEM, 2000)), &FULL);
        link.down(H3, 0x3003, 6, Message::WriteLast, &[1; 976]);
        assert!(link.comments(false).is_empty(), "the commit record has not come");
        // 2000 bytes up to byte 8192 + 3000 of the second producer.
        link.down(H3, 0x3003, 7, Message::WriteOnly(reth(0, 16)), &commit(2, SIZE + 3000, order));
        link.up(H3, 0x3001, 6, Message::Acknowledge(ack(Syndrome::Nak(NakCode::PsnSequence))), &[]);
        link.down(H3, 0x3003, 4, Message::WriteOnly(reth(0, 0)), &[]);
        link.up(H3, 0x3001, 7, Message::Acknowledge(ack(Syndrome::ACK)), &[]);
        link.up(H3, 0x3001, 0, Message::Cnp, &[]);
        let of = "producer=rows.h2.h3 consumer=rows.h3 transfer=1000+2000";
        assert_eq!(
            link.comments(false),
            [
                &format!("flow=rows what=write {of} fragment=1/2"),
                &format!("flow=rows what=write {of} fragment=2/2"),
                &format!("flow=rows what=commit {of}"),
                "flow=rows what=nak consumer=rows.h3",
                "flow=rows what=probe consumer=rows.h3",
                "flow=rows what=ack consumer=rows.h3",
                "flow=rows what=cnp consumer=rows.h3",
            ]
        );
    }
}

#[test]
fn a_fragment_whose_commit_record_does_not_come_is_not_held_for_long() {
    let mut link = Link::new(proto::FlowKind::Shuffle);
    // A capture that begins in the middle of a transfer, ...
    link.down(H3, 0x3003, 4, Message::WriteLast, &[1; 100]);
    link.down(H3, 0x3003, 5, Message::WriteOnly(reth(ITEM, 512)), &[1; 512]);
    assert_eq!(
        link.comments(false),
        ["flow=rows what=write producer=? consumer=rows.h3 transfer=? fragment=?"]
    );
    // ... or ends there.
    link.now += Duration::from_secs(1);
    assert_eq!(
        link.comments(false),
        ["flow=rows what=write producer=? consumer=rows.h3 transfer=?+512 fragment=1/1"]
    );
    link.down(H3, 0x3003, 9, Message::WriteOnly(reth(ITEM, 512)), &[1; 512]);
    assert!(link.comments(false).is_empty());
    assert_eq!(link.comments(true).len(), 1, "at the end, everything");
}

#[test]
fn where_items_go_is_said_as_far_as_the_link_shows_it() {
    for (kind, consumer) in [
        (proto::FlowKind::Shuffle, " consumer=rows.h3"),
        (proto::FlowKind::Replicate, " consumer=rows.h3"),
        (proto::FlowKind::LoadBalance, " consumer=rows.h3"),
    ] {
        let mut link = Link::new(kind);
        link.down(H1, 0x203, 1, Message::ReadRequest(reth(ITEM, 64)), &[]);
        let want = format!("flow=rows what=read producer=rows.h2.h3{consumer} transfer=0+64");
        assert_eq!(link.comments(false), [want]);
    }
}

#[test]
fn what_belongs_to_no_flow_has_no_comment_and_is_known_as_such() {
    let mut link = Link::new(proto::FlowKind::Shuffle);
    link.down(H1, 0x999, 1, Message::WriteMiddle, &FULL);
    let arp = TapFrame { direction: Direction::In, len: 42, bytes: &[8; 42] };
    link.annotator.take(link.now, (0, 0), &arp, &link.names);
    assert_eq!(link.comments(false), ["", ""]);
    assert_eq!(Annotator::lacks(&arp, &link.names), None);
    let empty = Names::default();
    link.down(H1, 0x103, 1, Message::WriteMiddle, &FULL);
    let noted = link.annotator.next_noted(link.now, true).unwrap();
    let frame = TapFrame { direction: Direction::Out, len: noted.len, bytes: &noted.bytes };
    assert_eq!(Annotator::lacks(&frame, &link.names), None);
    assert_eq!(Annotator::lacks(&frame, &empty), Some((H1, 0x103)));
}

#[test]
fn any_bytes_are_taken() {
    let mut link = Link::new(proto::FlowKind::Replicate);
    link.down(H3, 0x3003, 7, Message::WriteOnly(reth(0, 16)), &commit(2, 5, ByteOrder::Little));
    let whole = link.annotator.next_noted(link.now, true).unwrap().bytes;
    for len in 0..whole.len() {
        let frame = TapFrame { direction: Direction::In, len: whole.len(), bytes: &whole[..len] };
        link.annotator.take(link.now, (0, 0), &frame, &link.names);
    }
    assert_eq!(link.comments(true).len(), whole.len());
    link.down(H3, 0x3003, 0, Message::WriteFirst(reth(u32::MAX, 1 << 31)), &FULL);
    link.down(H1, 0x103, 0, Message::ReadRequest(reth(3, 0)), &[]);
    assert_eq!(link.comments(true).len(), 2);
}
