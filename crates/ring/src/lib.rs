//! Rings: circular buffers in memory that the switch reads and writes while the processing unit pushes
//! and pops with plain loads and stores.
//!
//! ```
//! use zsr_ring::{PopError, Ring, RingSpec};
//!
//! let (mut tx, mut rx) = Ring::loopback(RingSpec::new(8, 1024)?)?;
//! tx.try_push(b"8 bytes.")?;
//! tx.close();
//! let mut item = [0; 8];
//! rx.pop(&mut item)?;
//! assert_eq!(&item, b"8 bytes.");
//! assert_eq!(rx.pop(&mut item), Err(PopError::Closed));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A ring of a flow comes from the agent; [`Ring::loopback`] makes one that both ends of which are here.
//!
//! Memory ordering, on both sides: whoever fills the ring writes items, then `head` with release
//! ordering; whoever drains it loads `head` with acquire ordering, then reads items, then stores `tail`
//! with release ordering, which the filling side loads with acquire ordering before it writes again.
//! The model checker goes through both:
//! `tests/loom/run`.
//!
//! No type here knows a NIC or makes a system call other than to sleep in the blocking calls:
//! [`RingStats::COMMUNICATION_OPERATIONS`].

#![cfg_attr(
    feature = "loom",
    allow(dead_code, reason = "some paths, sizes and times mean nothing to the model checker")
)]

mod abi;
pub mod begun;
mod carry_over;
mod consumer;
pub mod doorbell;
mod error;
mod held;
pub mod latency;
#[cfg(not(feature = "loom"))]
pub mod layout;
pub mod memory;
mod null_switch;
mod producer;
mod region;
pub mod segment;
mod side;
mod spec;
mod wait;
pub mod wake;
mod words;

pub use abi::{ABI_VERSION, ByteOrder, ControlWord, Flags, Geometry, GeometryError};
pub use carry_over::NotInRing;
pub use consumer::{Consumer, View, wait_for_any};
pub use error::{AbortOrigin, PopError, PushError};
pub use held::Held;
pub use null_switch::{NullSwitch, NullSwitchError};
pub use producer::{Producer, Reservation};
pub use region::{AttachError, Lease, Left, Ring, RingError, RingSnapshot, RingStats, Role};
pub use spec::RingSpec;
pub use wait::Cancel;
