//! Match-action tables at run time.

pub(crate) mod flat;
pub(crate) mod key;
pub(crate) mod lookup;

use std::collections::HashMap;

use crate::control::{CounterValue, EntryAction, TableEntry};
use crate::meter::Meter;
use crate::op::{Pc, R};
use key::{KeyPlan, Rule};
use lookup::Lookup;

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

/// The control plane's view of an entry.
#[derive(Clone, Debug)]
pub(crate) struct Cold {
    pub entry: TableEntry,
    pub rule: Rule,
    /// Words that its arguments take in the arena, from its `Hot` on.
    pub args: usize,
    /// The implicit group of a one-shot action set.
    pub implicit: Option<u32>,
    pub order: u64,
    /// When its idleness was last told; 0 for never.
    pub idle_told_ns: u64,
}

/// A table's state.
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
    pub index: HashMap<Rule, u32>,
    pub default_action: Option<EntryAction>,
    pub default_args: usize,
    pub default_implicit: Option<u32>,
    pub counters: Vec<CounterValue>,
    pub meters: Vec<Meter>,
    /// Time of the last hit, in tables with idle timeouts.
    pub last_hit: Vec<u64>,
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
            index: HashMap::new(),
            default_action: None,
            default_args: 0,
            default_implicit: None,
            counters: Vec::new(),
            meters: Vec::new(),
            last_hit: Vec::new(),
            order: 0,
            unlocked: None,
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
