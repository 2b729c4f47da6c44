//! Requester and responder together: two NICs, with chosen packets lost.

use crate::common::{Host, Pair, SIZE, ip, pattern};
use zsr_soft_nic::*;
use zsr_wire::{Opcode, Psn, Qpn, Rkey};

fn pair() -> Pair {
    Pair::new(Mtu::Mtu256, |_, _| {})
}

#[test]
fn reads_and_writes_of_many_lengths_arrive() {
    for mtu in Mtu::ALL {
        let mut p = Pair::new(mtu, |_, _| {});
        let data = pattern(SIZE, 3);
        p.a.memory.write(0, &data);
        for (i, len) in [0u32, 1, 7, 8, 64, 65, 255, 256, 257, 1024, 5000, 20_000].into_iter().enumerate() {
            let (i, at) = (i as u64, 11 * i as u64);
            p.a.nic.post_send(p.a.qpn, p.work(2 * i, Operation::Write, at, 32, len)).unwrap();
            p.a.nic.post_send(p.a.qpn, p.work(2 * i + 1, Operation::Read, 40_000, 32, len)).unwrap();
            p.run(|_| false, 10);
            assert_eq!(p.completions(), [(2 * i, Status::Success), (2 * i + 1, Status::Success)]);
            let want = &data[at as usize..at as usize + len as usize];
            assert_eq!(p.b.bytes(32, len as usize), want, "{mtu} {len}: write");
            assert_eq!(p.a.bytes(40_000, len as usize), want, "{mtu} {len}: read back");
        }
        assert_eq!(p.a.nic.stats().retries, 0);
        assert_eq!(p.a.nic.stats().dropped_total() + p.b.nic.stats().dropped_total(), 0);
    }
}

#[test]
fn each_packet_lost_once_is_repaired() {
    let mut seen = 0;
    for lost in 0.. {
        let mut p = pair();
        let data = pattern(SIZE, 8);
        p.a.memory.write(0, &data[..4096]);
        p.b.memory.write(8192, &data[8192..16384]);
        for (id, op, local, remote, len) in [
            (1, Operation::Write, 0, 0, 1000),
            (2, Operation::Read, 20_000, 8192, 1000),
            (3, Operation::Write, 1000, 1000, 100),
            (4, Operation::Read, 21_000, 9192, 300),
            (5, Operation::Write, 1100, 1100, 700),
        ] {
            p.a.nic.post_send(p.a.qpn, p.work(id, op, local, remote, len)).unwrap();
        }
        let mut n = 0;
        p.run(
            |_| {
                n += 1;
                n - 1 == lost
            },
            50,
        );
        let done: Vec<_> = (1..=5).map(|id| (id, Status::Success)).collect();
        assert_eq!(p.completions(), done, "packet {lost} lost");
        assert_eq!(p.b.bytes(0, 1800), data[..1800], "packet {lost} lost");
        assert_eq!(p.a.bytes(20_000, 1300), data[8192..9492], "packet {lost} lost");
        if n <= lost {
            break;
        }
        seen = lost + 1;
    }
    assert!(seen > 15, "only {seen} packets were there to be lost");
}

#[test]
fn a_gap_is_repaired_by_the_nak_without_waiting_for_the_timer() {
    let mut p = pair();
    p.a.nic.post_send(p.a.qpn, p.work(1, Operation::Write, 0, 0, 4096)).unwrap();
    let mut lost = false;
    p.pump(0, |packet| {
        let this = !lost && packet.opcode() == Opcode::WriteMiddle;
        lost |= this;
        this
    });
    assert_eq!(p.completions(), [(1, Status::Success)]);
    assert_eq!((p.a.nic.stats().retries, p.a.nic.stats().timeouts), (1, 0));
}

#[test]
fn silence_ends_after_the_retries_with_everything_flushed() {
    let mut p = Pair::new(Mtu::Mtu256, |_, rts| (rts.timeout_ns, rts.retry_count) = (1000, 3));
    for id in 1..=3 {
        p.a.nic.post_send(p.a.qpn, p.work(id, Operation::Write, 0, 0, 8)).unwrap();
    }
    let (mut now, mut sent) = (0, 0);
    loop {
        p.pump(now, |_| {
            sent += 1;
            true
        });
        let Some(t) = p.a.nic.next_timeout() else { break };
        now = t;
        p.a.nic.on_timeout(now);
    }
    assert_eq!(p.completions(), [(1, Status::RetryExceeded), (2, Status::Flushed), (3, Status::Flushed)]);
    assert_eq!(sent, 4 * 3);
    assert_eq!(now, 1000 + 2000 + 4000 + 8000, "the time doubles");
    assert_eq!(p.a.nic.qp_info(p.a.qpn).unwrap().state, QpState::Error);
    let again = p.work(4, Operation::Write, 0, 0, 8);
    assert!(matches!(p.a.nic.post_send(p.a.qpn, again), Err(PostError::State { .. })));
}

