//! Runs v1model programs that p4c compiled to bmv2 JSON. Knows nothing of RDMA.
//!
//! ```text
//!  JSON ── load ──► layout, expressions ── compile ──► code, tables, plans ── native ──► machine code
//!                                                                                (once; `Program`)
//!
//!  frame ─► parser ─► ingress ─► replication ─► egress ─► deparser ─► frames      (per packet; `Switch::process`)
//!             ▲                   clones, multicast          │
//!             └──── resubmitted, recirculated ◄──────────────┘
//! ```
//!
//! A [`Program`] is loaded once and is immutable. A [`Switch`] runs it: bytes and a time in, bytes out; it does no I/O
//! and reads no clock. Header fields, constants and temporaries are slots of one array of `u64`. Actions, conditions
//! and the parser are instructions on slots. Headers, hashes and checksums are plans of loads and stores computed at
//! load. Where cranelift knows the host, all of that becomes machine code; elsewhere it is interpreted. A packet costs
//! no allocation, no lock and no string. The switch behaves like bmv2's `simple_switch`. It refuses at load, by name
//! and place, every construct that it does not know.
//!
//! Controllers reach a switch through a [`SwitchHandle`] from other threads; `zsr-p4runtime-server` serves P4Runtime by
//! it.

mod compile;
pub mod control;
mod error;
mod exec;
mod handle;
mod image;
mod info;
mod load;
mod meter;
mod native;
mod node;
mod op;
mod profile;
mod program;
mod switch;
mod table;
mod trace;

pub use control::*;
pub use error::{ControlError, LoadError};
pub use exec::hash::CrcParams;
pub use handle::{CallFuture, ControlQueue, SwitchHandle, SwitchStopped, control_queue};
pub use info::*;
pub use node::SwitchNode;
pub use program::Program;
pub use switch::{
    AssertReport, FailedAssert, Numbers, PortStats, Recirculation, Rest, Stats, Switch, SwitchConfig,
    TimerId, TimerPort, TimerShare,
};
