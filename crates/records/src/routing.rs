//! The routing function of a flow: its syntax, and its agreement with the records.

use crate::columns::fixed_width;
use crate::fault::Fault;
use crate::model::{Bound, Column, ColumnType, Content, FileFormat, KeyRef, Routing};
use crate::words::{integer, is_name, nearest};

/// The keys that [`parse_key`] accepts, for messages.
pub const KEY_HELP: &str =
    "a column by name or by number from 1, OFFSET:LENGTH in a binary record, or * for the whole tuple";
/// The routing functions that [`parse_routing`] accepts, for messages.
pub const ROUTING_HELP: &str = "hash(COLUMN), range(COLUMN, [BOUND, ...]), explicit(COLUMN) or round-robin";

/// `l_orderkey`, `3`, `0:8`, `*`.
pub fn parse_key(text: &str) -> Option<KeyRef> {
    let text = text.trim();
    if text == "*" {
        return Some(KeyRef::Whole);
    }
    if is_name(text) {
        return Some(KeyRef::Name(text.to_owned()));
    }
    if let Some((offset, length)) = text.split_once(':') {
        let small = |t: &str| integer(t).and_then(|v| u32::try_from(v).ok());
        let (offset, length) = (small(offset)?, small(length)?);
        return (length > 0 && offset.checked_add(length).is_some())
            .then_some(KeyRef::Bytes { offset, length });
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        let number = integer(text).and_then(|v| u32::try_from(v).ok());
        if let Some(number) = number {
            return (number > 0).then_some(KeyRef::Number(number));
        }
    }
    // Header names may have blanks and other characters.
    let printable = !text.is_empty() && text.len() <= 256 && !text.contains(|c: char| c.is_control());
    let numeric = text.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    (printable && !numeric).then(|| KeyRef::Name(text.to_owned()))
}

/// The one-line form.
pub fn parse_routing(text: &str) -> Option<Routing> {
    let text = text.trim();
    match text {
        "explicit" | "round-robin" => return Some(Routing::Explicit(KeyRef::Whole)),
        "hash" => return Some(Routing::Hash(KeyRef::Whole)),
        _ => {}
    }
    let (function, rest) = text.split_once('(')?;
    let inner = rest.strip_suffix(')')?;
    match function.trim() {
        "hash" => parse_key(inner).map(Routing::Hash),
        "explicit" => parse_key(inner).map(Routing::Explicit),
        "range" => {
            let (key, list) = inner.split_once(',')?;
            let list = list.trim();
            let list = match list.strip_prefix('[') {
                Some(list) => list.strip_suffix(']')?,
                None => list,
            };
            let texts: Vec<String> = list.split(',').map(|t| t.trim().to_owned()).collect();
            (!texts.iter().any(String::is_empty))
                .then(|| Some(Routing::Range { key: parse_key(key)?, bounds: bounds(&texts) }))
                .flatten()
        }
        _ => None,
    }
}

/// Whole numbers when all are, else text.
pub fn bounds(texts: &[String]) -> Vec<Bound> {
    let numbers: Option<Vec<i64>> = texts.iter().map(|t| t.parse().ok()).collect();
    match numbers {
        Some(numbers) => numbers.into_iter().map(Bound::Int).collect(),
        None => texts.iter().map(|t| Bound::Text(t.clone())).collect(),
    }
}

/// Checks that the routing function can be computed from the flow's records. Turns names of columns whose place is
/// known into numbers or byte ranges.
///
/// # Errors
/// The part that does not agree, and what would.
pub fn check_routing(
    routing: &Routing,
    content: Content,
    schema: &[Column],
    consumers: usize,
) -> Result<Routing, Fault> {
    let (key, kind) = resolve(routing.key(), content, schema)?;
    match routing {
        Routing::Hash(_) => Ok(Routing::Hash(key)),
        Routing::Explicit(given) => {
            let number = matches!(kind, None | Some(ColumnType::Int(_) | ColumnType::Uint(_)))
                || (matches!(key, KeyRef::Bytes { length: 1..=8, .. }));
            if *given != KeyRef::Whole && !number {
                return Err(Fault::new(
                    "the target column holds no whole numbers",
                    "a column with consumer numbers from 0",
                ));
            }
            Ok(Routing::Explicit(key))
        }
        Routing::Range { bounds, .. } => {
            check_bounds(bounds, &key, kind, content, consumers)?;
            Ok(Routing::Range { key, bounds: bounds.clone() })
        }
    }
}

/// As [`check_routing`], for a flow without a schema: nobody knows what the records of its programs are.
///
/// # Errors
/// The part that can't be, whatever the records are.
pub fn check_any_routing(routing: &Routing, consumers: usize) -> Result<(), Fault> {
    let records = Content::Records(FileFormat::Delimited { delimiter: b',', header: false, quoted: false });
    match (routing, routing.key()) {
        (_, KeyRef::Name(name)) => Err(Fault::new(
            format!("column '{name}' by name, but the flow has no schema"),
            "a schema that has it, or the column by number from 1",
        )),
        (Routing::Explicit(_), KeyRef::Bytes { length: 9.., .. }) => {
            Err(Fault::new("explicit routing by more than 8 bytes", "a key of 1 to 8 bytes"))
        }
        (Routing::Range { bounds, .. }, key) => check_bounds(bounds, key, None, records, consumers),
        _ => Ok(()),
    }
}

