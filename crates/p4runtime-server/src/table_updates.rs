//! From an Update of a table entry or its direct resources to an [`Op`] (specification, "TableEntry").

use p4runtime_proto::p4::v1 as pb;

use super::keys::read_key;
use super::ops::{Attached, EntryKey, MeterChange, Op, Verb, Which};
use super::refusal::{Outcome, Refusal};
use super::schema::Table;
use super::updates::{Reader, no_colors, no_object, only_modify, read_counter, read_meter};
use zsr_soft_switch::{CounterValue, EntryAction, TableEntry};

impl Reader<'_> {
    pub(super) fn table(&self, id: u32) -> Outcome<&Table> {
        self.schema.tables.get(&id).ok_or_else(|| no_object("table", id))
    }

    pub(super) fn table_entry(&self, verb: Verb, entry: &pb::TableEntry) -> Outcome<Op> {
        let table = self.table(entry.table_id)?;
        match read_which(table, entry)? {
            _ if entry.is_const => {
                Err(Refusal::invalid("is_const must not be set; only the program makes entries const"))
            }
            Which::Default => self.default_entry(verb, table, entry),
            Which::Entry(at) => self.match_entry(verb, table, entry, at),
        }
    }

    fn match_entry(&self, verb: Verb, table: &Table, entry: &pb::TableEntry, at: EntryKey) -> Outcome<Op> {
        if table.is_const && verb != Verb::Modify {
            return Err(Refusal::denied("all entries are const; they can't be inserted or deleted"));
        }
        if verb == Verb::Delete {
            return Ok(Op::DeleteEntry { table: table.engine, entry: at });
        }
        if verb == Verb::Insert && table.fields.is_empty() {
            return Err(Refusal::invalid("a table without key has a default entry only"));
        }
        let (counter, meter) = read_direct(table, entry)?;
        if table.is_const {
            let attached = read_attached(entry) != Attached::default();
            if entry.action.is_some() || entry.idle_timeout_ns != 0 || attached {
                return Err(Refusal::denied(
                    "the entry is const; only its counter and meter can be modified",
                ));
            }
            return Ok(Op::Direct { table: table.engine, entry: at, counter, meter });
        }
        let idle_timeout_ns = read_idle(table, entry)?;
        let attached = read_attached(entry);
        let action =
            entry.action.as_ref().map(|action| self.schema.read_entry_action(table, action)).transpose()?;
        if verb == Verb::Modify {
            let table = table.engine;
            return Ok(Op::ModifyEntry {
                table,
                entry: at,
                action,
                idle_timeout_ns,
                attached,
                counter,
                meter,
            });
        }
        let action: EntryAction = action.ok_or_else(|| Refusal::invalid("a new entry needs an action"))?;
        let EntryKey { key, priority } = at;
        let entry = TableEntry { key, priority, action, idle_timeout_ns, metadata: attached.pack() };
        Ok(Op::InsertEntry { table: table.engine, entry, counter, meter })
    }

    fn default_entry(&self, verb: Verb, table: &Table, entry: &pb::TableEntry) -> Outcome<Op> {
        if verb != Verb::Modify {
            return Err(Refusal::invalid("the default entry is always there; it can only be modified"));
        }
        if table.const_default {
            return Err(Refusal::denied("the default entry is const"));
        }
        if table.profile.is_some() {
            return Err(Refusal::denied("the default entry of a table with an action profile is const"));
        }
        if entry.idle_timeout_ns != 0 || entry.time_since_last_hit.is_some() {
            return Err(Refusal::invalid("the default entry has no idle timeout"));
        }
        read_direct(table, entry)?;
        if entry.counter_data.is_some() || entry.meter_config.is_some() {
            return Err(no_default_direct());
        }
        use pb::table_action::Type;
        let action = match entry.action.as_ref().map(|action| &action.r#type) {
            None => None,
            Some(Some(Type::Action(action))) => Some(self.schema.read_table_action(table, action, true)?),
            Some(_) => return Err(Refusal::invalid("the default entry takes an action only")),
        };
        let metadata = if action.is_some() { read_attached(entry).pack() } else { Vec::new() };
        Ok(Op::ModifyDefault { table: table.engine, action, metadata })
    }

    pub(super) fn direct_counter(&self, verb: Verb, entry: &pb::DirectCounterEntry) -> Outcome<Option<Op>> {
        only_modify(verb, "direct counter")?;
        let (table, at) = self.direct(entry.table_entry.as_ref())?;
        if !table.direct_counter {
            return Err(Refusal::invalid("it has no direct counter"));
        }
        let counter = entry.data.as_ref().map(read_counter).transpose()?;
        Ok(Some(Op::Direct { table: table.engine, entry: at, counter, meter: MeterChange::Absent }))
    }

    pub(super) fn direct_meter(&self, verb: Verb, entry: &pb::DirectMeterEntry) -> Outcome<Op> {
        only_modify(verb, "direct meter")?;
        let (table, at) = self.direct(entry.table_entry.as_ref())?;
        let Some(kind) = table.direct_meter else {
            return Err(Refusal::invalid("it has no direct meter"));
        };
        no_colors(entry.counter_data.as_ref())?;
        let meter = match &entry.config {
            Some(config) => MeterChange::Set(read_meter(config, kind)?),
            None => MeterChange::Reset,
        };
        Ok(Op::Direct { table: table.engine, entry: at, counter: None, meter })
    }

    /// The entry that a direct resource belongs to.
    pub(super) fn direct(&self, entry: Option<&pb::TableEntry>) -> Outcome<(&Table, EntryKey)> {
        let entry = entry.ok_or_else(|| Refusal::invalid("table_entry is not set"))?;
        let table = self.table(entry.table_id)?;
        match read_which(table, entry)? {
            Which::Entry(at) => Ok((table, at)),
            Which::Default => Err(no_default_direct()),
        }
    }
}

