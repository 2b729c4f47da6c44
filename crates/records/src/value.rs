//! A column's value: from text to its bytes, and back.

use crate::model::ColumnType;
use std::io::Write;

/// The bytes of `field`, behind those that are there; for a column without a width nothing but a check.
///
/// # Errors
/// The values that the column can hold.
pub(super) fn encode(kind: ColumnType, field: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    match kind {
        ColumnType::Int(bits) => {
            let (low, high) = (i64::MIN >> (64 - bits), i64::MAX >> (64 - bits));
            let value = number::<i64>(field).filter(|v| (low..=high).contains(v));
            let value = value.ok_or_else(|| format!("a whole number from {low} to {high}"))?;
            out.extend_from_slice(&value.to_le_bytes()[..usize::from(bits / 8)]);
        }
        ColumnType::Uint(bits) => {
            let high = u64::MAX >> (64 - bits);
            let value = number::<u64>(field).filter(|v| *v <= high);
            let value = value.ok_or_else(|| format!("a whole number from 0 to {high}"))?;
            out.extend_from_slice(&value.to_le_bytes()[..usize::from(bits / 8)]);
        }
        ColumnType::Float(32) => {
            let value = number::<f32>(field).ok_or("a number")?;
            out.extend_from_slice(&value.to_le_bytes());
        }
        ColumnType::Float(_) => {
            let value = number::<f64>(field).ok_or("a number")?;
            out.extend_from_slice(&value.to_le_bytes());
        }
        ColumnType::Bytes(width) => {
            let room = (width as usize).checked_sub(field.len());
            let room = room.ok_or_else(|| format!("at most {width} B long"))?;
            out.extend_from_slice(field);
            out.resize(out.len() + room, 0);
        }
        ColumnType::Decimal if !is_decimal(field) => {
            return Err("a number with at most two digits behind the point".into());
        }
        ColumnType::Date if !is_date(field) => return Err("a day as YYYY-MM-DD".into()),
        ColumnType::Decimal | ColumnType::Date | ColumnType::Text => {}
    }
    Ok(())
}

/// The text of a value: of as many bytes as its column's width.
pub(super) fn decode(kind: ColumnType, bytes: &[u8], out: &mut Vec<u8>) {
    let word = unsigned(bytes);
    // Writing into a Vec does not fail.
    let _ = match kind {
        ColumnType::Int(bits) => write!(out, "{}", signed(bytes, bits)),
        ColumnType::Uint(_) => write!(out, "{word}"),
        ColumnType::Float(32) => write!(out, "{}", f32::from_bits(word as u32)),
        ColumnType::Float(_) => write!(out, "{}", f64::from_bits(word)),
        _ => {
            let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
            out.write_all(&bytes[..end])
        }
    };
}

/// A whole number of up to 8 bytes, least significant first; of more bytes, the first 8.
pub(super) fn unsigned(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let have = bytes.len().min(8);
    word[..have].copy_from_slice(&bytes[..have]);
    u64::from_le_bytes(word)
}

/// A whole number with a sign, of so many bits.
pub(super) fn signed(bytes: &[u8], bits: u8) -> i64 {
    (unsigned(bytes) << (64 - bits)).cast_signed() >> (64 - bits)
}

fn number<T: std::str::FromStr>(field: &[u8]) -> Option<T> {
    std::str::from_utf8(field).ok()?.trim().parse().ok()
}

fn is_decimal(field: &[u8]) -> bool {
    let digits = field.strip_prefix(b"-").unwrap_or(field);
    let (whole, behind) = match digits.iter().position(|b| *b == b'.') {
        Some(point) => (&digits[..point], &digits[point + 1..]),
        None => (digits, &[][..]),
    };
    !whole.is_empty() && behind.len() <= 2 && whole.iter().chain(behind).all(u8::is_ascii_digit)
}

fn is_date(field: &[u8]) -> bool {
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = field else { return false };
    let all = [y0, y1, y2, y3, m0, m1, d0, d1];
    if !all.iter().all(|b| b.is_ascii_digit()) {
        return false;
    }
    let of = |digits: &[&u8]| digits.iter().fold(0u32, |n, d| n * 10 + u32::from(**d - b'0'));
    let (year, month, day) = (of(&[y0, y1, y2, y3]), of(&[m0, m1]), of(&[d0, d1]));
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}
