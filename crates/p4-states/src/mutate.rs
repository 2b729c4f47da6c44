//! Changes of tna's state controls, one at a time: does the comparison see them?

use std::collections::BTreeMap;

use crate::token::{Kind, Token, tokens, without_comments};
use crate::value::Form;

/// The text that is changed.
pub const TNA: &str = "p4/arch/tna/state.p4";
/// Operators, and what each becomes.
const OPERATORS: [(&str, &[&str]); 12] = [
    ("==", &["!="]),
    ("!=", &["=="]),
    ("<", &["<=", ">="]),
    ("<=", &["<"]),
    (">", &[">=", "<"]),
    (">=", &[">", "<"]),
    ("+", &["-"]),
    ("-", &["+"]),
    ("|-|", &["-"]),
    ("|", &["&", "^"]),
    ("&&", &["||"]),
    ("||", &["&&"]),
];
/// Fields that no state control has, one of each width.
const FOREIGN: [&str; 3] = ["egress_length", "aeth", "dice"];

/// A changed text.
#[derive(Debug)]
pub struct Mutant {
    /// The control that is changed.
    pub control: String,
    /// The statement's text around the change, and the change.
    pub change: String,
    /// The text without other controls; lines stay where they are.
    pub text: String,
}

/// Each operator replaced, each assignment and table entry dropped, each number and each operand another.
pub(super) fn mutants(text: &str, fields: &BTreeMap<String, Form>) -> Result<Vec<Mutant>, String> {
    let bare = without_comments(text);
    let mut found = Vec::new();
    let (mut control, mut start) = (String::new(), 0);
    for (line, number) in bare.split_inclusive('\n').zip(1..) {
        let behind = start + line.len();
        if !line.trim_start().starts_with(['#', '@']) {
            let tokens = tokens(&TNA.into(), number, line)?;
            if let [first, name, ..] = tokens.as_slice()
                && first.word() == Some("control")
            {
                control = name.to_string();
            }
            for (from, to, new) in changes(line, &tokens, fields) {
                let changed = [&bare[..start + from], new.as_str(), &bare[start + to..]].concat();
                let change = format!("`{}` becomes `{new}` in {}", &line[from..to], line.trim());
                found.push(Mutant { control: control.clone(), change, text: only(&control, &changed) });
            }
        }
        start = behind;
    }
    Ok(found)
}

/// Blanks all controls but one.
fn only(control: &str, text: &str) -> String {
    let mut keep = true;
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        if let Some(behind) = line.strip_prefix("control ") {
            keep = behind.split('(').next() == Some(control);
        }
        // The guard's end, and structs, stand outside of controls.
        if keep || line.starts_with('#') {
            out.push_str(line);
        }
        keep |= line == "}";
        out.push('\n');
    }
    out
}

/// From, to, and what stands there instead.
fn changes(line: &str, tokens: &[Token], fields: &BTreeMap<String, Form>) -> Vec<(usize, usize, String)> {
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let from = token.place.column;
        let before = at.checked_sub(1).and_then(|at| tokens.get(at));
        match &token.kind {
            // An operator has spaces around it, a type's brackets have not.
            Kind::Sign(sign) if line[..from].ends_with(' ') => {
                let to = from + sign.len();
                let others = OPERATORS.iter().find(|(s, _)| s == sign && line[to..].starts_with(' '));
                found
                    .extend(others.iter().flat_map(|(_, all)| *all).map(|new| (from, to, (*new).to_owned())));
            }
            Kind::Number { value, .. } if line[..from].ends_with(' ') => {
                found.push((from, from + value.to_string().len(), (value ^ 1).to_string()));
            }
            Kind::Word(word) if word.starts_with("DO_") => {
                found.extend(statement(line, from).map(|to| (from, to, String::new())));
            }
            Kind::Word(word) if before.is_none_or(|token| !token.is(".")) => {
                let path: String =
                    line[from..].chars().take_while(|c| c.is_alphanumeric() || "_.".contains(*c)).collect();
                let to = from + path.len();
                let begins = before.is_none_or(|token| token.is("{") || token.is("}") || token.is(";"));
                if begins && line[to..].starts_with(" = ") && ["m", "v", "o"].contains(&word.as_str()) {
                    found.extend(statement(line, from).map(|to| (from, to, String::new())));
                } else if let Some(field) = path.strip_prefix("m.").filter(|f| !f.starts_with("do_")) {
                    let same = FOREIGN.iter().find(|other| fields.get(**other) == fields.get(field));
                    found.extend(same.map(|other| (from, to, format!("m.{other}"))));
                }
            }
            _ => {}
        }
    }
    found
}

/// Behind the semicolon of what begins at `from`.
fn statement(line: &str, from: usize) -> Option<usize> {
    line[from..].find(';').map(|length| from + length + 1)
}
