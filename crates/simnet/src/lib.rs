//! A network in one thread and in virtual time: nodes without I/O, links with bandwidth, latency and seeded faults.
//! The same nodes and the same seed give the same run, packet by packet ([`Network::trace_hash`]). No product logic.
//!
//! ```text
//! node ─ poll_transmit ─► link (serialise, faults, latency) ─► event queue ─► handle ─ node
//!   ▲                                                               │
//!   └──────────────── on_timer ◄── virtual clock ◄──────────────────┘
//! ```

#![forbid(unsafe_code)]

mod event;
mod link;
mod network;
mod node;

pub use link::{LinkConfig, LinkError, LinkStats};
pub use network::{End, Network, NodeId, Stop};
pub use node::Node;
pub use zsr_link::{FaultError, FaultRates, FaultStats, Rng};
