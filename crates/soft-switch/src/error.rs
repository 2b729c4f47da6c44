//! Errors of loading and of the control API.

use crate::info::{MatchKind, TableId};

/// Why a program could not be loaded. Every variant names the place in the JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Not JSON at all.
    #[error("this is no JSON (line {line}, column {column}): {reason}; give the file that p4c-bm2-ss wrote")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// The message of the JSON reader.
        reason: String,
    },
    /// JSON, but not the form of a bmv2 program.
    #[error("damaged program at {place}: {reason}")]
    Malformed {
        /// Path in the JSON, such as `parsers[0].parse_states[2] 'start'`.
        place: String,
        /// The fault, in words.
        reason: String,
    },
    /// A construct that this switch does not have.
    #[error("unsupported construct at {place}: {what}")]
    Unsupported {
        /// Path in the JSON.
        place: String,
        /// The construct's name.
        what: String,
    },
}

/// Why a control operation was refused. Nothing has changed when one is returned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// No object has that id or index.
    #[error("there is no {kind} {id}")]
    NotFound {
        /// The kind of object that was looked for: "table", "member", "register cell", ...
        kind: &'static str,
        /// The object's id or index.
        id: u64,
    },
    /// The table has no entry with that key.
    #[error("there is no entry with this key")]
    NoEntry {
        /// The table.
        table: TableId,
    },
    /// The object exists already.
    #[error("this {kind} exists already")]
    Duplicate {
        /// The kind of object that exists: "table entry", "member", "group", ...
        kind: &'static str,
    },
    /// The program forbids changing this.
    #[error("{what} is const in the P4 program")]
    Const {
        /// The const part of the program: "the entries of the table", "the default action of the table".
        what: &'static str,
    },
    /// No room.
    #[error("{kind} is full: it holds {size}")]
    Full {
        /// The kind of object that is full.
        kind: &'static str,
        /// The most objects that it holds.
        size: usize,
    },
    /// The key has the wrong number of fields.
    #[error("the key has {got} fields; this table has {expected}")]
    KeyCount {
        /// Fields given.
        got: usize,
        /// Fields of the table.
        expected: usize,
    },
    /// A key field has the wrong kind.
    #[error("key field {field} matches {expected:?}; another kind of match was given")]
    KeyKind {
        /// Index of the field.
        field: usize,
        /// The field's kind.
        expected: MatchKind,
    },
    /// A value does not fit its width.
    #[error("{what} {index} does not fit in {width} bits")]
    TooWide {
        /// "key field", "parameter", "register value", ...
        what: &'static str,
        /// Number of the field, parameter or cell.
        index: usize,
        /// Width in bits.
        width: u32,
    },
    /// A key field's mask, prefix or range is no legal one.
    #[error("key field {field}: {reason}")]
    BadKey {
        /// Index of the field.
        field: usize,
        /// The fault, in words.
        reason: &'static str,
    },
    /// Ternary, range and optional tables need a priority above 0, others none.
    #[error("{0}")]
    Priority(&'static str),
    /// The action is not one of the table's.
    #[error("it can't have action '{action}'")]
    WrongAction {
        /// The action's name, or its number if the program has none such.
        action: String,
    },
    /// The action takes another number of parameters.
    #[error("action '{action}' takes {expected} parameters, not {got}")]
    ParamCount {
        /// The action's name.
        action: String,
        /// Given.
        got: usize,
        /// Expected.
        expected: usize,
    },
    /// The table needs another kind of action (direct, member, group).
    #[error("{0}")]
    WrongEntryAction(&'static str),
    /// A member or group is still referred to.
    #[error("this {kind} is still in use")]
    InUse {
        /// "member" or "group".
        kind: &'static str,
    },
    /// The object lacks the feature.
    #[error("{0}")]
    NotAvailable(&'static str),
    /// A value is outside what is legal.
    #[error("{0}")]
    Invalid(String),
}
