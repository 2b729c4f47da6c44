//! Tables: entries by handle, defaults, direct counters and meters.

use zsr_soft_switch::{
    ControlError, CounterValue, EntryAction, EntryHandle, MatchField, MatchKind, MeterConfig, TableEntry,
    TableId,
};

use crate::error::{Error, Result, refused, table};
use crate::session::{Session, padded};

/// An entry as the interface shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub handle: EntryHandle,
    /// Numbers as wide as their fields.
    pub key: Vec<MatchField>,
    /// The smallest wins; `None` in tables without priorities.
    pub priority: Option<i32>,
    pub action: EntryAction,
    /// Timeout, and time since the last hit, in milliseconds, of an entry that ages.
    pub life: Option<(i32, i32)>,
}

impl Session<'_> {
    /// Adds an entry. In tables with priorities the entry of the smallest wins.
    pub(crate) fn entry_add(
        &mut self,
        t: TableId,
        key: Vec<MatchField>,
        priority: i32,
        action: EntryAction,
    ) -> Result<EntryHandle> {
        let (key, priority) = (self.key(t, key)?, self.priority(t, priority)?);
        let entry =
            TableEntry { key: key.clone(), priority, action, idle_timeout_ns: 0, metadata: Vec::new() };
        self.switch.table_insert(t, entry)?;
        Ok(self.switch.entry_handle(t, &key, priority)?)
    }

    /// Changes the action of an entry.
    pub(crate) fn entry_modify(&mut self, t: TableId, handle: i32, action: EntryAction) -> Result<()> {
        let entry = TableEntry { action, ..self.entry(t, handle)? };
        Ok(self.switch.table_modify(t, entry)?)
    }

    /// Removes an entry.
    pub(crate) fn entry_delete(&mut self, t: TableId, handle: i32) -> Result<()> {
        let TableEntry { key, priority, .. } = self.entry(t, handle)?;
        Ok(self.switch.table_delete(t, &key, priority)?)
    }

    /// Sets how long an entry may be idle.
    pub(crate) fn entry_timeout(&mut self, t: TableId, handle: i32, ms: i32) -> Result<()> {
        if !self.info().tables[t.index()].idle_timeout {
            return Err(refused(table::AGEING_DISABLED, "entries of this table have no timeouts"));
        }
        let ms = u64::try_from(ms).map_err(|_| Error::Arguments(format!("{ms} ms: below 0")))?;
        let entry = TableEntry { idle_timeout_ns: ms * 1_000_000, ..self.entry(t, handle)? };
        Ok(self.switch.table_modify(t, entry)?)
    }

    /// Removes all entries, and puts the default action back if that is asked for.
    pub(crate) fn entries_clear(&mut self, t: TableId, reset_default: bool) -> Result<()> {
        self.switch.table_clear(t)?;
        if reset_default {
            self.switch.reset_default(t)?;
        }
        Ok(())
    }

    /// Sets what a miss does.
    pub(crate) fn default_set(&mut self, t: TableId, action: EntryAction) -> Result<()> {
        Ok(self.switch.set_default(t, action)?)
    }

    /// An entry, by its handle.
    pub(crate) fn entry_shown(&self, t: TableId, handle: i32) -> Result<Shown> {
        let entry = self.entry(t, handle)?;
        Ok(self.shown(t, EntryHandle(handle as u32), entry.clone()))
    }

    /// An entry, by its key.
    pub(crate) fn entry_of_key(&self, t: TableId, key: Vec<MatchField>, priority: i32) -> Result<Shown> {
        let (key, priority) = (self.key(t, key)?, self.priority(t, priority)?);
        let none = |_| refused(table::BAD_MATCH_KEY, "no entry has this key");
        let handle = self.switch.entry_handle(t, &key, priority).map_err(none)?;
        self.entry_shown(t, handle.0 as i32)
    }

    /// All entries, by handle.
    pub(crate) fn entries(&self, t: TableId) -> Result<Vec<Shown>> {
        let all = self.switch.entries_by_handle(t)?;
        Ok(all.into_iter().map(|(handle, entry)| self.shown(t, handle, entry)).collect())
    }

    /// The direct counter of an entry.
    pub(crate) fn entry_counter(&self, t: TableId, handle: i32) -> Result<CounterValue> {
        self.check_counted(t)?;
        let entry = self.entry(t, handle)?;
        Ok(self.switch.entry_counter(t, &entry.key, entry.priority)?)
    }

    /// Sets the direct counter of an entry.
    pub(crate) fn entry_counter_set(&mut self, t: TableId, handle: i32, value: CounterValue) -> Result<()> {
        self.check_counted(t)?;
        let TableEntry { key, priority, .. } = self.entry(t, handle)?;
        Ok(self.switch.set_entry_counter(t, &key, priority, value)?)
    }

    /// Sets the direct counters of all entries to 0.
    pub(crate) fn entry_counters_reset(&mut self, t: TableId) -> Result<()> {
        self.check_counted(t)?;
        for entry in self.switch.table_entries(t)? {
            self.switch.set_entry_counter(t, &entry.key, entry.priority, CounterValue::default())?;
        }
        Ok(())
    }

    /// The direct meter of an entry; `None`: every packet is green.
    pub(crate) fn entry_meter(&self, t: TableId, handle: i32) -> Result<Option<MeterConfig>> {
        self.check_metered(t)?;
        let entry = self.entry(t, handle)?;
        Ok(self.switch.entry_meter(t, &entry.key, entry.priority)?)
    }

    /// Sets the direct meter of an entry.
    pub(crate) fn entry_meter_set(&mut self, t: TableId, handle: i32, config: MeterConfig) -> Result<()> {
        self.check_metered(t)?;
        let TableEntry { key, priority, .. } = self.entry(t, handle)?;
        let set = self.switch.set_entry_meter(t, &key, priority, Some(config));
        set.map_err(|e| refused(table::INVALID_METER_OPERATION, e.to_string()))
    }

    fn check_counted(&self, t: TableId) -> Result<()> {
        let counts = self.info().tables[t.index()].direct_counter;
        counts.then_some(()).ok_or_else(|| refused(table::COUNTERS_DISABLED, "this table has no counter"))
    }

    fn check_metered(&self, t: TableId) -> Result<()> {
        let meters = self.info().tables[t.index()].direct_meter.is_some();
        meters.then_some(()).ok_or_else(|| refused(table::METERS_DISABLED, "this table has no meter"))
    }

    fn entry(&self, t: TableId, handle: i32) -> Result<TableEntry> {
        let none = |_| refused(table::INVALID_HANDLE, format!("no entry has handle {handle}"));
        self.switch.entry_by_handle(t, EntryHandle(handle as u32)).map_err(none)
    }

    /// The key as the switch wants it: bits that do not count are 0.
    fn key(&self, t: TableId, key: Vec<MatchField>) -> Result<Vec<MatchField>> {
        let keys = &self.info().tables[t.index()].keys;
        if keys.is_empty() {
            return Err(refused(table::NO_TABLE_KEY, "the table has no key, so it has only a default entry"));
        }
        if keys.len() != key.len() {
            return Err(ControlError::KeyCount { got: key.len(), expected: keys.len() }.into());
        }
        key.into_iter().zip(keys).map(|(field, info)| wanted(field, info.kind, info.width)).collect()
    }

    /// The priority as the switch has it: the largest wins.
    fn priority(&self, t: TableId, priority: i32) -> Result<i32> {
        if !self.info().tables[t.index()].has_priority {
            return Ok(0);
        }
        let from = self.priorities_from(t);
        if !(0..from).contains(&priority) {
            let why = format!("priority {priority}: 0 to {} are possible", from - 1);
            return Err(refused(table::ERROR, why));
        }
        Ok(from - priority)
    }

    /// The number from which the interface's priorities count down to those of the switch.
    fn priorities_from(&self, t: TableId) -> i32 {
        self.info().tables[t.index()].priorities_from.unwrap_or(i32::MAX)
    }

    fn shown(&self, t: TableId, handle: EntryHandle, entry: TableEntry) -> Shown {
        let info = &self.info().tables[t.index()];
        let now = self.switch.now_ns();
        let idle = self.switch.entry_idle_ns(t, &entry.key, entry.priority, now);
        let ms = |ns: u64| i32::try_from(ns / 1_000_000).unwrap_or(i32::MAX);
        let life = idle.ok().filter(|_| entry.idle_timeout_ns > 0);
        let life = life.map(|idle| (ms(entry.idle_timeout_ns), ms(idle)));
        let fields = entry.key.into_iter().zip(&info.keys);
        Shown {
            handle,
            key: fields.map(|(field, info)| as_shown(field, info.width)).collect(),
            priority: info.has_priority.then(|| self.priorities_from(t) - entry.priority),
            action: entry.action,
            life,
        }
    }
}