fn check_bounds(
    bounds: &[Bound],
    key: &KeyRef,
    kind: Option<ColumnType>,
    content: Content,
    consumers: usize,
) -> Result<(), Fault> {
    if bounds.len() + 1 != consumers {
        return Err(Fault::new(
            format!("{} bounds for {consumers} consumers", bounds.len()),
            format!("{} bounds, one between each two consumers", consumers.saturating_sub(1)),
        ));
    }
    let ascending = bounds.windows(2).all(|pair| match pair {
        [Bound::Int(a), Bound::Int(b)] => a < b,
        [Bound::Text(a), Bound::Text(b)] => a < b,
        _ => false,
    });
    if !ascending {
        return Err(Fault::new("the bounds don't ascend", "each bound above the one before"));
    }
    let text_bounds = bounds.iter().any(|b| matches!(b, Bound::Text(_)));
    let needs_numbers = matches!(kind, Some(ColumnType::Int(_) | ColumnType::Uint(_)))
        || content == Content::Numbers
        || matches!(key, KeyRef::Bytes { .. });
    if needs_numbers && text_bounds {
        return Err(Fault::new("the column holds whole numbers, the bounds don't", "whole numbers"));
    }
    if matches!(key, KeyRef::Bytes { length: 9.., .. }) {
        return Err(Fault::new("range routing by more than 8 bytes", "a key of 1 to 8 bytes"));
    }
    if matches!(kind, Some(ColumnType::Decimal | ColumnType::Float(_))) {
        return Err(Fault::new(
            "range routing by a column with fractions",
            "a column of whole numbers, dates or text",
        ));
    }
    Ok(())
}

/// The key by place, with its type if that is known.
fn resolve(key: &KeyRef, content: Content, schema: &[Column]) -> Result<(KeyRef, Option<ColumnType>), Fault> {
    let by_name = |name: &str| -> Result<usize, Fault> {
        schema.iter().position(|c| c.name == name).ok_or_else(|| {
            let hint = nearest(name, schema.iter().map(|c| c.name.as_str()))
                .map_or(String::new(), |n| format!("; did you mean '{n}'?"));
            let names: Vec<&str> = schema.iter().map(|c| c.name.as_str()).collect();
            Fault::new(format!("there is no column '{name}'{hint}"), format!("one of {}", names.join(", ")))
        })
    };
    match (content, key) {
        (Content::Numbers, KeyRef::Whole) => Ok((KeyRef::Whole, Some(ColumnType::Uint(64)))),
        (Content::Numbers, _) => Err(Fault::new(
            "synthetic items have no columns",
            "round-robin or hash, which go by the item's sequence number",
        )),
        (_, KeyRef::Whole) => Ok((KeyRef::Whole, Some(ColumnType::Text))),
        (Content::Records(format), _) => match format {
            FileFormat::Lines => match key {
                KeyRef::Name(name) if name == "line" => Ok((KeyRef::Whole, Some(ColumnType::Text))),
                _ => Err(Fault::new(
                    "lines have no columns, the whole line is the key",
                    "no key, or format: delimited",
                )),
            },
            FileFormat::Delimited { header, .. } => match key {
                KeyRef::Name(name) if !schema.is_empty() => {
                    let index = by_name(name)?;
                    Ok((KeyRef::Number(index as u32 + 1), Some(schema[index].kind)))
                }
                KeyRef::Name(_) if header => Ok((key.clone(), None)),
                KeyRef::Name(name) => Err(Fault::new(
                    format!("column '{name}' by name, but the file has no header line"),
                    "header: true, a schema, or the column by number from 1",
                )),
                KeyRef::Bytes { .. } => {
                    Err(Fault::new("OFFSET:LENGTH is for binary records", "a column by name or number"))
                }
                KeyRef::Number(n) if !schema.is_empty() => match schema.get(*n as usize - 1) {
                    Some(column) => Ok((key.clone(), Some(column.kind))),
                    None => {
                        Err(Fault::new(format!("there is no column {n}"), format!("1 to {}", schema.len())))
                    }
                },
                _ => Ok((key.clone(), None)),
            },
            FileFormat::Binary { record_size } => binary_key(key, record_size, schema, by_name),
        },
    }
}

fn binary_key(
    key: &KeyRef,
    record_size: u32,
    schema: &[Column],
    by_name: impl Fn(&str) -> Result<usize, Fault>,
) -> Result<(KeyRef, Option<ColumnType>), Fault> {
    let index = match key {
        KeyRef::Bytes { offset, length } => {
            if u64::from(*offset) + u64::from(*length) > u64::from(record_size) {
                return Err(Fault::new(
                    format!("bytes {offset}:{length} lie outside records of {record_size} bytes"),
                    format!("OFFSET + LENGTH of at most {record_size}"),
                ));
            }
            return Ok((key.clone(), Some(ColumnType::Bytes(*length))));
        }
        KeyRef::Name(name) => by_name(name)?,
        KeyRef::Number(n) if (*n as usize) <= schema.len() => *n as usize - 1,
        _ => {
            return Err(Fault::new(
                "there is no such column",
                format!("1 to {}, or OFFSET:LENGTH in bytes", schema.len()),
            ));
        }
    };
    let widths: Option<Vec<u64>> = schema.iter().map(|c| fixed_width(c.kind)).collect();
    let widths = widths.unwrap_or_default();
    let offset: u64 = widths.iter().take(index).sum();
    let length = widths.get(index).copied().unwrap_or(0);
    // The schema was checked to fill the record, so both fit.
    Ok((KeyRef::Bytes { offset: offset as u32, length: length as u32 }, Some(schema[index].kind)))
}
