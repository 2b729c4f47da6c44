//! A fault of a flow or schema, in words.

use std::fmt;

/// A fault of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The fault, in words.
    pub message: String,
    /// The values that would have been accepted.
    pub expected: String,
}

impl Fault {
    /// In words for people.
    pub fn new(message: impl Into<String>, expected: impl Into<String>) -> Self {
        Fault { message: message.into(), expected: expected.into() }
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}", self.message, self.expected)
    }
}
