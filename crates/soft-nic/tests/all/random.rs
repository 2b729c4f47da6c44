//! Whatever comes, the NIC goes on; and what it does with legal requests equals a model of the memory.

use crate::common::{Bench, Pair, SIZE};
use proptest::prelude::*;
use zsr_soft_nic::{Mtu, Operation, QpState, Receive, Sge, Status};
use zsr_wire::aeth::{self, Syndrome};
use zsr_wire::message::Message;
use zsr_wire::{Frame, Psn, Rkey, atomic, deth, reth};

/// A packet that is nearly right: the NIC gets past its first checks.
#[derive(Debug, Clone)]
struct Near {
    kind: u8,
    psn: i32,
    address: u64,
    length: u32,
    good_key: bool,
    payload: usize,
    ack_req: bool,
    flip: Option<(usize, u8)>,
}

fn near() -> impl Strategy<Value = Near> {
    let address = prop_oneof![4 => 0..SIZE as u64 + 10, 1 => any::<u64>()];
    let length = prop_oneof![4 => 0u32..700, 1 => any::<u32>()];
    let flip = prop_oneof![6 => Just(None), 1 => (0usize..90, 0u8..8).prop_map(Some)];
    (0u8..23, -3i32..4, address, length, prop::bool::weighted(0.9), 0usize..300, any::<bool>(), flip)
        .prop_map(|(kind, psn, address, length, good_key, payload, ack_req, flip)| Near {
            kind,
            psn,
            address,
            length,
            good_key,
            payload,
            ack_req,
            flip,
        })
}

fn build(b: &Bench, near: &Near) -> Option<Frame> {
    let rkey = if near.good_key { b.host.rkey } else { Rkey(5) };
    let r = reth::Repr { address: near.address, rkey, length: near.length };
    let a = aeth::Repr { syndrome: Syndrome::ACK, msn: 0 };
    let aligned = if near.ack_req { near.address & !7 } else { near.address };
    let word = atomic::Repr { address: aligned, rkey, swap_or_add: near.length.into(), compare: 0 };
    let message = match near.kind {
        0 => Message::ReadRequest(r),
        1 => Message::ReadResponseFirst(a),
        2 => Message::ReadResponseMiddle,
        3 => Message::ReadResponseLast(a),
        4 => Message::ReadResponseOnly(a),
        5 => Message::WriteFirst(r),
        6 => Message::WriteMiddle,
        7 => Message::WriteLast,
        8 => Message::WriteLastImm(1),
        9 => Message::WriteOnly(r),
        10 => Message::WriteOnlyImm(r, 2),
        11 => Message::Acknowledge(a),
        13 => Message::FetchAdd(word),
        14 => Message::CompareSwap(word),
        15 => Message::AtomicAcknowledge(a, near.address),
        16 => Message::SendFirst,
        17 => Message::SendMiddle,
        18 => Message::SendLast,
        19 => Message::SendLastImm(1),
        20 => Message::SendOnly,
        21 => Message::SendOnlyImm(2),
        22 => Message::Datagram(deth::Repr { qkey: near.length, src_qp: b.host.qpn }),
        _ => Message::Cnp,
    };
    let expected = b.host.nic.qp_info(b.host.qpn)?.expected_psn.get();
    let mut repr = b.repr(Psn::new(expected.wrapping_add(near.psn as u32)), message);
    repr.ack_req = near.ack_req;
    let mut frame = Frame::new();
    let payload = if message.check_payload_len(near.payload).is_ok() {
        near.payload
    } else if message.check_payload_len(256).is_ok() {
        256
    } else {
        0
    };
    repr.emit(&vec![0x5a; payload], &mut frame).ok()?;
    if let Some((at, bit)) = near.flip
        && let Some(byte) = frame.bytes_mut().get_mut(at)
    {
        *byte ^= 1 << bit;
    }
    Some(frame)
}

