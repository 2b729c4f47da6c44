//! Carries out a batch of [`Op`]s on the switch, and takes it back if it must be all or nothing.

use std::collections::{BTreeMap, HashMap};

use p4runtime_proto::p4::v1 as pb;

use super::ops::{Attached, EntryKey, MeterChange, Op, Verb};
use super::refusal::{Outcome, Refusal};
use zsr_soft_switch::Switch;
use zsr_soft_switch::{CounterValue, EntryAction, MeterConfig};
use zsr_soft_switch::{ProfileId, TableId};

/// Data that a controller wrote and that the switch has no use for. It is kept to be read back as it was.
#[derive(Debug, Default)]
pub(super) struct Extras {
    pub default_metadata: HashMap<TableId, Vec<u8>>,
    pub multicast: BTreeMap<u32, pb::MulticastGroupEntry>,
    pub clones: BTreeMap<u32, pb::CloneSessionEntry>,
    /// Entries with a one-shot action set, by profile.
    one_shots: HashMap<ProfileId, usize>,
    /// The incarnation of the switch that all of this was written to.
    of: Option<u64>,
}

/// Takes one step back.
type Undo = Box<dyn FnOnce(&mut Switch, &mut Extras) + Send>;

/// Applies updates in order. Without `all_or_nothing`, each is tried whatever happened to the others. With it, the
/// first refusal takes back what was done and ends the batch; the rest is then reported as aborted.
pub(super) fn apply_batch(
    switch: &mut Switch,
    extras: &mut Extras,
    batch: Vec<Outcome<Option<Op>>>,
    all_or_nothing: bool,
) -> Vec<Outcome<()>> {
    switch.stir();
    let mut outcomes = Vec::with_capacity(batch.len());
    let mut undo = Vec::new();
    let mut failed = all_or_nothing && batch.iter().any(Result::is_err);
    for op in batch {
        let outcome = match op {
            Err(refusal) => Err(refusal),
            Ok(_) if failed => Err(aborted()),
            Ok(None) => Ok(()),
            Ok(Some(op)) => apply(switch, extras, op, all_or_nothing.then_some(&mut undo)),
        };
        failed |= all_or_nothing && outcome.is_err();
        outcomes.push(outcome);
    }
    if failed {
        for step in undo.into_iter().rev() {
            step(switch, extras);
        }
        for outcome in outcomes.iter_mut().filter(|outcome| outcome.is_ok()) {
            *outcome = Err(aborted());
        }
    }
    outcomes
}

fn aborted() -> Refusal {
    Refusal::new(tonic::Code::Aborted, "taken back with its batch")
}

fn apply(switch: &mut Switch, extras: &mut Extras, op: Op, undo: Option<&mut Vec<Undo>>) -> Outcome<()> {
    match op {
        Op::InsertEntry { .. } | Op::ModifyEntry { .. } | Op::DeleteEntry { .. } => {
            apply_entry(switch, extras, op, undo)
        }
        Op::ModifyDefault { table, action, metadata } => {
            let before = switch.default_entry(table)?;
            let old_metadata = extras.default_metadata.get(&table).cloned().unwrap_or_default();
            match action {
                Some(call) => switch.set_default(table, EntryAction::Call(call))?,
                None => switch.reset_default(table)?,
            }
            extras.default_metadata.insert(table, metadata);
            push(undo, move |switch, extras| {
                // The action of a moment ago is legal.
                let _ = match before {
                    Some(action) => switch.set_default(table, action),
                    None => switch.reset_default(table),
                };
                extras.default_metadata.insert(table, old_metadata);
            });
            Ok(())
        }
        Op::Direct { table, entry, counter, meter } => {
            let direct = Direct::save(switch, table, &entry, undo.is_some());
            set_direct(switch, table, &entry, counter, meter)?;
            push(undo, move |switch, _| direct.restore(switch));
            Ok(())
        }
        Op::Member { .. } | Op::Group { .. } => apply_profile(switch, extras, op, undo),
        Op::Multicast { .. } | Op::Clone { .. } => apply_replication(switch, extras, op, undo),
        _ => apply_cells(switch, op, undo),
    }
}

fn push(undo: Option<&mut Vec<Undo>>, step: impl FnOnce(&mut Switch, &mut Extras) + Send + 'static) {
    if let Some(undo) = undo {
        undo.push(Box::new(step));
    }
}

