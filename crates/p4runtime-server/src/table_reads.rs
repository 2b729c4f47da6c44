//! Reads of table entries and their direct resources (specification, "Wildcard Reads" of "TableEntry").

use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::entity::Entity;
use p4runtime_proto::p4::v1::table_action::Type;

use super::apply::Extras;
use super::keys::{read_key, write_key};
use super::ops::{Attached, EntryKey, Which};
use super::reads::{select, write_counter, write_meter};
use super::refusal::{Outcome, Refusal};
use super::schema::{Schema, Table};
use super::table_updates::no_default_direct;
use super::target::Pipeline;
use super::updates::no_colors;
use zsr_soft_switch::ControlError;
use zsr_soft_switch::Switch;
use zsr_soft_switch::{ActionId, TableId};
use zsr_soft_switch::{CounterValue, EntryAction, MatchField, MeterConfig, TableEntry};

/// Which entries of one table, and what of them.
#[derive(Clone)]
struct Query {
    table: TableId,
    default: bool,
    key: Option<Vec<MatchField>>,
    priority: i32,
    action: Option<ActionId>,
    number: u64,
    metadata: Vec<u8>,
    counter: bool,
    meter: bool,
    idle: bool,
}

/// One entry as the switch has it.
struct Row {
    which: Which,
    action: Option<EntryAction>,
    idle_timeout_ns: u64,
    metadata: Vec<u8>,
    counter: Option<CounterValue>,
    meter: Option<MeterConfig>,
    since_hit: Option<u64>,
}

