//! Sizes, durations, rates and fractions as people write them.

use std::time::Duration;

/// The sizes that [`size`] accepts, for messages.
pub const SIZE_HELP: &str = "a number of bytes, or one with KiB, MiB or GiB (such as 64KiB)";
/// The durations that [`duration`] accepts, for messages.
pub(crate) const DURATION_HELP: &str = "a number with ns, us, ms or s (such as 20us)";
/// The rates that [`rate`] accepts, for messages.
pub(crate) const RATE_HELP: &str = "a number with bit, Kbit, Mbit or Gbit per second (such as 10Gbit)";

/// Splits `12.5MiB` into its number and unit. Underscores between digits are allowed.
fn split(text: &str) -> Option<(f64, bool, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    if !number.starts_with(|c: char| c.is_ascii_digit()) || number.ends_with(['_', '.']) {
        return None;
    }
    let plain = number.replace('_', "");
    let whole = !plain.contains('.');
    // 2^53 and beyond would lose digits; nothing here is that big.
    let value: f64 = plain.parse().ok()?;
    (value < 9e15).then_some((value, whole, unit.trim_start()))
}

/// `value × factor` when that is a whole number.
fn scaled(value: f64, factor: u64) -> Option<u64> {
    let product = value * factor as f64;
    (product < 9e15 && (product - product.round()).abs() < 1e-6).then(|| product.round() as u64)
}

/// Bytes from `4096`, `64KiB`, `1 MiB`, `1.5KiB`, `64K`; decimal `kB`, `MB`, `GB` are powers of 1000.
pub fn size(text: &str) -> Option<u64> {
    let (value, _, unit) = split(text)?;
    let factor = match unit {
        "" | "B" => 1,
        "KiB" | "K" | "k" | "Ki" => 1 << 10,
        "MiB" | "M" | "Mi" => 1 << 20,
        "GiB" | "G" | "Gi" => 1 << 30,
        "kB" | "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return None,
    };
    scaled(value, factor)
}

/// A duration from `500ns`, `20us`, `1.5ms`, `2s`. A bare number other than 0 has no unit and is refused.
pub fn duration(text: &str) -> Option<Duration> {
    let (value, _, unit) = split(text)?;
    let factor = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "" if value == 0.0 => 1,
        _ => return None,
    };
    scaled(value, factor).map(Duration::from_nanos)
}

/// Bits per second from `10Gbit`, `400Mbit`, `1Gbit/s`, `10Gbps`.
pub fn rate(text: &str) -> Option<u64> {
    let (value, _, unit) = split(text)?;
    let unit = unit.strip_suffix("/s").unwrap_or(unit);
    let prefix = unit.strip_suffix("bit").or_else(|| unit.strip_suffix("bps"))?;
    let factor = match prefix {
        "" => 1,
        "k" | "K" => 1000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        _ => return None,
    };
    scaled(value, factor)
}

/// A finite number.
pub(crate) fn number(text: &str) -> Option<f64> {
    let value: f64 = text.replace('_', "").parse().ok()?;
    value.is_finite().then_some(value)
}

/// A probability from `0.02` or `2%`.
pub(crate) fn fraction(text: &str) -> Option<f64> {
    let value = match text.strip_suffix('%') {
        Some(percent) => number(percent.trim_end())? / 100.0,
        None => number(text)?,
    };
    (0.0..=1.0).contains(&value).then_some(value)
}

/// Bytes as people read them: `64 KiB`, `1.5 MiB`, `777 B`.
pub fn show_size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    for (unit, factor) in UNITS {
        if bytes >= factor {
            let whole = bytes / factor;
            if bytes.is_multiple_of(factor) {
                return format!("{whole} {unit}");
            }
            return format!("{:.2} {unit}", bytes as f64 / factor as f64);
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("4096"), Some(4096));
        assert_eq!(size("64KiB"), Some(65536));
        assert_eq!(size("1 MiB"), Some(1 << 20));
        assert_eq!(size("1.5KiB"), Some(1536));
        assert_eq!(size("1_024"), Some(1024));
        assert_eq!(size("2kB"), Some(2000));
        assert_eq!(size("0.3B"), None);
        assert_eq!(size("-1"), None);
        assert_eq!(size("64Kb"), None);
        assert_eq!(size("KiB"), None);
        assert_eq!(size("99999999999999999999"), None);
    }

    #[test]
    fn durations_and_rates() {
        assert_eq!(duration("20us"), Some(Duration::from_micros(20)));
        assert_eq!(duration("1.5 ms"), Some(Duration::from_micros(1500)));
        assert_eq!(duration("0"), Some(Duration::ZERO));
        assert_eq!(duration("20"), None);
        assert_eq!(rate("10Gbit"), Some(10_000_000_000));
        assert_eq!(rate("1.5Gbps"), Some(1_500_000_000));
        assert_eq!(rate("400Mbit/s"), Some(400_000_000));
        assert_eq!(rate("10G"), None);
    }

    #[test]
    fn numbers() {
        assert_eq!(fraction("2%"), Some(0.02));
        assert_eq!(fraction("1.5"), None);
        assert_eq!(fraction("nan"), None);
    }

    #[test]
    fn shown_sizes_read_back() {
        for bytes in [0, 1, 777, 1024, 65536, 1 << 20, 3 << 30] {
            assert_eq!(size(&show_size(bytes)), Some(bytes));
        }
    }
}
