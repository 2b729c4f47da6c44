//! Entries by handle, the number by which bmv2's runtime interface names an entry.

use super::*;
use crate::error::ControlError;
use crate::info::TableId;
use crate::switch::Switch;

/// The number of an entry in its table.
///
/// The lower 24 bits are the entry's slot. The upper 8 count, modulo 256, the entries that had the slot before. So the
/// handle of an entry that is gone does not name its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryHandle(pub u32);

const SLOT_BITS: u32 = 24;

impl EntryHandle {
    fn new(slot: usize, version: u8) -> Option<EntryHandle> {
        let slot = u32::try_from(slot).ok().filter(|slot| *slot < 1 << SLOT_BITS)?;
        Some(EntryHandle(u32::from(version) << SLOT_BITS | slot))
    }

    fn slot(self) -> usize {
        (self.0 & ((1 << SLOT_BITS) - 1)) as usize
    }
}

impl Switch {
    /// The handle of the entry with this key and priority.
    pub fn entry_handle(
        &self,
        t: TableId,
        key: &[MatchField],
        priority: i32,
    ) -> Result<EntryHandle, ControlError> {
        let i = self.entry(t, key, priority)?;
        let full = ControlError::NotAvailable("handles name the first 16,777,216 slots of a table only");
        EntryHandle::new(i, self.core.tables[t.index()].versions[i]).ok_or(full)
    }

    /// The entry that a handle names.
    pub fn entry_by_handle(&self, t: TableId, handle: EntryHandle) -> Result<TableEntry, ControlError> {
        self.table_def(t)?;
        let (table, slot) = (&self.core.tables[t.index()], handle.slot());
        let named = table.versions.get(slot).and_then(|version| EntryHandle::new(slot, *version));
        let cold = table.cold.get(slot).filter(|_| named == Some(handle)).and_then(Option::as_ref);
        cold.map(|cold| cold.entry.unpacked()).ok_or(ControlError::NoEntry { table: t })
    }

    /// All entries with their handles, by slot.
    pub fn entries_by_handle(&self, t: TableId) -> Result<Vec<(EntryHandle, TableEntry)>, ControlError> {
        self.table_def(t)?;
        let table = &self.core.tables[t.index()];
        let slots = table.cold.iter().zip(&table.versions).enumerate();
        let entries = slots.filter_map(|(slot, (cold, version))| {
            Some((EntryHandle::new(slot, *version)?, cold.as_ref()?.entry.unpacked()))
        });
        Ok(entries.collect())
    }
}
