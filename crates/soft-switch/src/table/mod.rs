//! Match-action tables at run time.

pub(crate) mod flat;
pub(crate) mod key;
pub(crate) mod lookup;
pub(crate) mod packed;
pub(crate) mod rules;

use std::collections::HashMap;

use crate::control::{CounterValue, EntryAction, TableEntry};
use crate::meter::Meter;
use crate::op::{Pc, R};
use key::KeyPlan;
use lookup::Lookup;
use packed::Packed;

/// No action: a table without default entry does nothing on a miss.
pub(crate) const NO_ACTION: Pc = Pc::MAX;

/// The action of an entry, as the packet path needs it. Machine code reads the numbers of a `Call` where
/// [`Hot::ACTION`] and so on say: behind a tag of 32 bits, in their order.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(crate) enum Hot {
    /// Code of the action, of the next node, and the first argument word.
    Call { action: Pc, next: Pc, args: u32 },
    /// Number of a member of the table's profile.
    Member(u32),
    /// Number of a group of the table's profile.
    Group(u32),
}

impl Hot {
    pub(crate) const ACTION: i32 = 4;
    pub(crate) const NEXT: i32 = 8;
    pub(crate) const ARGS: i32 = 12;
}

/// The properties of a table that are fixed at load.
#[derive(Clone, Debug)]
pub(crate) struct TableDef {
    pub key: KeyPlan,
    pub size: usize,
    /// Node to go to after each action, by action number; `None` for actions that are not the table's.
    pub next: Vec<Option<Pc>>,
    /// Nodes after a hit and after a miss, if these decide instead of the action.
    pub hit_miss: Option<(Pc, Pc)>,
    /// Where a miss without default action goes.
    pub next_default: Pc,
    pub profile: Option<usize>,
    pub counter: bool,
    /// Field that the direct meter's colour goes to, and whether it counts bytes.
    pub meter: Option<(R, bool)>,
    pub idle: bool,
    /// The program's entries and default, installed when the switch starts.
    pub entries: Vec<TableEntry>,
    pub default: Option<EntryAction>,
}

impl TableDef {
    /// Whether a hit changes no counter, no meter and no time.
    pub(crate) fn is_plain(&self) -> bool {
        !self.counter && !self.idle && self.meter.is_none()
    }

    /// The node behind the table: after this action (`None`: after none), by a hit or a miss.
    pub(crate) fn behind(&self, action: Option<usize>, hit: bool) -> Pc {
        let by_action =
            || action.and_then(|a| self.next.get(a).copied().flatten()).unwrap_or(self.next_default);
        self.hit_miss.map_or_else(by_action, |(on_hit, on_miss)| if hit { on_hit } else { on_miss })
    }
}

/// The control plane's view of an entry. Tables may have millions of entries.
#[derive(Clone, Debug)]
pub(crate) struct Cold {
    pub entry: Packed,
    /// Words that its arguments take in the arena, from its `Hot` on.
    pub args: u32,
    /// The implicit group of a one-shot action set.
    pub implicit: Option<u32>,
    pub order: u64,
}

/// The idleness of an entry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Idle {
    /// The time without a hit behind which it is told; 0 for never.
    pub timeout_ns: u64,
    /// When it was last told; 0 for never.
    pub told_ns: u64,
}

/// A table's state. Entries have slots, from 0.
#[derive(Debug)]
pub(crate) struct Table {
    /// A hit changes no counter, no meter and no time.
    pub plain: bool,
    pub lookup: Lookup,
    /// What a miss does, and behind that what each entry does.
    pub hot: Vec<Hot>,
    pub cold: Vec<Option<Cold>>,
    pub free: Vec<u32>,
    /// How often each slot was given to another entry.
    pub versions: Vec<u8>,
    pub default_action: Option<EntryAction>,
    pub default_args: usize,
    pub default_implicit: Option<u32>,
    /// By slot, in tables with direct counters.
    pub counters: Vec<CounterValue>,
    /// By slot, in tables with a direct meter.
    pub meters: Vec<Meter>,
    /// The time of the last hit, and the idleness, by slot, in tables with idle timeouts.
    pub last_hit: Vec<u64>,
    pub idle: Vec<Idle>,
    pub order: u64,
    /// Room for entries in a table whose entries of the program are not const.
    pub unlocked: Option<usize>,
}

impl Table {
    pub(crate) fn new(def: &TableDef) -> Table {
        let next = def.behind(None, false);
        Table {
            plain: def.is_plain(),
            lookup: Lookup::new(&def.key, def.size),
            hot: vec![Hot::Call { action: NO_ACTION, next, args: 0 }],
            cold: Vec::new(),
            free: Vec::new(),
            versions: Vec::new(),
            default_action: None,
            default_args: 0,
            default_implicit: None,
            counters: Vec::new(),
            meters: Vec::new(),
            last_hit: Vec::new(),
            idle: Vec::new(),
            order: 0,
            unlocked: None,
        }
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.cold.len() - self.free.len()
    }

