//! Types of columns: their names and widths.

use crate::model::ColumnType;
use crate::words::integer;

/// The types that [`column_type`] accepts, for messages.
pub const COLUMN_TYPE_HELP: &str = "i8 to i64, u8 to u64, f32, f64, decimal, date, text or bytes(N)";

/// A type as it is written.
pub fn column_type(text: &str) -> Option<ColumnType> {
    let bits = |digits: &str| match digits {
        "8" | "16" | "32" | "64" => digits.parse().ok(),
        _ => None,
    };
    match text {
        "decimal" => return Some(ColumnType::Decimal),
        "date" => return Some(ColumnType::Date),
        "text" | "string" => return Some(ColumnType::Text),
        "f32" => return Some(ColumnType::Float(32)),
        "f64" => return Some(ColumnType::Float(64)),
        _ => {}
    }
    if let Some(count) = text.strip_prefix("bytes(").and_then(|t| t.strip_suffix(')')) {
        let count = integer(count.trim())?;
        return u32::try_from(count).ok().filter(|n| (1..=1 << 20).contains(n)).map(ColumnType::Bytes);
    }
    match text.split_at_checked(1)? {
        ("i", digits) => bits(digits).map(ColumnType::Int),
        ("u", digits) => bits(digits).map(ColumnType::Uint),
        _ => None,
    }
}

/// The word that [`column_type`] reads as this type.
pub fn type_name(kind: ColumnType) -> String {
    match kind {
        ColumnType::Int(bits) => format!("i{bits}"),
        ColumnType::Uint(bits) => format!("u{bits}"),
        ColumnType::Float(bits) => format!("f{bits}"),
        ColumnType::Decimal => "decimal".into(),
        ColumnType::Date => "date".into(),
        ColumnType::Text => "text".into(),
        ColumnType::Bytes(n) => format!("bytes({n})"),
    }
}

/// Bytes of a column in a binary record; unknown for text, decimals and dates.
pub fn fixed_width(kind: ColumnType) -> Option<u64> {
    match kind {
        ColumnType::Int(bits) | ColumnType::Uint(bits) | ColumnType::Float(bits) => Some(u64::from(bits) / 8),
        ColumnType::Bytes(n) => Some(u64::from(n)),
        ColumnType::Decimal | ColumnType::Date | ColumnType::Text => None,
    }
}
