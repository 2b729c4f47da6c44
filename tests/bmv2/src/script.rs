//! What both switches are told.

use p4runtime_proto::p4::v1 as rt;
use rt::entity::Entity;
use rt::update::Type;

/// One step of a recorded sequence.
#[derive(Clone, Debug)]
pub enum Step {
    /// A Write request.
    Write(Vec<rt::Update>),
    /// A packet that comes in.
    Packet {
        /// Where.
        port: u16,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// A cell of a register, which P4Runtime can't write on bmv2.
    Register {
        /// Its name.
        name: String,
        /// The cell.
        index: u32,
        /// The new value.
        value: u64,
    },
}

/// One update.
pub fn update(kind: Type, entity: Entity) -> rt::Update {
    rt::Update { r#type: kind as i32, entity: Some(rt::Entity { entity: Some(entity) }) }
}

/// The shortest byte string of a value (P4Runtime's canonical form), from a longer one.
pub fn canonical(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|b| **b == 0).count();
    bytes[zeros.min(bytes.len().saturating_sub(1))..].to_vec()
}

/// A multicast group or clone session of (port, instance) replicas.
pub fn replicas(list: impl IntoIterator<Item = (u32, u32)>) -> Vec<rt::Replica> {
    let replica = |(port, instance): (u32, u32)| rt::Replica {
        instance,
        port_kind: Some(rt::replica::PortKind::Port(canonical(&port.to_be_bytes()))),
        ..Default::default()
    };
    list.into_iter().map(replica).collect()
}
