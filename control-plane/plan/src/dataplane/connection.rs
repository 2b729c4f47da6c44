//! Fills p4/pipeline/connection.p4: which connection a packet belongs to, and which datagram is a doorbell.

use super::report::Role;
use super::{Qp, RingIds, Station};
use crate::p4::names::{action, table};
use crate::p4::{Schema, schema::SchemaError};
use p4runtime_proto::p4::v1::TableEntry;

/// A packet on its port's VLAN (P4: `m.foreign`), and from its source address (`m.spoofed`).
const EXPECTED: u8 = 0;

/// The entry of connection `qp` of a ring, whose packets come from `from`.
pub(super) fn entry(
    schema: &Schema,
    from: &Station,
    ids: &RingIds,
    qp: Qp,
    is_poll: bool,
) -> Result<TableEntry, SchemaError> {
    let (role, producer) = match (ids.is_producer, is_poll) {
        (true, false) => (Role::ProducerData, ids.id),
        (true, true) => (Role::ProducerPoll, ids.id),
        (false, false) => (Role::ConsumerData, 0),
        (false, true) => (Role::ConsumerPoll, 0),
    };
    schema.entry(
        table::Qps { dest_qp: qp.qpn, src: from.ip(), port: from.port as u16 },
        action::Qp {
            role: role.number(),
            ring: producer,
            worker: ids.worker,
            qp_index: qp.index,
            swap: from.swap(),
            member_bit: 1 << ids.member,
        },
    )
}

/// The entry that makes a datagram with the ring's secret its doorbell, for the worker whose turn it is.
pub fn doorbell(
    schema: &Schema,
    from: &Station,
    ids: &RingIds,
    worker: u16,
) -> Result<TableEntry, SchemaError> {
    let key = table::Doorbells {
        secret: ids.secret,
        src: from.ip(),
        port: from.port as u16,
        foreign: EXPECTED,
        spoofed: EXPECTED,
    };
    schema.entry(key, action::Bell { producer: ids.id, worker })
}
