//! The 64 vectors of the ICRC-preserving rewrite, made by an independent program, and the rewrite as a property.

use proptest::prelude::*;
use zsr_wire::icrc::{self, Layout, Rewriter, xor_tables};
use zsr_wire::roce::IP_AT;
use zsr_wire::{Frame, message::Message, reth};

struct Vector {
    fragment: String,
    response_headers: Vec<u8>,
    before: Vec<u8>,
    after: Vec<u8>,
    payload: Vec<u8>,
    icrc: Vec<u8>,
}

fn vectors() -> Vec<Vector> {
    include_str!("../data/icrc_vectors.jsonl")
        .lines()
        .map(|line| {
            let json: serde_json::Value = serde_json::from_str(line).unwrap();
            let text = |key: &str| json[key].as_str().unwrap().to_owned();
            let hex = |key: &str| {
                let t = text(key);
                (0..t.len()).step_by(2).map(|i| u8::from_str_radix(&t[i..i + 2], 16).unwrap()).collect()
            };
            Vector {
                fragment: text("fragment"),
                response_headers: hex("response_headers"),
                before: hex("write_headers_before"),
                after: hex("write_headers_after"),
                payload: hex("payload"),
                icrc: hex("icrc"),
            }
        })
        .collect()
}

fn layout_of(headers: &[u8]) -> Layout {
    Layout::ALL.into_iter().find(|l| icrc::BASE + l.extension_len() == headers.len()).unwrap()
}

#[test]
fn every_vector_verifies_and_rewrites_alike() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 64);
    for (i, v) in vectors.iter().enumerate() {
        let packet = |headers: &[u8]| [headers, &v.payload, &v.icrc].concat();
        assert!(icrc::verify(&packet(&v.response_headers)), "vector {i} ({}): response", v.fragment);
        let mut new = v.before.clone();
        assert!(Rewriter::new(layout_of(&new)).rewrite(&v.response_headers, &mut new));
        assert_eq!(new, v.after, "vector {i} ({})", v.fragment);
        assert!(icrc::verify(&packet(&new)), "vector {i} ({}): write", v.fragment);
    }
}

#[test]
fn tables_are_linear_and_agree_with_solve() {
    for layout in Layout::ALL {
        let tables = xor_tables(layout);
        let rewriter = Rewriter::new(layout);
        for (b, table) in tables.iter().enumerate() {
            for (v, entry) in table.iter().enumerate() {
                assert_eq!(*entry, rewriter.solve((v as u32) << (8 * b)));
                assert_eq!(*entry, table[v & 0xf0] ^ table[v & 0x0f]);
            }
        }
    }
}

proptest! {
    #[test]
    fn any_response_becomes_a_write_that_keeps_the_trailer(
        (repr, payload) in crate::common::packet().prop_filter("a READ response", |(r, _)| r.message.opcode().is_read_response()),
        (target, _) in crate::common::packet(),
        address in any::<u64>(),
    ) {
        let mut old = Frame::new();
        repr.emit(&payload, &mut old).unwrap();
        let mut write = target;
        let reth = reth::Repr { address, rkey: zsr_wire::Rkey(7), length: payload.len() as u32 };
        write.message = match repr.message {
            Message::ReadResponseFirst(_) => Message::WriteFirst(reth),
            Message::ReadResponseMiddle => Message::WriteMiddle,
            Message::ReadResponseLast(_) => Message::WriteLast,
            _ => Message::WriteOnly(reth),
        };
        let mut headers = [0; 128];
        let len = write.emit_headers(payload.len(), &mut headers).unwrap();
        let old_len = old.len() - icrc::LEN - payload.len().next_multiple_of(4);
        let rewriter = Rewriter::new(layout_of(&headers[IP_AT..len]));
        prop_assert!(rewriter.rewrite(&old.bytes()[IP_AT..old_len], &mut headers[IP_AT..len]));
        let mut new = headers[..len].to_vec();
        new.extend_from_slice(&old.bytes()[old_len..]);
        prop_assert!(icrc::verify_frame(&new));
        prop_assert!(zsr_wire::roce::Packet::new_checked(&new[..]).is_ok(), "the IPv4 checksum fits too");
    }
}
