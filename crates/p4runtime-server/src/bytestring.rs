//! Byte strings (specification, "Bytestrings"): big-endian, of any length as long as the value fits; ours are
//! the shortest that hold the value.

use super::refusal::{Outcome, Refusal};

/// Bits that an unsigned value needs; 0 for 0.
fn bit_length(value: &[u8]) -> usize {
    match value.iter().position(|byte| *byte != 0) {
        Some(first) => (value.len() - first) * 8 - value[first].leading_zeros() as usize,
        None => 0,
    }
}

/// The shortest string for an unsigned value: no leading zero byte, but at least one byte.
pub(super) fn canonical(value: &[u8]) -> Vec<u8> {
    let first = value.iter().position(|byte| *byte != 0).unwrap_or(value.len().saturating_sub(1));
    match value.get(first..) {
        Some(rest) if !rest.is_empty() => rest.to_vec(),
        _ => vec![0],
    }
}

/// Reads a `bit<width>`; the result is canonical.
pub(super) fn parse(value: &[u8], width: u32) -> Outcome<Vec<u8>> {
    if value.is_empty() {
        return Err(Refusal::out_of_range("a value must have at least one byte"));
    }
    let bits = bit_length(value);
    if bits > width as usize {
        return Err(Refusal::out_of_range(format!(
            "{} needs {bits} bits, which does not fit in {width}",
            hex(value)
        )));
    }
    Ok(canonical(value))
}

/// Reads an `int<width>`; the result is its two's complement, cut to `width` bits and canonical as unsigned value.
pub(super) fn parse_signed(value: &[u8], width: u32) -> Outcome<Vec<u8>> {
    let Some(first) = value.first() else {
        return Err(Refusal::out_of_range("a value must have at least one byte"));
    };
    let negative = first & 0x80 != 0;
    // Bits of the shortest two's complement: all but the repeated sign bits, plus one of them.
    let plain: Vec<u8> = if negative { value.iter().map(|byte| !byte).collect() } else { value.to_vec() };
    let bits = bit_length(&plain) + 1;
    if bits > width as usize {
        return Err(Refusal::out_of_range(format!(
            "{} needs {bits} bits, which does not fit in int<{width}>",
            hex(value)
        )));
    }
    let fill = if negative { 0xff } else { 0 };
    Ok(canonical(&cut(value, width, fill)))
}

/// Writes an `int<width>` from its two's complement of `width` bits.
pub(super) fn format_signed(value: &[u8], width: u32) -> Vec<u8> {
    let mut full = cut(value, width, 0);
    let Some(top) = (width as usize).checked_sub(1) else { return vec![0] };
    let last = full.len().saturating_sub(1);
    let negative = full.get(last - top / 8).is_some_and(|byte| byte >> (top % 8) & 1 == 1);
    if negative
        && !width.is_multiple_of(8)
        && let Some(first) = full.first_mut()
    {
        *first |= 0xff << (width % 8);
    }
    let fill = if negative { 0xff } else { 0 };
    let sign = |byte: u8| (byte & 0x80 != 0) == negative;
    let skip = full.windows(2).take_while(|pair| pair[0] == fill && sign(pair[1])).count();
    full.split_off(skip)
}

/// The low `width` bits in exactly as many bytes as they need, filled up in front.
pub(super) fn cut(value: &[u8], width: u32, fill: u8) -> Vec<u8> {
    let length = (width as usize).div_ceil(8).max(1);
    let mut bytes = vec![fill; length.saturating_sub(value.len())];
    bytes.extend_from_slice(value.get(value.len().saturating_sub(length)..).unwrap_or_default());
    if !width.is_multiple_of(8)
        && let Some(first) = bytes.first_mut()
    {
        *first &= 0xff >> (8 - width % 8);
    }
    bytes
}

/// All ones, in as many bytes as `width` bits need.
pub(super) fn ones(width: u32) -> Vec<u8> {
    cut(&vec![0xff; (width as usize).div_ceil(8)], width, 0)
}

/// For messages.
pub(super) fn hex(value: &[u8]) -> String {
    let digits: String = value.iter().take(32).map(|byte| format!("{byte:02x}")).collect();
    let more = if value.len() > 32 { "..." } else { "" };
    format!("0x{digits}{more}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;
    use tonic::Code;

    use super::*;

    /// The tables of valid and invalid encodings in the specification.
    #[test]
    fn examples_of_the_specification() {
        for (width, bytes, expected) in [
            (8, &b"\x63"[..], &b"\x63"[..]),
            (16, b"\x00\x63", b"\x63"),
            (16, b"\x30\x64", b"\x30\x64"),
            (16, b"\x00\x30\x64", b"\x30\x64"),
            (12, b"\x00\x00\x63", b"\x63"),
        ] {
            assert_eq!(parse(bytes, width).unwrap(), expected);
        }
        for (width, bytes) in [
            (8, &b"\x01\x63"[..]),
            (8, b""),
            (16, b"\x01\x00\x63"),
            (12, b"\x10\x63"),
            (12, b"\x01\x00\x63"),
            (12, b"\x00\x40\x63"),
        ] {
            assert_eq!(parse(bytes, width).unwrap_err().code, Code::OutOfRange, "{bytes:?}");
        }
        for (width, bytes, shortest) in [
            (8, &b"\x63"[..], &b"\x63"[..]),
            (8, b"\x9d", b"\x9d"),
            (8, b"\xff\x9d", b"\x9d"),
            (12, b"\xfd\x1d", b"\xfd\x1d"),
            (16, b"\x00\x00", b"\x00"),
        ] {
            assert_eq!(format_signed(&parse_signed(bytes, width).unwrap(), width), shortest);
        }
        for (width, bytes) in [(8, &b"\x00\x9d"[..]), (12, b"\x8d\x1d"), (16, b"")] {
            assert_eq!(parse_signed(bytes, width).unwrap_err().code, Code::OutOfRange, "{bytes:?}");
        }
    }

    #[test]
    fn masks() {
        assert_eq!(ones(9), [1, 0xff]);
        assert_eq!(ones(8), [0xff]);
        assert_eq!(ones(0), [0]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

        #[test]
        fn unsigned_round_trip(value: u64, padding in 0usize..4, width in 1u32..72) {
            let mut bytes = vec![0; padding];
            bytes.extend(value.to_be_bytes());
            let needs = 64 - value.leading_zeros();
            match parse(&bytes, width) {
                Ok(shortest) => {
                    prop_assert!(needs <= width);
                    prop_assert_eq!(shortest.len(), (needs as usize).div_ceil(8).max(1));
                    prop_assert_eq!(shortest.iter().fold(0u64, |n, byte| n << 8 | u64::from(*byte)), value);
                }
                Err(_) => prop_assert!(needs > width),
            }
        }

        #[test]
        fn signed_round_trip(value: i64, padding in 0usize..4, width in 1u32..72) {
            let mut bytes = vec![if value < 0 { 0xff } else { 0 }; padding];
            bytes.extend(value.to_be_bytes());
            let needs = 65 - value.unsigned_abs().wrapping_sub(u64::from(value < 0)).leading_zeros();
            match parse_signed(&bytes, width) {
                Ok(bits) => {
                    prop_assert!(needs <= width);
                    let shortest = format_signed(&bits, width);
                    prop_assert_eq!(shortest.len(), (needs as usize).div_ceil(8));
                    let start = if shortest[0] & 0x80 != 0 { -1 } else { 0 };
                    prop_assert_eq!(shortest.iter().fold(start, |n: i64, byte| n << 8 | i64::from(*byte)), value);
                }
                Err(_) => prop_assert!(needs > width),
            }
        }
    }
}
