//! The protobuf text format, with errors that name the line.

use std::sync::LazyLock;

use miette::Diagnostic;
use prost::{Message, Name};
use prost_reflect::text_format::FormatOptions;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

use crate::FILE_DESCRIPTOR_SET;

/// Text that is no message of the wanted type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub struct TextError {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What was expected and what was found.
    pub what: String,
}

static POOL: LazyLock<Option<DescriptorPool>> =
    LazyLock::new(|| DescriptorPool::decode(FILE_DESCRIPTOR_SET).ok());

fn descriptor<M: Name>() -> Result<MessageDescriptor, TextError> {
    POOL.as_ref().and_then(|pool| pool.get_message_by_name(&M::full_name())).ok_or_else(|| TextError {
        line: 1,
        column: 1,
        what: format!("{} is not a message of p4.v1 or p4.config.v1", M::full_name()),
    })
}

/// Reads a message of one of this crate's types.
///
/// # Errors
/// Where the text is malformed, names a field or enum value that the type lacks, or gives a value out of range.
pub fn parse<M: Message + Name + Default>(text: &str) -> Result<M, TextError> {
    let message = DynamicMessage::parse_text_format(descriptor::<M>()?, text).map_err(|error| {
        // An error without a place is the text ending too early.
        let at =
            error.labels().and_then(|mut labels| labels.next()).map_or(text.len(), |label| label.offset());
        let (line, column) = place(text, at);
        TextError { line, column, what: error.to_string() }
    })?;
    message.transcode_to().map_err(|error| TextError { line: 1, column: 1, what: error.to_string() })
}

/// Writes a message of one of this crate's types, one field per line, fields in the order of their numbers.
///
/// # Errors
/// If the message is not of this crate.
pub fn format<M: Message + Name>(message: &M) -> Result<String, TextError> {
    let mut dynamic = DynamicMessage::new(descriptor::<M>()?);
    dynamic.transcode_from(message).map_err(|error| TextError {
        line: 1,
        column: 1,
        what: error.to_string(),
    })?;
    let options = FormatOptions::new().pretty(true).print_message_fields_in_index_order(true);
    let mut text = dynamic.to_text_format_with_options(&options);
    text.push('\n');
    Ok(text)
}

fn place(text: &str, offset: usize) -> (usize, usize) {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let in_line = before.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    (line, String::from_utf8_lossy(in_line).chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::p4::config::v1::{MatchField, P4Info, match_field};
    use crate::p4::v1::{Entity, TableEntry, entity};

    #[test]
    fn reads_what_p4c_writes() {
        let info: P4Info = parse(
            "# proto-file: x\ntables {\n  preamble {\n    id: 37375156\n    name: \"c.t\"\n  }\n  match_fields {\n    id: 1\n    \
             bitwidth: 9\n    match_type: TERNARY\n  }\n  size: 1024\n}\ntype_info {\n  headers {\n    key: \"eth\"\n    \
             value { members { name: \"dst\" type_spec { bit { bitwidth: 48 } } } }\n  }\n}\n",
        )
        .unwrap();
        assert_eq!(info.tables[0].preamble.as_ref().unwrap().id, 37375156);
        let ternary = match_field::MatchType::Ternary as i32;
        let expected = MatchField {
            id: 1,
            bitwidth: 9,
            r#match: Some(match_field::Match::MatchType(ternary)),
            ..MatchField::default()
        };
        assert_eq!(info.tables[0].match_fields, [expected]);
        assert!(info.type_info.unwrap().headers.contains_key("eth"));
    }

    #[test]
    fn errors_name_the_place() {
        let unknown = parse::<P4Info>("tables {\n  preamble {\n    colour: 3\n  }\n}\n").unwrap_err();
        assert_eq!((unknown.line, unknown.column), (3, 5), "{unknown}");
        assert!(unknown.what.contains("colour"), "{unknown}");
        let cut = parse::<P4Info>("tables {\n  size: 12\n").unwrap_err();
        assert_eq!(cut.line, 3, "{cut}");
        let range = parse::<P4Info>("tables { preamble { id: 4294967296 } }").unwrap_err();
        assert!(range.to_string().starts_with("line 1, column 25: "), "{range}");
        assert!(parse::<P4Info>("tables { size: \"big\" }").is_err());
        assert!(parse::<P4Info>("\u{e9}\u{e9} tables").is_err());
    }

    #[test]
    fn columns_count_characters() {
        assert_eq!(place("\u{e9}\nb\u{e9}\u{e9}c", 8), (2, 4));
        assert_eq!(place("", 9), (1, 1));
    }

    #[test]
    fn round_trip() {
        let entry =
            TableEntry { table_id: 7, metadata: vec![0, 255, b'"'], priority: -1, ..TableEntry::default() };
        let entity = Entity { entity: Some(entity::Entity::TableEntry(entry)) };
        let text = format(&entity).unwrap();
        assert_eq!(parse::<Entity>(&text).unwrap(), entity);
        assert_eq!(format(&P4Info::default()).unwrap(), "\n");
    }
}