/// Counter and meter of an entry, as they were.
struct Direct {
    table: TableId,
    entry: EntryKey,
    counter: Option<CounterValue>,
    meter: Option<Option<MeterConfig>>,
}

impl Direct {
    fn save(switch: &Switch, table: TableId, entry: &EntryKey, wanted: bool) -> Self {
        let (mut counter, mut meter) = (None, None);
        if wanted {
            counter = switch.entry_counter(table, &entry.key, entry.priority).ok();
            meter = switch.entry_meter(table, &entry.key, entry.priority).ok();
        }
        Self { table, entry: entry.clone(), counter, meter }
    }

    fn restore(self, switch: &mut Switch) {
        let meter = match self.meter {
            None => MeterChange::Absent,
            Some(None) => MeterChange::Reset,
            Some(Some(config)) => MeterChange::Set(config),
        };
        // It was so a moment ago.
        let _ = set_direct(switch, self.table, &self.entry, self.counter, meter);
    }
}

fn set_direct(
    switch: &mut Switch,
    table: TableId,
    EntryKey { key, priority }: &EntryKey,
    counter: Option<CounterValue>,
    meter: MeterChange,
) -> Outcome<()> {
    // Refused before anything is changed.
    switch.table_get(table, key, *priority)?;
    match meter {
        MeterChange::Absent => {}
        MeterChange::Reset => switch.set_entry_meter(table, key, *priority, None)?,
        MeterChange::Set(config) => switch.set_entry_meter(table, key, *priority, Some(config))?,
    }
    if let Some(value) = counter {
        switch.set_entry_counter(table, key, *priority, value)?;
    }
    Ok(())
}

impl Extras {
    /// Forgets what was written to a switch that was put back to its program since, as simple_switch_CLI can do.
    pub fn follow(&mut self, switch: &Switch) {
        let now = Some(switch.incarnation());
        if self.of != now {
            *self = Extras { of: now, ..Extras::default() };
        }
    }

    /// A selector is programmed with one-shot sets or with members and groups, never both.
    fn check_style(&self, switch: &Switch, table: TableId, action: &EntryAction) -> Outcome<()> {
        let Some(profile) = switch.info().tables.get(table.index()).and_then(|table| table.profile) else {
            return Ok(());
        };
        let one_shots = self.one_shots.get(&profile).copied().unwrap_or(0);
        match action {
            EntryAction::Set(_)
                if !switch.members(profile)?.is_empty() || !switch.groups(profile)?.is_empty() =>
            {
                Err(Refusal::invalid(
                    "the selector has members or groups, so it takes no one-shot action sets",
                ))
            }
            EntryAction::Member(_) | EntryAction::Group(_) if one_shots > 0 => Err(one_shot_only()),
            _ => Ok(()),
        }
    }

    fn count(&mut self, switch: &Switch, table: TableId, action: &EntryAction, up: bool) {
        let profile = switch.info().tables.get(table.index()).and_then(|table| table.profile);
        if let (Some(profile), EntryAction::Set(_)) = (profile, action) {
            let count = self.one_shots.entry(profile).or_default();
            *count = if up { count.saturating_add(1) } else { count.saturating_sub(1) };
        }
    }
}

fn one_shot_only() -> Refusal {
    Refusal::invalid("the selector has one-shot action sets, so it takes no members and groups")
}

