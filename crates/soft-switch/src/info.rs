//! The parts of a loaded program, by name: the contract between the artifact, P4Info and the control API. Ids are
//! indices into the lists of [`ProgramInfo`]; they are stable for one program, not across programs.

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as a list index.
            #[inline]
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// A table: index into [`ProgramInfo::tables`].
    TableId
);
id!(
    /// An action: index into [`ProgramInfo::actions`].
    ActionId
);
id!(
    /// An action profile or selector: index into [`ProgramInfo::profiles`].
    ProfileId
);
id!(
    /// An indirect counter array: index into [`ProgramInfo::counters`].
    CounterId
);
id!(
    /// An indirect meter array: index into [`ProgramInfo::meters`].
    MeterId
);
id!(
    /// A register array: index into [`ProgramInfo::registers`].
    RegisterId
);
id!(
    /// A parser value set: index into [`ProgramInfo::value_sets`].
    ValueSetId
);
id!(
    /// A digest (bmv2: learn list): index into [`ProgramInfo::digests`].
    DigestId
);

/// How one key field of a table matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MatchKind {
    /// Equal.
    Exact,
    /// Longest prefix.
    Lpm,
    /// Value and mask. p4c writes `optional` keys as ternary too; their masks are then all ones or zero.
    Ternary,
    /// Between two bounds, both included.
    Range,
    /// Equal, or not looked at.
    Optional,
}

/// One key field of a table.
#[derive(Clone, Debug)]
pub struct KeyInfo {
    /// Name as in P4Info (`hdr.ipv4.dstAddr`), or the field's bmv2 name where the compiler gave none.
    pub name: String,
    /// How it matches.
    pub kind: MatchKind,
    /// Width in bits.
    pub width: u32,
}

/// One runtime parameter of an action.
#[derive(Clone, Debug)]
pub struct ParamInfo {
    /// Name in the P4 source.
    pub name: String,
    /// Width in bits.
    pub width: u32,
}

/// An action. Names are not unique (`NoAction` exists once per table); look actions up per table.
#[derive(Clone, Debug)]
pub struct ActionInfo {
    /// Name as in P4Info (`MyIngress.forward`).
    pub name: String,
    /// Runtime parameters in order.
    pub params: Vec<ParamInfo>,
}

/// A match-action table.
#[derive(Clone, Debug)]
pub struct TableInfo {
    /// Name as in P4Info (`MyIngress.ipv4_lpm`).
    pub name: String,
    /// Key fields in order; empty for a table without key.
    pub keys: Vec<KeyInfo>,
    /// Actions that its entries may use.
    pub actions: Vec<ActionId>,
    /// Most entries that it holds.
    pub size: usize,
    /// Whether entries have a priority (a ternary, range or optional key field).
    pub has_priority: bool,
    /// The number of the JSON plus the priority of an entry here, if the program has entries with priorities. The JSON's smallest number wins.
    pub priorities_from: Option<i32>,
    /// Whether its entries are fixed in the program (`const entries`).
    pub const_entries: bool,
    /// Whether its default action is fixed in the program (`const default_action`).
    pub const_default: bool,
    /// The action profile or selector that implements it.
    pub profile: Option<ProfileId>,
    /// Whether it has a direct counter.
    pub direct_counter: bool,
    /// Whether it has a direct meter, and of which unit.
    pub direct_meter: Option<MeterUnit>,
    /// Whether entries may time out when idle.
    pub idle_timeout: bool,
}

/// The unit that a meter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterUnit {
    /// Packets.
    Packets,
    /// Bytes of the packet as it arrived.
    Bytes,
}

/// An action profile, with or without selector.
#[derive(Clone, Debug)]
pub struct ProfileInfo {
    /// Name as in P4Info.
    pub name: String,
    /// Most members.
    pub size: usize,
    /// Whether it has a selector, so that groups exist.
    pub selector: bool,
}

/// An indirect counter array; each cell counts packets and bytes.
#[derive(Clone, Debug)]
pub struct CounterInfo {
    /// Name as in P4Info.
    pub name: String,
    /// Number of cells.
    pub size: usize,
}

/// An indirect meter array.
#[derive(Clone, Debug)]
pub struct MeterInfo {
    /// Name as in P4Info.
    pub name: String,
    /// Number of cells.
    pub size: usize,
    /// The unit that the meter counts.
    pub unit: MeterUnit,
}

