//! The responder against packets written by hand: what the specification says about each.

use crate::common::{Bench, PEER_QPN, SIZE, ip, mac, pattern};
use zsr_soft_nic::{
    Access, CompletionKind, DropReason, Modify, Mtu, NicConfig, QpCaps, QpState, Receive, RtrAttr,
};
use zsr_wire::aeth::{self, NakCode, Syndrome};
use zsr_wire::message::Message;
use zsr_wire::roce::Packet;
use zsr_wire::{Frame, Opcode, Psn, Rkey, arp, atomic, ethernet, reth};

fn ack(psn: i32, msn: u32) -> (i32, Message, Vec<u8>) {
    (psn, Message::Acknowledge(aeth::Repr { syndrome: Syndrome::ACK, msn }), vec![])
}

fn nak(psn: i32, code: NakCode, msn: u32) -> (i32, Message, Vec<u8>) {
    (psn, Message::Acknowledge(aeth::Repr { syndrome: Syndrome::Nak(code), msn }), vec![])
}

fn ok(msn: u32) -> aeth::Repr {
    aeth::Repr { syndrome: Syndrome::ACK, msn }
}

#[test]
fn write_only_of_every_length_is_stored_and_acknowledged() {
    let mut b = Bench::new(Mtu::Mtu256, 0xff_ff80);
    for len in 0..=256usize {
        let data = pattern(len, len as u8);
        let n = len as i32;
        b.send(n, Message::WriteOnly(b.reth(3 * len as u64, len as u32)), &data);
        assert_eq!(b.replies(), [ack(n, len as u32 + 1)]);
        assert_eq!(b.host.bytes(3 * len, len), data);
    }
}

#[test]
fn write_of_several_packets_counts_as_one_message() {
    let mut b = Bench::new(Mtu::Mtu256, 7);
    let data = pattern(600, 1);
    b.send(0, Message::WriteFirst(b.reth(100, 600)), &data[..256]);
    b.send(1, Message::WriteMiddle, &data[256..512]);
    b.send(2, Message::WriteLast, &data[512..]);
    assert_eq!(b.replies(), [ack(2, 1)], "three acknowledgements become the last one");
    assert_eq!(b.host.nic.stats().acks_coalesced, 2);
    assert_eq!(b.host.bytes(100, 600), data);
    assert_eq!(b.host.bytes(700, 1), [0]);
}

#[test]
fn without_ack_req_nothing_is_sent() {
    let mut b = Bench::new(Mtu::Mtu256, 7);
    let repr = b.repr(Psn::new(7), Message::WriteOnly(b.reth(0, 4)));
    b.send_repr(&repr, &[1, 2, 3, 4]);
    assert_eq!(b.replies(), []);
    assert_eq!(b.host.bytes(0, 4), [1, 2, 3, 4]);
}

#[test]
fn read_is_cut_into_packets_of_the_mtu() {
    for mtu in Mtu::ALL {
        let mut b = Bench::new(mtu, 0xff_fffe);
        let m = mtu.bytes() as usize;
        let data = pattern(SIZE, 9);
        b.host.memory.write(0, &data);
        b.send(0, Message::ReadRequest(b.reth(16, 2 * m as u32 + 5)), &[]);
        let part = |from: usize, to: usize| data[16 + from..16 + to].to_vec();
        assert_eq!(
            b.replies(),
            [
                (0, Message::ReadResponseFirst(ok(1)), part(0, m)),
                (1, Message::ReadResponseMiddle, part(m, 2 * m)),
                (2, Message::ReadResponseLast(ok(1)), part(2 * m, 2 * m + 5)),
            ]
        );
        b.send(3, Message::ReadRequest(b.reth(0, m as u32)), &[]);
        assert_eq!(b.replies(), [(3, Message::ReadResponseOnly(ok(2)), data[..m].to_vec())]);
        b.send(4, Message::ReadRequest(b.reth(0, 0)), &[]);
        assert_eq!(b.replies(), [(4, Message::ReadResponseOnly(ok(3)), vec![])]);
    }
}

