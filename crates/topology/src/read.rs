//! Typed access to YAML nodes that reports every mismatch and goes on.

use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

use zsr_records::{Fault, NAME_HELP, integer, is_name, nearest};

use super::addr::MacAddr;
use super::diag::{Diagnostic, Place};
use super::rules;
use super::units;
use super::yaml::{Key, Node, Value, shorten};

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct At<T> {
    pub value: T,
    pub place: Place,
}

/// Collects errors while a file is read.
#[derive(Default)]
pub(crate) struct Reader {
    pub diags: Vec<Diagnostic>,
}

/// A map whose keys have been checked against the known ones.
pub(crate) struct Table<'n> {
    pub place: Place,
    /// The object that the map describes, for messages: `switch 's1'`.
    pub what: String,
    entries: &'n [(Key, Node)],
}

impl<'n> Table<'n> {
    /// The value under `key`, if the file has one.
    pub fn get(&self, key: &str) -> Option<&'n Node> {
        self.entries.iter().find(|(k, _)| k.text == key).map(|(_, node)| node)
    }

    /// Where `key` itself stands, else the map's place.
    pub fn place_of(&self, key: &str) -> Place {
        self.entries.iter().find(|(k, _)| k.text == key).map_or(self.place, |(k, _)| k.place)
    }
}

impl Reader {
    /// Adds an error.
    pub fn error(&mut self, place: Place, message: impl Into<String>, expected: impl Into<String>) {
        self.diags.push(Diagnostic { place, message: message.into(), expected: expected.into() });
    }

