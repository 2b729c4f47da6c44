//! Fills p4/pipeline/peer.p4 and the routes of p4/pipeline/forward.p4: how a connection's packets reach its peer.

use super::{Qp, RingAddress, Station, SwitchAddress};
use crate::p4::names::{action, table};
use crate::p4::{Schema, schema::SchemaError};
use p4runtime_proto::p4::v1::TableEntry;

/// The entries of connection `qp`, at whose far end is queue pair `qpn` of a ring's registration `at`; packets to it
/// leave by a port.
pub(super) fn entries(
    schema: &Schema,
    switch: SwitchAddress,
    (to, port): (&Station, u32),
    (qp, is_poll): (Qp, bool),
    qpn: u32,
    at: RingAddress,
) -> Result<[TableEntry; 2], SchemaError> {
    let peer = action::Peer {
        dst_mac: to.mac(),
        src_mac: switch.mac(),
        src_ip: switch.ip(),
        dst_ip: to.ip(),
        qpn,
        rkey: at.rkey,
        swap: to.swap(),
        flags: u32::from(at.epoch) << 16,
        mirror: to.session,
        tos: to.traffic.of_switch(is_poll),
    };
    let key = table::Peers { qp: qp.index };
    let peer = match to.traffic.tci(to.vlan, is_poll) {
        0 => schema.entry(key, peer)?,
        tci => schema.entry(key, on_vlan(peer, tci))?,
    };
    Ok([peer, schema.entry(table::Routes { qp: qp.index }, action::Route { port: port as u16 })?])
}

/// The same peer, on the VLAN of a tag.
fn on_vlan(peer: action::Peer, tci: u16) -> action::PeerOnVlan {
    let action::Peer { dst_mac, src_mac, src_ip, dst_ip, qpn, rkey, swap, flags, mirror, tos } = peer;
    action::PeerOnVlan { dst_mac, src_mac, src_ip, dst_ip, qpn, rkey, swap, flags, mirror, tos, tci }
}
