//! Entries and counters, from P4Runtime's form to that of BF Runtime and back. Numbers are the same; P4Runtime's byte
//! strings are as short as they can be, those of BF Runtime as long as the field.

use super::BfrtError;
use super::info::{Field, Info, Table};
use super::proto as bf;
use super::row::{Row, Value, data, only_key, padded};
use p4runtime_proto::p4::v1 as rt;
use zsr_plan::p4::schema::{canonical, number};

const PACKETS: &str = "$COUNTER_SPEC_PKTS";
const BYTES: &str = "$COUNTER_SPEC_BYTES";
const INDEX: &str = "$COUNTER_INDEX";

fn table(info: &Info, id: u32) -> Result<&Table, BfrtError> {
    info.by_id(id).ok_or_else(|| info.missing(format!("table number {id}")))
}

/// An entry for the switch.
pub(super) fn entry(info: &Info, entry: &rt::TableEntry) -> Result<bf::TableEntry, BfrtError> {
    let table = table(info, entry.table_id)?;
    let mut fields = Vec::with_capacity(entry.r#match.len());
    for m in &entry.r#match {
        let Some(rt::field_match::FieldMatchType::Exact(exact)) = &m.field_match_type else {
            return Err(BfrtError::Unsaid("a key that is not matched exactly"));
        };
        let value = wide(info, table, table.key_field(m.field_id), &exact.value)?;
        let match_type = Some(bf::key_field::MatchType::Exact(bf::key_field::Exact { value }));
        fields.push(bf::KeyField { field_id: m.field_id, match_type });
    }
    let data = match entry.action.as_ref().and_then(|a| a.r#type.as_ref()) {
        None => None,
        Some(rt::table_action::Type::Action(a)) => {
            let field = |p: &rt::action::Param| {
                let of_action = table.data_field(a.action_id, p.param_id);
                let value = Some(bf::data_field::Value::Stream(wide(info, table, of_action, &p.value)?));
                Ok(bf::DataField { field_id: p.param_id, value })
            };
            let fields = a.params.iter().map(field).collect::<Result<_, BfrtError>>()?;
            Some(bf::TableData { action_id: a.action_id, fields })
        }
        Some(_) => return Err(BfrtError::Unsaid("an action of a profile")),
    };
    let key = Some(bf::table_entry::Value::Key(bf::TableKey { fields }));
    Ok(bf::TableEntry { table_id: entry.table_id, value: key, data, ..Default::default() })
}

/// The same entry for the twin of its table, if there is one.
pub(super) fn twin(info: &Info, entry: &bf::TableEntry) -> Option<bf::TableEntry> {
    let (table, twin) = (info.by_id(entry.table_id)?, info.twin(entry.table_id)?);
    let action_of = |id| {
        let actions = table.actions.iter().zip(&twin.actions);
        actions.clone().find(|(own, _)| own.id == id).map_or(0, |(_, other)| other.id)
    };
    let data = |data: bf::TableData| bf::TableData { action_id: action_of(data.action_id), ..data };
    let entry = entry.clone();
    Some(bf::TableEntry { table_id: twin.id, data: entry.data.map(data), ..entry })
}

fn wide(info: &Info, table: &Table, field: Option<&Field>, value: &[u8]) -> Result<Vec<u8>, BfrtError> {
    let field = field.ok_or_else(|| info.missing(format!("such field of table `{}`", table.name)))?;
    padded(&table.name, field, number(value))
}

/// An entry of the switch; `None` for the default one.
pub(super) fn entry_back(entry: &bf::TableEntry) -> Option<rt::TableEntry> {
    let Some(bf::table_entry::Value::Key(key)) = &entry.value else { return None };
    if entry.is_default_entry {
        return None;
    }
    let exact = |f: &bf::KeyField| match &f.match_type {
        Some(bf::key_field::MatchType::Exact(exact)) => {
            let value = canonical(number(&exact.value));
            let exact = rt::field_match::FieldMatchType::Exact(rt::field_match::Exact { value });
            Some(rt::FieldMatch { field_id: f.field_id, field_match_type: Some(exact) })
        }
        _ => None,
    };
    let mut r#match = key.fields.iter().map(exact).collect::<Option<Vec<_>>>()?;
    r#match.sort_by_key(|m| m.field_id);
    let action = entry.data.as_ref().map(|d| {
        let param = |f: &bf::DataField| match &f.value {
            Some(bf::data_field::Value::Stream(value)) => {
                Some(rt::action::Param { param_id: f.field_id, value: canonical(number(value)) })
            }
            _ => None,
        };
        let mut params: Vec<_> = d.fields.iter().filter_map(param).collect();
        params.sort_by_key(|p| p.param_id);
        let action = rt::Action { action_id: d.action_id, params };
        rt::TableAction { r#type: Some(rt::table_action::Type::Action(action)) }
    });
    Some(rt::TableEntry { table_id: entry.table_id, r#match, action, ..Default::default() })
}

/// A counter's cell for the switch, with what it is to count from.
pub(super) fn counter(info: &Info, entry: &rt::CounterEntry) -> Result<bf::TableEntry, BfrtError> {
    let table = table(info, entry.counter_id)?;
    let mut row = Row::at(info, table);
    if let Some(index) = &entry.index {
        row = row.key(INDEX, index.index as u64)?;
    }
    if let Some(data) = &entry.data {
        for (name, value) in [(BYTES, data.byte_count), (PACKETS, data.packet_count)] {
            if table.data.iter().any(|f| f.name == name) {
                row = row.with(name, Value::Number(value as u64))?;
            }
        }
    }
    Ok(row.entry())
}

/// A counter's cell as the switch has it: index, packets, bytes.
pub(super) fn counter_back(info: &Info, entry: &bf::TableEntry) -> Option<(u64, u64, u64)> {
    let read = |name| match data(info, entry, name) {
        Some(bf::data_field::Value::Stream(bytes)) => number(bytes),
        _ => 0,
    };
    Some((only_key(entry)?, read(PACKETS), read(BYTES)))
}
