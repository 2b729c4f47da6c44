//! The entries that the switch holds. No I/O.
//!
//! - [`model`]: rings, members and flows; [`alloc`]: numbers for them.
//! - [`flow`]: from a flow to all of its entries, the one planning interface; [`diff`]: from one list of entries to
//!   another. Changing a flow is the difference of two lists.
//! - The other files: one for each P4 file of that name, whose tables it fills.

pub mod admin;
pub mod alloc;
mod connection;
pub mod diff;
pub mod flow;
mod forward;
mod ids;
pub mod model;
mod peer;
pub mod pipes;
pub mod report;
pub mod sequencer;
mod solve;
mod station;
pub mod ticks;
pub mod worker;

pub use crate::p4::names::PORT_TIMER;
use crate::p4::schema::{Schema, SchemaError};
pub use connection::doorbell;
#[cfg(test)]
pub use forward::group;
pub use forward::member_groups;
pub use ids::{Chance, secret_in_pipe};
pub use ids::{FIRST_FLOW_GROUP, Qp, RingIds, qp, secret};
use p4runtime_proto::p4::v1 as rt;
pub use station::{Station, SwitchAddress, ring_entries};
pub use ticks::GROUP_TICK;
use zsr_topology::Topology;

/// Multicast group of broadcast frames: one replica per port.
pub const GROUP_FLOOD: u32 = 2;
/// The port that leads back into the pipeline (P4: `PORT_RECIRCULATE`).
pub const PORT_RECIRCULATE: u32 = 501;
/// First port number that links may not use.
pub const FIRST_RESERVED_PORT: u32 = 500;

/// A host's agent's words about one of its rings, once its memory is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingAddress {
    /// Memory key of the ring's region; its I/O virtual address is 0.
    pub rkey: u32,
    /// Queue pair for items, tail words and commit records.
    pub data_qpn: u32,
    /// Queue pair for READs of the word that the PU writes.
    pub poll_qpn: u32,
    /// Changes whenever the ring is registered anew.
    pub epoch: u16,
}

/// Why a topology can't be put onto a switch.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// Program and controller do not fit.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A host of a flow has no link to the switch.
    #[error("host `{host}` has no link to a switch")]
    Unlinked {
        /// The host.
        host: String,
    },
}

/// Entries that do not depend on flows: the rewrite's matrices, addresses, ports. For a topology with one switch.
///
/// # Errors
/// When program and controller do not fit.
pub fn base_entries(topology: &Topology, schema: &Schema) -> Result<Vec<rt::TableEntry>, PlanError> {
    let mut out = solve::entries(schema)?;
    out.extend(forward::entries(topology, schema)?);
    Ok(out)
}

/// Whether a multicast group is the same whatever flows there are.
pub fn is_base_group(id: u32) -> bool {
    id == GROUP_FLOOD || pipes::is_group(id)
}

/// The multicast groups and clone sessions of the switch's ports.
pub fn port_replication(topology: &Topology) -> Vec<rt::PacketReplicationEngineEntry> {
    forward::replication(topology)
}
