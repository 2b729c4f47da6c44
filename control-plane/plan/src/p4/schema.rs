//! Names to numbers: every table, action, field, counter and digest that the controller uses, looked up in P4Info. A
//! name that the program does not have is an error here, at start, and never a silent gap.

use super::Clock;
use super::names::digest::REPORT_T;
use p4runtime_proto::p4::config::v1::{P4Info, match_field};
use p4runtime_proto::p4::v1 as rt;
use std::collections::HashMap;

/// A disagreement between the program and the controller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// No object of this name.
    #[error(
        "the P4 program has no {kind} `{name}`: artifact and controller do not fit; run `cargo xtask p4` and rebuild"
    )]
    Missing {
        /// "table", "action", …
        kind: &'static str,
        /// The object's name.
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

/// A key or a parameter.
#[derive(Clone, Debug)]
pub struct Part {
    /// The field's number in the P4Info, from 1.
    pub id: u32,
    /// The field's name in the P4 program.
    pub name: String,
    /// The field's width.
    pub bits: u32,
}

/// A table or an action.
#[derive(Clone, Debug)]
pub struct Object {
    /// The object's number in the P4Info.
    pub id: u32,
    /// The keys of a table, the parameters of an action.
    pub fields: Vec<Part>,
    /// The number of entries that a table has room for.
    pub size: u32,
}

/// A value of an exact-match key, in the order of the table's keys.
pub type Key = u64;

/// The parts of a schema, by name.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// Tables, by alias.
    pub tables: HashMap<String, Object>,
    /// Actions, by [`Schema::action_of`].
    pub actions: HashMap<String, Object>,
    /// Numbers of counters, by alias.
    pub counters: HashMap<String, u32>,
    /// Numbers of digests, by name.
    pub digests: HashMap<String, u32>,
    /// The unit of the program's times.
    pub clock: Clock,
}

/// The names of a switch's program: its P4Info, indexed by the tables' aliases and the actions' names, or [`Parts`] in
/// its place.
#[derive(Clone, Debug)]
pub struct Schema(Parts);

impl Schema {
    /// Indexes `info`.
    pub fn new(info: &P4Info) -> Self {
        let mut schema = Parts::default();
        let named = info.actions.iter().filter_map(|a| Some((a.preamble.as_ref()?, a)));
        let actions: HashMap<u32, _> = named.map(|(pre, a)| (pre.id, (pre, a))).collect();
        for t in &info.tables {
            let Some(pre) = &t.preamble else { continue };
            let exact = Some(match_field::Match::MatchType(match_field::MatchType::Exact as i32));
            let fields = t
                .match_fields
                .iter()
                .filter(|f| f.r#match == exact)
                .map(|f| Part { id: f.id, name: f.name.clone(), bits: f.bitwidth as u32 })
                .collect();
            let object = Object { id: pre.id, fields, size: u32::try_from(t.size).unwrap_or(0) };
            schema.tables.insert(pre.alias.clone(), object);
            for (action, a) in t.action_refs.iter().filter_map(|a| actions.get(&a.id)) {
                let fields = a
                    .params
                    .iter()
                    .map(|p| Part { id: p.id, name: p.name.clone(), bits: p.bitwidth as u32 })
                    .collect();
                // The action's alias is longer where another control has an action of the same name.
                let name = action.name.rsplit('.').next().unwrap_or_default();
                let object = Object { id: action.id, fields, size: 0 };
                schema.actions.insert(Self::action_of(&pre.alias, name), object);
            }
        }
        for c in &info.counters {
            if let Some(pre) = &c.preamble {
                schema.counters.insert(pre.alias.clone(), pre.id);
            }
        }
        for d in &info.digests {
            if let Some(pre) = &d.preamble {
                // Named for its type or for its instance, as targets have it.
                let name = if pre.alias == "report" { REPORT_T } else { &pre.alias };
                schema.digests.insert(name.into(), pre.id);
            }
        }
        Schema(schema)
    }

    /// The schema that consists of `parts`.
    pub fn of(parts: Parts) -> Self {
        Schema(parts)
    }

    /// The same program on a switch that counts time in another unit.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.0.clock = clock;
        self
    }

    /// The unit of the program's times.
    pub fn clock(&self) -> Clock {
        self.0.clock
    }

