//! Arrow record batches through flows of zsr, of any kind. A value is copied once, by its sender, from where it lies to where the
//! switch reads it; a receiver's arrays lie where the switch has written them.
//!
//! ```
//! # mod program {
#![doc = include_str!("../examples/exchange.rs")]
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! #     let flow = zsr::testing::shuffle(1, 1).named("sales").sizes(64 << 10, 1 << 20).start()?;
//! #     program::exchange(flow.place())
//! # }
//! ```
//!
//! - [`Sender`] sends batches to one consumer, or scatters their rows over all; [`Receiver`] receives them.
//! - [`hash_rows`] is what rows are scattered by.
//! - [`Rings`] and [`RingReader`] are rings that a program has in hand, without a flow.
//!
//! What records of such a flow are is in docs/arrow.md of the repository: messages of the Arrow IPC format.

#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(target_endian = "big")]
compile_error!("the Arrow IPC format is written for little-endian machines here");

mod check;
mod decode;
mod error;
mod fill;
mod inlet;
mod lend;
mod message;
mod outlet;
mod partition;
mod pieces;
mod plan;
mod receiver;
mod rows;
mod schema;
mod sender;
mod window;

pub use error::Error;
pub use inlet::{Found, Inlet, Lying, OfFlow, OfRing, RingReader};
pub use outlet::{Outlet, Rings};
pub use partition::hash_rows;
pub use receiver::{Received, Receiver};
pub use sender::Sender;
