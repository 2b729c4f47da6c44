//! Names, numbers and values as messages and files have them.

/// The names that [`is_name`] accepts, for messages.
pub const NAME_HELP: &str = "a name of 1 to 63 letters, digits, '_' and '-' that begins with a letter";

/// Names go into file names, table entries and references such as `host.ring` and `switch:port`.
pub fn is_name(text: &str) -> bool {
    text.len() <= 63
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// A whole number; underscores between digits are allowed.
pub fn integer(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(&hex.replace('_', ""), 16).ok();
    }
    let digits = text.replace('_', "");
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('_');
    if plain { digits.parse().ok() } else { None }
}

/// The known word that a mistyped one most likely meant.
pub fn nearest<'w>(typed: &str, known: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    if typed.len() > 64 {
        return None;
    }
    let folded = typed.to_ascii_lowercase().replace('-', "_");
    known
        .map(|word| {
            let plain = word.to_ascii_lowercase().replace('-', "_");
            (strsim::damerau_levenshtein(&folded, &plain), word)
        })
        .filter(|(distance, word)| *distance <= word.len() / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// The part of a value that is printed: its first 40 characters.
pub fn shorten(field: &[u8]) -> String {
    let text = String::from_utf8_lossy(field);
    let mut short: String = text.chars().take(40).filter(|c| !c.is_control()).collect();
    if text.chars().nth(40).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(integer("1_000"), Some(1000));
        assert_eq!(integer("0x1f"), Some(31));
        assert_eq!(integer("1e3"), None);
        assert_eq!(integer(""), None);
    }
}