#[test]
fn responses_leave_in_psn_order() {
    let mut b = Bench::new(Mtu::Mtu256, 0);
    b.send(0, Message::WriteOnly(b.reth(0, 4)), &[1; 4]);
    b.send(1, Message::ReadRequest(b.reth(0, 300)), &[]);
    b.send(3, Message::WriteOnly(b.reth(8, 4)), &[2; 4]);
    b.send(4, Message::WriteOnly(b.reth(16, 4)), &[3; 4]);
    let psns: Vec<i32> = b.replies().iter().map(|r| r.0).collect();
    assert_eq!(psns, [0, 1, 2, 4]);
}

#[test]
fn a_gap_is_reported_once_and_repaired_by_the_missing_packet() {
    let config = NicConfig { reorder_window: 0, ..NicConfig::new(mac(1), ip(1)) };
    let mut b = Bench::with(config, Mtu::Mtu256, 0xff_ffff);
    let write = |b: &Bench, at: u64| Message::WriteOnly(b.reth(at, 4));
    b.send(2, write(&b, 8), &[3; 4]);
    b.send(1, write(&b, 4), &[2; 4]);
    b.send(2, write(&b, 8), &[3; 4]);
    assert_eq!(b.replies(), [nak(0, NakCode::PsnSequence, 0)]);
    assert_eq!(b.host.nic.stats().dropped(DropReason::OutOfSequence), 3);
    assert_eq!(b.host.bytes(0, 12), [0; 12], "nothing was stored");
    b.send(0, write(&b, 0), &[1; 4]);
    assert_eq!(b.replies(), [ack(0, 1)]);
    b.send(2, write(&b, 8), &[3; 4]);
    assert_eq!(b.replies(), [nak(1, NakCode::PsnSequence, 1)], "a new gap is a new NAK");
}

#[test]
fn duplicate_write_is_acknowledged_with_the_last_psn_and_not_executed() {
    let mut b = Bench::new(Mtu::Mtu256, 10);
    b.send(0, Message::WriteOnly(b.reth(0, 4)), &[1; 4]);
    b.send(1, Message::WriteOnly(b.reth(4, 4)), &[2; 4]);
    assert_eq!(b.replies(), [ack(1, 2)]);
    b.send(0, Message::WriteOnly(b.reth(0, 4)), &[9; 4]);
    assert_eq!(b.replies(), [ack(1, 2)]);
    assert_eq!(b.host.bytes(0, 8), [1, 1, 1, 1, 2, 2, 2, 2]);
    assert_eq!(b.host.nic.stats().duplicates, 1);
}

#[test]
fn on_a_fresh_queue_pair_a_duplicate_is_answered_with_the_psn_before_the_first() {
    let mut b = Bench::new(Mtu::Mtu256, 0);
    b.send(-1, Message::WriteOnly(b.reth(0, 4)), &[9; 4]);
    assert_eq!(b.replies(), [ack(-1, 0)]);
    assert_eq!(b.host.bytes(0, 4), [0; 4]);
}

#[test]
fn duplicate_read_is_carried_out_again_from_anywhere_within() {
    let mut b = Bench::new(Mtu::Mtu256, 3);
    let data = pattern(1024, 5);
    b.host.memory.write(0, &data);
    b.send(0, Message::ReadRequest(b.reth(0, 1024)), &[]);
    assert_eq!(b.replies().len(), 4);
    b.host.memory.write(512, &[0xee; 512]);
    b.send(2, Message::ReadRequest(b.reth(512, 512)), &[]);
    let replies = b.replies();
    assert_eq!(
        replies,
        [
            (2, Message::ReadResponseFirst(ok(1)), vec![0xee; 256]),
            (3, Message::ReadResponseLast(ok(1)), vec![0xee; 256]),
        ]
    );
    b.send(4, Message::WriteOnly(b.reth(0, 1)), &[1]);
    assert_eq!(b.replies(), [ack(4, 2)], "a duplicate does not move the expected PSN");
}

