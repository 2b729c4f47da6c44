//! Fills p4/pipeline/connection.p4: which connection a packet belongs to, and which datagram is a doorbell.

use super::report::Role;
use super::{Qp, RingIds, Station};
use crate::p4::{Schema, schema::SchemaError};
use p4runtime_proto::p4::v1::TableEntry;

/// A packet on its port's VLAN (P4: `m.foreign`).
const EXPECTED: u64 = 0;

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
        "qps",
        &[qp.qpn.into(), from.ip(), from.port.into()],
        "qp",
        &[role.number(), producer.into(), ids.worker.into(), qp.index.into(), from.swap(), 1 << ids.member],
    )
}

/// The entry that makes a datagram with the ring's secret its doorbell, for the worker whose turn it is.
pub fn doorbell(
    schema: &Schema,
    from: &Station,
    ids: &RingIds,
    worker: u16,
) -> Result<TableEntry, SchemaError> {
    let key = [ids.secret.into(), from.ip(), from.port.into(), EXPECTED];
    schema.entry("doorbells", &key, "bell", &[ids.id.into(), worker.into()])
}
