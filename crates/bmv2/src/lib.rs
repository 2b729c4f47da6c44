//! bmv2's `simple_switch_grpc` as one more switch: started, fed with packets, and taken down.
//!
//! ```text
//!  link ─┐                          ┌───────────────────────┐
//!  link ─┼─ Bridge ── Dataplane ────┤ simple_switch_grpc    ├── P4Runtime ── any controller
//!  ticks ┘  (thread)   (gRPC stream)└───────────────────────┘
//! ```
//!
//! Packets go through its gRPC data plane (`--dp-grpc-server-addr`, as bmv2 has it from version 1.15 on), which needs
//! neither root nor interfaces. A [`Bridge`] joins its ports to any [`zsr_link::Port`]. bmv2 makes no packets of its
//! own accord, so the bridge also injects timer packets. Control is P4Runtime's business, and so not in this crate.
//! bmv2 itself is not part of this repository: the caller names the binary.

mod bridge;
mod dataplane;
mod error;
mod injector;
mod machine;
mod process;
mod proto;
#[cfg(test)]
mod tests;
mod thrift;

pub use bridge::{Bridge, BridgeStats, Ticks};
pub use dataplane::{Dataplane, PacketReceiver, PacketSender};
pub use error::Bmv2Error;
pub use injector::Injector;
pub use process::{Bmv2, Options, find_binary};
pub use thrift::Registers;

/// A packet, and the port at which it comes in or leaves.
pub type PortPacket = (u16, Vec<u8>);
