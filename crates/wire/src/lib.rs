//! RoCEv2 packets, ICRC and the ring ABI. No I/O, no allocation on the packet path.
//!
//! Each layer has two types, with `parse` and `emit` between them. `Packet` is a bounds-checked view of bytes that came
//! from somewhere; `Repr` is a value that can only be legal. [`roce`] puts the layers of one RoCEv2 frame together and
//! checks them in one pass.
//!
//! Why not a general packet crate: the ICRC needs the offsets and the raw header bytes of all layers at once. The
//! packet path wants one pass that also yields BTH and its extensions, which such crates do not know.

#![forbid(unsafe_code)]

pub mod aeth;
pub mod arp;
pub mod atomic;
pub mod bth;
mod bytes;
pub mod deth;
pub mod error;
pub mod ethernet;
pub mod frame;
pub mod icrc;
pub mod ids;
pub mod ipv4;
pub mod message;
pub mod opcode;
pub mod preserve;
pub mod reth;
pub mod ring;
pub mod roce;
pub mod udp;
pub mod vlan;

pub use error::{EmitError, Layer, ParseError};
pub use ethernet::Mac;
pub use frame::{Frame, FramePool};
pub use ids::{Psn, Qpn, Rkey};
pub use opcode::Opcode;
