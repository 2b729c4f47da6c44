//! Stacks, unions, varbits, lookahead, parser errors, wide and signed arithmetic, checksums over the payload, with
//! `programs/headers.p4`.

use crate::support::Bench;
use zsr_soft_switch::*;

/// Labels with a TTL of 20 get an `exp` of 9.
pub fn mark_ttl_20(b: &mut Bench) {
    let t = b.switch.info().table("I.by_ttl").unwrap();
    let action = b.switch.info().table_action(t, "I.mark").unwrap();
    let entry = TableEntry {
        key: vec![MatchField::Exact(vec![20])],
        priority: 0,
        action: EntryAction::Call(ActionCall { action, params: vec![vec![9]] }),
        idle_timeout_ns: 0,
        metadata: vec![],
    };
    b.switch.table_insert(t, entry).unwrap();
}

fn send(bytes: &[u8]) -> Vec<u8> {
    let out = Bench::new("headers").send(1, bytes);
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].0, 2);
    out[0].1.clone()
}

/// The error that ingress saw: its code is the last word of the result header, behind `skip` bytes.
fn error(bytes: &[u8], skip: usize) -> u32 {
    let out = send(bytes);
    let r = &out[skip..skip + 16 + 16 + 4 + 2 + 2 + 1 + 8 + 4];
    u32::from_be_bytes(r[r.len() - 4..].try_into().unwrap())
}

fn label(n: u32, bottom: bool, ttl: u8) -> [u8; 4] {
    (n << 12 | u32::from(bottom) << 8 | u32::from(ttl)).to_be_bytes()
}

fn labels(kind: [u8; 4], list: &[[u8; 4]]) -> Vec<u8> {
    let mut p = kind.to_vec();
    list.iter().for_each(|l| p.extend(l));
    p.extend(b"rest");
    p
}

#[test]
fn stacks_are_pushed_popped_and_indexed() {
    let (a, b, c) = (label(1, false, 10), label(2, false, 20), label(3, true, 30));
    let push = send(&labels([1, 1, 0, 0], &[a, b, c]));
    assert_eq!(push, labels([1, 1, 0, 0], &[label(0xabcde, false, 0), a, b, c]));
    let full = send(&labels([1, 1, 0, 0], &[a, b, a, c]));
    assert_eq!(full, labels([1, 1, 0, 0], &[label(0xabcde, false, 0), a, b, a]), "the last falls out");
    assert_eq!(send(&labels([1, 2, 0, 0], &[a, b, c])), labels([1, 2, 0, 0], &[c]));
    let indexed = send(&labels([1, 3, 0, 1], &[a, b, c]));
    assert_eq!(indexed, labels([1, 3, 0, 1], &[a, label(2, false, 77), c]));
    let beyond = labels([1, 3, 0, 200], &[a, b, c]);
    assert_eq!(send(&beyond), beyond, "an index beyond the end writes nothing");
}

#[test]
fn an_index_found_at_run_time_is_part_of_a_key() {
    let mut b = Bench::new("headers");
    mark_ttl_20(&mut b);
    let (x, y) = (label(1, false, 10), label(2, true, 20));
    for (index, kind) in [(0, 1), (1, 9), (2, 1)] {
        let out = b.send(1, &labels([1, 4, 0, index], &[x, y]));
        assert_eq!(out[0].1, labels([kind, 4, 0, index], &[x, y]), "index {index}");
    }
}

#[test]
fn parser_errors_have_their_numbers() {
    let a = label(1, false, 0);
    let four = labels([1, 0, 0, 0], &[a, a, a, a, a]);
    assert_eq!(error(&four, 4 + 16), 3, "StackOutOfBounds before TooDeep");
    assert_eq!(error(&[1, 0, 0, 0, 0, 0], 4), 2, "PacketTooShort");
    let short = [1, 0];
    let out = send(&short);
    assert_eq!(out[out.len() - 2..], short, "what was not parsed stays");
    let mut long = vec![2, 0, 0, 0, 41];
    long.extend([7; 60]);
    assert_eq!(error(&long, 4), 4, "HeaderTooShort: a varbit longer than its type");
    assert_eq!(error(&[2, 0, 0, 0, 9, 1, 2], 4), 2);
    assert_eq!(error(&[5, 100, 0, 0, 1, 2, 3, 4, 5, 6], 4), 2, "advance beyond the end");
}