#[test]
fn refused_requests_complete_with_the_reason() {
    let cases: [fn(&mut WorkRequest); 3] = [
        |w| w.rkey = Rkey(w.rkey.0 ^ 1),
        |w| w.remote_address = SIZE as u64,
        |w| w.remote_address = u64::MAX - 7,
    ];
    for spoil in cases {
        for operation in [Operation::Read, Operation::Write, Operation::FetchAdd(1)] {
            let mut p = pair();
            p.a.nic.post_send(p.a.qpn, p.work(1, Operation::Write, 0, 0, 8)).unwrap();
            let mut bad = p.work(2, operation, 0, 0, 8);
            spoil(&mut bad);
            p.a.nic.post_send(p.a.qpn, bad).unwrap();
            p.a.nic.post_send(p.a.qpn, p.work(3, Operation::Write, 0, 0, 8)).unwrap();
            p.run(|_| false, 10);
            assert_eq!(
                p.completions(),
                [(1, Status::Success), (2, Status::RemoteAccess), (3, Status::Flushed)]
            );
            assert_eq!(p.b.nic.qp_info(p.b.qpn).unwrap().state, QpState::Error);
        }
    }
}

/// Atomic operations count as READs; those that get lost in either direction are carried out once.
#[test]
fn atomic_operations_are_carried_out_once_and_in_order() {
    for lost in 0..12 {
        let mut p = Pair::new(Mtu::Mtu256, |rtr, rts| (rtr.max_dest_rd_atomic, rts.max_rd_atomic) = (2, 2));
        for id in 0..6 {
            p.a.nic.post_send(p.a.qpn, p.work(id, Operation::FetchAdd(id + 1), 8 * id, 64, 8)).unwrap();
        }
        let compare = Operation::CompareSwap { compare: 21, swap: 5 };
        p.a.nic.post_send(p.a.qpn, p.work(6, compare, 48, 64, 8)).unwrap();
        let mut seen = 0;
        p.run(
            |packet| {
                let counts = packet.atomic().is_some() || packet.original().is_some();
                seen += usize::from(counts);
                counts && seen == lost + 1
            },
            20,
        );
        assert_eq!(p.completions(), (0..7).map(|id| (id, Status::Success)).collect::<Vec<_>>());
        let found: Vec<u64> =
            p.a.bytes(0, 56).chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
        assert_eq!(found, [0, 1, 3, 6, 10, 15, 21], "packet {lost} was lost");
        assert_eq!(p.b.bytes(64, 8), 5u64.to_ne_bytes());
        assert_eq!(p.b.nic.stats().atomics, 7);
        assert_eq!(p.b.nic.stats().naks[1..], [0; 3]);
    }
}

#[test]
fn receiver_not_ready_is_waited_for() {
    let mut p = Pair::new(Mtu::Mtu256, |rtr, _| rtr.min_rnr_timer = 2);
    p.a.memory.write(0, &[9; 600]);
    p.a.nic.post_send(p.a.qpn, p.work(1, Operation::WriteImm(77), 0, 0, 600)).unwrap();
    p.pump(0, |_| false);
    assert_eq!(p.completions(), []);
    assert_eq!(p.a.nic.next_timeout(), Some(20_000));
    p.b.nic.post_recv(p.b.qpn, Receive::without_memory(5)).unwrap();
    p.a.nic.on_timeout(20_000);
    p.pump(20_000, |_| false);
    assert_eq!(p.completions(), [(1, Status::Success)]);
    let got = p.b.nic.poll_completion().unwrap();
    assert_eq!((got.wr_id, got.kind, got.len), (5, CompletionKind::Receive { immediate: Some(77) }, 600));
    assert_eq!(p.b.bytes(0, 600), [9; 600]);
}

#[test]
fn receiver_never_ready_ends_after_the_rnr_retries() {
    let mut p = Pair::new(Mtu::Mtu256, |_, rts| rts.rnr_retry = 2);
    p.a.nic.post_send(p.a.qpn, p.work(1, Operation::WriteImm(77), 0, 0, 6)).unwrap();
    p.run(|_| false, 10);
    assert_eq!(p.completions(), [(1, Status::RnrRetryExceeded)]);
    assert_eq!(p.b.nic.stats().rnr_naks, 3);
}

