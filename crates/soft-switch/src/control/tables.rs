//! Tables: entries, defaults, direct counters and meters, idle timeouts.

use super::*;
use crate::error::ControlError;
use crate::info::{ActionId, ProfileId, TableId};
use crate::switch::Switch;
use crate::table::key::{Rule, canonical, to_limbs};
use crate::table::packed::Packed;
use crate::table::{Cold, Hot, NO_ACTION, TableDef};

/// An entry's action, ready for the packet path, with what must be undone when it goes.
pub(super) struct Compiled {
    pub hot: Hot,
    pub args: usize,
    pub implicit: Option<u32>,
}

impl Switch {
    pub(super) fn table_def(&self, t: TableId) -> Result<&TableDef, ControlError> {
        let missing = ControlError::NotFound { kind: "table", id: u64::from(t.0) };
        self.program.image.tables.get(t.index()).ok_or(missing)
    }

    /// The key in words, its priority checked.
    fn rule(&self, t: TableId, key: &[MatchField], priority: i32) -> Result<Rule, ControlError> {
        let def = self.table_def(t)?;
        let info = &self.program.image.info.tables[t.index()];
        if info.has_priority && priority <= 0 {
            return Err(ControlError::Priority("this table's entries need a priority above 0"));
        }
        if !info.has_priority && priority != 0 {
            return Err(ControlError::Priority("this table's entries have no priority (0 was expected)"));
        }
        if def.key.words == 0 {
            return Err(ControlError::NotAvailable("the table has no key, so it has only a default entry"));
        }
        def.key.rule(key, priority)
    }

    pub(super) fn entry(&self, t: TableId, key: &[MatchField], priority: i32) -> Result<usize, ControlError> {
        let rule = self.rule(t, key, priority)?;
        let slot = self.core.tables[t.index()].lookup.slot(&rule);
        slot.map(|slot| slot as usize).ok_or(ControlError::NoEntry { table: t })
    }

    /// Checks an action and its arguments; returns the argument words.
    pub(super) fn action_words(
        &self,
        call: &ActionCall,
        legal: &[ActionId],
    ) -> Result<Vec<u64>, ControlError> {
        let name = || {
            let action = self.program.image.info.actions.get(call.action.index());
            action.map_or_else(|| call.action.0.to_string(), |action| action.name.clone())
        };
        if !legal.contains(&call.action) {
            return Err(ControlError::WrongAction { action: name() });
        }
        let plan = &self.program.image.actions[call.action.index()];
        if plan.params.len() != call.params.len() {
            let (got, expected) = (call.params.len(), plan.params.len());
            return Err(ControlError::ParamCount { action: name(), got, expected });
        }
        let mut words = Vec::with_capacity(plan.words);
        for (index, (value, (_, width))) in call.params.iter().zip(&plan.params).enumerate() {
            let what = "parameter";
            let wide = ControlError::TooWide { what, index, width: *width };
            words.extend(to_limbs(value, *width).ok_or(wide)?);
        }
        Ok(words)
    }

    /// Makes an action ready; takes references on members and groups.
    fn compile_action(
        &mut self,
        t: TableId,
        action: &EntryAction,
        hit: bool,
    ) -> Result<Compiled, ControlError> {
        let info = &self.program.image.info.tables[t.index()];
        let Some(profile) = info.profile else {
            let EntryAction::Call(call) = action else {
                return Err(ControlError::WrongEntryAction(
                    "this table has no action profile: give an action",
                ));
            };
            let words = self.action_words(call, &info.actions)?;
            let def = &self.program.image.tables[t.index()];
            let next = def.behind(Some(call.action.index()), hit);
            let args = self.core.arena.put(&words);
            let start = self.program.image.actions[call.action.index()].start;
            return Ok(Compiled {
                hot: Hot::Call { action: start, next, args },
                args: words.len(),
                implicit: None,
            });
        };
        let hot = match action {
            // p4c gives indirect tables a plain default action (NoAction), which bmv2 runs too.
            EntryAction::Call(call) if !hit => {
                let words = self.action_words(call, &info.actions)?;
                let def = &self.program.image.tables[t.index()];
                let next = def.behind(Some(call.action.index()), false);
                let args = self.core.arena.put(&words);
                let action = self.program.image.actions[call.action.index()].start;
                return Ok(Compiled {
                    hot: Hot::Call { action, next, args },
                    args: words.len(),
                    implicit: None,
                });
            }
            EntryAction::Call(_) => {
                return Err(ControlError::WrongEntryAction(
                    "this table has an action profile: give a member, group or action set",
                ));
            }
            EntryAction::Member(m) => Hot::Member(self.use_member(profile, *m)?),
            EntryAction::Group(g) => Hot::Group(self.use_group(profile, *g)?),
            EntryAction::Set(set) => {
                let group = self.make_implicit(profile, set)?;
                return Ok(Compiled { hot: Hot::Group(group), args: 0, implicit: Some(group) });
            }
        };
        Ok(Compiled { hot, args: 0, implicit: None })
    }

