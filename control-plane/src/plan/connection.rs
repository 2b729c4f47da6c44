//! Fills p4/pipeline/connection.p4: which QP a packet is for.

use super::{Plan, PlanError, ip};
use crate::p4::Schema;
use crate::topology::ByteOrder;
use p4runtime_proto::p4::v1::TableEntry;

// Roles (p4/common/types.p4).
const PRODUCER_DATA: u64 = 1;
const PRODUCER_POLL: u64 = 2;
const CONSUMER_DATA: u64 = 3;
const CONSUMER_POLL: u64 = 4;

/// Entries of table `doorbells`, for the producer rings of flows that ring.
pub(super) fn doorbells(plan: &Plan, schema: &Schema) -> Result<Vec<TableEntry>, PlanError> {
    let ringing = plan.rings.iter().enumerate().filter_map(|(ring, ids)| {
        let ids = ids.as_ref()?;
        plan.doorbell_of(ids).map(|secret| (ring, ids, secret))
    });
    ringing
        .map(|(ring, ids, secret)| {
            let peer = plan.peer_of(ring)?;
            let key = [secret.into(), ip(peer.host.ip), peer.link.port.into()];
            Ok(schema.entry("doorbells", &key, "bell", &[ids.id.into(), ids.worker.into()])?)
        })
        .collect()
}

pub(super) fn entries(plan: &Plan, schema: &Schema) -> Result<Vec<TableEntry>, PlanError> {
    plan.qps()
        .map(|(ring, ids, qp, is_poll)| {
            let peer = plan.peer_of(ring)?;
            let (role, producer) = match (ids.is_producer, is_poll) {
                (true, false) => (PRODUCER_DATA, ids.id),
                (true, true) => (PRODUCER_POLL, ids.id),
                (false, false) => (CONSUMER_DATA, 0),
                (false, true) => (CONSUMER_POLL, 0),
            };
            let swap = u64::from(peer.host.byte_order == ByteOrder::Little);
            Ok(schema.entry(
                "qps",
                &[qp.qpn.into(), ip(peer.host.ip), peer.link.port.into()],
                "qp",
                &[role, producer.into(), ids.worker.into(), qp.index.into(), swap, 1 << ids.member],
            )?)
        })
        .collect()
}
