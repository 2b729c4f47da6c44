//! Values that cross the control API: keys, actions, entries, groups, meters.

use serde::{Deserialize, Serialize};

use crate::info::{ActionId, DigestId, TableId};

/// One key field of an entry. Byte strings are big-endian, of any length whose value fits the field's width.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MatchField {
    /// Equal to the value.
    Exact(Vec<u8>),
    /// The first `prefix_len` bits equal those of the value; bits beyond must be zero.
    Lpm {
        /// The prefix, padded with zero bits to the field's width.
        value: Vec<u8>,
        /// Bits that count, from 0 (matches everything) to the field's width.
        prefix_len: u32,
    },
    /// Bits under the mask equal those of the value; bits outside the mask must be zero in the value.
    Ternary {
        /// The value.
        value: Vec<u8>,
        /// Ones where a bit counts.
        mask: Vec<u8>,
    },
    /// Between both bounds, which count as inside.
    Range {
        /// Smallest value.
        low: Vec<u8>,
        /// Largest value.
        high: Vec<u8>,
    },
    /// Equal to the value, or anything. Also accepted for a ternary key field (all ones, or no bit).
    Optional(Option<Vec<u8>>),
}

/// An action with its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionCall {
    /// The action.
    pub action: ActionId,
    /// One big-endian byte string per parameter.
    pub params: Vec<Vec<u8>>,
}

/// One action of a one-shot action set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightedCall {
    /// The action.
    pub call: ActionCall,
    /// The action's share, above 0.
    pub weight: u32,
    /// Skipped while this port is down.
    pub watch_port: Option<u16>,
}

/// The action of an entry that matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryAction {
    /// An action (tables without action profile).
    Call(ActionCall),
    /// A member of the table's action profile.
    Member(u32),
    /// A group of the table's selector.
    Group(u32),
    /// Actions given in place of a group (P4Runtime's one-shot programming of a selector).
    Set(Vec<WeightedCall>),
}

/// A table entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableEntry {
    /// One field per key field of the table, in its order.
    pub key: Vec<MatchField>,
    /// Above 0, larger wins, where the table has ternary, range or optional fields; else 0.
    pub priority: i32,
    /// The action of the entry.
    pub action: EntryAction,
    /// Idle time in nanoseconds after which a notification is sent; 0 for never.
    pub idle_timeout_ns: u64,
    /// Opaque bytes that the controller attaches; kept and returned.
    pub metadata: Vec<u8>,
}

/// Packets and bytes of one counter cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterValue {
    /// Packets.
    pub packets: u64,
    /// Bytes of those packets as they arrived.
    pub bytes: u64,
}

/// A two-rate, three-colour meter (RFC 2698, colour-blind). Rates per second, in packets or bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterConfig {
    /// Committed rate per second.
    pub cir: u64,
    /// Committed burst.
    pub cburst: u64,
    /// Peak rate per second, at least `cir`.
    pub pir: u64,
    /// Peak burst.
    pub pburst: u64,
}

/// A member of a selector's group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// Member id.
    pub member: u32,
    /// The member's share, above 0.
    pub weight: u32,
    /// Skipped while this port is down.
    pub watch_port: Option<u16>,
}

/// A group of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Most members (sum of weights) that the controller announced; 0 if it did not.
    pub max_size: u32,
    /// Members.
    pub members: Vec<GroupMember>,
}

/// One copy that a multicast group or clone session makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Replica {
    /// Egress port.
    pub port: u16,
    /// Shown to egress as `egress_rid`.
    pub instance: u16,
}

/// A clone (mirror) session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloneSession {
    /// The copies to make.
    pub replicas: Vec<Replica>,
    /// Kept and returned; this switch has one queue per port.
    pub class_of_service: u32,
    /// Cut the copies to so many bytes when they leave; 0 for whole.
    pub packet_length_bytes: u32,
}

/// How digest samples are gathered into lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DigestConfig {
    /// Longest time in nanoseconds that a sample waits for others; 0 sends at once.
    pub max_timeout_ns: u64,
    /// Most samples per list; 0 for no limit (the switch sends at 1024).
    pub max_list_size: u32,
    /// How long in nanoseconds an equal sample is suppressed while its list is unacknowledged; 0 never.
    pub ack_timeout_ns: u64,
}

/// A list of digest samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestList {
    /// The digest.
    pub digest: DigestId,
    /// Number of the list, for the acknowledgement.
    pub list_id: u64,
    /// Samples: one big-endian byte string per field, each of the field's whole width.
    pub samples: Vec<Vec<Vec<u8>>>,
    /// When the list was sent, in the switch's nanoseconds.
    pub timestamp_ns: u64,
}

/// A message of the switch to its controllers.
#[derive(Debug)]
pub enum Notification {
    /// A frame that left through the CPU port. A packet-in header, if the program has one, is its first bytes.
    PacketIn(zsr_wire::frame::Frame),
    /// Digest samples.
    Digest(DigestList),
    /// Entries that have not matched for their idle timeout. Sent once per idle period.
    IdleTimeout {
        /// The table.
        table: TableId,
        /// The table's idle entries.
        entries: Vec<TableEntry>,
        /// When, in the switch's nanoseconds.
        timestamp_ns: u64,
    },
}