    /// Undoes [`compile_action`](Self::compile_action).
    fn release_action(
        &mut self,
        t: TableId,
        action: &EntryAction,
        hot: Hot,
        args: usize,
        implicit: Option<u32>,
    ) {
        if let Hot::Call { args: at, .. } = hot {
            self.core.arena.free(at, args);
        }
        let Some(p) = self.program.image.info.tables[t.index()].profile else { return };
        match action {
            EntryAction::Member(m) => self.drop_member_use(p, *m),
            EntryAction::Group(g) => self.drop_group_use(p, *g),
            EntryAction::Set(_) => {
                if let Some(g) = implicit {
                    self.drop_implicit(p, g);
                }
            }
            EntryAction::Call(_) => {}
        }
    }

    pub(crate) fn install_program_entries(&mut self) {
        let image = self.program.image.clone();
        for (i, def) in image.tables.iter().enumerate() {
            let t = TableId(i as u32);
            for e in &def.entries {
                // Checked at load; equal keys were refused there only by bmv2's rules, so the first stays.
                let _ = self.insert(t, e.clone());
            }
            if let Some(d) = &def.default {
                let _ = self.put_default(t, d.clone());
            }
        }
    }

    fn insert(&mut self, t: TableId, mut entry: TableEntry) -> Result<(), ControlError> {
        let rule = self.rule(t, &entry.key, entry.priority)?;
        let table = &self.core.tables[t.index()];
        let size = table.unlocked.unwrap_or(self.table_def(t)?.size);
        if table.lookup.slot(&rule).is_some() {
            return Err(ControlError::Duplicate { kind: "table entry" });
        }
        if table.len() >= size {
            return Err(ControlError::Full { kind: "table", size });
        }
        if entry.idle_timeout_ns > 0 && !self.table_def(t)?.idle {
            return Err(ControlError::NotAvailable("this table does not support idle timeouts"));
        }
        let compiled = self.compile_action(t, &entry.action, true)?;
        canonical_entry(&mut entry);
        let now = self.core.now_ns;
        let table = &mut self.core.tables[t.index()];
        let slot = table.take_slot(&self.program.image.tables[t.index()]);
        let i = slot as usize;
        table.order += 1;
        table.hot[i + 1] = compiled.hot;
        table.set_idle(i, now, entry.idle_timeout_ns);
        table.lookup.insert(rule, slot);
        let (args, implicit) = (compiled.args as u32, compiled.implicit);
        table.cold[i] = Some(Cold { entry: Packed::new(&entry), args, implicit, order: table.order });
        Ok(())
    }

    fn not_const(&self, t: TableId) -> Result<(), ControlError> {
        self.table_def(t)?;
        let fixed = self.program.image.info.tables[t.index()].const_entries;
        if fixed && self.core.tables[t.index()].unlocked.is_none() {
            return Err(ControlError::Const { what: "the table's entries" });
        }
        Ok(())
    }

    /// Lets the entries of a table that the program gives entries be changed, and makes room for `size` in all. The
    /// artifact has `entries` and `const entries` alike; only P4Info tells them apart.
    pub fn table_unlock(&mut self, t: TableId, size: usize) -> Result<(), ControlError> {
        self.table_def(t)?;
        self.core.tables[t.index()].unlocked = Some(size);
        self.core.unlocked = true;
        Ok(())
    }

    /// Adds an entry. An equal key (with equal priority) must not be there yet.
    pub fn table_insert(&mut self, t: TableId, entry: TableEntry) -> Result<(), ControlError> {
        self.not_const(t)?;
        self.insert(t, entry)
    }

    /// Changes the action, idle timeout and metadata of the entry with this key and priority. Direct counters and
    /// meters stay as they are.
    pub fn table_modify(&mut self, t: TableId, mut entry: TableEntry) -> Result<(), ControlError> {
        self.not_const(t)?;
        let i = self.entry(t, &entry.key, entry.priority)?;
        if entry.idle_timeout_ns > 0 && !self.table_def(t)?.idle {
            return Err(ControlError::NotAvailable("this table does not support idle timeouts"));
        }
        let compiled = self.compile_action(t, &entry.action, true)?;
        canonical_entry(&mut entry);
        let now = self.core.now_ns;
        let table = &mut self.core.tables[t.index()];
        let old_hot = std::mem::replace(&mut table.hot[i + 1], compiled.hot);
        table.set_idle(i, now, entry.idle_timeout_ns);
        let Some(cold) = &mut table.cold[i] else { return Err(ControlError::NoEntry { table: t }) };
        let old = std::mem::replace(&mut cold.entry, Packed::new(&entry)).unpacked();
        let (args, implicit) = (cold.args, cold.implicit);
        (cold.args, cold.implicit) = (compiled.args as u32, compiled.implicit);
        self.release_action(t, &old.action, old_hot, args as usize, implicit);
        Ok(())
    }