#[test]
fn duplicate_of_a_read_under_way_starts_it_again_and_does_not_pile_up() {
    let mut b = Bench::new(Mtu::Mtu256, 0);
    b.send(0, Message::ReadRequest(b.reth(0, 1024)), &[]);
    for _ in 0..2 {
        let frame = b.host.nic.poll_transmit(0, &mut b.host.pool).unwrap();
        b.host.pool.put(frame);
    }
    for _ in 0..100 {
        b.send(1, Message::ReadRequest(b.reth(256, 768)), &[]);
    }
    let psns: Vec<i32> = b.replies().iter().map(|r| r.0).collect();
    assert_eq!(psns, [1, 2, 3]);
}

#[test]
fn duplicate_read_that_reaches_beyond_what_was_asked_is_dropped() {
    let mut b = Bench::new(Mtu::Mtu256, 0);
    b.send(0, Message::ReadRequest(b.reth(0, 512)), &[]);
    assert_eq!(b.replies().len(), 2);
    b.send(1, Message::ReadRequest(b.reth(256, 512)), &[]);
    let mut wrong_key = b.reth(0, 512);
    wrong_key.rkey = Rkey(!wrong_key.rkey.0);
    b.send(0, Message::ReadRequest(wrong_key), &[]);
    assert_eq!(b.replies(), []);
    assert_eq!(b.host.nic.stats().dropped(DropReason::DuplicateRead), 2);
    assert_eq!(b.state(), QpState::ReadyToReceive);
}

/// Sends one bad request as PSN 1 behind a good one; expects the NAK and a broken queue pair that stores nothing.
fn refused(code: NakCode, before: &[(Message, usize)], message: Message, payload: usize) {
    refused_with(code, Access::ALL, before, |_| message, payload);
}

fn refused_with(
    code: NakCode,
    rights: Access,
    before: &[(Message, usize)],
    message: impl Fn(&Bench) -> Message,
    payload: usize,
) {
    let mut b = Bench::new(Mtu::Mtu256, 0xff_fffd);
    b.host.nic.modify_qp(b.host.qpn, Modify::Reset).unwrap();
    b.host.nic.modify_qp(b.host.qpn, Modify::Init { access: rights }).unwrap();
    let mut attr = RtrAttr::new(PEER_QPN, ip(2), b.psn, Mtu::Mtu256);
    attr.dest_mac = Some(mac(2));
    attr.max_dest_rd_atomic = 4;
    b.host.nic.modify_qp(b.host.qpn, Modify::Rtr(attr)).unwrap();
    for (i, (message, len)) in before.iter().enumerate() {
        // Keys differ from NIC to NIC: the message's own is replaced by the right one.
        let message = match *message {
            Message::WriteFirst(r) => Message::WriteFirst(b.reth(r.address, r.length)),
            Message::ReadRequest(r) => Message::ReadRequest(b.reth(r.address, r.length)),
            other => other,
        };
        b.send(i as i32, message, &vec![1; *len]);
    }
    let sent = before.len() as i32;
    let message = message(&b);
    let frame_before = b.host.bytes(4096, 4096);
    b.send(sent, message, &vec![7; payload]);
    let last = b.replies().pop().unwrap();
    let Message::Acknowledge(aeth) = last.1 else { panic!("{message:?}: expected a NAK, got {last:?}") };
    assert_eq!((last.0, aeth.syndrome), (sent, Syndrome::Nak(code)), "{message:?}");
    assert_eq!(b.state(), QpState::Error, "{message:?}");
    assert_eq!(b.host.bytes(4096, 4096), frame_before, "{message:?}: something was stored");
    b.send(sent, Message::WriteOnly(b.reth(0, 4)), &[1; 4]);
    assert_eq!(b.replies(), [], "a broken queue pair is silent");
    assert_eq!(b.host.nic.stats().dropped(DropReason::QpState), 1);
}

const ANY: fn(u64, u32) -> reth::Repr = |address, length| reth::Repr { address, rkey: Rkey(0), length };

