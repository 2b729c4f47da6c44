//! Carries out a batch of [`Op`]s on the switch, and takes it back if it must be all or nothing.

use std::collections::{BTreeMap, HashMap};

use p4runtime_proto::p4::v1 as pb;

use super::ops::{MeterChange, Op, Verb, Which};
use super::refusal::{Outcome, Refusal};
use crate::control::{CounterValue, EntryAction, MatchField, MeterConfig};
use crate::info::{ProfileId, TableId};
use crate::switch::Switch;

/// What a controller wrote and the switch itself has no use for, kept to be read back as it was.
#[derive(Debug, Default)]
pub(super) struct Extras {
    pub default_metadata: HashMap<TableId, Vec<u8>>,
    pub multicast: BTreeMap<u16, pb::MulticastGroupEntry>,
    pub clones: BTreeMap<u16, pb::CloneSessionEntry>,
    /// Entries with a one-shot action set, by profile.
    one_shots: HashMap<ProfileId, usize>,
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
    Refusal::new(tonic::Code::Aborted, "not carried out, because another update of the batch was refused")
}

fn apply(switch: &mut Switch, extras: &mut Extras, op: Op, undo: Option<&mut Vec<Undo>>) -> Outcome<()> {
    match op {
        Op::InsertEntry { .. } | Op::ModifyEntry { .. } | Op::DeleteEntry { .. } => {
            apply_entry(switch, extras, op, undo)
        }
        Op::ModifyDefault { table, action, metadata, counter, meter } => {
            let before = switch.default_action(table)?;
            let old_metadata = extras.default_metadata.get(&table).cloned().unwrap_or_default();
            let direct = Direct::save(switch, table, Which::Default, undo.is_some());
            match action {
                Some(call) => switch.set_default_action(table, call)?,
                None => switch.reset_default_action(table)?,
            }
            extras.default_metadata.insert(table, metadata);
            let set = set_direct(switch, table, &Which::Default, counter, meter);
            let back: Undo = Box::new(move |switch, extras| {
                // What was there a moment ago is legal.
                let _ = match before {
                    Some(EntryAction::Call(call)) => switch.set_default_action(table, call),
                    _ => switch.reset_default_action(table),
                };
                extras.default_metadata.insert(table, old_metadata);
                direct.restore(switch);
            });
            match undo {
                Some(undo) => undo.push(back),
                None if set.is_err() => back(switch, extras),
                None => {}
            }
            set
        }
        Op::Direct { table, which, counter, meter } => {
            let direct = Direct::save(switch, table, which.clone(), undo.is_some());
            set_direct(switch, table, &which, counter, meter)?;
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
    which: Which,
    counter: Option<CounterValue>,
    meter: Option<Option<MeterConfig>>,
}

impl Direct {
    fn save(switch: &mut Switch, table: TableId, which: Which, wanted: bool) -> Self {
        let (mut counter, mut meter) = (None, None);
        if wanted {
            counter = read_direct_counter(switch, table, &which).ok();
            meter = read_direct_meter(switch, table, &which).ok();
        }
        Self { table, which, counter, meter }
    }

    fn restore(self, switch: &mut Switch) {
        let meter = match self.meter {
            None => MeterChange::Absent,
            Some(None) => MeterChange::Reset,
            Some(Some(config)) => MeterChange::Set(config),
        };
        // It was so a moment ago.
        let _ = set_direct(switch, self.table, &self.which, self.counter, meter);
    }
}

fn set_direct(
    switch: &mut Switch,
    table: TableId,
    which: &Which,
    counter: Option<CounterValue>,
    meter: MeterChange,
) -> Outcome<()> {
    let meter = match meter {
        MeterChange::Absent => None,
        MeterChange::Reset => Some(None),
        MeterChange::Set(config) => Some(Some(config)),
    };
    match which {
        Which::Entry { key, priority } => {
            // Refused before anything is changed.
            switch.entry(table, key, *priority)?;
            if let Some(config) = meter {
                switch.set_entry_meter(table, key, *priority, config)?;
            }
            if let Some(value) = counter {
                switch.set_entry_counter(table, key, *priority, value)?;
            }
        }
        Which::Default => {
            if let Some(config) = meter {
                switch.set_default_meter(table, config)?;
            }
            if let Some(value) = counter {
                switch.set_default_counter(table, value)?;
            }
        }
    }
    Ok(())
}

/// The direct counter of an entry or default entry.
pub(super) fn read_direct_counter(switch: &Switch, table: TableId, which: &Which) -> Outcome<CounterValue> {
    Ok(match which {
        Which::Entry { key, priority } => switch.entry_counter(table, key, *priority)?,
        Which::Default => switch.default_counter(table)?,
    })
}

/// The direct meter of an entry or default entry; none for the default configuration.
pub(super) fn read_direct_meter(
    switch: &Switch,
    table: TableId,
    which: &Which,
) -> Outcome<Option<MeterConfig>> {
    Ok(match which {
        Which::Entry { key, priority } => switch.entry_meter(table, key, *priority)?,
        Which::Default => switch.default_meter(table)?,
    })
}

impl Extras {
    /// A selector is programmed with one-shot sets or with members and groups, never both.
    fn check_style(&self, switch: &Switch, table: TableId, action: &EntryAction) -> Outcome<()> {
        let Some(profile) = switch.info().tables.get(table.index()).and_then(|table| table.profile) else {
            return Ok(());
        };
        let one_shots = self.one_shots.get(&profile).copied().unwrap_or(0);
        match action {
            EntryAction::Set(_) if !switch.members(profile)?.is_empty() || !switch.groups(profile)?.is_empty() => {
                Err(Refusal::invalid("the selector has members or groups, so it takes no one-shot action sets"))
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

fn apply_entry(switch: &mut Switch, extras: &mut Extras, op: Op, undo: Option<&mut Vec<Undo>>) -> Outcome<()> {
    match op {
        Op::InsertEntry { table, entry, counter, meter } => {
            extras.check_style(switch, table, &entry.action)?;
            let (key, priority, action) = (entry.key.clone(), entry.priority, entry.action.clone());
            switch.insert_entry(table, entry)?;
            extras.count(switch, table, &action, true);
            let which = Which::Entry { key: key.clone(), priority };
            let set = set_direct(switch, table, &which, counter, meter);
            let back: Undo = Box::new(move |switch, extras| remove(switch, extras, table, &key, priority, &action));
            match undo {
                Some(undo) => undo.push(back),
                None if set.is_err() => back(switch, extras),
                None => {}
            }
            set
        }
        Op::ModifyEntry { table, key, priority, action, idle_timeout_ns, metadata, counter, meter } => {
            let before = switch.entry(table, &key, priority)?;
            let mut after = before.clone();
            if let Some(action) = action {
                extras.check_style(switch, table, &action)?;
                after.action = action;
            }
            after.idle_timeout_ns = idle_timeout_ns;
            after.metadata = metadata;
            let which = Which::Entry { key, priority };
            let direct = Direct::save(switch, table, which.clone(), undo.is_some());
            extras.count(switch, table, &before.action, false);
            extras.count(switch, table, &after.action, true);
            let new_action = after.action.clone();
            let set = switch.modify_entry(table, after).map_err(Refusal::from);
            let set = set.and_then(|()| set_direct(switch, table, &which, counter, meter));
            let back: Undo = Box::new(move |switch, extras| {
                extras.count(switch, table, &new_action, false);
                extras.count(switch, table, &before.action, true);
                // It was so a moment ago.
                let _ = switch.modify_entry(table, before);
                direct.restore(switch);
            });
            match undo {
                Some(undo) => undo.push(back),
                None if set.is_err() => back(switch, extras),
                None => {}
            }
            set
        }
        Op::DeleteEntry { table, key, priority } => {
            let before = switch.entry(table, &key, priority)?;
            let which = Which::Entry { key: key.clone(), priority };
            let direct = Direct::save(switch, table, which, undo.is_some());
            switch.delete_entry(table, &key, priority)?;
            extras.count(switch, table, &before.action, false);
            push(undo, move |switch, extras| {
                extras.count(switch, table, &before.action, true);
                // It was there a moment ago.
                let _ = switch.insert_entry(table, before);
                direct.restore(switch);
            });
            Ok(())
        }
        _ => Ok(()),
    }
}

fn remove(
    switch: &mut Switch,
    extras: &mut Extras,
    table: TableId,
    key: &[MatchField],
    priority: i32,
    action: &EntryAction,
) {
    if switch.delete_entry(table, key, priority).is_ok() {
        extras.count(switch, table, action, false);
    }
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
            let before = switch.members(profile)?.into_iter().find(|(member, _)| *member == id);
            match (verb, call) {
                (Verb::Insert, Some(call)) => switch.insert_member(profile, id, call)?,
                (Verb::Modify, Some(call)) => switch.modify_member(profile, id, call)?,
                _ => switch.delete_member(profile, id)?,
            }
            push(undo, move |switch, _| {
                // It was so a moment ago.
                let _ = match (verb, before) {
                    (Verb::Insert, _) => switch.delete_member(profile, id),
                    (Verb::Modify, Some((_, call))) => switch.modify_member(profile, id, call),
                    (Verb::Delete, Some((_, call))) => switch.insert_member(profile, id, call),
                    _ => Ok(()),
                };
            });
            Ok(())
        }
        Op::Group { verb, profile, id, group } => {
            if verb == Verb::Insert && extras.one_shots.get(&profile).is_some_and(|count| *count > 0) {
                return Err(one_shot_only());
            }
            let before = switch.groups(profile)?.into_iter().find(|(group, _)| *group == id);
            match verb {
                Verb::Insert => switch.insert_group(profile, id, group)?,
                Verb::Modify => {
                    if before.as_ref().is_some_and(|(_, before)| before.max_size != group.max_size) {
                        return Err(Refusal::invalid("max_size can't be changed"));
                    }
                    switch.modify_group(profile, id, group)?;
                }
                Verb::Delete => switch.delete_group(profile, id)?,
            }
            push(undo, move |switch, _| {
                // It was so a moment ago.
                let _ = match (verb, before) {
                    (Verb::Insert, _) => switch.delete_group(profile, id),
                    (Verb::Modify, Some((_, group))) => switch.modify_group(profile, id, group),
                    (Verb::Delete, Some((_, group))) => switch.insert_group(profile, id, group),
                    _ => Ok(()),
                };
            });
            Ok(())
        }
        _ => Ok(()),
    }
}

fn check_exists(verb: Verb, exists: bool, kind: &str, id: u16) -> Outcome<()> {
    match (verb, exists) {
        (Verb::Insert, true) => {
            Err(Refusal::new(tonic::Code::AlreadyExists, format!("{kind} {id} exists already")))
        }
        (Verb::Modify | Verb::Delete, false) => Err(Refusal::not_found(format!("there is no {kind} {id}"))),
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
            check_exists(verb, extras.multicast.contains_key(&id), "multicast group", id)?;
            let old = switch.multicast_group(id);
            if verb == Verb::Delete {
                switch.delete_multicast_group(id)?;
            } else {
                switch.set_multicast_group(id, replicas)?;
            }
            let written = extras.multicast.remove(&id);
            if verb != Verb::Delete {
                extras.multicast.insert(id, as_written);
            }
            push(undo, move |switch, extras| {
                extras.multicast.remove(&id);
                // It was so a moment ago.
                let _ = match (old, written) {
                    (Some(replicas), Some(written)) => {
                        extras.multicast.insert(id, written);
                        switch.set_multicast_group(id, replicas)
                    }
                    _ => switch.delete_multicast_group(id),
                };
            });
            Ok(())
        }
        Op::Clone { verb, id, session, as_written } => {
            check_exists(verb, extras.clones.contains_key(&id), "clone session", id)?;
            let old = switch.clone_session(id);
            if verb == Verb::Delete {
                switch.delete_clone_session(id)?;
            } else {
                switch.set_clone_session(id, session)?;
            }
            let written = extras.clones.remove(&id);
            if verb != Verb::Delete {
                extras.clones.insert(id, as_written);
            }
            push(undo, move |switch, extras| {
                extras.clones.remove(&id);
                // It was so a moment ago.
                let _ = match (old, written) {
                    (Some(session), Some(written)) => {
                        extras.clones.insert(id, written);
                        switch.set_clone_session(id, session)
                    }
                    _ => switch.delete_clone_session(id),
                };
            });
            Ok(())
        }
        _ => Ok(()),
    }
}

fn cells(index: Option<u32>, size: u32) -> std::ops::Range<u32> {
    match index {
        Some(index) => index..index.saturating_add(1),
        None => 0..size,
    }
}

fn apply_cells(switch: &mut Switch, op: Op, mut undo: Option<&mut Vec<Undo>>) -> Outcome<()> {
    match op {
        Op::Counter { counter, index, size, value } => {
            for cell in cells(index, size) {
                let before = switch.counter(counter, cell)?;
                switch.set_counter(counter, cell, value)?;
                push(undo.as_deref_mut(), move |switch, _| {
                    let _ = switch.set_counter(counter, cell, before);
                });
            }
        }
        Op::Meter { meter, index, size, config } => {
            for cell in cells(index, size) {
                let before = switch.meter(meter, cell)?;
                switch.set_meter(meter, cell, config)?;
                push(undo.as_deref_mut(), move |switch, _| {
                    let _ = switch.set_meter(meter, cell, before);
                });
            }
        }
        Op::Register { register, index, size, value } => {
            for cell in cells(index, size) {
                let before = switch.register(register, cell)?;
                switch.set_register(register, cell, &value)?;
                push(undo.as_deref_mut(), move |switch, _| {
                    let _ = switch.set_register(register, cell, &before);
                });
            }
        }
        Op::ValueSet { set, members } => {
            let before = switch.value_set(set)?;
            switch.set_value_set(set, members)?;
            push(undo, move |switch, _| {
                let _ = switch.set_value_set(set, before);
            });
        }
        Op::Digest { verb, digest, config } => {
            let before = switch.digest_config(digest)?;
            match (verb, before.is_some()) {
                (Verb::Insert, true) => {
                    return Err(Refusal::new(tonic::Code::AlreadyExists, "the digest is enabled already"));
                }
                (Verb::Modify | Verb::Delete, false) => return Err(Refusal::not_found("the digest is not enabled")),
                _ => {}
            }
            switch.set_digest_config(digest, (verb != Verb::Delete).then_some(config))?;
            push(undo, move |switch, _| {
                let _ = switch.set_digest_config(digest, before);
            });
        }
        _ => {}
    }
    Ok(())
}
