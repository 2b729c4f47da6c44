//! Strategies for legal packets, shared by the tests of this crate.

use std::net::Ipv4Addr;

use proptest::prelude::*;
use zsr_wire::message::Message;
use zsr_wire::roce::{Path, Repr};
use zsr_wire::{Mac, Psn, Qpn, Rkey, aeth, atomic, deth, reth};

pub fn mac() -> impl Strategy<Value = Mac> {
    any::<[u8; 6]>().prop_map(Mac)
}

pub fn ip() -> impl Strategy<Value = Ipv4Addr> {
    any::<[u8; 4]>().prop_map(Ipv4Addr::from)
}

fn reth() -> impl Strategy<Value = reth::Repr> {
    (any::<u64>(), any::<u32>(), 0..=reth::MAX_MESSAGE).prop_map(|(address, rkey, length)| reth::Repr {
        address,
        rkey: Rkey(rkey),
        length,
    })
}

fn atomic() -> impl Strategy<Value = atomic::Repr> {
    any::<(u64, u32, u64, u64)>().prop_map(|(address, rkey, swap_or_add, compare)| atomic::Repr {
        address,
        rkey: Rkey(rkey),
        swap_or_add,
        compare,
    })
}

fn deth() -> impl Strategy<Value = deth::Repr> {
    any::<(u32, u32)>().prop_map(|(qkey, qpn)| deth::Repr { qkey, src_qp: Qpn::new(qpn) })
}

fn syndrome() -> impl Strategy<Value = aeth::Syndrome> {
    prop_oneof![0u8..0x40, 0x60u8..0x65].prop_map(|c| aeth::Syndrome::from_code(c).expect("defined"))
}

fn aeth() -> impl Strategy<Value = aeth::Repr> {
    (syndrome(), 0u32..1 << 24).prop_map(|(syndrome, msn)| aeth::Repr { syndrome, msn })
}

fn bytes(len: impl Strategy<Value = usize>) -> impl Strategy<Value = Vec<u8>> {
    len.prop_flat_map(|n| proptest::collection::vec(any::<u8>(), n))
}

/// A message with a payload that goes with it.
pub fn message() -> impl Strategy<Value = (Message, Vec<u8>)> {
    let whole = || bytes((1usize..=64).prop_map(|n| n * 4));
    let last = || bytes(1usize..=300);
    let only = || bytes(0usize..=300);
    let none = || Just(Vec::new());
    prop_oneof![
        (reth().prop_map(Message::ReadRequest), none()),
        (aeth().prop_map(Message::ReadResponseFirst), whole()),
        (Just(Message::ReadResponseMiddle), whole()),
        (aeth().prop_map(Message::ReadResponseLast), last()),
        (aeth().prop_map(Message::ReadResponseOnly), only()),
        (reth().prop_map(Message::WriteFirst), whole()),
        (Just(Message::WriteMiddle), whole()),
        (Just(Message::WriteLast), last()),
        (any::<u32>().prop_map(Message::WriteLastImm), last()),
        (reth().prop_map(Message::WriteOnly), only()),
        ((reth(), any::<u32>()).prop_map(|(r, i)| Message::WriteOnlyImm(r, i)), only()),
        (atomic().prop_map(Message::CompareSwap), none()),
        (atomic().prop_map(Message::FetchAdd), none()),
        ((aeth(), any::<u64>()).prop_map(|(a, w)| Message::AtomicAcknowledge(a, w)), none()),
        (aeth().prop_map(Message::Acknowledge), none()),
        (Just(Message::Cnp), none()),
        (Just(Message::SendFirst), whole()),
        (Just(Message::SendMiddle), whole()),
        (Just(Message::SendLast), last()),
        (any::<u32>().prop_map(Message::SendLastImm), last()),
        (Just(Message::SendOnly), only()),
        (any::<u32>().prop_map(Message::SendOnlyImm), only()),
        (deth().prop_map(Message::Datagram), only()),
        ((deth(), any::<u32>()).prop_map(|(d, i)| Message::DatagramImm(d, i)), only()),
    ]
}

/// A legal packet and its payload.
pub fn packet() -> impl Strategy<Value = (Repr, Vec<u8>)> {
    let path = (mac(), mac(), ip(), ip(), any::<u16>(), any::<u8>(), any::<u8>()).prop_map(
        |(src_mac, dst_mac, src_ip, dst_ip, src_port, tos, ttl)| Path {
            src_mac,
            dst_mac,
            src_ip,
            dst_ip,
            src_port,
            tos,
            ttl,
        },
    );
    let flags = any::<[bool; 5]>();
    (path, any::<u16>(), any::<u16>(), any::<u32>(), any::<u32>(), flags, message()).prop_map(
        |(path, ident, pkey, qp, psn, [ack_req, solicited, migration, fecn, becn], (message, payload))| {
            let repr = Repr {
                path,
                ident,
                pkey,
                dest_qp: Qpn::new(qp),
                psn: Psn::new(psn),
                ack_req,
                solicited,
                migration,
                fecn,
                becn,
                message,
            };
            (repr, payload)
        },
    )
}