#[test]
fn requests_out_of_order_within_a_message_are_invalid() {
    let first = (Message::WriteFirst(ANY(0, 600)), 256);
    refused(NakCode::InvalidRequest, &[], Message::WriteMiddle, 256);
    refused(NakCode::InvalidRequest, &[], Message::WriteLast, 4);
    refused(NakCode::InvalidRequest, &[], Message::WriteLastImm(1), 4);
    let with_key = |m: fn(reth::Repr) -> Message| move |b: &Bench| m(b.reth(4096, 300));
    refused_with(NakCode::InvalidRequest, Access::ALL, &[first], with_key(Message::WriteFirst), 256);
    refused_with(NakCode::InvalidRequest, Access::ALL, &[first], with_key(Message::ReadRequest), 0);
    refused_with(NakCode::InvalidRequest, Access::ALL, &[first], |b| Message::WriteOnly(b.reth(4096, 4)), 4);
}

#[test]
fn payload_must_be_what_the_reth_says() {
    let only = |len: u32| move |b: &Bench| Message::WriteOnly(b.reth(4096, len));
    let first = |len: u32| move |b: &Bench| Message::WriteFirst(b.reth(4096, len));
    let invalid = NakCode::InvalidRequest;
    refused_with(invalid, Access::ALL, &[], only(5), 4);
    refused_with(invalid, Access::ALL, &[], only(3), 4);
    refused_with(invalid, Access::ALL, &[], only(0), 4);
    refused_with(invalid, Access::ALL, &[], only(4), 0);
    refused_with(invalid, Access::ALL, &[], only(300), 300);
    refused_with(invalid, Access::ALL, &[], first(256), 256);
    refused_with(invalid, Access::ALL, &[], first(600), 252);
    refused_with(invalid, Access::ALL, &[], first(600), 512);
    let begun = [(Message::WriteFirst(ANY(0, 600)), 256)];
    refused(invalid, &begun, Message::WriteLast, 256);
    refused(invalid, &begun, Message::WriteMiddle, 128);
    let nearly = [(Message::WriteFirst(ANY(0, 600)), 256), (Message::WriteMiddle, 256)];
    refused(invalid, &nearly, Message::WriteMiddle, 256);
    refused(invalid, &nearly, Message::WriteLast, 87);
    refused(invalid, &nearly, Message::WriteLast, 89);
}

#[test]
fn keys_bounds_and_rights_are_checked() {
    let access = NakCode::RemoteAccess;
    let bad_key = |b: &Bench| reth::Repr { rkey: Rkey(b.host.rkey.0 ^ 0x100), ..b.reth(4096, 4) };
    refused_with(access, Access::ALL, &[], |b| Message::WriteOnly(bad_key(b)), 4);
    refused_with(access, Access::ALL, &[], |b| Message::ReadRequest(bad_key(b)), 0);
    for (address, len) in
        [(SIZE as u64, 1), (SIZE as u64 - 3, 4), (u64::MAX, 2), (u64::MAX - 1, 4), (0, SIZE as u32 + 1)]
    {
        refused_with(access, Access::ALL, &[], |b| Message::ReadRequest(b.reth(address, len)), 0);
        if len <= 256 {
            refused_with(
                access,
                Access::ALL,
                &[],
                |b| Message::WriteOnly(b.reth(address, len)),
                len as usize,
            );
        }
    }
    let invalid = NakCode::InvalidRequest;
    refused_with(invalid, Access::REMOTE_READ, &[], |b| Message::WriteOnly(b.reth(4096, 4)), 4);
    refused_with(invalid, Access::REMOTE_WRITE, &[], |b| Message::ReadRequest(b.reth(4096, 4)), 0);
    refused_with(invalid, Access::ALL, &[], |b| Message::ReadRequest(b.reth(0, (1 << 31) + 1)), 0);
}

fn word(b: &Bench, address: u64, swap_or_add: u64, compare: u64) -> atomic::Repr {
    atomic::Repr { address, rkey: b.host.rkey, swap_or_add, compare }
}

