//! Names to numbers: every table, action, field, counter and digest that the controller uses, looked up in P4Info. A name
//! that the program does not have is an error here, at start, and never a silent gap.

use p4runtime_proto::p4::config::v1::{P4Info, match_field};
use p4runtime_proto::p4::v1 as rt;
use std::collections::HashMap;

/// What the program and the controller disagree about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// No object of this name.
    #[error(
        "the P4 program has no {kind} `{name}`: artifact and controller do not fit; run `cargo xtask p4` and rebuild"
    )]
    Missing {
        /// "table", "action", …
        kind: &'static str,
        /// Its name.
        name: String,
    },
    /// A value has more bits than the field.
    #[error("value {value:#x} for `{field}` of `{owner}` has more than {bits} bits")]
    TooWide {
        /// Table or action.
        owner: String,
        /// Key field or parameter.
        field: String,
        /// The value.
        value: u64,
        /// Width of the field.
        bits: u32,
    },
    /// Wrong number of keys or parameters.
    #[error("`{owner}` takes {expected} values, {found} given")]
    Arity {
        /// Table or action.
        owner: String,
        /// Number that the program asks for.
        expected: usize,
        /// Number that was given.
        found: usize,
    },
}

#[derive(Clone, Debug)]
struct Field {
    id: u32,
    name: String,
    bits: u32,
}

#[derive(Clone, Debug)]
struct Object {
    id: u32,
    fields: Vec<Field>,
}

/// One exact-match key value, in the order of the table's keys.
pub type Key = u64;

/// P4Info, indexed by alias.
#[derive(Clone, Debug)]
pub struct Schema {
    tables: HashMap<String, Object>,
    actions: HashMap<String, Object>,
    counters: HashMap<String, u32>,
    digests: HashMap<String, u32>,
}

impl Schema {
    /// Indexes `info`.
    pub fn new(info: &P4Info) -> Self {
        let mut schema = Schema {
            tables: HashMap::new(),
            actions: HashMap::new(),
            counters: HashMap::new(),
            digests: HashMap::new(),
        };
        for t in &info.tables {
            let Some(pre) = &t.preamble else { continue };
            let exact = Some(match_field::Match::MatchType(match_field::MatchType::Exact as i32));
            let fields = t
                .match_fields
                .iter()
                .filter(|f| f.r#match == exact)
                .map(|f| Field { id: f.id, name: f.name.clone(), bits: f.bitwidth as u32 })
                .collect();
            schema.tables.insert(pre.alias.clone(), Object { id: pre.id, fields });
        }
        for a in &info.actions {
            let Some(pre) = &a.preamble else { continue };
            let fields = a
                .params
                .iter()
                .map(|p| Field { id: p.id, name: p.name.clone(), bits: p.bitwidth as u32 })
                .collect();
            schema.actions.insert(pre.alias.clone(), Object { id: pre.id, fields });
        }
        for c in &info.counters {
            if let Some(pre) = &c.preamble {
                schema.counters.insert(pre.alias.clone(), pre.id);
            }
        }
        for d in &info.digests {
            if let Some(pre) = &d.preamble {
                schema.digests.insert(pre.alias.clone(), pre.id);
            }
        }
        schema
    }

    /// Id of table `name`.
    pub fn table(&self, name: &str) -> Result<u32, SchemaError> {
        Ok(find(&self.tables, "table", name)?.id)
    }

    /// Id of counter `name`.
    pub fn counter(&self, name: &str) -> Result<u32, SchemaError> {
        find(&self.counters, "counter", name).copied()
    }

    /// Id of digest `name`.
    pub fn digest(&self, name: &str) -> Result<u32, SchemaError> {
        find(&self.digests, "digest", name).copied()
    }

    /// Checks that table `table` and action `action` exist.
    pub fn check(&self, table: &str, action: &str) -> Result<(), SchemaError> {
        find(&self.tables, "table", table)?;
        find(&self.actions, "action", action)?;
        Ok(())
    }

    /// An entry of an exact-match table. Keys and parameters are in the order of the program.
    pub fn entry(
        &self,
        table: &str,
        keys: &[Key],
        action: &str,
        params: &[u64],
    ) -> Result<rt::TableEntry, SchemaError> {
        let t = find(&self.tables, "table", table)?;
        let a = find(&self.actions, "action", action)?;
        let r#match = values(table, t, keys)?
            .map(|r| {
                r.map(|(field_id, value)| rt::FieldMatch {
                    field_id,
                    field_match_type: Some(rt::field_match::FieldMatchType::Exact(rt::field_match::Exact {
                        value,
                    })),
                })
            })
            .collect::<Result<_, _>>()?;
        let params = values(action, a, params)?
            .map(|r| r.map(|(param_id, value)| rt::action::Param { param_id, value }))
            .collect::<Result<_, _>>()?;
        Ok(rt::TableEntry {
            table_id: t.id,
            r#match,
            action: Some(rt::TableAction {
                r#type: Some(rt::table_action::Type::Action(rt::Action { action_id: a.id, params })),
            }),
            ..Default::default()
        })
    }
}

fn find<'a, T>(map: &'a HashMap<String, T>, kind: &'static str, name: &str) -> Result<&'a T, SchemaError> {
    map.get(name).ok_or_else(|| SchemaError::Missing { kind, name: name.into() })
}

fn values<'a>(
    owner: &'a str,
    object: &'a Object,
    values: &'a [u64],
) -> Result<impl Iterator<Item = Result<(u32, Vec<u8>), SchemaError>> + 'a, SchemaError> {
    if object.fields.len() != values.len() {
        return Err(SchemaError::Arity {
            owner: owner.into(),
            expected: object.fields.len(),
            found: values.len(),
        });
    }
    Ok(object.fields.iter().zip(values).map(move |(f, &value)| {
        if f.bits < 64 && value >> f.bits != 0 {
            return Err(SchemaError::TooWide {
                owner: owner.into(),
                field: f.name.clone(),
                value,
                bits: f.bits,
            });
        }
        Ok((f.id, canonical(value)))
    }))
}

/// The shortest big-endian byte string (P4Runtime specification, "Bytestrings"); zero is one byte.
pub(crate) fn canonical(value: u64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let skip = (value.leading_zeros() as usize / 8).min(7);
    bytes[skip..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::p4::Artifacts;

    fn schema() -> Schema {
        Schema::new(&Artifacts::built_in().unwrap().p4info)
    }

    #[test]
    fn unknown_names_are_errors() {
        let e = schema().entry("qpz", &[], "qp", &[]).unwrap_err();
        assert_eq!(e, SchemaError::Missing { kind: "table", name: "qpz".into() });
        assert!(schema().counter("nothing").is_err());
    }

    #[test]
    fn all_counters_and_digests_of_a_run_exist() {
        for name in ["received", "sent", "transfers", "producer_transfers", "retries"] {
            schema().counter(name).unwrap();
        }
        schema().digest("report_t").unwrap();
    }

    #[test]
    fn too_wide_values_are_errors() {
        let e = schema().entry("qps", &[1 << 24, 1, 1], "qp", &[1, 0, 0, 0, 0]).unwrap_err();
        assert!(matches!(e, SchemaError::TooWide { bits: 24, .. }), "{e}");
    }

    #[test]
    fn byte_strings_are_canonical() {
        assert_eq!(canonical(0), [0]);
        assert_eq!(canonical(255), [255]);
        assert_eq!(canonical(0x1_00), [1, 0]);
        assert_eq!(canonical(u64::MAX), [255; 8]);
    }
}
