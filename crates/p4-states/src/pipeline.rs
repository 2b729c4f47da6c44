//! The shared pipeline's use of the fields that state controls read and write: who assigns them, and who reads them.

use std::collections::{BTreeMap, BTreeSet};

use crate::preprocess::{Macros, preprocess};
use crate::sources::Sources;
use crate::token::{Place, Token, tokens, without_comments};

pub const TYPES: &str = "p4/common/types.p4";
const PIPELINE: &str = "p4/pipeline/pipeline.p4";

/// `m.field = value;`
#[derive(Debug)]
struct Assigned {
    place: Place,
    /// The action in which it stands, by its place; none in an `apply`.
    action: Option<Place>,
    field: String,
    value: String,
}

#[derive(Debug)]
pub struct Pipeline {
    assigned: Vec<Assigned>,
    /// Texts that read a field, other than state controls, by field.
    read: BTreeMap<String, BTreeSet<String>>,
    /// Names what tna leaves as other packets left it, until something writes it.
    no_init: String,
}

impl Pipeline {
    pub fn new(sources: &Sources) -> Result<Pipeline, String> {
        let mut assigned = Vec::new();
        let mut macros = Macros::new();
        preprocess(TYPES, sources.text(TYPES)?, &mut macros)?;
        for line in preprocess(PIPELINE, sources.text(PIPELINE)?, &mut Macros::new())?.includes {
            let name = line.split('"').nth(1).ok_or_else(|| format!("{PIPELINE}: {line}"))?;
            let path = format!("p4/pipeline/{name}");
            assigned.extend(assignments(&preprocess(&path, sources.text(&path)?, &mut macros)?.tokens));
        }
        let mut read: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (path, text) in &sources.0 {
            if path.ends_with("/state.p4") {
                continue;
            }
            let tokens = raw(path, text)?;
            for field in reads(&tokens) {
                read.entry(field).or_default().insert(path.clone());
            }
            if path.starts_with("p4/arch/") {
                assigned.extend(assignments(&tokens));
            }
        }
        let no_init = sources.text("p4/arch/tna/no_init.p4")?.to_owned();
        Ok(Pipeline { assigned, read, no_init })
    }

    /// For each field `do_*` the operations that are asked for, but `DO_NOTHING`.
    pub fn operations(&self) -> Result<BTreeMap<String, BTreeSet<String>>, String> {
        let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for a in self.assigned.iter().filter(|a| a.field.starts_with("do_")) {
            if !a.value.starts_with("DO_") || a.value.contains(' ') {
                return a.place.error(format_args!("m.{} = {} is not understood", a.field, a.value));
            }
            if a.value != "DO_NOTHING" {
                found.entry(a.field.clone()).or_default().insert(a.value.clone());
            }
        }
        Ok(found)
    }

    /// Texts that read `field`.
    pub fn readers(&self, field: &str) -> Vec<&str> {
        self.read.get(field).map(|r| r.iter().map(String::as_str).collect()).unwrap_or_default()
    }

    /// Does tna leave `field` as other packets left it, until something writes it?
    pub fn starts_anyhow(&self, field: &str) -> bool {
        self.no_init.contains(&format!("\"m.{field}\""))
    }

    /// Whether `field` is sure to hold `value` when the pipeline asks for `op` in `do_field`. Every other assignment to
    /// it must be in an action that asks for another operation. A value that is not zero, or in a header, must have
    /// been assigned.
    pub fn gives(&self, field: &str, value: i128, do_field: &str, op: &str) -> Result<(), String> {
        let value = value.to_string();
        let asked = |action: &Place| {
            let mut all = self.assigned.iter().filter(|a| a.action.as_ref() == Some(action));
            all.find(|a| a.field == do_field).map(|a| a.value.as_str())
        };
        let mut same = 0;
        for a in self.assigned.iter().filter(|a| a.field == field) {
            let other = a.action.as_ref().and_then(asked).is_some_and(|found| found != op);
            if a.value != value && !other {
                return a.place.error(format_args!("m.{field} = {} though {op} wants {value}", a.value));
            }
            same += usize::from(a.value == value);
        }
        if value != "0" && same == 0 {
            return Err(format!("nobody sets m.{field} to {value}, which {op} wants"));
        }
        if field.starts_with("g.") || field.starts_with("b.") {
            for a in self.assigned.iter().filter(|a| a.field == do_field && a.value == op) {
                let set = |b: &&Assigned| b.action == a.action && b.field == field && b.value == value;
                if !self.assigned.iter().any(|b| set(&b)) {
                    return a.place.error(format_args!("{op} without m.{field} = {value} beside it"));
                }
            }
        }
        Ok(())
    }
}

/// A text as it stands, macros and all branches of conditions.
fn raw(path: &str, text: &str) -> Result<Vec<Token>, String> {
    let file = path.into();
    let mut all = Vec::new();
    for (line, number) in without_comments(text).lines().zip(1..) {
        let line = line.trim_end_matches('\\');
        all.extend(tokens(&file, number, line.trim_start().trim_start_matches('#'))?);
    }
    Ok(all)
}

/// The field of `m` that is named at the beginning of `tokens`, and how many tokens that takes.
fn field(tokens: &[Token]) -> Option<(String, usize)> {
    if tokens.first()?.word()? != "m" || !tokens.get(1)?.is(".") {
        return None;
    }
    let mut path = tokens.get(2)?.word()?.to_owned();
    let mut length = 3;
    while tokens.get(length).is_some_and(|token| token.is("."))
        && let Some(word) = tokens.get(length + 1).and_then(Token::word)
    {
        path = format!("{path}.{word}");
        length += 2;
    }
    Some((path, length))
}

fn reads(tokens: &[Token]) -> Vec<String> {
    let found = (0..tokens.len()).filter_map(|at| {
        let (path, length) = field(&tokens[at..])?;
        let assigned = tokens.get(at + length).is_some_and(|next| next.is("="));
        (!assigned).then_some(path)
    });
    found.collect()
}

fn assignments(tokens: &[Token]) -> Vec<Assigned> {
    let mut found = Vec::new();
    // Where the present action begins, and at which depth of braces.
    let mut action: Option<(Place, usize)> = None;
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate() {
        if token.word() == Some("action") {
            action = Some((token.place.clone(), depth));
        } else if token.is("{") {
            depth += 1;
        } else if token.is("}") {
            depth = depth.saturating_sub(1);
            action = action.filter(|(_, outside)| *outside < depth);
        }
        if let Some((path, length)) = field(&tokens[at..])
            && tokens.get(at + length).is_some_and(|next| next.is("="))
        {
            let value = tokens[at + length + 1..].iter().take_while(|token| !token.is(";"));
            let value: Vec<_> = value.map(Token::to_string).collect();
            let action = action.as_ref().map(|(place, _)| place.clone());
            found.push(Assigned { place: token.place.clone(), action, field: path, value: value.join(" ") });
        }
    }
    found
}