#[test]
fn varbits_pass_whole() {
    for n in [0usize, 1, 7, 8, 9, 40] {
        let mut p = vec![2, 0, 0, 0, n as u8];
        p.extend((0..n).map(|i| i as u8 + 1));
        p.extend(b"payload");
        assert_eq!(send(&p), p, "{n} bytes");
    }
}

#[test]
fn a_union_holds_one_header() {
    let a = [3, 0, 0, 0, 0x0a, 1, 2, 9];
    assert_eq!(send(&a), a);
    let masked = [3, 0, 0, 0, 0xc7, 1, 2, 9];
    assert_eq!(send(&masked), masked);
    let b = [3, 0, 0, 0, 0x0b, 1, 2, 3, 4, 9];
    assert_eq!(send(&b), b);
    let switched = send(&[3, 1, 0, 0, 0x0a, 1, 2, 9]);
    assert_eq!(switched, [3, 1, 0, 0, 0x0b, 1, 2, 3, 4, 9]);
    let advanced = send(&[5, 2, 0, 0, 0xee, 0xee, 1, 2, 3, 4, 5]);
    assert_eq!(advanced, [5, 2, 0, 0, 1, 2, 3, 4, 5], "skipped bytes are gone");
}

#[test]
fn arithmetic_is_exact() {
    let big = 0x0123_4567_89ab_cdef_0011_2233_4455_6677u128;
    for (big, small, by, sat, mix) in [
        (big, -5i16, 4u8, 200u8, 0x8000_0000_0000_0001u64),
        (u128::MAX, i16::MIN, 127, 155, u64::MAX),
        (0, 3, 128, 156, 0),
        (u128::from(u64::MAX), 2, 64, 0, u64::MAX),
        (1 << 64, -1, 255, 255, 1),
    ] {
        let mut p = vec![4, 0, 0, 0];
        p.extend(big.to_be_bytes());
        p.extend(small.to_be_bytes());
        p.extend([by, sat]);
        p.extend(mix.to_be_bytes());
        let out = send(&p);
        let mut r = p.clone();
        r.extend(big.checked_shl(u32::from(by)).unwrap_or(0).to_be_bytes());
        r.extend(big.wrapping_add(u128::from(mix) << 64).to_be_bytes());
        r.extend(((big >> 64) as u32).to_be_bytes());
        let cmp = u16::from(small < 0) | u16::from(big > u128::from(mix)) << 1;
        r.extend(cmp.to_be_bytes());
        r.extend(small.wrapping_sub(3).to_be_bytes());
        r.push(sat.saturating_add(100));
        r.extend(mix.wrapping_mul(0x10001).to_be_bytes());
        r.extend([0; 4]);
        assert_eq!(out, r, "{big:x} {small} {by} {sat} {mix:x}");
    }
}

/// RFC 1071, written once more.
fn internet_checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0)));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !(((folded & 0xffff) + (folded >> 16)) as u16)
}

#[test]
fn checksums_cover_the_payload() {
    for payload in [&b""[..], b"x", b"some payload", b"odd payload"] {
        let data = [&[8, 3][..], payload].concat();
        let sum = internet_checksum(&data);
        let out = send(&[&[8, 3, 0, 0][..], payload].concat());
        assert_eq!(out[2..4], sum.to_be_bytes(), "{payload:?}");

        let sum = internet_checksum(&[&[9, 3][..], payload].concat());
        let good = [&[9, 3][..], &sum.to_be_bytes(), payload].concat();
        assert_eq!(send(&good), good);
        let mut bad = good.clone();
        bad[3] ^= 1;
        assert_eq!(error(&bad, 4), 0x10e, "checksum_error");
    }
}