    /// A map with only `known` keys; others are reported, with the nearest known one.
    pub fn table<'n>(&mut self, node: &'n Node, what: &str, known: &[&str]) -> Option<Table<'n>> {
        let Value::Map(entries) = &node.value else {
            let expected = format!("a map with the keys {}", list(known));
            self.error(node.place, format!("{what} is {}", node.describe()), expected);
            return None;
        };
        for (key, _) in entries {
            if !known.contains(&key.text.as_str()) {
                let hint = self.hint(&key.text, known.iter().copied());
                self.error(
                    key.place,
                    format!("unknown key '{}' in {what}{hint}", shorten(&key.text)),
                    format!("one of {}", list(known)),
                );
            }
        }
        Some(Table { place: node.place, what: what.to_owned(), entries })
    }

    /// All entries of a map with free keys.
    pub fn free_map<'n>(&mut self, node: &'n Node, what: &str, expected: &str) -> &'n [(Key, Node)] {
        match &node.value {
            Value::Map(entries) => entries,
            _ => {
                self.error(node.place, format!("{what} is {}", node.describe()), expected);
                &[]
            }
        }
    }

    /// A list; a missing key is an empty one.
    pub fn items<'n>(&mut self, table: &Table<'n>, key: &str, of: &str) -> &'n [Node] {
        match table.get(key) {
            None => &[],
            Some(Node { value: Value::Seq(items), .. }) => items,
            Some(node) => {
                let message = format!("'{key}' of {} is {}", table.what, node.describe());
                self.error(node.place, message, format!("a list of {of}"));
                &[]
            }
        }
    }

    /// The text of a scalar.
    pub fn text<'n>(&mut self, node: &'n Node, what: &str, expected: &str) -> Option<&'n str> {
        match &node.value {
            Value::Scalar(text) => Some(text),
            _ => {
                self.error(node.place, format!("{what} is {}", node.describe()), expected);
                None
            }
        }
    }

    /// A scalar through `parse`; what it refuses is reported with `expected`.
    pub fn parsed<T>(
        &mut self,
        node: &Node,
        what: &str,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<At<T>> {
        let text = self.text(node, what, expected)?;
        match parse(text) {
            Some(value) => Some(At { value, place: node.place }),
            None => {
                self.error(node.place, format!("{what} is {}", node.describe()), expected);
                None
            }
        }
    }

    /// `key` of `table` through `parse`; absent is `None` without an error.
    pub fn opt<T>(
        &mut self,
        table: &Table<'_>,
        key: &str,
        expected: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<At<T>> {
        let node = table.get(key)?;
        let what = format!("'{key}' of {}", table.what);
        self.parsed(node, &what, expected, parse)
    }

    /// A name, which is required.
    pub fn name(&mut self, table: &Table<'_>) -> Option<At<String>> {
        if table.get("name").is_none() {
            self.error(table.place, format!("{} has no name", table.what), format!("name: {NAME_HELP}"));
            return None;
        }
        self.opt(table, "name", NAME_HELP, |t| is_name(t).then(|| t.to_owned()))
    }

    /// A whole number in `range`.
    pub fn integer(&mut self, table: &Table<'_>, key: &str, range: RangeInclusive<u64>) -> Option<At<u64>> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        self.opt(table, key, &expected, |t| integer(t).filter(|v| range.contains(v)))
    }

    /// A size in bytes.
    pub fn size(&mut self, table: &Table<'_>, key: &str, range: RangeInclusive<u64>) -> Option<At<u64>> {
        let got = self.opt(table, key, units::SIZE_HELP, units::size)?;
        self.in_range(table, key, got, range, units::show_size)
    }

    /// A size in bytes that is a power of two.
    pub fn pow2_size(&mut self, table: &Table<'_>, key: &str, range: RangeInclusive<u64>) -> Option<At<u64>> {
        let got = self.opt(table, key, units::SIZE_HELP, units::size)?;
        let obeyed = rules::power_of_two(&table.what, key, got.value, &range);
        self.obey(got.place, obeyed).then_some(got)
    }

    /// A duration.
    pub fn duration(
        &mut self,
        table: &Table<'_>,
        key: &str,
        range: RangeInclusive<Duration>,
    ) -> Option<At<Duration>> {
        let got = self.opt(table, key, units::DURATION_HELP, units::duration)?;
        self.in_range(table, key, got, range, |d| format!("{d:?}"))
    }

    fn in_range<T: PartialOrd + Copy>(
        &mut self,
        table: &Table<'_>,
        key: &str,
        got: At<T>,
        range: RangeInclusive<T>,
        show: impl Fn(T) -> String,
    ) -> Option<At<T>> {
        let obeyed = rules::in_range(&table.what, key, got.value, &range, show);
        self.obey(got.place, obeyed).then_some(got)
    }

    /// Whether a rule is obeyed, else it is an error at this place.
    pub fn obey(&mut self, place: Place, rule: Result<(), Fault>) -> bool {
        match rule {
            Ok(()) => true,
            Err(Fault { message, expected }) => {
                self.error(place, message, expected);
                false
            }
        }
    }

    /// A probability.
    pub fn fraction(&mut self, table: &Table<'_>, key: &str) -> Option<At<f64>> {
        self.opt(table, key, "a fraction from 0 to 1 (such as 0.02 or 2%)", units::fraction)
    }

    /// `true` or `false`.
    pub fn flag(&mut self, table: &Table<'_>, key: &str) -> Option<At<bool>> {
        self.opt(table, key, "true or false", |t| match t {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        })
    }

    /// Reads one of a few words.
    pub fn choice<T: Copy>(&mut self, table: &Table<'_>, key: &str, choices: &[(&str, T)]) -> Option<At<T>> {
        let node = table.get(key)?;
        let words: Vec<&str> = choices.iter().map(|(w, _)| *w).collect();
        let expected = format!("one of {}", list(&words));
        let what = format!("'{key}' of {}", table.what);
        let text = self.text(node, &what, &expected)?;
        match choices.iter().find(|(w, _)| *w == text) {
            Some((_, value)) => Some(At { value: *value, place: node.place }),
            None => {
                let hint = self.hint(text, words.iter().copied());
                self.error(node.place, format!("{what} is {}{hint}", node.describe()), expected);
                None
            }
        }
    }

    /// A unicast IPv4 address.
    pub fn ip(&mut self, table: &Table<'_>, key: &str) -> Option<At<Ipv4Addr>> {
        self.opt(table, key, "a unicast IPv4 address (such as 10.0.0.1)", |t| {
            let ip: Ipv4Addr = t.parse().ok()?;
            let usable = !ip.is_unspecified()
                && !ip.is_multicast()
                && !ip.is_broadcast()
                && !ip.is_loopback()
                && ip.octets()[0] < 240
                && ip.octets()[0] != 0;
            usable.then_some(ip)
        })
    }

    /// A unicast MAC address.
    pub fn mac(&mut self, table: &Table<'_>, key: &str) -> Option<At<MacAddr>> {
        self.opt(table, key, "a unicast MAC address (such as 02:00:00:00:01:01)", |t| {
            MacAddr::parse(t).filter(|mac| mac.is_unicast())
        })
    }

    /// An address and port to listen on.
    pub fn listen(&mut self, table: &Table<'_>, key: &str) -> Option<At<SocketAddr>> {
        self.opt(table, key, "an address and port (such as 127.0.0.1:9559; port 0 takes a free one)", |t| {
            t.parse().ok()
        })
    }
}

/// `a, b, c`.
pub(crate) fn list<T: Display>(words: &[T]) -> String {
    words.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Reader {
    /// `; did you mean 'x'?` for a mistyped word, or nothing. Files full of errors get no more hints: looking
    /// them up is slow where there are many words.
    pub fn hint<'w>(&self, typed: &str, known: impl Iterator<Item = &'w str>) -> String {
        if self.diags.len() > 100 {
            return String::new();
        }
        nearest(typed, known).map_or(String::new(), |word| format!("; did you mean '{word}'?"))
    }
}