proptest! {
    #[test]
    fn nearly_right_packets_never_panic_and_answers_are_sound(
        script in proptest::collection::vec((near(), prop::bool::weighted(0.7)), 1..60)
    ) {
        let mut b = Bench::new(Mtu::Mtu256, 0xff_fff0);
        for (near, poll) in &script {
            // Some receives are too short for what comes, and some have no memory.
            let local = near.good_key.then_some(Sge { lkey: b.host.rkey, address: 0, len: near.length % 1024 });
            let _ = b.host.nic.post_recv(b.host.qpn, Receive { wr_id: 0, local });
            while b.host.nic.poll_completion().is_some() {}
            if let Some(frame) = build(&b, near) {
                b.host.nic.handle(0, frame, &mut b.host.pool);
            }
            if *poll {
                b.replies();
            }
            if b.state() == QpState::Error {
                break;
            }
        }
        b.replies();
    }

    #[test]
    fn random_bytes_never_panic(frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..20)) {
        let mut b = Bench::new(Mtu::Mtu256, 0);
        for bytes in &frames {
            b.host.nic.handle(0, Frame::copy_from(bytes).unwrap(), &mut b.host.pool);
        }
        prop_assert_eq!(b.host.nic.stats().rx_frames, frames.len() as u64);
        prop_assert_eq!(b.host.nic.stats().dropped_total(), frames.len() as u64);
        prop_assert_eq!(b.replies(), []);
    }

    #[test]
    fn any_work_over_a_lossy_wire_equals_a_model_of_the_memory(
        work in proptest::collection::vec((0u8..6, 0usize..20_000, 0usize..20_000, 0u32..4000), 1..40),
        mtu in prop::sample::select(&Mtu::ALL[..]),
        seed in any::<u64>(),
        loss in 0u64..5,
    ) {
        let mut p = Pair::new(mtu, |_, rts| rts.retry_count = 200);
        let (mut a, mut b) = (crate::common::pattern(SIZE, 1), crate::common::pattern(SIZE, 2));
        p.a.memory.write(0, &a);
        p.b.memory.write(0, &b);
        let mut rng = seed;
        for (id, (kind, local, mut remote, mut len)) in work.iter().copied().enumerate() {
            let is_atomic = matches!(kind, 2 | 3);
            if is_atomic {
                (remote, len) = (remote & !7, 8);
            }
            let was = u64::from_ne_bytes(b[remote..remote + 8].try_into().unwrap());
            // One in two finds what it compares with.
            let (compare, swap) = (was ^ u64::from(rng & 1 << 40 != 0), rng);
            let operation = match kind {
                0 => Operation::Read,
                1 => Operation::Write,
                2 => Operation::FetchAdd(rng),
                4 => Operation::Send,
                5 => Operation::SendImm(rng as u32),
                _ => Operation::CompareSwap { compare, swap },
            };
            if kind > 3 {
                let local = Some(Sge { lkey: p.b.rkey, address: remote as u64, len: len + rng as u32 % 2 });
                p.b.nic.post_recv(p.b.qpn, Receive { wr_id: id as u64, local }).unwrap();
            }
            p.a.nic.post_send(p.a.qpn, p.work(id as u64, operation, local as u64, remote as u64, len)).unwrap();
            // One at a time: a READ sent again may see what later WRITEs stored, as the specification allows.
            p.run(|_| {
                rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (rng >> 33) % 40 < loss
            }, 2000);
            prop_assert_eq!(p.completions(), [(id as u64, Status::Success)]);
            let n = len as usize;
            let told = p.b.nic.poll_completion().map(|c| (c.wr_id, c.len));
            prop_assert_eq!(told, (kind > 3).then_some((id as u64, len)));
            if is_atomic {
                let sum = was.wrapping_add(swap);
                let now = if kind == 2 { sum } else if compare == was { swap } else { was };
                a[local..local + 8].copy_from_slice(&was.to_ne_bytes());
                b[remote..remote + 8].copy_from_slice(&now.to_ne_bytes());
            } else if kind == 0 {
                a[local..local + n].copy_from_slice(&b[remote..remote + n]);
            } else {
                b[remote..remote + n].copy_from_slice(&a[local..local + n]);
            }
        }
        prop_assert!(p.a.bytes(0, SIZE) == a);
        prop_assert!(p.b.bytes(0, SIZE) == b);
    }
}
