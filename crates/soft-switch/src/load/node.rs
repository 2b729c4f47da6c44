//! A JSON value that can tell where it lies, for errors that name their place.

use std::fmt::Display;

use serde_json::Value;

use crate::error::LoadError;

/// Deepest nesting that is read: beyond it a file is damaged or hostile.
const MAX_DEPTH: usize = 2000;

/// A JSON value and the one that all of the file is. Where it lies is looked for when an error needs it: a program is read far more often
/// than it is refused.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    value: &'a Value,
    root: &'a Value,
}

pub(crate) type Result<T> = std::result::Result<T, LoadError>;

/// Reads text as JSON, refusing absurd nesting.
pub(crate) fn parse(text: &str) -> Result<Value> {
    check_depth(text)?;
    let mut de = serde_json::Deserializer::from_str(text);
    de.disable_recursion_limit();
    let bad = |e: serde_json::Error| LoadError::Syntax {
        line: e.line(),
        column: e.column(),
        reason: e.to_string().split(" at line").next().unwrap_or_default().to_string(),
    };
    let value = <Value as serde::Deserialize>::deserialize(&mut de).map_err(bad)?;
    de.end().map_err(bad)?;
    Ok(value)
}

fn check_depth(text: &str) -> Result<()> {
    let (mut depth, mut line, mut column) = (0usize, 1, 0);
    let (mut quoted, mut escaped) = (false, false);
    for c in text.bytes() {
        column += 1;
        match c {
            b'\n' => (line, column) = (line + 1, 0),
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => depth += 1,
            b']' | b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(LoadError::Syntax {
                line,
                column,
                reason: format!("nested deeper than {MAX_DEPTH}"),
            });
        }
    }
    Ok(())
}

/// Keys and indices that lead from `from` to `value`.
fn way(from: &Value, value: &Value) -> Option<String> {
    if std::ptr::eq(from, value) {
        return Some(String::new());
    }
    match from {
        Value::Array(list) => {
            list.iter().enumerate().find_map(|(i, child)| Some(format!("[{i}]{}", way(child, value)?)))
        }
        Value::Object(map) => {
            map.iter().find_map(|(key, child)| Some(format!(".{key}{}", way(child, value)?)))
        }
        _ => None,
    }
}

impl<'a> Node<'a> {
    pub(crate) fn root(value: &'a Value) -> Self {
        Node { value, root: value }
    }

    fn of(&self, value: &'a Value) -> Self {
        Node { value, root: self.root }
    }

    /// The place, with the object's name if it has one.
    pub(crate) fn place(&self) -> String {
        match self.value.get("name").and_then(Value::as_str) {
            Some(name) => format!("{} '{name}'", self.path()),
            None => self.path(),
        }
    }

    /// Keys and indices from the root to the value.
    fn path(&self) -> String {
        format!("${}", way(self.root, self.value).unwrap_or_default())
    }

    pub(crate) fn err<T>(&self, reason: impl Display) -> Result<T> {
        Err(LoadError::Malformed { place: self.place(), reason: reason.to_string() })
    }

    pub(crate) fn unsupported<T>(&self, what: impl Display) -> Result<T> {
        Err(LoadError::Unsupported { place: self.place(), what: what.to_string() })
    }

    /// Refuses keys of an object that this loader does not know.
    pub(crate) fn allow(&self, keys: &[&str]) -> Result<()> {
        let Some(map) = self.value.as_object() else { return self.err("an object was expected") };
        for (k, v) in map {
            if !keys.contains(&k.as_str()) && k != "source_info" && k != "pragmas" && !v.is_null() {
                return self.unsupported(format!("attribute '{k}'"));
            }
        }
        Ok(())
    }

    /// The member of that name, which must be there.
    pub(crate) fn get(&self, key: &str) -> Result<Node<'a>> {
        match self.value.get(key) {
            Some(value) => Ok(self.of(value)),
            None => self.err(format!("attribute '{key}' is missing")),
        }
    }

    /// The member of that name, `None` if it is absent or null.
    pub(crate) fn opt(&self, key: &str) -> Option<Node<'a>> {
        self.value.get(key).filter(|v| !v.is_null()).map(|value| self.of(value))
    }

    pub(crate) fn at(&self, i: usize) -> Result<Node<'a>> {
        match self.value.get(i) {
            Some(value) => Ok(self.of(value)),
            None => self.err(format!("element {i} is missing")),
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.value.is_null()
    }

    pub(crate) fn array(&self) -> Result<Vec<Node<'a>>> {
        let Some(list) = self.value.as_array() else { return self.err("an array was expected") };
        Ok(list.iter().map(|value| self.of(value)).collect())
    }

    /// The array of that name; empty if it is absent or null.
    pub(crate) fn list(&self, key: &str) -> Result<Vec<Node<'a>>> {
        self.opt(key).map_or(Ok(Vec::new()), |n| n.array())
    }

    /// Members of an object.
    pub(crate) fn entries(&self) -> Result<Vec<(&'a str, Node<'a>)>> {
        let Some(map) = self.value.as_object() else { return self.err("an object was expected") };
        Ok(map.iter().map(|(key, value)| (key.as_str(), self.of(value))).collect())
    }

    pub(crate) fn str(&self) -> Result<&'a str> {
        self.value.as_str().map_or_else(|| self.err("a string was expected"), Ok)
    }

    pub(crate) fn bool(&self) -> Result<bool> {
        self.value.as_bool().map_or_else(|| self.err("true or false was expected"), Ok)
    }

    /// A truth value, which some lists write as 0 or 1.
    pub(crate) fn flag(&self) -> Result<bool> {
        match self.value.as_u64() {
            Some(n @ (0 | 1)) => Ok(n == 1),
            _ => self.bool(),
        }
    }

    pub(crate) fn int(&self) -> Result<i64> {
        self.value.as_i64().map_or_else(|| self.err("a whole number was expected"), Ok)
    }

    pub(crate) fn is_int(&self) -> bool {
        self.value.is_i64() || self.value.is_u64()
    }

    /// A number from 0 to `max`.
    pub(crate) fn uint(&self, max: u64) -> Result<u64> {
        match self.value.as_u64() {
            Some(n) if n <= max => Ok(n),
            Some(n) => self.err(format!("{n} is more than this switch takes, which is {max}")),
            None => self.err("a number of at least 0 was expected"),
        }
    }

    pub(crate) fn is_object(&self) -> bool {
        self.value.is_object()
    }

    pub(crate) fn is_empty_object(&self) -> bool {
        self.value.as_object().is_some_and(|o| o.is_empty())
    }

    pub(crate) fn is_str(&self) -> bool {
        self.value.is_string()
    }
}