/// A register array.
#[derive(Clone, Debug)]
pub struct RegisterInfo {
    /// Name as in P4Info.
    pub name: String,
    /// Number of cells.
    pub size: usize,
    /// Width of a cell in bits.
    pub width: u32,
}

/// A parser value set.
#[derive(Clone, Debug)]
pub struct ValueSetInfo {
    /// Name as in P4Info.
    pub name: String,
    /// Width in bits of the fields of one member, in order; empty if no parser state uses the set.
    pub widths: Vec<u32>,
    /// Total width of a member in bits, without padding.
    pub width: u32,
}

/// A digest: the list of fields that one sample carries.
#[derive(Clone, Debug)]
pub struct DigestInfo {
    /// Name as in P4Info.
    pub name: String,
    /// Field names and widths in bits.
    pub fields: Vec<(String, u32)>,
}

/// A header type whose fields all have a fixed width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderTypeInfo {
    /// Name in the program.
    pub name: String,
    /// Name and width in bits of each field, in order.
    pub fields: Vec<(String, u32)>,
}

/// Everything that a program declares and a controller can name.
#[derive(Clone, Debug, Default)]
pub struct ProgramInfo {
    /// Tables of ingress, then of egress.
    pub tables: Vec<TableInfo>,
    /// Actions.
    pub actions: Vec<ActionInfo>,
    /// Action profiles and selectors.
    pub profiles: Vec<ProfileInfo>,
    /// Indirect counters.
    pub counters: Vec<CounterInfo>,
    /// Indirect meters.
    pub meters: Vec<MeterInfo>,
    /// Registers.
    pub registers: Vec<RegisterInfo>,
    /// Parser value sets.
    pub value_sets: Vec<ValueSetInfo>,
    /// Digests.
    pub digests: Vec<DigestInfo>,
    /// Header types.
    pub header_types: Vec<HeaderTypeInfo>,
    /// Parser errors: name and number, as `standard_metadata.parser_error` shows them.
    pub errors: Vec<(String, u32)>,
}

fn find<T>(list: &[T], name: &str, of: impl Fn(&T) -> &str) -> Option<u32> {
    list.iter().position(|x| of(x) == name).map(|i| i as u32)
}

impl ProgramInfo {
    /// The table of that name.
    pub fn table(&self, name: &str) -> Option<TableId> {
        find(&self.tables, name, |t| &t.name).map(TableId)
    }

    /// The action of that name that entries of `table` may use.
    pub fn table_action(&self, table: TableId, name: &str) -> Option<ActionId> {
        let t = self.tables.get(table.index())?;
        t.actions.iter().copied().find(|a| self.actions.get(a.index()).is_some_and(|a| a.name == name))
    }

    /// The action profile or selector of that name.
    pub fn profile(&self, name: &str) -> Option<ProfileId> {
        find(&self.profiles, name, |p| &p.name).map(ProfileId)
    }

    /// Tables that a profile implements.
    pub fn profile_tables(&self, profile: ProfileId) -> impl Iterator<Item = TableId> + '_ {
        let of = move |t: &TableInfo| t.profile == Some(profile);
        self.tables.iter().enumerate().filter(move |(_, t)| of(t)).map(|(i, _)| TableId(i as u32))
    }

    /// The action of that name that members of `profile` may use. To a member, the same name in another table of the
    /// same profile is the same action.
    pub fn profile_action(&self, profile: ProfileId, name: &str) -> Option<ActionId> {
        self.profile_tables(profile).find_map(|t| self.table_action(t, name))
    }

    /// The indirect counter of that name.
    pub fn counter(&self, name: &str) -> Option<CounterId> {
        find(&self.counters, name, |c| &c.name).map(CounterId)
    }

    /// The indirect meter of that name.
    pub fn meter(&self, name: &str) -> Option<MeterId> {
        find(&self.meters, name, |m| &m.name).map(MeterId)
    }

    /// The register of that name.
    pub fn register(&self, name: &str) -> Option<RegisterId> {
        find(&self.registers, name, |r| &r.name).map(RegisterId)
    }

    /// The parser value set of that name.
    pub fn value_set(&self, name: &str) -> Option<ValueSetId> {
        find(&self.value_sets, name, |v| &v.name).map(ValueSetId)
    }

    /// The digest of that name.
    pub fn digest(&self, name: &str) -> Option<DigestId> {
        find(&self.digests, name, |d| &d.name).map(DigestId)
    }
}