#[test]
fn no_more_reads_are_outstanding_than_agreed() {
    let mut p = Pair::new(Mtu::Mtu256, |rtr, rts| (rtr.max_dest_rd_atomic, rts.max_rd_atomic) = (2, 2));
    for id in 0..20 {
        p.a.nic.post_send(p.a.qpn, p.work(id, Operation::Read, 0, 0, 700)).unwrap();
    }
    p.run(|_| false, 10);
    assert_eq!(p.completions(), (0..20).map(|id| (id, Status::Success)).collect::<Vec<_>>());
    assert_eq!(p.b.nic.stats().naks, [0; 4]);
}

#[test]
fn long_writes_stay_within_the_window() {
    let mut p = pair();
    p.a.nic.post_send(p.a.qpn, p.work(1, Operation::Write, 0, 0, SIZE as u32)).unwrap();
    p.a.nic.post_send(p.a.qpn, p.work(2, Operation::Write, 0, 0, SIZE as u32)).unwrap();
    p.a.nic.post_send(p.a.qpn, p.work(3, Operation::Write, 0, 0, SIZE as u32)).unwrap();
    let first = p.a.drain(0);
    assert_eq!(first.len(), 512);
    for frame in first {
        p.b.nic.handle(0, frame, &mut p.b.pool);
    }
    p.run(|_| false, 10);
    assert_eq!(p.completions().len(), 3);
    assert_eq!(p.a.nic.stats().retries, 0);
}

#[test]
fn misuse_is_refused_with_a_reason() {
    let mut host = Host::new(1);
    let attr = RtrAttr::new(Qpn::new(9), ip(2), Psn::ZERO, Mtu::Mtu256);
    let qpn = host.qpn;
    let refused = host.nic.modify_qp(qpn, Modify::Rtr(attr)).unwrap_err();
    assert!(matches!(refused, QpError::Transition { from: QpState::Reset, .. }));
    host.nic.modify_qp(qpn, Modify::Init { access: Access::ALL }).unwrap();
    assert_eq!(host.nic.modify_qp(qpn, Modify::Rtr(attr)), Err(QpError::NoNeighbour(ip(2))));
    let mut bad = attr;
    bad.max_dest_rd_atomic = 0;
    assert!(matches!(host.nic.modify_qp(qpn, Modify::Rtr(bad)), Err(QpError::Attribute { .. })));
    assert!(host.nic.modify_qp(qpn, Modify::Rts(RtsAttr::new(Psn::ZERO))).is_err());
    let unknown = Qpn::new(qpn.get() ^ 1 << 20);
    assert_eq!(host.nic.modify_qp(unknown, Modify::Reset), Err(QpError::Unknown(unknown)));
    host.nic.destroy_qp(qpn).unwrap();
    assert_eq!(host.nic.destroy_qp(qpn), Err(QpError::Unknown(qpn)));
    assert_eq!(host.nic.qp_info(qpn), None);

    let mut p = pair();
    let mut work = p.work(1, Operation::Read, 0, 0, 8);
    work.local.lkey = Rkey(work.local.lkey.0 ^ 1);
    assert!(matches!(p.a.nic.post_send(p.a.qpn, work), Err(PostError::LocalMemory { .. })));
    let long = p.work(1, Operation::FetchAdd(1), 0, 0, 16);
    assert_eq!(p.a.nic.post_send(p.a.qpn, long), Err(PostError::AtomicLength { len: 16 }));
    for id in 0..64 {
        p.a.nic.post_send(p.a.qpn, p.work(id, Operation::Write, 0, 0, 8)).unwrap();
    }
    let more = p.work(64, Operation::Write, 0, 0, 8);
    assert!(matches!(p.a.nic.post_send(p.a.qpn, more), Err(PostError::QueueFull { depth: 64, .. })));
    p.run(|_| false, 10);
    for id in 0..16 {
        p.a.nic.post_send(p.a.qpn, p.work(id, Operation::Write, 0, 0, 8)).unwrap();
        p.run(|_| false, 10);
    }
    assert!(
        matches!(p.a.nic.post_send(p.a.qpn, more), Err(PostError::CompletionsFull { waiting: 80 })),
        "completions that nobody polls don't pile up"
    );
    assert_eq!(p.completions().len(), 80);
    p.a.nic.post_send(p.a.qpn, more).unwrap();
    p.a.nic.modify_qp(p.a.qpn, Modify::Error).unwrap();
    assert_eq!(p.completions(), [(64, Status::Flushed)]);
}