/// A field with those bits at 0 that do not count.
fn wanted(field: MatchField, kind: MatchKind, width: u32) -> Result<MatchField> {
    Ok(match field {
        MatchField::Lpm { value, prefix_len } => {
            let mut value = padded(&value, width);
            let unused = value.len() * 8 - width as usize;
            clear_behind(&mut value, unused + prefix_len as usize);
            MatchField::Lpm { value, prefix_len }
        }
        MatchField::Ternary { value, mask } => {
            let bytes = value.len().max(mask.len()) as u32 * 8;
            let (mut value, mask) = (padded(&value, bytes), padded(&mask, bytes));
            value.iter_mut().zip(&mask).for_each(|(byte, mask)| *byte &= mask);
            match kind {
                MatchKind::Optional if mask.iter().all(|byte| *byte == 0) => MatchField::Optional(None),
                MatchKind::Optional if mask.ends_with(&ones(width)) => MatchField::Optional(Some(value)),
                MatchKind::Optional => {
                    return Err(refused(
                        table::BAD_MATCH_KEY,
                        "the mask of an optional field has all bits or none",
                    ));
                }
                _ => MatchField::Ternary { value, mask },
            }
        }
        other => other,
    })
}

/// Clears all bits behind the first `bits`.
fn clear_behind(value: &mut [u8], bits: usize) {
    for (i, byte) in value.iter_mut().enumerate() {
        let kept = bits.saturating_sub(i * 8).min(8) as u32;
        *byte &= !0xffu8.checked_shr(kept).unwrap_or(0);
    }
}

/// A field with numbers as wide as bmv2 has them.
fn as_shown(field: MatchField, width: u32) -> MatchField {
    let wide = |value: &[u8]| padded(value, width);
    match field {
        MatchField::Exact(value) => MatchField::Exact(wide(&value)),
        MatchField::Lpm { value, prefix_len } => MatchField::Lpm { value: wide(&value), prefix_len },
        MatchField::Ternary { value, mask } => MatchField::Ternary { value: wide(&value), mask: wide(&mask) },
        MatchField::Range { low, high } => MatchField::Range { low: wide(&low), high: wide(&high) },
        MatchField::Optional(Some(value)) => MatchField::Ternary { value: wide(&value), mask: ones(width) },
        MatchField::Optional(None) => MatchField::Ternary { value: wide(&[]), mask: wide(&[]) },
    }
}

fn ones(width: u32) -> Vec<u8> {
    let mut all = vec![0xff; width.div_ceil(8) as usize];
    if let Some(first) = all.first_mut() {
        *first >>= (8 - width % 8) % 8;
    }
    all
}