fn found(psn: i32, msn: u32, original: u64) -> (i32, Message, Vec<u8>) {
    (psn, Message::AtomicAcknowledge(ok(msn), original), vec![])
}

#[test]
fn atomic_operations_answer_what_was_there_before() {
    let mut b = Bench::new(Mtu::Mtu256, 0xff_fffe);
    b.host.memory.write(8, &(u64::MAX - 1).to_ne_bytes());
    b.send(0, Message::FetchAdd(word(&b, 8, 3, 77)), &[]);
    assert_eq!(b.host.bytes(8, 8), 1u64.to_ne_bytes(), "modulo 2^64");
    b.send(1, Message::CompareSwap(word(&b, 8, 9, 2)), &[]);
    assert_eq!(b.host.bytes(8, 8), 1u64.to_ne_bytes());
    b.send(2, Message::CompareSwap(word(&b, 8, 9, 1)), &[]);
    assert_eq!(b.host.bytes(0, 24), [[0; 8], 9u64.to_ne_bytes(), [0; 8]].concat());
    assert_eq!(b.replies(), [found(0, 1, u64::MAX - 1), found(1, 2, 1), found(2, 3, 1)]);
    assert_eq!(b.host.nic.stats().atomics, 3);
}

#[test]
fn duplicate_atomic_operations_get_their_answers_again() {
    let mut b = Bench::new(Mtu::Mtu256, 0xff_fffe);
    for psn in 0..6 {
        b.send(psn, Message::FetchAdd(word(&b, 0, 10, 0)), &[]);
        assert_eq!(b.replies(), [found(psn, psn as u32 + 1, 10 * psn as u64)]);
    }
    // The answers to the last four are kept, in whatever order they are asked for, also when others wait.
    for psn in [2, 5, 2, 3] {
        b.send(psn, Message::FetchAdd(word(&b, 0, 10, 0)), &[]);
    }
    assert_eq!(b.replies(), [found(2, 6, 20), found(5, 6, 50), found(3, 6, 30)]);
    b.send(1, Message::FetchAdd(word(&b, 0, 10, 0)), &[]);
    assert_eq!(b.replies(), []);
    assert_eq!(b.host.nic.stats().dropped(DropReason::DuplicateAtomic), 1);
    assert_eq!(b.host.bytes(0, 8), 60u64.to_ne_bytes());
    // A new connection knows nothing of them.
    let qpn = b.host.qpn;
    b.host.nic.modify_qp(qpn, Modify::Reset).unwrap();
    b.host.nic.modify_qp(qpn, Modify::Init { access: Access::ALL }).unwrap();
    let attr =
        RtrAttr { dest_mac: Some(mac(2)), ..RtrAttr::new(PEER_QPN, ip(2), b.psn.plus(6), Mtu::Mtu256) };
    b.host.nic.modify_qp(qpn, Modify::Rtr(attr)).unwrap();
    b.send(5, Message::FetchAdd(word(&b, 0, 10, 0)), &[]);
    assert_eq!(b.replies(), []);
}

#[test]
fn atomic_operations_that_are_refused() {
    let (invalid, access) = (NakCode::InvalidRequest, NakCode::RemoteAccess);
    for address in [4097, 4100, 4103, SIZE as u64 - 4] {
        refused_with(invalid, Access::ALL, &[], |b| Message::FetchAdd(word(b, address, 1, 0)), 0);
    }
    refused_with(
        invalid,
        Access::REMOTE_READ.with(Access::REMOTE_WRITE),
        &[],
        |b| Message::FetchAdd(word(b, 4096, 1, 0)),
        0,
    );
    let bad_key = |b: &Bench| atomic::Repr { rkey: Rkey(b.host.rkey.0 ^ 0x100), ..word(b, 4096, 1, 0) };
    refused_with(access, Access::ALL, &[], |b| Message::FetchAdd(bad_key(b)), 0);
    refused_with(access, Access::ALL, &[], |b| Message::CompareSwap(bad_key(b)), 0);
    for address in [SIZE as u64, u64::MAX - 7] {
        refused_with(access, Access::ALL, &[], |b| Message::FetchAdd(word(b, address, 1, 0)), 0);
    }
    let begun = [(Message::WriteFirst(ANY(0, 600)), 256)];
    refused_with(invalid, Access::ALL, &begun, |b| Message::FetchAdd(word(b, 4096, 1, 0)), 0);
}