impl Query {
    fn new(schema: &Schema, table: &Table, filter: &pb::TableEntry) -> Outcome<Self> {
        let key = if filter.r#match.is_empty() {
            None
        } else {
            if filter.is_default_action {
                return Err(Refusal::invalid("the default entry has no match"));
            }
            Some(read_key(&table.fields, &filter.r#match)?)
        };
        if filter.time_since_last_hit.is_some() && (!table.idle_timeout || filter.is_default_action) {
            let what = if filter.is_default_action { "the default entry" } else { "the table" };
            return Err(Refusal::invalid(format!("{what} has no idle timeout")));
        }
        no_colors(filter.meter_counter_data.as_ref())?;
        let action = match filter.action.as_ref().and_then(|action| action.r#type.as_ref()) {
            None => None,
            Some(Type::Action(action)) if table.profile.is_none() => {
                let known = table.actions.get(&action.action_id);
                let known = known.ok_or_else(|| schema.no_action(action.action_id))?.engine;
                debug_assert!(schema.by_engine.actions.contains_key(&known));
                Some(known)
            }
            Some(_) => {
                return Err(Refusal::unimplemented(
                    "entries can be chosen by action_id only, in tables without action profile",
                ));
            }
        };
        #[allow(deprecated)]
        let number = filter.controller_metadata;
        Ok(Self {
            table: table.engine,
            default: filter.is_default_action,
            key,
            priority: filter.priority,
            action,
            number,
            metadata: filter.metadata.clone(),
            counter: filter.counter_data.is_some() && table.direct_counter,
            meter: filter.meter_config.is_some() && table.direct_meter.is_some(),
            idle: filter.time_since_last_hit.is_some(),
        })
    }

    /// Every entry of a table, with what direct resources there are.
    fn all(table: &Table) -> Self {
        Self {
            table: table.engine,
            default: false,
            key: None,
            priority: 0,
            action: None,
            number: 0,
            metadata: Vec::new(),
            counter: table.direct_counter,
            meter: table.direct_meter.is_some(),
            idle: false,
        }
    }

    fn wants(&self, entry: &TableEntry) -> bool {
        let attached = Attached::unpack(&entry.metadata);
        let action = |wanted| matches!(&entry.action, EntryAction::Call(call) if call.action == wanted);
        (self.priority == 0 || self.priority == entry.priority)
            && self.action.is_none_or(action)
            && self.wants_attached(&attached)
    }

    fn wants_attached(&self, attached: &Attached) -> bool {
        (self.number == 0 || self.number == attached.number)
            && (self.metadata.is_empty() || self.metadata == attached.bytes)
    }

    /// On the thread that owns the switch.
    fn run(&self, switch: &mut Switch, extras: &Extras) -> Result<Vec<Row>, ControlError> {
        if self.default {
            let metadata = extras.default_metadata.get(&self.table).cloned().unwrap_or_default();
            let action = switch.default_entry(self.table)?;
            let entry = Row { action, metadata, ..Row::of(Which::Default) };
            let wanted = self.action.is_none_or(
                |wanted| matches!(&entry.action, Some(EntryAction::Call(call)) if call.action == wanted),
            );
            let same = self.wants_attached(&Attached::unpack(&entry.metadata));
            let entry = if wanted && same { vec![entry] } else { Vec::new() };
            return Ok(entry);
        }
        let has_priority =
            switch.info().tables.get(self.table.index()).is_some_and(|table| table.has_priority);
        let entries = match &self.key {
            // With no priority given there may be several with this key.
            Some(key) if self.priority != 0 || !has_priority => {
                match switch.table_get(self.table, key, self.priority) {
                    Ok(entry) => vec![entry],
                    Err(ControlError::NoEntry { .. }) => Vec::new(),
                    Err(error) => return Err(error),
                }
            }
            _ => switch.table_entries(self.table)?,
        };
        let same_key = |entry: &TableEntry| {
            self.key
                .as_ref()
                .is_none_or(|key| switch.table_get(self.table, key, entry.priority).as_ref() == Ok(entry))
        };
        let entries: Vec<_> =
            entries.into_iter().filter(|entry| self.wants(entry) && same_key(entry)).collect();
        Ok(entries
            .into_iter()
            .map(|entry| {
                let TableEntry { key, priority, action, idle_timeout_ns, metadata } = entry;
                let mut row =
                    Row { action: Some(action), idle_timeout_ns, metadata, ..Row::of(Which::Default) };
                if self.counter {
                    row.counter = switch.entry_counter(self.table, &key, priority).ok();
                }
                if self.meter {
                    row.meter = switch.entry_meter(self.table, &key, priority).ok().flatten();
                }
                if self.idle {
                    row.since_hit = switch.entry_idle_ns(self.table, &key, priority, switch.now_ns()).ok();
                }
                row.which = Which::Entry(EntryKey { key, priority });
                row
            })
            .collect())
    }
}

impl Row {
    fn of(which: Which) -> Self {
        Self {
            which,
            action: None,
            idle_timeout_ns: 0,
            metadata: Vec::new(),
            counter: None,
            meter: None,
            since_hit: None,
        }
    }
}

impl Schema {
    /// The fields that tell which entry it is.
    pub fn write_which(&self, table: &Table, which: &Which) -> pb::TableEntry {
        let entry = pb::TableEntry { table_id: table.id, ..pb::TableEntry::default() };
        match which {
            Which::Default => pb::TableEntry { is_default_action: true, ..entry },
            Which::Entry(EntryKey { key, priority }) => {
                pb::TableEntry { r#match: write_key(&table.fields, key), priority: *priority, ..entry }
            }
        }
    }

    fn write_row(&self, table: &Table, row: Row) -> pb::TableEntry {
        let attached = Attached::unpack(&row.metadata);
        let mut entry = self.write_which(table, &row.which);
        #[allow(deprecated)]
        {
            entry.controller_metadata = attached.number;
        }
        entry.metadata = attached.bytes;
        entry.action = row.action.map(|action| match (&row.which, action) {
            // The default action is always a plain action.
            (Which::Default, EntryAction::Call(call)) => {
                pb::TableAction { r#type: Some(Type::Action(self.write_action(&call))) }
            }
            (_, action) => {
                let mut action = self.write_entry_action(table, &action);
                if let Some(Type::ActionProfileActionSet(set)) = &mut action.r#type {
                    let [mode, semantics] = attached.modes;
                    (set.action_selection_mode, set.size_semantics) = (mode.into(), semantics.into());
                }
                action
            }
        });
        if matches!(row.which, Which::Default) && entry.action.is_none() {
            // A table with an action profile has a default entry that the program itself does without.
            let action = table.initial_default.clone().map(Type::Action);
            entry.action = action.map(|action| pb::TableAction { r#type: Some(action) });
        }
        entry.idle_timeout_ns = i64::try_from(row.idle_timeout_ns).unwrap_or(i64::MAX);
        entry.counter_data = row.counter.map(write_counter);
        entry.meter_config = row.meter.map(write_meter);
        entry.time_since_last_hit = row.since_hit.map(|elapsed| pb::table_entry::IdleTimeout {
            elapsed_ns: i64::try_from(elapsed).unwrap_or(i64::MAX),
        });
        entry.is_const = match row.which {
            Which::Entry(_) => table.is_const,
            Which::Default => table.const_default || table.profile.is_some(),
        };
        entry
    }

    /// An entry in a notification.
    pub fn write_idle_entry(&self, table: &Table, entry: TableEntry) -> pb::TableEntry {
        let TableEntry { key, priority, idle_timeout_ns, metadata, .. } = entry;
        let which = Which::Entry(EntryKey { key, priority });
        let row = Row { idle_timeout_ns, metadata, ..Row::of(which) };
        self.write_row(table, row)
    }
}

impl Pipeline {
    async fn rows(&self, query: Query) -> Outcome<Vec<Row>> {
        Ok(self.call(move |switch, extras| query.run(switch, extras)).await??)
    }

    pub(super) async fn read_tables(&self, filter: &pb::TableEntry) -> Outcome<Vec<Entity>> {
        let mut entities = Vec::new();
        for (_, table) in select(&self.schema.tables, filter.table_id, "table")? {
            let mut filter = filter.clone();
            if filter.table_id == 0 {
                check_no_filter(&filter)?;
                filter.time_since_last_hit = filter.time_since_last_hit.filter(|_| table.idle_timeout);
            }
            let query = Query::new(&self.schema, table, &filter)?;
            let rows = self.rows(query).await?;
            entities
                .extend(rows.into_iter().map(|row| Entity::TableEntry(self.schema.write_row(table, row))));
        }
        Ok(entities)
    }

    /// Rows that a direct resource's request names. One that names a single entry must find it.
    async fn direct_rows<'a>(
        &'a self,
        filter: Option<&pb::TableEntry>,
        has: fn(&Table) -> bool,
        what: &str,
    ) -> Outcome<Vec<(&'a Table, Row)>> {
        let any = pb::TableEntry::default();
        let filter = filter.unwrap_or(&any);
        let mut found = Vec::new();
        for (id, table) in select(&self.schema.tables, filter.table_id, "table")? {
            if !has(table) {
                if filter.table_id == id {
                    return Err(Refusal::invalid(format!("it has no direct {what}")));
                }
                continue;
            }
            if filter.is_default_action {
                return Err(no_default_direct());
            }
            let mut query = Query::all(table);
            if filter.table_id == 0 {
                check_no_filter(filter)?;
            } else {
                query.priority = filter.priority;
                if !filter.r#match.is_empty() {
                    query.key = Some(read_key(&table.fields, &filter.r#match)?);
                }
            }
            let named = query.key.is_some();
            let rows = self.rows(query).await?;
            if named && rows.is_empty() {
                return Err(Refusal::not_found("there is no entry with this key"));
            }
            found.extend(rows.into_iter().map(|row| (table, row)));
        }
        Ok(found)
    }

    pub(super) async fn read_direct_counters(&self, filter: &pb::DirectCounterEntry) -> Outcome<Vec<Entity>> {
        let rows =
            self.direct_rows(filter.table_entry.as_ref(), |table| table.direct_counter, "counter").await?;
        let entity = |(table, row): (&Table, Row)| {
            let table_entry = Some(self.schema.write_which(table, &row.which));
            Entity::DirectCounterEntry(pb::DirectCounterEntry {
                table_entry,
                data: row.counter.map(write_counter),
            })
        };
        Ok(rows.into_iter().map(entity).collect())
    }

    pub(super) async fn read_direct_meters(&self, filter: &pb::DirectMeterEntry) -> Outcome<Vec<Entity>> {
        no_colors(filter.counter_data.as_ref())?;
        let has = |table: &Table| table.direct_meter.is_some();
        let rows = self.direct_rows(filter.table_entry.as_ref(), has, "meter").await?;
        let entity = |(table, row): (&Table, Row)| {
            let table_entry = Some(self.schema.write_which(table, &row.which));
            let config = row.meter.map(write_meter);
            Entity::DirectMeterEntry(pb::DirectMeterEntry { table_entry, config, counter_data: None })
        };
        Ok(rows.into_iter().map(entity).collect())
    }
}

/// With no table given, nothing else can be chosen either.
fn check_no_filter(filter: &pb::TableEntry) -> Outcome<()> {
    #[allow(deprecated)]
    let number = filter.controller_metadata;
    let chosen = !filter.r#match.is_empty()
        || filter.action.is_some()
        || filter.priority != 0
        || number != 0
        || !filter.metadata.is_empty();
    if chosen {
        Err(Refusal::invalid("entries of all tables can't be filtered; give a table_id"))
    } else {
        Ok(())
    }
}
