//! The operations of a Write on the switch, translated and checked as far as that goes without looking at the switch. A
//! batch of them runs on the thread that owns the switch, between two packets.

use p4runtime_proto::p4::v1 as pb;
use zsr_soft_switch::{
    ActionCall, CloneSession, CounterValue, DigestConfig, EntryAction, Group, MatchField, MeterConfig,
    Replica, TableEntry,
};
use zsr_soft_switch::{CounterId, DigestId, MeterId, ProfileId, RegisterId, TableId, ValueSetId};

/// INSERT, MODIFY or DELETE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Insert,
    Modify,
    Delete,
}

/// The properties that tell one entry of a table from the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EntryKey {
    pub key: Vec<MatchField>,
    pub priority: i32,
}

/// An entry of a table, or its default entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Which {
    Entry(EntryKey),
    Default,
}

/// The change of a direct meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MeterChange {
    /// The table has none.
    Absent,
    /// Back to the default, where all is green.
    Reset,
    Set(MeterConfig),
}

/// One update.
#[derive(Clone, Debug)]
pub(super) enum Op {
    InsertEntry {
        table: TableId,
        entry: TableEntry,
        counter: Option<CounterValue>,
        meter: MeterChange,
    },
    ModifyEntry {
        table: TableId,
        entry: EntryKey,
        /// None: as it is.
        action: Option<EntryAction>,
        idle_timeout_ns: u64,
        attached: Attached,
        counter: Option<CounterValue>,
        meter: MeterChange,
    },
    DeleteEntry {
        table: TableId,
        entry: EntryKey,
    },
    /// None: the program's own default action, and everything else reset with it.
    ModifyDefault {
        table: TableId,
        action: Option<ActionCall>,
        metadata: Vec<u8>,
    },
    /// Direct resources only; the entry may be const.
    Direct {
        table: TableId,
        entry: EntryKey,
        counter: Option<CounterValue>,
        meter: MeterChange,
    },
    Member {
        verb: Verb,
        profile: ProfileId,
        id: u32,
        call: Option<ActionCall>,
    },
    Group {
        verb: Verb,
        profile: ProfileId,
        id: u32,
        group: Group,
    },
    /// `index` none: all cells, of which there are `size`.
    Counter {
        counter: CounterId,
        index: Option<u32>,
        size: u32,
        value: CounterValue,
    },
    Meter {
        meter: MeterId,
        index: Option<u32>,
        size: u32,
        config: Option<MeterConfig>,
    },
    Register {
        register: RegisterId,
        index: Option<u32>,
        size: u32,
        value: Vec<u8>,
    },
    Multicast {
        verb: Verb,
        id: u32,
        replicas: Vec<Replica>,
        as_written: pb::MulticastGroupEntry,
    },
    Clone {
        verb: Verb,
        id: u32,
        session: CloneSession,
        as_written: pb::CloneSessionEntry,
    },
    ValueSet {
        set: ValueSetId,
        members: Vec<Vec<MatchField>>,
    },
    Digest {
        verb: Verb,
        digest: DigestId,
        config: DigestConfig,
    },
}

/// Data that a controller attached to an entry, as the opaque bytes that the switch keeps for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attached {
    /// `action_selection_mode` and `size_semantics` of a one-shot set, as they were written.
    pub modes: [u8; 2],
    /// `controller_metadata`.
    pub number: u64,
    /// `metadata`.
    pub bytes: Vec<u8>,
}

impl Attached {
    pub fn pack(&self) -> Vec<u8> {
        if *self == Self::default() {
            return Vec::new();
        }
        [&self.modes[..], &self.number.to_be_bytes(), &self.bytes].concat()
    }

    pub fn unpack(packed: &[u8]) -> Self {
        let Some((modes, rest)) = packed.split_first_chunk() else { return Self::default() };
        let Some((number, bytes)) = rest.split_first_chunk() else { return Self::default() };
        Self { modes: *modes, number: u64::from_be_bytes(*number), bytes: bytes.to_vec() }
    }
}
