//! A RoCEv2 NIC in user space over registered memory. Knows nothing of rings or flows.
//!
//! [`Nic`] is a state machine without I/O: frames and a time go in, frames and a next time come out. It has the
//! responder side (READ, WRITE, SEND, acknowledgements, NAKs, duplicates, keys, bounds, rights) and the requester side
//! (work requests, completions, retransmission) of the InfiniBand service reliable connection. A queue pair without a
//! connection has the service unreliable datagram ([`UdAttr`]).
//!
//! ```text
//! handle(frame) ─ checks, ICRC ─┬─ ARP ───────────► reply queue ──────────┐
//!                               ├─ request ─► responder ─► response queue ┼─► poll_transmit ─► frame
//!                               └─ response ► requester ─► completions    │
//!                                  post_send ─► send queue ───────────────┘
//! ```
//!
//! Each queue pair has one response queue, so that acknowledgements and READ responses leave in PSN order. Queue
//! pairs whose next response is an acknowledgement go first; the others share the transmitter round-robin, one
//! packet each. READ responses are made one packet at a time, straight from memory, when the transmitter asks.
//!
//! A queue pair that gets congestion notifications sends more slowly for a while (DCQCN), if the NIC knows the rate of
//! its link ([`NicConfig::line_rate`]). Marked packets are answered with notifications in any case.
//!
//! Requests behind a missing one are kept until it comes ([`NicConfig::reorder_window`]), as at NICs that repeat
//! selectively.
//!
//! Knowingly not there: SEND with invalidate, shared receive queues, path migration. A SEND with invalidate is answered
//! with a NAK "invalid request" (0x61), as by a responder that does not support it.

mod access;
mod ahead;
mod config;
mod datagram;
mod dcqcn;
mod memory;
mod mr;
mod nic;
mod numbers;
mod qp;
mod receive;
mod requester;
mod responder;
mod rx;
mod sched;
mod stats;
mod template;
mod tx;
mod ud;
mod work;

pub use config::{Access, MAX_WINDOW, Mtu, NicConfig};
pub use datagram::{Datagram, MAX_PAYLOAD};
pub use memory::{Bus, HostMemory, MemoryRegion, Reach, RegionError};
pub use mr::MrError;
pub use nic::Nic;
pub use qp::{Modify, QpCaps, QpError, QpInfo, QpState, RtrAttr, RtsAttr};
pub use stats::{DropReason, Stats};
pub use ud::{Address, AddressAttr, HEADER as DATAGRAM_HEADER, UdAttr};
pub use work::{Completion, CompletionKind, Operation, PostError, Receive, Sge, Status, To, WorkRequest};
