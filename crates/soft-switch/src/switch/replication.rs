//! Multicast groups and clone sessions, in slots that packets waiting for replication can name.

use crate::control::{CloneSession, Replica};
use crate::error::ControlError;
use crate::table::flat::FlatMap;

/// Items by id, and by slot for the packet path.
#[derive(Debug)]
pub(crate) struct Slotted<T> {
    items: Vec<Option<(u32, T)>>,
    by_id: FlatMap,
    kind: &'static str,
}

impl<T> Slotted<T> {
    fn new(kind: &'static str) -> Self {
        Slotted { items: Vec::new(), by_id: FlatMap::new(1, 16), kind }
    }

    /// The slot of an id.
    #[inline]
    pub(crate) fn slot(&self, id: u32) -> Option<u32> {
        self.by_id.get1(u64::from(id)).checked_sub(1)
    }

    #[inline]
    pub(crate) fn at(&self, slot: u32) -> Option<&T> {
        self.items.get(slot as usize).and_then(|i| i.as_ref()).map(|(_, t)| t)
    }

    pub(crate) fn get(&self, id: u32) -> Result<&T, ControlError> {
        let found = self.slot(id).and_then(|s| self.at(s));
        found.ok_or(ControlError::NotFound { kind: self.kind, id: u64::from(id) })
    }

    pub(crate) fn insert(&mut self, id: u32, item: T) -> Result<(), ControlError> {
        if self.slot(id).is_some() {
            return Err(ControlError::Duplicate { kind: self.kind });
        }
        let slot = self.items.iter().position(Option::is_none).unwrap_or_else(|| {
            self.items.push(None);
            self.items.len() - 1
        });
        self.items[slot] = Some((id, item));
        self.by_id.insert(&[u64::from(id)], slot as u32 + 1);
        Ok(())
    }

    pub(crate) fn modify(&mut self, id: u32, item: T) -> Result<(), ControlError> {
        self.get(id)?;
        if let Some(s) = self.slot(id) {
            self.items[s as usize] = Some((id, item));
        }
        Ok(())
    }

    pub(crate) fn delete(&mut self, id: u32) -> Result<(), ControlError> {
        self.get(id)?;
        if let Some(s) = self.slot(id) {
            self.items[s as usize] = None;
            self.by_id.remove(&[u64::from(id)]);
        }
        Ok(())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.items.iter().flatten().map(|(id, t)| (*id, t))
    }
}

/// The packet replication engine's state.
#[derive(Debug)]
pub(crate) struct Replication {
    pub groups: Slotted<Vec<Replica>>,
    pub sessions: Slotted<CloneSession>,
}

impl Default for Replication {
    fn default() -> Self {
        Replication { groups: Slotted::new("multicast group"), sessions: Slotted::new("clone session") }
    }
}