#[test]
fn more_atomic_operations_than_agreed_are_invalid() {
    let mut b = Bench::new(Mtu::Mtu256, 0);
    for psn in 0..2 {
        b.send(2 * psn, Message::FetchAdd(word(&b, 0, 1, 0)), &[]);
        b.send(2 * psn + 1, Message::ReadRequest(b.reth(0, 4)), &[]);
    }
    b.send(4, Message::FetchAdd(word(&b, 0, 1, 0)), &[]);
    assert_eq!(b.replies().last(), Some(&nak(4, NakCode::InvalidRequest, 4)));
    assert_eq!(b.host.bytes(0, 8), 2u64.to_ne_bytes());
}

#[test]
fn empty_messages_need_no_key() {
    let mut b = Bench::new(Mtu::Mtu256, 0);
    let nowhere = reth::Repr { address: u64::MAX, rkey: Rkey(0), length: 0 };
    b.send(0, Message::WriteOnly(nowhere), &[]);
    b.send(1, Message::ReadRequest(nowhere), &[]);
    assert_eq!(b.replies(), [ack(0, 1), (1, Message::ReadResponseOnly(ok(2)), vec![])]);
}

#[test]
fn more_reads_than_agreed_are_invalid() {
    let mut b = Bench::new(Mtu::Mtu256, 0);
    for i in 0..5 {
        b.send(i, Message::ReadRequest(b.reth(0, 4)), &[]);
    }
    let replies = b.replies();
    assert_eq!(replies.len(), 5);
    assert_eq!(replies[4], nak(4, NakCode::InvalidRequest, 4), "what was accepted is still answered, first");
}

#[test]
fn duplicates_do_not_count_as_outstanding_reads() {
    let mut b = Bench::new(Mtu::Mtu256, 0);
    for i in 0..4 {
        b.send(i, Message::ReadRequest(b.reth(0, 4)), &[]);
    }
    assert_eq!(b.replies().len(), 4);
    for i in 0..4 {
        b.send(i, Message::ReadRequest(b.reth(0, 4)), &[]);
    }
    b.send(0, Message::ReadRequest(b.reth(1, 3)), &[]);
    for i in 4..8 {
        b.send(i, Message::ReadRequest(b.reth(0, 4)), &[]);
    }
    let psns: Vec<i32> = b.replies().iter().map(|r| r.0).collect();
    assert_eq!(psns, [0, 1, 2, 3, 4, 5, 6, 7], "a fifth duplicate is one too many, a new READ is not");
    assert_eq!(b.host.nic.stats().dropped(DropReason::DuplicateRead), 1);
}

#[test]
fn memory_deregistered_under_a_read_is_an_operational_error() {
    let mut b = Bench::new(Mtu::Mtu256, 0);
    b.send(0, Message::ReadRequest(b.reth(0, 1024)), &[]);
    let frame = b.host.nic.poll_transmit(0, &mut b.host.pool).unwrap();
    b.host.pool.put(frame);
    b.host.nic.deregister_mr(b.host.rkey).unwrap();
    assert_eq!(b.replies(), [nak(1, NakCode::RemoteOperational, 1)]);
    assert_eq!(b.state(), QpState::Error);
}

#[test]
fn memory_deregistered_under_a_write_is_an_access_error() {
    let mut b = Bench::new(Mtu::Mtu256, 0);
    b.send(0, Message::WriteFirst(b.reth(0, 600)), &[1; 256]);
    b.host.nic.deregister_mr(b.host.rkey).unwrap();
    b.send(1, Message::WriteMiddle, &[2; 256]);
    assert_eq!(b.replies(), [ack(0, 0), nak(1, NakCode::RemoteAccess, 0)]);
}