fn apply_entry(
    switch: &mut Switch,
    extras: &mut Extras,
    op: Op,
    undo: Option<&mut Vec<Undo>>,
) -> Outcome<()> {
    match op {
        Op::InsertEntry { table, entry, counter, meter } => {
            extras.check_style(switch, table, &entry.action)?;
            let at = EntryKey { key: entry.key.clone(), priority: entry.priority };
            let action = entry.action.clone();
            switch.table_insert(table, entry)?;
            extras.count(switch, table, &action, true);
            let set = set_direct(switch, table, &at, counter, meter);
            let back = move |switch: &mut Switch, extras: &mut Extras| {
                if switch.table_delete(table, &at.key, at.priority).is_ok() {
                    extras.count(switch, table, &action, false);
                }
            };
            finish(switch, extras, set, back, undo)
        }
        Op::ModifyEntry { table, entry, action, idle_timeout_ns, mut attached, counter, meter } => {
            let before = switch.table_get(table, &entry.key, entry.priority)?;
            let mut after = before.clone();
            match action {
                Some(action) => {
                    extras.check_style(switch, table, &action)?;
                    after.action = action;
                }
                None => attached.modes = Attached::unpack(&before.metadata).modes,
            }
            after.idle_timeout_ns = idle_timeout_ns;
            after.metadata = attached.pack();
            let direct = Direct::save(switch, table, &entry, undo.is_some());
            let new_action = after.action.clone();
            switch.table_modify(table, after)?;
            extras.count(switch, table, &before.action, false);
            extras.count(switch, table, &new_action, true);
            let set = set_direct(switch, table, &entry, counter, meter);
            let back = move |switch: &mut Switch, extras: &mut Extras| {
                extras.count(switch, table, &new_action, false);
                extras.count(switch, table, &before.action, true);
                // It was so a moment ago.
                let _ = switch.table_modify(table, before);
                direct.restore(switch);
            };
            finish(switch, extras, set, back, undo)
        }
        Op::DeleteEntry { table, entry } => {
            let before = switch.table_get(table, &entry.key, entry.priority)?;
            let direct = Direct::save(switch, table, &entry, undo.is_some());
            switch.table_delete(table, &entry.key, entry.priority)?;
            extras.count(switch, table, &before.action, false);
            push(undo, move |switch, extras| {
                extras.count(switch, table, &before.action, true);
                // It was there a moment ago.
                let _ = switch.table_insert(table, before);
                direct.restore(switch);
            });
            Ok(())
        }
        _ => Ok(()),
    }
}

/// After an entry was put in place: a refused counter or meter takes the entry back as well.
fn finish(
    switch: &mut Switch,
    extras: &mut Extras,
    set: Outcome<()>,
    back: impl FnOnce(&mut Switch, &mut Extras) + Send + 'static,
    undo: Option<&mut Vec<Undo>>,
) -> Outcome<()> {
    match (&set, undo) {
        (Err(_), _) => back(switch, extras),
        (Ok(()), Some(undo)) => undo.push(Box::new(back)),
        (Ok(()), None) => {}
    }
    set
}

fn apply_profile(
    switch: &mut Switch,
    extras: &mut Extras,
    op: Op,
    undo: Option<&mut Vec<Undo>>,
) -> Outcome<()> {
    match op {
        Op::Member { verb, profile, id, call } => {
            if verb == Verb::Insert && extras.one_shots.get(&profile).is_some_and(|count| *count > 0) {
                return Err(one_shot_only());
            }
            let before = switch.member(profile, id).ok();
            match (verb, call) {
                (Verb::Insert, Some(call)) => switch.member_insert(profile, id, call)?,
                (Verb::Modify, Some(call)) => switch.member_modify(profile, id, call)?,
                _ => switch.member_delete(profile, id)?,
            }
            push(undo, move |switch, _| {
                // It was so a moment ago.
                let _ = match (verb, before) {
                    (Verb::Insert, _) => switch.member_delete(profile, id),
                    (Verb::Modify, Some(call)) => switch.member_modify(profile, id, call),
                    (Verb::Delete, Some(call)) => switch.member_insert(profile, id, call),
                    _ => Ok(()),
                };
            });
            Ok(())
        }
        Op::Group { verb, profile, id, group } => {
            if verb == Verb::Insert && extras.one_shots.get(&profile).is_some_and(|count| *count > 0) {
                return Err(one_shot_only());
            }
            let before = switch.group(profile, id).ok();
            match verb {
                Verb::Insert => switch.group_insert(profile, id, group)?,
                Verb::Modify => {
                    if before.as_ref().is_some_and(|before| before.max_size != group.max_size) {
                        return Err(Refusal::invalid("max_size can't be changed"));
                    }
                    switch.group_modify(profile, id, group)?;
                }
                Verb::Delete => switch.group_delete(profile, id)?,
            }
            push(undo, move |switch, _| {
                // It was so a moment ago.
                let _ = match (verb, before) {
                    (Verb::Insert, _) => switch.group_delete(profile, id),
                    (Verb::Modify, Some(group)) => switch.group_modify(profile, id, group),
                    (Verb::Delete, Some(group)) => switch.group_insert(profile, id, group),
                    _ => Ok(()),
                };
            });
            Ok(())
        }
        _ => Ok(()),
    }
}

