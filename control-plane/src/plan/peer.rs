//! Fills p4/pipeline/peer.p4 and the routes of p4/pipeline/forward.p4: how a connection's packets reach its peer.

use super::{Qp, RingAddress, Station, SwitchAddress, forward};
use crate::p4::{Schema, schema::SchemaError};
use p4runtime_proto::p4::v1::TableEntry;

/// The entries of connection `qp`, at whose far end is queue pair `qpn` of a ring's registration `at`.
pub(super) fn entries(
    schema: &Schema,
    switch: SwitchAddress,
    to: &Station,
    (qp, is_poll): (Qp, bool),
    qpn: u32,
    at: RingAddress,
) -> Result<[TableEntry; 2], SchemaError> {
    let peer = [
        to.mac(),
        switch.mac(),
        switch.ip(),
        to.ip(),
        qpn.into(),
        at.rkey.into(),
        to.swap(),
        u64::from(at.epoch) << 16,
        forward::session(to.port).into(),
        to.traffic.of_switch(is_poll).into(),
        to.traffic.tci(to.vlan, is_poll).into(),
    ];
    Ok([
        schema.entry("peers", &[qp.index.into()], "peer", &peer)?,
        schema.entry("routes", &[qp.index.into()], "route", &[to.port.into()])?,
    ])
}
