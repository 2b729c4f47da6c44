//! A pipeline as a controller sees it: every object of P4Info by id, tied to the object of the loaded program.

use std::collections::{BTreeMap, HashMap};

use p4runtime_proto::p4::config::v1 as config;
use p4runtime_proto::p4::v1 as pb;
use p4runtime_proto::p4::v1::entity::Entity;

use super::data::DataType;
use super::repr::Repr;
use zsr_soft_switch::{
    ActionId, CounterId, DigestId, MatchKind, MeterId, ProfileId, RegisterId, TableId, ValueSetId,
};

/// A key field of a table, or a component of a value set.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub id: u32,
    pub name: String,
    pub kind: MatchKind,
    pub repr: Repr,
}

/// A parameter of an action.
#[derive(Clone, Debug)]
pub(super) struct Param {
    pub id: u32,
    pub name: String,
    pub repr: Repr,
}

/// Where a table lets an action be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Both,
    EntryOnly,
    DefaultOnly,
    GroupOnly,
}

/// One action as one table uses it; the program has a copy per table.
#[derive(Clone, Debug)]
pub(super) struct TableAction {
    pub engine: ActionId,
    pub scope: Scope,
}

/// A table.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub id: u32,
    pub name: String,
    pub engine: TableId,
    /// In the program's order, which need not be that of the ids.
    pub fields: Vec<Field>,
    /// By P4Info id.
    pub actions: BTreeMap<u32, TableAction>,
    pub has_priority: bool,
    /// All its entries stand in the program.
    pub is_const: bool,
    /// Size of a table that the program gives entries which are not const.
    pub initial_size: Option<usize>,
    pub const_default: bool,
    /// The program's own default action.
    pub initial_default: Option<pb::Action>,
    /// P4Info id.
    pub profile: Option<u32>,
    pub direct_counter: bool,
    pub direct_meter: Option<MeterType>,
    pub idle_timeout: bool,
}

/// An action; ids are unique in P4Info, while the program has a copy per table.
#[derive(Clone, Debug)]
pub(super) struct Action {
    pub id: u32,
    pub name: String,
    pub params: Vec<Param>,
}

/// How a selector's groups are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupSize {
    SumOfWeights,
    SumOfMembers { max_weight: u32 },
}

/// An action profile or selector.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    pub name: String,
    pub engine: ProfileId,
    pub selector: bool,
    /// 0: no limit but the profile's own size.
    pub max_group_size: u32,
    pub group_size: GroupSize,
    pub weights_disallowed: bool,
    /// By P4Info id: the copy that members use.
    pub actions: BTreeMap<u32, ActionId>,
}

/// The configurations that a meter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MeterType {
    /// RFC 2698.
    TwoRates,
    /// RFC 2697.
    OneRate,
    /// One rate; green and red only.
    TwoColors,
}

impl From<config::meter_spec::Type> for MeterType {
    fn from(of: config::meter_spec::Type) -> Self {
        match of {
            config::meter_spec::Type::TwoRateThreeColor => Self::TwoRates,
            config::meter_spec::Type::SingleRateThreeColor => Self::OneRate,
            config::meter_spec::Type::SingleRateTwoColor => Self::TwoColors,
        }
    }
}

/// An indirect counter.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    pub name: String,
    pub engine: CounterId,
    pub size: u32,
}

/// An indirect meter.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    pub name: String,
    pub engine: MeterId,
    pub size: u32,
    pub kind: MeterType,
}

/// A register.
#[derive(Clone, Debug)]
pub(super) struct Register {
    pub name: String,
    pub engine: RegisterId,
    pub size: u32,
    pub data: DataType,
}

/// A parser value set.
#[derive(Clone, Debug)]
pub(super) struct ValueSet {
    pub name: String,
    pub engine: ValueSetId,
    pub size: usize,
    /// In the program's order.
    pub fields: Vec<Field>,
}

/// A digest.
#[derive(Clone, Debug)]
pub(super) struct Digest {
    pub name: String,
    pub engine: DigestId,
    pub data: DataType,
}

/// A controller header: fields back to back, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct PacketHeader {
    /// P4Info id, name, and both widths.
    pub fields: Vec<Param>,
}

/// All objects of P4Info, by id.
#[derive(Clone, Debug, Default)]
pub(super) struct Schema {
    pub tables: BTreeMap<u32, Table>,
    pub actions: BTreeMap<u32, Action>,
    pub profiles: BTreeMap<u32, Profile>,
    pub counters: BTreeMap<u32, Counter>,
    pub meters: BTreeMap<u32, Meter>,
    pub registers: BTreeMap<u32, Register>,
    pub value_sets: BTreeMap<u32, ValueSet>,
    pub digests: BTreeMap<u32, Digest>,
    pub packet_in: Option<PacketHeader>,
    pub packet_out: Option<PacketHeader>,
    /// The way back: P4Info ids by the program's ids.
    pub by_engine: ByEngine,
}

/// P4Info ids by the program's ids.
#[derive(Clone, Debug, Default)]
pub(super) struct ByEngine {
    pub tables: HashMap<TableId, u32>,
    pub actions: HashMap<ActionId, u32>,
    pub digests: HashMap<DigestId, u32>,
}

impl Schema {
    /// The object of P4Info that an entity belongs to, as refusals name it; none if it names none that is there.
    pub fn place(&self, entity: Option<&pb::Entity>) -> Option<String> {
        let table =
            |entry: Option<&pb::TableEntry>| Some(("table", &self.tables.get(&entry?.table_id)?.name));
        let (kind, name) = match entity?.entity.as_ref()? {
            Entity::TableEntry(entry) => table(Some(entry))?,
            Entity::DirectCounterEntry(entry) => table(entry.table_entry.as_ref())?,
            Entity::DirectMeterEntry(entry) => table(entry.table_entry.as_ref())?,
            Entity::ActionProfileMember(of) => {
                ("action profile", &self.profiles.get(&of.action_profile_id)?.name)
            }
            Entity::ActionProfileGroup(of) => {
                ("action profile", &self.profiles.get(&of.action_profile_id)?.name)
            }
            Entity::CounterEntry(of) => ("counter", &self.counters.get(&of.counter_id)?.name),
            Entity::MeterEntry(of) => ("meter", &self.meters.get(&of.meter_id)?.name),
            Entity::RegisterEntry(of) => ("register", &self.registers.get(&of.register_id)?.name),
            Entity::ValueSetEntry(of) => ("value set", &self.value_sets.get(&of.value_set_id)?.name),
            Entity::DigestEntry(of) => ("digest", &self.digests.get(&of.digest_id)?.name),
            Entity::PacketReplicationEngineEntry(_) | Entity::ExternEntry(_) => return None,
        };
        Some(format!("{kind} '{name}'"))
    }

    /// The table that the program knows by this id.
    pub fn table_of(&self, engine: TableId) -> Option<&Table> {
        self.tables.get(self.by_engine.tables.get(&engine)?)
    }

    /// The action that the program knows by this id.
    pub fn action_of(&self, engine: ActionId) -> Option<&Action> {
        self.actions.get(self.by_engine.actions.get(&engine)?)
    }
}