    /// Removes the entry with this key and priority.
    pub fn table_delete(
        &mut self,
        t: TableId,
        key: &[MatchField],
        priority: i32,
    ) -> Result<(), ControlError> {
        self.not_const(t)?;
        let i = self.entry(t, key, priority)?;
        self.remove(t, i);
        Ok(())
    }

    fn remove(&mut self, t: TableId, i: usize) {
        let table = &mut self.core.tables[t.index()];
        let Some(cold) = table.cold[i].take() else { return };
        let entry = cold.entry.unpacked();
        // It was one when the entry came.
        if let Ok(rule) = self.program.image.tables[t.index()].key.rule(&entry.key, entry.priority) {
            table.lookup.remove(&rule, i as u32);
        }
        table.free.push(i as u32);
        table.versions[i] = table.versions[i].wrapping_add(1);
        let hot = table.hot[i + 1];
        self.release_action(t, &entry.action, hot, cold.args as usize, cold.implicit);
    }

    /// Removes all entries.
    pub fn table_clear(&mut self, t: TableId) -> Result<(), ControlError> {
        self.not_const(t)?;
        for i in 0..self.core.tables[t.index()].cold.len() {
            self.remove(t, i);
        }
        Ok(())
    }

    /// The entry with this key and priority.
    pub fn table_get(
        &self,
        t: TableId,
        key: &[MatchField],
        priority: i32,
    ) -> Result<TableEntry, ControlError> {
        let i = self.entry(t, key, priority)?;
        let cold = self.core.tables[t.index()].cold[i].as_ref();
        cold.map(|c| c.entry.unpacked()).ok_or(ControlError::NoEntry { table: t })
    }

    /// All entries, in the order in which they were added.
    pub fn table_entries(&self, t: TableId) -> Result<Vec<TableEntry>, ControlError> {
        self.table_def(t)?;
        let mut all: Vec<&Cold> = self.core.tables[t.index()].cold.iter().flatten().collect();
        all.sort_by_key(|c| c.order);
        Ok(all.into_iter().map(|c| c.entry.unpacked()).collect())
    }

    /// The number of entries.
    pub fn table_len(&self, t: TableId) -> Result<usize, ControlError> {
        self.table_def(t)?;
        Ok(self.core.tables[t.index()].len())
    }

    /// The action of a miss; `None` if a miss does nothing.
    pub fn default_entry(&self, t: TableId) -> Result<Option<EntryAction>, ControlError> {
        self.table_def(t)?;
        Ok(self.core.tables[t.index()].default_action.clone())
    }

    fn put_default(&mut self, t: TableId, mut action: EntryAction) -> Result<(), ControlError> {
        let compiled = self.compile_action(t, &action, false)?;
        canonical_action(&mut action);
        let table = &mut self.core.tables[t.index()];
        let old_hot = std::mem::replace(&mut table.hot[0], compiled.hot);
        let old_args = std::mem::replace(&mut table.default_args, compiled.args);
        let old_implicit = std::mem::replace(&mut table.default_implicit, compiled.implicit);
        if let Some(old) = table.default_action.replace(action) {
            self.release_action(t, &old, old_hot, old_args, old_implicit);
        }
        Ok(())
    }

    /// Sets what a miss does.
    pub fn set_default(&mut self, t: TableId, action: EntryAction) -> Result<(), ControlError> {
        self.table_def(t)?;
        if self.program.image.info.tables[t.index()].const_default {
            return Err(ControlError::Const { what: "the table's default action" });
        }
        self.put_default(t, action)
    }

    /// Sets what a miss does back to what the program says.
    pub fn reset_default(&mut self, t: TableId) -> Result<(), ControlError> {
        let def = self.table_def(t)?;
        match def.default.clone() {
            Some(d) => self.put_default(t, d),
            None => {
                let next = def.behind(None, false);
                let table = &mut self.core.tables[t.index()];
                let hot =
                    std::mem::replace(&mut table.hot[0], Hot::Call { action: NO_ACTION, next, args: 0 });
                let args = std::mem::take(&mut table.default_args);
                let implicit = table.default_implicit.take();
                if let Some(old) = table.default_action.take() {
                    self.release_action(t, &old, hot, args, implicit);
                }
                Ok(())
            }
        }
    }

    fn counted(&self, t: TableId, key: &[MatchField], priority: i32) -> Result<usize, ControlError> {
        if !self.table_def(t)?.counter {
            return Err(ControlError::NotAvailable("this table has no direct counter"));
        }
        self.entry(t, key, priority)
    }