fn apply_replication(
    switch: &mut Switch,
    extras: &mut Extras,
    op: Op,
    undo: Option<&mut Vec<Undo>>,
) -> Outcome<()> {
    match op {
        Op::Multicast { verb, id, replicas, as_written } => {
            let old = switch.multicast_group(id).ok().map(<[_]>::to_vec);
            match verb {
                Verb::Insert => switch.multicast_group_insert(id, replicas)?,
                Verb::Modify => switch.multicast_group_modify(id, replicas)?,
                Verb::Delete => switch.multicast_group_delete(id)?,
            }
            let written = extras.multicast.remove(&id);
            if verb != Verb::Delete {
                extras.multicast.insert(id, as_written);
            }
            push(undo, move |switch, extras| {
                extras.multicast.remove(&id);
                extras.multicast.extend(written.map(|written| (id, written)));
                // It was so a moment ago.
                let _ = match (verb, old) {
                    (Verb::Modify, Some(replicas)) => switch.multicast_group_modify(id, replicas),
                    (Verb::Delete, Some(replicas)) => switch.multicast_group_insert(id, replicas),
                    _ => switch.multicast_group_delete(id),
                };
            });
            Ok(())
        }
        Op::Clone { verb, id, session, as_written } => {
            let old = switch.clone_session(id).ok().cloned();
            match verb {
                Verb::Insert => switch.clone_session_insert(id, session)?,
                Verb::Modify => switch.clone_session_modify(id, session)?,
                Verb::Delete => switch.clone_session_delete(id)?,
            }
            let written = extras.clones.remove(&id);
            if verb != Verb::Delete {
                extras.clones.insert(id, as_written);
            }
            push(undo, move |switch, extras| {
                extras.clones.remove(&id);
                extras.clones.extend(written.map(|written| (id, written)));
                // It was so a moment ago.
                let _ = match (verb, old) {
                    (Verb::Modify, Some(session)) => switch.clone_session_modify(id, session),
                    (Verb::Delete, Some(session)) => switch.clone_session_insert(id, session),
                    _ => switch.clone_session_delete(id),
                };
            });
            Ok(())
        }
        _ => Ok(()),
    }
}

fn cells(index: Option<u32>, size: u32) -> std::ops::Range<usize> {
    match index {
        Some(index) => index as usize..index as usize + 1,
        None => 0..size as usize,
    }
}

fn apply_cells(switch: &mut Switch, op: Op, mut undo: Option<&mut Vec<Undo>>) -> Outcome<()> {
    match op {
        Op::Counter { counter, index, size, value } => {
            for cell in cells(index, size) {
                let before = switch.counter_read(counter, cell)?;
                switch.counter_write(counter, cell, value)?;
                push(undo.as_deref_mut(), move |switch, _| {
                    let _ = switch.counter_write(counter, cell, before);
                });
            }
        }
        Op::Meter { meter, index, size, config } => {
            for cell in cells(index, size) {
                let before = switch.meter_read(meter, cell)?;
                switch.meter_write(meter, cell, config)?;
                push(undo.as_deref_mut(), move |switch, _| {
                    let _ = switch.meter_write(meter, cell, before);
                });
            }
        }
        Op::Register { register, index, size, value } => {
            for cell in cells(index, size) {
                let before = switch.register_read(register, cell)?;
                switch.register_write(register, cell, &value)?;
                push(undo.as_deref_mut(), move |switch, _| {
                    let _ = switch.register_write(register, cell, &before);
                });
            }
        }
        Op::ValueSet { set, members } => {
            let before = switch.value_set(set)?;
            switch.value_set_replace(set, members)?;
            push(undo, move |switch, _| {
                let _ = switch.value_set_replace(set, before);
            });
        }
        Op::Digest { verb, digest, config } => {
            let before = switch.digest(digest)?;
            match (verb, before.is_some()) {
                (Verb::Insert, true) => {
                    return Err(Refusal::new(tonic::Code::AlreadyExists, "the digest is enabled already"));
                }
                (Verb::Modify | Verb::Delete, false) => {
                    return Err(Refusal::not_found("the digest is not enabled"));
                }
                _ => {}
            }
            switch.set_digest(digest, (verb != Verb::Delete).then_some(config))?;
            push(undo, move |switch, _| {
                let _ = switch.set_digest(digest, before);
            });
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
#[path = "fuzz_tests.rs"]
mod tests;
