//! What a program links to push and pop records of a running system of zsr. Rings are shared memory, so the program runs on the
//! machine of its flow's member. No switch, no async runtime of the program's own, and no thread but two that wait.
//!
//! A whole program, which does both ends of a flow `rows`. The system is brought up, and the flow made, with
//!
//! ```text
//! zsr up topologies/shuffle-2x2.yaml
//! zsr flow create rows -p h1 -c h3 --item-size 4KiB
//! ```
//!
//! and the program, whose `Cargo.toml` has `zsr = { path = "…/crates/client" }`, is
//!
//! ```
//! # mod program {
#![doc = include_str!("../examples/rows.rs")]
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! #     let flow = zsr::testing::shuffle(1, 1).named("rows").start()?;
//! #     Ok(program::rows(flow.place())?)
//! # }
//! ```
//!
//! A unit test of such a program needs no system: the module `testing` has flows inside a process (feature `testing`).
//!
//! - [`FlowProducer`] pushes into a flow as one of its producers, each record to the consumer that the flow's routing says;
//!   [`FlowConsumer`] pops from it as one of its consumers: all records in order, or the [newest](FlowConsumer::pop_newest). [`Priority`]
//!   pops from several flows, the most urgent first; [`most_urgent`] says which has records.
//! - [`Schema`] says what records are, if the flow does, and makes tuples of lines of text and back. A [`Combiner`] keeps sums, counts and
//!   the like of them by group ([`FlowConsumer::combine`]).
//! - [`barrier`] waits for other programs, [`Session::events`] says what happens, and [`Session`] asks the controller anything
//!   ([`api`]).
//! - [`Place`] finds a system of this machine, [`Contact`] also one at an address.
//! - [`streams`] has many streams in one flow, each with its own end, cancellation and window.
//! - [`FlowRings`] holds the rings of a member for a unit that reads and writes their memory itself.
//! - [`pu`] attaches to one ring by its name, below flows and records.

#![deny(unsafe_op_in_unsafe_fn)]

mod barrier;
mod consumer;
mod contact;
mod counts;
mod error;
mod events;
mod flow;
mod lanes;
pub mod layouts;
pub mod lock;
mod place;
mod priority;
mod producer;
pub mod pu;
mod reach;
mod rings;
mod session;
mod shared;
mod sigpipe;
pub mod streams;
#[cfg(feature = "testing")]
pub mod testing;
mod waiting;

pub use barrier::barrier;
pub use consumer::{Batch, FlowConsumer, HeldBatch, Popped};
pub use contact::Contact;
pub use counts::Counts;
pub use error::{ErrorKind, Lost, ProgramError};
pub use events::Events;
pub use flow::{Options, check_size, schema_of};
pub use place::{Place, PlaceError};
pub use priority::{PoppedFrom, Priority, Urgent, most_urgent};
pub use producer::{FlowProducer, Held, KeyRoute, Route, Ticket, To, Wait};
pub use reach::Elsewhere;
pub use rings::{FlowRings, HeldRing};
pub use session::{Carrier, Client, ClientError, Session, refused};

pub use zsr_api::controller as api;
pub use zsr_records::{Column, ColumnType, Combiner, Schema, fixed_width};
pub use zsr_ring::{ByteOrder, Cancel, Role};
