//! An entry of one of the driver's own tables, by names.

use super::BfrtError;
use super::info::{Action, Field, Form, Info, Table};
use super::proto as bf;
use bf::data_field::Value as Wire;
use std::collections::BTreeMap;
use zsr_plan::p4::schema::number;

/// The value of a field.
#[derive(Clone, Debug)]
pub(super) enum Value<'v> {
    Number(u64),
    Bool(bool),
    Text(&'v str),
    Numbers(Vec<u32>),
    Bools(Vec<bool>),
    Bytes(Vec<u8>),
}

/// An entry in the making.
pub(super) struct Row<'i> {
    info: &'i Info,
    table: &'i Table,
    action: Option<&'i Action>,
    keys: Vec<bf::KeyField>,
    data: Vec<bf::DataField>,
}

impl<'i> Row<'i> {
    /// A row of table `name`.
    pub(super) fn of(info: &'i Info, name: &str) -> Result<Self, BfrtError> {
        Ok(Row::at(info, info.table(name)?))
    }

    /// A row of this table.
    pub(super) fn at(info: &'i Info, table: &'i Table) -> Self {
        Row { info, table, action: None, keys: Vec::new(), data: Vec::new() }
    }

    pub(super) fn key(mut self, name: &str, value: u64) -> Result<Self, BfrtError> {
        let field = self.named(&self.table.keys, "key", name)?;
        let exact = bf::key_field::Exact { value: self.number(field, value)? };
        let match_type = Some(bf::key_field::MatchType::Exact(exact));
        self.keys.push(bf::KeyField { field_id: field.id, match_type });
        Ok(self)
    }

    /// A key that is compared under a mask, all of whose bits are ones.
    pub(super) fn masked(mut self, name: &str, value: u64) -> Result<Self, BfrtError> {
        let field = self.named(&self.table.keys, "key", name)?;
        let bits = if let Form::Bits(bits) = field.form { bits.min(63) } else { 0 };
        let mask = self.number(field, (1 << bits) - 1)?;
        let ternary = bf::key_field::Ternary { value: self.number(field, value)?, mask };
        let match_type = Some(bf::key_field::MatchType::Ternary(ternary));
        self.keys.push(bf::KeyField { field_id: field.id, match_type });
        Ok(self)
    }

    pub(super) fn action(mut self, name: &str) -> Result<Self, BfrtError> {
        let missing = || self.info.missing(format!("action `{name}` of table `{}`", self.table.name));
        self.action = Some(self.table.action(name).ok_or_else(missing)?);
        Ok(self)
    }

    pub(super) fn with(mut self, name: &str, value: Value<'_>) -> Result<Self, BfrtError> {
        let of_action = self.action.map_or(&[][..], |a| &a.data);
        let field = match of_action.iter().find(|f| f.name == name) {
            Some(field) => field,
            None => self.named(&self.table.data, "field", name)?,
        };
        let misfit = || BfrtError::Value {
            table: self.table.name.clone(),
            field: field.name.clone(),
            value: format!("{value:?}"),
            form: format!("{}{}", if field.repeated { "a list, each " } else { "" }, field.form),
        };
        let wire = match (&value, &field.form, field.repeated) {
            (Value::Number(n), Form::Bits(_), false) => Wire::Stream(self.number(field, *n)?),
            (Value::Bool(is), Form::Bool, false) => Wire::BoolVal(*is),
            (Value::Text(text), Form::Text(words), false)
                if words.is_empty() || words.iter().any(|w| w == text) =>
            {
                Wire::StrVal((*text).into())
            }
            (Value::Numbers(all), Form::Bits(bits), true) if all.iter().all(|n| fits((*n).into(), *bits)) => {
                Wire::IntArrVal(bf::data_field::IntArray { val: all.clone() })
            }
            (Value::Bools(all), Form::Bool, true) => {
                Wire::BoolArrVal(bf::data_field::BoolArray { val: all.clone() })
            }
            (Value::Bytes(bytes), Form::Bits(8), true) => Wire::Stream(bytes.clone()),
            _ => return Err(misfit()),
        };
        self.data.push(bf::DataField { field_id: field.id, value: Some(wire) });
        Ok(self)
    }

    pub(super) fn entry(self) -> bf::TableEntry {
        let action_id = self.action.map_or(0, |a| a.id);
        let data = (action_id != 0 || !self.data.is_empty())
            .then_some(bf::TableData { action_id, fields: self.data });
        let key = (!self.keys.is_empty())
            .then_some(bf::table_entry::Value::Key(bf::TableKey { fields: self.keys }));
        bf::TableEntry { table_id: self.table.id, value: key, data, ..Default::default() }
    }

    fn named(&self, fields: &'i [Field], kind: &str, name: &str) -> Result<&'i Field, BfrtError> {
        let missing = || self.info.missing(format!("{kind} `{name}` of table `{}`", self.table.name));
        fields.iter().find(|f| f.name == name).ok_or_else(missing)
    }

    fn number(&self, field: &Field, value: u64) -> Result<Vec<u8>, BfrtError> {
        padded(&self.table.name, field, value)
    }
}

fn fits(value: u64, bits: u32) -> bool {
    bits >= 64 || value >> bits == 0
}

/// `value`, in as many bytes as the field has.
pub(super) fn padded(table: &str, field: &Field, value: u64) -> Result<Vec<u8>, BfrtError> {
    match field.form {
        Form::Bits(bits) if fits(value, bits) => {
            let size = bits.div_ceil(8) as usize;
            let mut out = vec![0; size.saturating_sub(8)];
            out.extend(&value.to_be_bytes()[8usize.saturating_sub(size)..]);
            Ok(out)
        }
        _ => Err(BfrtError::Value {
            table: table.into(),
            field: field.name.clone(),
            value: format!("{value:#x}"),
            form: field.form.to_string(),
        }),
    }
}

/// The value of field `name` of an entry that was read.
pub(super) fn data<'e>(info: &Info, entry: &'e bf::TableEntry, name: &str) -> Option<&'e Wire> {
    let table = info.by_id(entry.table_id)?;
    let data = entry.data.as_ref()?;
    let is = |f: &&bf::DataField| {
        table.data_field(data.action_id, f.field_id).is_some_and(|field| field.name == name)
    };
    data.fields.iter().find(is)?.value.as_ref()
}

/// The only key of an entry that was read.
pub(super) fn only_key(entry: &bf::TableEntry) -> Option<u64> {
    let keys = keys(entry)?;
    let (_, only) = keys.first_key_value().filter(|_| keys.len() == 1)?;
    Some(*only)
}

/// The entry's keys, by their numbers, if all are compared with one value.
pub(super) fn keys(entry: &bf::TableEntry) -> Option<BTreeMap<u32, u64>> {
    let Some(bf::table_entry::Value::Key(key)) = &entry.value else { return None };
    let value = |field: &bf::KeyField| match &field.match_type {
        Some(bf::key_field::MatchType::Exact(exact)) => Some((field.field_id, number(&exact.value))),
        Some(bf::key_field::MatchType::Ternary(ternary)) => Some((field.field_id, number(&ternary.value))),
        _ => None,
    };
    key.fields.iter().map(value).collect()
}