#[test]
fn immediate_data_needs_a_posted_receive() {
    let mut b = Bench::new(Mtu::Mtu256, 0);
    let message = Message::WriteOnlyImm(b.reth(0, 4), 0xabcd);
    b.send(0, message, &[5; 4]);
    b.send(1, Message::WriteOnly(b.reth(8, 4)), &[6; 4]);
    let not_ready = aeth::Repr { syndrome: Syndrome::RnrNak { timer: 1 }, msn: 0 };
    assert_eq!(b.replies(), [(0, Message::Acknowledge(not_ready), vec![])], "and silence behind it");
    assert_eq!(b.host.bytes(0, 12), [0; 12]);
    b.host.nic.post_recv(b.host.qpn, Receive::without_memory(42)).unwrap();
    b.send(0, message, &[5; 4]);
    assert_eq!(b.replies(), [ack(1, 2)], "what is behind it was kept");
    let done = b.host.nic.poll_completion().unwrap();
    assert_eq!((done.wr_id, done.len), (42, 4));
    assert_eq!(done.kind, CompletionKind::Receive { immediate: Some(0xabcd) });
    assert_eq!(b.host.nic.poll_completion(), None);
}

#[test]
fn what_is_not_for_this_nic_is_dropped_and_counted() {
    let mut b = Bench::new(Mtu::Mtu256, 0);
    let good = b.repr(Psn::ZERO, Message::WriteOnly(b.reth(0, 4)));
    let mut other = good;
    other.path.dst_mac = mac(9);
    b.send_repr(&other, &[1; 4]);
    let mut other = good;
    other.path.dst_ip = ip(9);
    b.send_repr(&other, &[1; 4]);
    let mut other = good;
    other.path.src_ip = ip(9);
    b.send_repr(&other, &[1; 4]);
    let mut other = good;
    other.dest_qp = zsr_wire::Qpn::new(other.dest_qp.get() ^ 0x80_0000);
    b.send_repr(&other, &[1; 4]);
    let mut other = good;
    other.pkey = 0x1234;
    b.send_repr(&other, &[1; 4]);
    let mut frame = Frame::new();
    good.emit(&[1; 4], &mut frame).unwrap();
    frame.bytes_mut()[74] ^= 1;
    b.host.nic.handle(0, frame, &mut b.host.pool);
    let mut frame = Frame::new();
    good.emit(&[1; 4], &mut frame).unwrap();
    frame.bytes_mut()[24] ^= 1;
    b.host.nic.handle(0, frame, &mut b.host.pool);
    b.host.nic.handle(0, Frame::new(), &mut b.host.pool);
    b.host.nic.handle(0, Frame::copy_from(&[0; 60]).unwrap(), &mut b.host.pool);
    b.send(0, Message::Acknowledge(ok(0)), &[]);

    assert_eq!(b.replies(), []);
    assert_eq!(b.host.bytes(0, 4), [0; 4]);
    let stats = *b.host.nic.stats();
    for (reason, want) in [
        (DropReason::WrongAddress, 2),
        (DropReason::WrongPeer, 1),
        (DropReason::UnknownQp, 1),
        (DropReason::PKey, 1),
        (DropReason::Icrc, 1),
        (DropReason::Ipv4Checksum, 1),
        (DropReason::Malformed, 1),
        (DropReason::OtherProtocol, 1),
        (DropReason::QpState, 1),
    ] {
        assert_eq!(stats.dropped(reason), want, "{reason}");
    }
    assert_eq!(stats.dropped_total(), stats.rx_frames);
}

#[test]
fn congestion_mark_makes_one_notification_per_interval() {
    let mut b = Bench::new(Mtu::Mtu256, 0);
    let mut repr = b.repr(Psn::ZERO, Message::WriteOnly(b.reth(0, 4)));
    repr.path.tos = 3;
    b.send_repr(&repr, &[1; 4]);
    repr.psn = Psn::new(1);
    b.send_repr(&repr, &[1; 4]);
    let replies = b.replies();
    assert_eq!(replies.iter().map(|r| r.1).collect::<Vec<_>>(), [Message::Cnp]);
    b.send(9, Message::Cnp, &[]);
    assert_eq!(b.host.nic.stats().cnps_received, 1);
}

