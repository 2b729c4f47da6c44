//! YAML text to a tree of nodes that know their place.
//!
//! The reader is built on the event stream of `saphyr-parser`. serde-based readers lose the place of a value, or stop
//! at the first error, and `serde_yaml` is no longer maintained. A tree of our own keeps line and column of every key
//! and value, and notices duplicate keys. It refuses what a topology has no use for, and what makes YAML dangerous to
//! read: aliases (a few lines can stand for gigabytes), tags, several documents, boundless depth or size.

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::diag::{Diagnostic, Place};

/// Most bytes of a topology file.
pub(crate) const MAX_BYTES: usize = 1 << 20;
/// Most levels of lists and maps.
const MAX_DEPTH: usize = 24;
/// Most keys in one map.
const MAX_KEYS: usize = 1024;

/// One value and its place.
#[derive(Debug)]
pub(crate) struct Node {
    pub place: Place,
    pub value: Value,
}

/// The content of a node.
#[derive(Debug)]
pub(crate) enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// Plain or quoted text.
    Scalar(String),
    /// A list.
    Seq(Vec<Node>),
    /// Keys and values in the order of the file; keys are unique.
    Map(Vec<(Key, Node)>),
}

/// The key of a map entry and its place.
#[derive(Debug)]
pub(crate) struct Key {
    pub place: Place,
    pub text: String,
}

impl Node {
    /// The kind of the node, for "found ..." in messages.
    pub fn describe(&self) -> String {
        match &self.value {
            Value::Null => "nothing".into(),
            Value::Scalar(text) => format!("'{}'", shorten(text)),
            Value::Seq(_) => "a list".into(),
            Value::Map(_) => "a map".into(),
        }
    }
}

/// Foreign text for a message: one line, at most 60 characters.
pub(crate) fn shorten(text: &str) -> String {
    let mut out: String =
        text.chars().take(60).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(60).is_some() {
        out.push('…');
    }
    out
}

/// A list or map that is still open while its events arrive.
enum Open {
    Seq(Place, Vec<Node>),
    Map { place: Place, entries: Vec<(Key, Node)>, key: Option<Key>, bad_key: bool },
}

/// Parses `source`. `None` with errors when there is no usable tree; errors beside a tree are duplicate
/// keys, aliases and the like, after which reading goes on.
pub(crate) fn parse(source: &str, diags: &mut Vec<Diagnostic>) -> Option<Node> {
    let mut stack: Vec<Open> = Vec::new();
    let mut root: Option<Node> = None;
    let mut documents = 0;
    for event in Parser::new_from_str(source) {
        let (event, span) = match event {
            Ok(x) => x,
            Err(e) => {
                let at = place(Span::empty(*e.marker()));
                push(diags, at, format!("this is not YAML: {}", e.info()), "valid YAML 1.2");
                return None;
            }
        };
        let at = place(span);
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, a, t) | Event::SequenceStart(a, t) | Event::MappingStart(a, t) => {
                (*a, t.is_some())
            }
            _ => (0, false),
        };
        if anchor != 0 {
            push(diags, at, "anchors (&name) are not accepted", "the value written out where it is needed");
        }
        if tag {
            push(diags, at, "YAML tags (!tag) are not accepted", "a plain value");
        }
        let done = match event {
            Event::DocumentStart(_) => {
                documents += 1;
                if documents > 1 {
                    push(diags, at, "a second YAML document begins here", "one topology per file");
                    return None;
                }
                None
            }
            Event::Alias(_) => {
                push(diags, at, "aliases (*name) are not accepted", "the value written out");
                Some(Node { place: at, value: Value::Null })
            }
            Event::Scalar(text, style, ..) => {
                let null =
                    style == ScalarStyle::Plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
                let value = if null { Value::Null } else { Value::Scalar(text.into_owned()) };
                Some(Node { place: at, value })
            }
            Event::SequenceStart(..) => {
                stack.push(Open::Seq(at, Vec::new()));
                None
            }
            Event::MappingStart(..) => {
                stack.push(Open::Map { place: at, entries: Vec::new(), key: None, bad_key: false });
                None
            }
            Event::SequenceEnd | Event::MappingEnd => stack.pop().map(close),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => None,
        };
        if stack.len() > MAX_DEPTH {
            push(
                diags,
                at,
                format!("lists and maps are nested more than {MAX_DEPTH} levels deep"),
                "a topology",
            );
            return None;
        }
        if let Some(node) = done {
            match stack.last_mut() {
                None => root = Some(node),
                Some(Open::Seq(_, items)) => items.push(node),
                Some(Open::Map { entries, key, bad_key, .. }) => {
                    add_to_map(entries, key, bad_key, node, diags);
                }
            }
        }
    }
    root
}

/// A map gets keys and values in turn.
fn add_to_map(
    entries: &mut Vec<(Key, Node)>,
    key: &mut Option<Key>,
    bad_key: &mut bool,
    node: Node,
    diags: &mut Vec<Diagnostic>,
) {
    if std::mem::take(bad_key) {
        return;
    }
    match key.take() {
        Some(k) => match entries.iter().find(|(old, _)| old.text == k.text) {
            Some((old, _)) => push(
                diags,
                k.place,
                format!("key '{}' appears twice; first at line {}", shorten(&k.text), old.place.line),
                "each key once",
            ),
            None if entries.len() == MAX_KEYS => {
                push(diags, k.place, format!("this map has more than {MAX_KEYS} keys"), "fewer keys")
            }
            None => entries.push((k, node)),
        },
        None => match node.value {
            Value::Scalar(text) => *key = Some(Key { place: node.place, text }),
            Value::Null => *key = Some(Key { place: node.place, text: "null".into() }),
            _ => {
                push(diags, node.place, "a list or map is used as a key", "a plain word as key");
                *bad_key = true;
            }
        },
    }
}

/// A finished list or map. A map's place is that of its first key: the event's own can be the line before.
fn close(open: Open) -> Node {
    match open {
        Open::Seq(place, items) => Node { place, value: Value::Seq(items) },
        Open::Map { place, entries, .. } => {
            let place = entries.first().map_or(place, |(k, _)| k.place);
            Node { place, value: Value::Map(entries) }
        }
    }
}

fn push(diags: &mut Vec<Diagnostic>, place: Place, message: impl Into<String>, expected: impl Into<String>) {
    diags.push(Diagnostic { place, message: message.into(), expected: expected.into() });
}

/// saphyr counts lines from 1 and columns from 0.
fn place(span: Span) -> Place {
    let width = if span.start.line() == span.end.line() {
        span.end.col().saturating_sub(span.start.col())
    } else {
        1
    };
    Place {
        line: u32::try_from(span.start.line()).unwrap_or(u32::MAX),
        column: u32::try_from(span.start.col().saturating_add(1)).unwrap_or(u32::MAX),
        width: u32::try_from(width).unwrap_or(1).max(1),
    }
}
