//! Multicast groups as a driver holds them.

use super::held::State;
use bf::data_field::Value;
use bf::table_entry::Value as Key;
use std::collections::{HashMap, HashSet};
use zsr_switch::bfrt::proto as bf;

/// The nodes of a group.
const NODES: &str = "$MULTICAST_NODE_ID";

impl State {
    /// A group with the nodes that it gets or loses by `change`.
    pub(super) fn changed(&self, change: &bf::TableEntry) -> Result<bf::TableEntry, String> {
        let table = self.tables.0.get(&change.table_id).filter(|t| t.name == "$pre.mgid");
        let table = table.ok_or("only groups get and lose something")?;
        let (Some(Key::Key(key)), Some(data)) = (&change.value, &change.data) else {
            return Err(format!("{}: no key or no data", table.name));
        };
        let (key, (_, given)) = (table.key(key)?, table.data(data, true)?);
        let held = self.entries.get(&change.table_id).and_then(|groups| groups.get(&key));
        let (_, had, entry) = held.ok_or(format!("{}: {key:?} is not there", table.name))?;
        let nodes = |data: &HashMap<String, Value>| match data.get(NODES) {
            Some(Value::IntArrVal(nodes)) => nodes.val.clone(),
            _ => Vec::new(),
        };
        let is_loss = change.table_flags.is_some_and(|flags| flags.mod_del);
        let mut all = nodes(had);
        for node in nodes(&given) {
            match (all.iter().position(|n| *n == node), is_loss) {
                (None, false) => all.push(node),
                (Some(at), true) => drop(all.remove(at)),
                (has, _) => {
                    return Err(format!(
                        "{}: {key:?} has node {node:#x} {} times",
                        table.name,
                        has.iter().len()
                    ));
                }
            }
        }
        let mut entry = entry.clone();
        for field in entry.data.iter_mut().flat_map(|d| &mut d.fields) {
            match &mut field.value {
                Some(Value::IntArrVal(list)) if field.field_id == table.datum_number("", NODES) => {
                    list.val.clone_from(&all);
                }
                Some(Value::IntArrVal(list)) => list.val.resize(all.len(), 0),
                Some(Value::BoolArrVal(list)) => list.val.resize(all.len(), false),
                _ => {}
            }
        }
        Ok(entry)
    }

    /// Every node that a group names is there and in no other group.
    pub(super) fn groups(&self, changed: &str) -> Result<(), String> {
        if !changed.starts_with("$pre.m") && !changed.starts_with("$pre.node") {
            return Ok(());
        }
        let (groups, nodes) = (self.of("$pre.mgid"), self.of("$pre.node"));
        let mut named = HashSet::new();
        for (group, (_, data, _)) in groups.into_iter().flatten() {
            let Some(Value::IntArrVal(ids)) = data.get(NODES) else { continue };
            let Some(Value::BoolArrVal(valid)) = data.get("$MULTICAST_NODE_L1_XID_VALID") else {
                return Err("$pre.mgid: lists of different lengths".into());
            };
            if valid.val.len() != ids.val.len() {
                return Err("$pre.mgid: lists of different lengths".into());
            }
            for &id in &ids.val {
                if !nodes.is_some_and(|nodes| nodes.contains_key(&vec![u64::from(id)])) {
                    return Err(format!("$pre.mgid: group {group:?} names node {id:#x}, which is not there"));
                }
                if !named.insert(id) {
                    return Err(format!("$pre.mgid: node {id:#x} is in two groups"));
                }
            }
        }
        Ok(())
    }
}