#[test]
fn queue_pairs_take_turns_and_acknowledgements_go_first() {
    fn is_send<T: Send>(_: &T) {}
    let mut b = Bench::new(Mtu::Mtu256, 0);
    is_send(&b.host.nic);
    let first = b.host.qpn;
    let mut qpns = vec![first];
    for _ in 0..2 {
        b.host.qpn = b.host.nic.create_qp(QpCaps::default()).unwrap();
        let mut attr = RtrAttr::new(PEER_QPN, ip(2), b.psn, Mtu::Mtu256);
        attr.dest_mac = Some(mac(2));
        // Told apart by the source port.
        attr.src_port = qpns.len() as u16;
        b.host.rtr(attr);
        qpns.push(b.host.qpn);
    }
    for &qpn in &qpns[1..] {
        b.host.qpn = qpn;
        b.send(0, Message::ReadRequest(b.reth(0, 1024)), &[]);
    }
    let mut ports = Vec::new();
    let mut next = |b: &mut Bench| {
        let frame = b.host.nic.poll_transmit(0, &mut b.host.pool).unwrap();
        let packet = Packet::new_checked(frame.bytes()).unwrap();
        ports.push((packet.src_port(), packet.opcode()));
    };
    next(&mut b);
    next(&mut b);
    b.host.qpn = first;
    b.send(0, Message::WriteOnly(b.reth(0, 4)), &[1; 4]);
    for _ in 0..7 {
        next(&mut b);
    }
    use Opcode::{Acknowledge, ReadResponseFirst, ReadResponseLast, ReadResponseMiddle};
    let port = RtrAttr::new(PEER_QPN, ip(2), b.psn, Mtu::Mtu256).src_port;
    assert_eq!(
        ports,
        [
            (1, ReadResponseFirst),
            (2, ReadResponseFirst),
            (port, Acknowledge),
            (1, ReadResponseMiddle),
            (2, ReadResponseMiddle),
            (1, ReadResponseMiddle),
            (2, ReadResponseMiddle),
            (1, ReadResponseLast),
            (2, ReadResponseLast),
        ]
    );
    assert!(b.host.nic.poll_transmit(0, &mut b.host.pool).is_none());
}

#[test]
fn arp_requests_for_this_address_are_answered() {
    let mut b = Bench::new(Mtu::Mtu256, 0);
    for target in [ip(1), ip(3)] {
        let request = arp::Repr {
            operation: arp::Operation::Request,
            sender_mac: mac(2),
            sender_ip: ip(2),
            target_mac: ethernet::Mac([0; 6]),
            target_ip: target,
        };
        let mut frame = b.host.pool.take();
        let out = frame.grow_back(60).unwrap();
        let eth = ethernet::Repr { dst: ethernet::Mac::BROADCAST, src: mac(2), ethertype: ethernet::ARP };
        eth.emit(out).unwrap();
        request.emit(&mut out[ethernet::LEN..]).unwrap();
        b.host.nic.handle(0, frame, &mut b.host.pool);
    }
    let frames = b.host.drain(0);
    assert_eq!(frames.len(), 1);
    let eth = ethernet::Packet::new_checked(frames[0].bytes()).unwrap();
    assert_eq!((eth.dst(), eth.src(), eth.ethertype()), (mac(2), mac(1), ethernet::ARP));
    let reply = arp::Repr::parse(&arp::Packet::new_checked(eth.payload()).unwrap()).unwrap();
    assert_eq!(reply.operation, arp::Operation::Reply);
    assert_eq!((reply.sender_mac, reply.sender_ip), (mac(1), ip(1)));
    assert_eq!((reply.target_mac, reply.target_ip), (mac(2), ip(2)));
}