/// Which entry a message names, by key and priority or as the default entry.
pub(super) fn read_which(table: &Table, entry: &pb::TableEntry) -> Outcome<Which> {
    if entry.is_default_action {
        if !entry.r#match.is_empty() || entry.priority != 0 {
            return Err(Refusal::invalid("the default entry has no match and no priority"));
        }
        return Ok(Which::Default);
    }
    let priority = entry.priority;
    if table.has_priority && priority < 1 {
        return Err(Refusal::invalid(
            "an entry with ternary, range or optional fields needs a priority above 0",
        ));
    }
    if !table.has_priority && priority != 0 {
        return Err(Refusal::invalid(
            "priority must be 0 in a table without ternary, range or optional fields",
        ));
    }
    let key = read_key(&table.fields, &entry.r#match)?;
    Ok(Which::Entry(EntryKey { key, priority }))
}

/// As in bmv2, packets that miss are not counted and not metered.
pub(super) fn no_default_direct() -> Refusal {
    Refusal::unimplemented("this switch has no direct counter or meter for default entries")
}

fn read_attached(entry: &pb::TableEntry) -> Attached {
    use pb::table_action::Type;
    // Modes that this switch does not know are refused with the action.
    let modes = match entry.action.as_ref().and_then(|action| action.r#type.as_ref()) {
        Some(Type::ActionProfileActionSet(set)) => {
            [set.action_selection_mode as u8, set.size_semantics as u8]
        }
        _ => [0; 2],
    };
    #[allow(deprecated)]
    let number = entry.controller_metadata;
    Attached { modes, number, bytes: entry.metadata.clone() }
}

fn read_idle(table: &Table, entry: &pb::TableEntry) -> Outcome<u64> {
    if !table.idle_timeout && entry.idle_timeout_ns != 0 {
        return Err(Refusal::invalid("the table has no idle timeouts"));
    }
    if entry.time_since_last_hit.is_some() {
        return Err(Refusal::invalid("time_since_last_hit can only be read"));
    }
    u64::try_from(entry.idle_timeout_ns).map_err(|_| Refusal::invalid("idle_timeout_ns is negative"))
}

fn read_direct(table: &Table, entry: &pb::TableEntry) -> Outcome<(Option<CounterValue>, MeterChange)> {
    if entry.counter_data.is_some() && !table.direct_counter {
        return Err(Refusal::invalid("the table has no direct counter"));
    }
    if entry.meter_config.is_some() && table.direct_meter.is_none() {
        return Err(Refusal::invalid("the table has no direct meter"));
    }
    if entry.meter_counter_data.is_some() && table.direct_meter.is_none() {
        return Err(Refusal::invalid("the table has no direct meter"));
    }
    no_colors(entry.meter_counter_data.as_ref())?;
    let counter = entry.counter_data.as_ref().map(read_counter).transpose()?;
    let meter = match (table.direct_meter, &entry.meter_config) {
        (None, _) => MeterChange::Absent,
        (Some(_), None) => MeterChange::Reset,
        (Some(kind), Some(config)) => MeterChange::Set(read_meter(config, kind)?),
    };
    Ok((counter, meter))
}
