//! P4 text as tokens, each with its place.

use std::fmt;
use std::sync::Arc;

/// Longest first: the first that fits is taken. `>>` is not here, so that `bit<bit<8>>` is read as two.
const SIGNS: [&str; 35] = [
    "&&&", "|-|", "|+|", "&&", "||", "==", "!=", "<=", ">=", "<<", "++", "+", "-", "*", "/", "&", "|", "^",
    "~", "!", "=", "<", ">", "(", ")", "{", "}", "[", "]", ";", ":", ",", ".", "@", "?",
];

/// Where something stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub file: Arc<str>,
    pub line: usize,
    pub column: usize,
}

impl Place {
    pub fn error<T>(&self, what: impl fmt::Display) -> Result<T, String> {
        Err(format!("{self}: {what}"))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Word(String),
    Number { width: Option<u32>, value: i128 },
    Text,
    Sign(&'static str),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: Kind,
    pub place: Place,
}

impl Token {
    pub fn is(&self, sign: &str) -> bool {
        matches!(&self.kind, Kind::Sign(s) if *s == sign)
    }

    pub fn word(&self) -> Option<&str> {
        match &self.kind {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Word(word) => f.write_str(word),
            Kind::Number { value, .. } => write!(f, "{value}"),
            Kind::Text => f.write_str("\"...\""),
            Kind::Sign(sign) => f.write_str(sign),
        }
    }
}

/// The text without comments; lines stay where they are.
pub fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let skipped = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        out.extend(rest[..skipped].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = &rest[skipped..];
    }
    out
}

/// The tokens of one line (which has no comments). `column` counts bytes from 0.
pub fn tokens(file: &Arc<str>, line: usize, text: &str) -> Result<Vec<Token>, String> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let place = Place { file: file.clone(), line, column: at };
        let first = rest.chars().next().unwrap_or(' ');
        let length = if first.is_whitespace() {
            first.len_utf8()
        } else if first.is_alphabetic() || first == '_' {
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            found.push(Token { kind: Kind::Word(rest[..length].to_owned()), place });
            length
        } else if first.is_ascii_digit() {
            let length = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
            match number(&rest[..length]) {
                Some(kind) => found.push(Token { kind, place }),
                None => return place.error(format_args!("`{}` is no number", &rest[..length])),
            }
            length
        } else if first == '"' {
            let Some(end) = rest[1..].find('"') else { return place.error("a string without end") };
            found.push(Token { kind: Kind::Text, place });
            end + 2
        } else {
            let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) else {
                return place.error(format_args!("`{first}` is not understood"));
            };
            found.push(Token { kind: Kind::Sign(sign), place });
            sign.len()
        };
        at += length;
    }
    Ok(found)
}

/// `17`, `0x1f`, `8w0`, `32w0x10`; no signed ones.
fn number(text: &str) -> Option<Kind> {
    let plain = |text: &str| match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(hex) => i128::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    if let Some(value) = plain(text) {
        return Some(Kind::Number { width: None, value });
    }
    let (width, value) = text.split_once('w')?;
    Some(Kind::Number { width: Some(width.parse().ok()?), value: plain(value)? })
}