    /// The name of `action` as one of `table`: the key of [`Parts::actions`].
    pub fn action_of(table: &str, action: &str) -> String {
        format!("{table}/{action}")
    }

    /// The keys of `table`, or `None` if there is no such table.
    pub fn keys(&self, table: &str) -> Option<&[Part]> {
        self.0.tables.get(table).map(|t| t.fields.as_slice())
    }

    /// The parameters of `action` in `table`, or `None` if the table has no such action.
    pub fn params(&self, table: &str, action: &str) -> Option<&[Part]> {
        self.action(table, action).ok().map(|a| a.fields.as_slice())
    }

    /// The number of entries that table `name` has room for.
    pub fn size(&self, name: &str) -> Result<u32, SchemaError> {
        Ok(find(&self.0.tables, "table", name)?.size)
    }

    fn action(&self, table: &str, action: &str) -> Result<&Object, SchemaError> {
        let missing = || SchemaError::Missing { kind: "action", name: action.into() };
        self.0.actions.get(&Self::action_of(table, action)).ok_or_else(missing)
    }

    /// Id of table `name`.
    pub fn table(&self, name: &str) -> Result<u32, SchemaError> {
        Ok(find(&self.0.tables, "table", name)?.id)
    }

    /// Id of counter `name`.
    pub fn counter(&self, name: &str) -> Result<u32, SchemaError> {
        find(&self.0.counters, "counter", name).copied()
    }

    /// Id of digest `name`.
    pub fn digest(&self, name: &str) -> Result<u32, SchemaError> {
        find(&self.0.digests, "digest", name).copied()
    }

    /// Checks that table `table` and action `action` exist.
    pub fn check(&self, table: &str, action: &str) -> Result<(), SchemaError> {
        find(&self.0.tables, "table", table)?;
        self.action(table, action)?;
        Ok(())
    }

    /// An entry of an exact-match table, by names; [`entry`](Schema::entry) is the same by types. Keys and parameters
    /// are in the order of the program.
    pub fn untyped(
        &self,
        table: &str,
        keys: &[Key],
        action: &str,
        params: &[u64],
    ) -> Result<rt::TableEntry, SchemaError> {
        let t = find(&self.0.tables, "table", table)?;
        let a = self.action(table, action)?;
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

/// The number in big-endian bytes.
pub fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |n, &b| n << 8 | u64::from(b))
}

/// The shortest big-endian byte string (P4Runtime specification, "Bytestrings"); zero is one byte.
pub fn canonical(value: u64) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    let skip = (value.leading_zeros() as usize / 8).min(7);
    bytes[skip..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::p4::Artifacts;
    use p4runtime_proto::p4::config::v1::Action;

    fn schema() -> Schema {
        Schema::new(&Artifacts::built_in().unwrap().p4info)
    }

    #[test]
    fn unknown_names_are_errors() {
        let e = schema().untyped("qpz", &[], "qp", &[]).unwrap_err();
        assert_eq!(e, SchemaError::Missing { kind: "table", name: "qpz".into() });
        assert!(schema().counter("nothing").is_err());
    }

    #[test]
    fn an_action_is_its_tables_whatever_other_controls_call_theirs() {
        let mut info = Artifacts::built_in().unwrap().p4info;
        let cross = info.actions.iter_mut().find(|a| a.preamble.as_ref().is_some_and(|p| p.alias == "cross"));
        let own = cross.and_then(|a| a.preamble.as_mut()).unwrap();
        own.alias = "own_address.cross".into();
        let id = own.id;
        let mut other = own.clone();
        other.id += 1;
        other.name = "IngressShell.cross".into();
        other.alias = "IngressShell.cross".into();
        info.actions.push(Action { preamble: Some(other), ..Default::default() });
        assert_eq!(Schema::new(&info).action("own_ip", "cross").unwrap().id, id);
    }

    #[test]
    fn all_counters_and_digests_of_a_run_exist() {
        for name in crate::p4::COUNTERS {
            schema().counter(name).unwrap();
        }
        schema().digest(REPORT_T).unwrap();
    }

    #[test]
    fn too_wide_values_are_errors() {
        let e = schema().untyped("qps", &[1 << 24, 1, 1], "qp", &[1, 0, 0, 0, 0]).unwrap_err();
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