    /// An entry's direct counter.
    pub fn entry_counter(
        &self,
        t: TableId,
        key: &[MatchField],
        priority: i32,
    ) -> Result<CounterValue, ControlError> {
        let i = self.counted(t, key, priority)?;
        Ok(self.core.tables[t.index()].counters[i])
    }

    /// Sets an entry's direct counter.
    pub fn set_entry_counter(
        &mut self,
        t: TableId,
        key: &[MatchField],
        priority: i32,
        value: CounterValue,
    ) -> Result<(), ControlError> {
        let i = self.counted(t, key, priority)?;
        self.core.tables[t.index()].counters[i] = value;
        Ok(())
    }

    fn metered(&self, t: TableId, key: &[MatchField], priority: i32) -> Result<usize, ControlError> {
        if self.table_def(t)?.meter.is_none() {
            return Err(ControlError::NotAvailable("this table has no direct meter"));
        }
        self.entry(t, key, priority)
    }

    /// An entry's direct meter, `None` if every packet is green.
    pub fn entry_meter(
        &self,
        t: TableId,
        key: &[MatchField],
        priority: i32,
    ) -> Result<Option<MeterConfig>, ControlError> {
        let i = self.metered(t, key, priority)?;
        Ok(self.core.tables[t.index()].meters[i].config())
    }

    /// Sets an entry's direct meter; `None` makes every packet green.
    pub fn set_entry_meter(
        &mut self,
        t: TableId,
        key: &[MatchField],
        priority: i32,
        config: Option<MeterConfig>,
    ) -> Result<(), ControlError> {
        let i = self.metered(t, key, priority)?;
        super::indirect::check_meter(config)?;
        self.core.tables[t.index()].meters[i].set(config);
        Ok(())
    }

    /// Nanoseconds since an entry last matched (or was set).
    pub fn entry_idle_ns(
        &self,
        t: TableId,
        key: &[MatchField],
        priority: i32,
        now_ns: u64,
    ) -> Result<u64, ControlError> {
        if !self.table_def(t)?.idle {
            return Err(ControlError::NotAvailable("this table does not support idle timeouts"));
        }
        let i = self.entry(t, key, priority)?;
        Ok(now_ns.saturating_sub(self.core.tables[t.index()].last_hit[i]))
    }

    pub(crate) fn sweeps_needed(&self) -> bool {
        self.program.image.has_idle_tables
    }

    /// Tells about entries that have been idle for their timeout.
    pub(crate) fn sweep_idle(&mut self, now_ns: u64) {
        for t in 0..self.core.tables.len() {
            if !self.program.image.tables[t].idle {
                continue;
            }
            // No entry changes.
            let table = self.core.tables.hit(t);
            let mut idle = Vec::new();
            let times = table.idle.iter_mut().zip(&table.last_hit);
            for (cold, (time, last)) in table.cold.iter().zip(times) {
                let Some(cold) = cold.as_ref().filter(|_| time.timeout_ns > 0) else { continue };
                // Told again after another timeout, as long as nothing matches it (P4Runtime, idle timeouts).
                if now_ns.saturating_sub((*last).max(time.told_ns)) >= time.timeout_ns {
                    time.told_ns = now_ns;
                    idle.push(cold.entry.unpacked());
                }
            }
            if !idle.is_empty() {
                self.tell_idle(TableId(t as u32), idle, now_ns);
            }
        }
    }

    /// Actions that members of a profile may use.
    pub(super) fn profile_actions(&self, p: ProfileId) -> Vec<ActionId> {
        let info = &self.program.image.info;
        let mut all: Vec<ActionId> =
            info.profile_tables(p).flat_map(|t| info.tables[t.index()].actions.clone()).collect();
        all.dedup();
        all
    }
}

pub(super) fn canonical_call(call: &mut ActionCall) {
    call.params.iter_mut().for_each(make_canonical);
}

fn canonical_action(action: &mut EntryAction) {
    match action {
        EntryAction::Call(call) => canonical_call(call),
        EntryAction::Set(set) => set.iter_mut().for_each(|w| canonical_call(&mut w.call)),
        EntryAction::Member(_) | EntryAction::Group(_) => {}
    }
}

fn canonical_entry(entry: &mut TableEntry) {
    canonical_action(&mut entry.action);
    for f in &mut entry.key {
        match f {
            MatchField::Exact(v) | MatchField::Optional(Some(v)) | MatchField::Lpm { value: v, .. } => {
                make_canonical(v);
            }
            MatchField::Ternary { value: a, mask: b } | MatchField::Range { low: a, high: b } => {
                make_canonical(a);
                make_canonical(b);
            }
            MatchField::Optional(None) => {}
        }
    }
}

fn make_canonical(bytes: &mut Vec<u8>) {
    *bytes = canonical(std::mem::take(bytes));
}
