//! The routing function of a flow, as a topology gives it.

use zsr_records::{KEY_HELP, ROUTING_HELP, Routing, bounds, parse_key, parse_routing};

use super::build::Builder;
use super::read::Table;
use super::yaml::{Node, Value};

impl Builder<'_> {
    /// `routing: hash(COLUMN)` and the like, or `routing: {hash: COLUMN}`.
    pub(crate) fn routing(&mut self, node: &Node, flow: &Table<'_>) -> Option<Routing> {
        let what = format!("routing of {}", flow.what);
        match &node.value {
            Value::Map(_) => {
                let table = self.reader.table(node, &what, &["hash", "range", "explicit"])?;
                if let Some(key) = self.reader.opt(&table, "hash", KEY_HELP, parse_key) {
                    return Some(Routing::Hash(key.value));
                }
                if let Some(key) = self.reader.opt(&table, "explicit", KEY_HELP, parse_key) {
                    return Some(Routing::Explicit(key.value));
                }
                let range = match table.get("range") {
                    Some(node) => self.reader.table(node, &what, &["column", "bounds"])?,
                    None => {
                        self.reader.error(node.place, format!("{what} names no function"), ROUTING_HELP);
                        return None;
                    }
                };
                let Some(key) = self.reader.opt(&range, "column", KEY_HELP, parse_key) else {
                    self.reader.error(range.place, format!("{what} has a range without column"), KEY_HELP);
                    return None;
                };
                let mut texts = Vec::new();
                for node in self.reader.items(&range, "bounds", "bounds") {
                    texts.push(self.reader.text(node, "this bound", "a number or text")?.to_owned());
                }
                Some(Routing::Range { key: key.value, bounds: bounds(&texts) })
            }
            _ => self.reader.parsed(node, &what, ROUTING_HELP, parse_routing).map(|at| at.value),
        }
    }
}
