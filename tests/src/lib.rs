//! Shared parts of end-to-end tests over several crates.
//!
//! - [`controlled`]: a whole system in virtual time, with the controller that users run.
//! - [`system`]: switch, NICs and rings of one flow in a simulated network.
//! - [`nodes`]: the switch and the NICs as nodes of that network.
//! - [`wire`]: a witness at the switch that knows the protocol and checks every packet.
//! - [`rig`]: any topology in such a network, with greedy producers.
//! - [`tickets`]: clients of a sequencer, or of a word at a host, in such a network.
//! - [`items`]: items that say where they come from.
//! - [`fuzz`]: functions that parse bytes of others.

pub mod controlled;
pub mod fuzz;
pub mod items;
pub mod nodes;
pub mod rig;
pub mod setup;
pub mod system;
pub mod tickets;
pub mod wire;

mod beside;
pub use beside::beside;
#[path = "../../xtask/src/cargo.rs"]
mod cargo;
use cargo::cargo;