    /// A slot for another entry, whose counter and meter begin anew.
    pub(crate) fn take_slot(&mut self, def: &TableDef) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.hot.push(Hot::Call { action: NO_ACTION, next: 0, args: 0 });
            self.cold.push(None);
            self.versions.push(0);
            if def.counter {
                self.counters.push(CounterValue::default());
            }
            if def.meter.is_some() {
                self.meters.push(Meter::default());
            }
            if def.idle {
                self.last_hit.push(0);
                self.idle.push(Idle::default());
            }
            self.cold.len() as u32 - 1
        });
        let i = slot as usize;
        if let Some(counter) = self.counters.get_mut(i) {
            *counter = CounterValue::default();
        }
        if let Some(meter) = self.meters.get_mut(i) {
            *meter = Meter::default();
        }
        slot
    }

    /// Has the idle time of an entry begin now.
    pub(crate) fn set_idle(&mut self, slot: usize, now_ns: u64, timeout_ns: u64) {
        if let (Some(last), Some(idle)) = (self.last_hit.get_mut(slot), self.idle.get_mut(slot)) {
            *last = now_ns;
            *idle = Idle { timeout_ns, told_ns: 0 };
        }
    }
}

/// The tables of a running program.
#[derive(Debug)]
pub(crate) struct Tables {
    list: Vec<Table>,
    places: Vec<Place>,
    /// Whether a table may have changed since `places` was written.
    changed: bool,
}

/// Where machine code finds what a table holds that has a direct index, or a hash of one or two words; 0 for other
/// tables.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Place {
    /// Address of the numbers of entries plus 1: by key, or by the hash's place.
    pub numbers: usize,
    /// Address of [`Table::hot`].
    pub hot: usize,
    /// Of a hash, see [`FlatMap::parts`](flat::FlatMap::parts): address of the keys, shift, last place.
    pub keys: usize,
    pub shift: u64,
    pub last: usize,
}

impl Tables {
    pub(crate) fn new(defs: &[TableDef]) -> Tables {
        Tables { list: defs.iter().map(Table::new).collect(), places: Vec::new(), changed: true }
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Table> {
        self.list.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Table> {
        self.changed = true;
        self.list.iter_mut()
    }

    /// A table whose entry was hit: its counters, meters and times may change, but no entry.
    #[inline]
    pub(crate) fn hit(&mut self, t: usize) -> &mut Table {
        &mut self.list[t]
    }

    /// Where the tables lie, until one of them changes.
    #[inline]
    pub(crate) fn places(&mut self) -> *const Place {
        if self.changed {
            self.find_places();
        }
        self.places.as_ptr()
    }

    #[cold]
    fn find_places(&mut self) {
        let place = |table: &Table| {
            let hot = table.hot.as_ptr() as usize;
            match &table.lookup {
                Lookup::Direct(list) => Place { numbers: list.as_ptr() as usize, hot, ..Place::default() },
                Lookup::Hash1(map) | Lookup::Hash(map) => {
                    let (keys, numbers, shift, last) = map.parts();
                    let (keys, numbers) = (keys.as_ptr() as usize, numbers.as_ptr() as usize);
                    Place { numbers, hot, keys, shift: shift.into(), last }
                }
                Lookup::None | Lookup::Rules(_) => Place::default(),
            }
        };
        self.places.clear();
        self.places.extend(self.list.iter().map(place));
        self.changed = false;
    }
}

impl std::ops::Index<usize> for Tables {
    type Output = Table;
    #[inline]
    fn index(&self, t: usize) -> &Table {
        &self.list[t]
    }
}

impl std::ops::IndexMut<usize> for Tables {
    fn index_mut(&mut self, t: usize) -> &mut Table {
        self.changed = true;
        &mut self.list[t]
    }
}

/// Arguments of all entries: words in one vector, with free lists by size.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    pub words: Vec<u64>,
    free: HashMap<usize, Vec<u32>>,
}

impl Arena {
    pub(crate) fn put(&mut self, words: &[u64]) -> u32 {
        if let Some(at) = self.free.get_mut(&words.len()).and_then(Vec::pop) {
            self.words[at as usize..][..words.len()].copy_from_slice(words);
            return at;
        }
        let at = self.words.len() as u32;
        self.words.extend(words);
        at
    }

    pub(crate) fn free(&mut self, at: u32, len: usize) {
        if len > 0 {
            self.free.entry(len).or_default().push(at);
        }
    }
}
