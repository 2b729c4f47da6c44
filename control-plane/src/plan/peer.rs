//! Fills p4/pipeline/peer.p4 and the routes of p4/pipeline/forward.p4: how a connection's packets reach its peer.

use super::{Plan, PlanError, RingAddress, forward, ip, mac};
use crate::p4::Schema;
use crate::topology::ByteOrder;
use p4runtime_proto::p4::v1::TableEntry;

pub(super) fn entries(
    plan: &Plan,
    schema: &Schema,
    addresses: &[Option<RingAddress>],
) -> Result<Vec<TableEntry>, PlanError> {
    let mut out = Vec::new();
    for (ring, _, qp, is_poll) in plan.qps() {
        let Some(address) = addresses[ring] else { continue };
        let peer = plan.peer_of(ring)?;
        let qpn = if is_poll { address.poll_qpn } else { address.data_qpn };
        out.push(schema.entry(
            "peers",
            &[qp.index.into()],
            "peer",
            &[
                mac(peer.host.mac),
                mac(plan.switch.mac),
                ip(plan.switch.ip),
                ip(peer.host.ip),
                qpn.into(),
                address.rkey.into(),
                u64::from(peer.host.byte_order == ByteOrder::Little),
                u64::from(address.epoch) << 16,
                forward::session(peer.link.port).into(),
            ],
        )?);
        out.push(schema.entry("routes", &[qp.index.into()], "route", &[peer.link.port.into()])?);
    }
    Ok(out)
}
