//! To which consumer a record goes: by the flow's own routing, which all of its producers share.

use zsr_api::controller as proto;
use zsr_records::rows::Style;
use zsr_records::{Content, FileFormat, KeyReader, Router, Routing, Schema, parse_routing};

use crate::error::ProgramError;

/// What divides columns of lines of text, unless the program says otherwise.
const COMMA: u8 = b',';

/// A routing function, and where records have the key that it looks at.
#[derive(Clone, Debug)]
pub struct KeyRoute {
    routing: Routing,
    key: KeyReader,
    router: Router,
}

impl KeyRoute {
    /// `routing` by the key that `key` finds.
    pub fn new(routing: Routing, key: KeyReader) -> Self {
        let router = Router::new(&routing, 1);
        KeyRoute { routing, key, router }
    }

    /// The routing of `flow`, whose records have `schema`, or else `record_size` bytes, or are lines of text with commas between their
    /// columns.
    ///
    /// # Errors
    /// [`ProgramError::Route`]: it is not known here, or does not go with the schema.
    pub fn of(
        flow: &proto::Flow,
        schema: Option<&Schema>,
        record_size: Option<u32>,
    ) -> Result<Self, ProgramError> {
        let bad = |why: String| ProgramError::Route(format!("flow `{}`: {why}", flow.name));
        let routing = parse_routing(&flow.routing)
            .ok_or_else(|| bad(format!("routing {} is not known here", flow.routing)))?;
        if let Some(schema) = schema {
            return Self::in_schema(schema, &routing, Style::from(COMMA), flow);
        }
        let format = match record_size {
            Some(record_size) => FileFormat::Binary { record_size },
            None => FileFormat::Delimited { delimiter: COMMA, header: false, quoted: false },
        };
        let key = KeyReader::new(routing.key(), Content::Records(format), &[]);
        Ok(Self::new(routing, key))
    }

    /// `routing` of records of `flow`, which have `schema`; lines of text have columns as `style` says.
    ///
    /// # Errors
    /// [`ProgramError::Route`]: it does not go with the schema.
    pub fn in_schema(
        schema: &Schema,
        routing: &Routing,
        style: Style,
        flow: &proto::Flow,
    ) -> Result<Self, ProgramError> {
        let resolved = schema.resolve(routing, style, flow.consumers.len());
        let (routing, records) = resolved.map_err(|e| {
            ProgramError::Route(format!("flow `{}`: {}: expected {}", flow.name, e.message, e.expected))
        })?;
        let key = KeyReader::new(routing.key(), records, schema.columns());
        Ok(Self::new(routing, key))
    }

    /// Where records have their key.
    pub fn key(&self) -> &KeyReader {
        &self.key
    }

    /// The routing function.
    pub fn routing(&self) -> &Routing {
        &self.routing
    }

    /// Which of `consumers` gets `record`, which is the one with this `number` of its producer's, from 0.
    ///
    /// # Errors
    /// The record has no key, or its key names no consumer.
    pub fn choose(&mut self, record: &[u8], consumers: usize, number: u64) -> Result<usize, String> {
        if self.router.consumers() != consumers {
            self.router = Router::new(&self.routing, consumers);
        }
        let key = self.key.key(record).map_err(|e| e.to_string())?;
        self.router.tuple(&key, self.key.form(), number).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(routing: &str, schema: &str) -> proto::Flow {
        let member = || proto::FlowMember::default();
        proto::Flow {
            name: "f".into(),
            routing: routing.into(),
            schema: schema.into(),
            consumers: vec![member(), member(), member()],
            ..Default::default()
        }
    }

    fn route(routing: &str, schema: &str, record_size: Option<u32>) -> Result<KeyRoute, ProgramError> {
        let flow = flow(routing, schema);
        KeyRoute::of(&flow, crate::flow::schema_of(&flow)?.as_ref(), record_size)
    }

    #[test]
    fn a_key_by_name_is_found_in_tuples_and_in_lines() {
        let tuple = |n: u64, at: i32| [&n.to_le_bytes()[..], &at.to_le_bytes()[..]].concat();
        let mut by_column = route("explicit(at)", "id: u64, at: i32", None).unwrap();
        assert_eq!(by_column.choose(&tuple(9, 2), 3, 0), Ok(2));
        assert!(by_column.choose(&tuple(9, 3), 3, 0).is_err());
        // The same key, whatever the rest of the record is.
        let mut hashed = route("hash(id)", "id: u64, at: i32", None).unwrap();
        for id in 0..50 {
            assert_eq!(hashed.choose(&tuple(id, 1), 3, 0), hashed.choose(&tuple(id, 7), 3, 9));
        }
        let mut lines = route("explicit(at)", "name: text, at: i32", None).unwrap();
        assert_eq!(lines.choose(b"ada,1", 3, 0), Ok(1));
        assert!(lines.choose(b"ada", 3, 0).is_err_and(|e| e.contains("the key is column 2")));
    }

    #[test]
    fn without_a_schema_columns_are_numbers_and_bytes_have_places() {
        assert_eq!(route("explicit(2)", "", None).unwrap().choose(b"ada,2", 3, 0), Ok(2));
        assert_eq!(route("explicit(1:1)", "", Some(4)).unwrap().choose(&[9, 2, 0, 0], 3, 0), Ok(2));
        let mut turns = route("round-robin", "", None).unwrap();
        assert_eq!([0, 1, 2, 3].map(|n| turns.choose(b"", 3, n)), [Ok(0), Ok(1), Ok(2), Ok(0)]);
        assert!(route("explicit(who)", "id: u64", None).is_err());
        assert!(route("by magic", "", None).is_err());
    }

    #[test]
    fn with_other_consumers_it_is_another_function() {
        let mut route = route("round-robin", "", None).unwrap();
        assert_eq!((route.choose(b"", 3, 5), route.choose(b"", 2, 5)), (Ok(2), Ok(1)));
    }
}
