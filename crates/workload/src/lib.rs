//! The data of flows: where tuples come from, which consumer they go to, and proof that they arrived.
//!
//! ```text
//!  producer host, before the clock starts                     consumer host
//!  source ─► key ─► router ─► segment in stock                ring c ─► segment ─► keys, output file
//!                              │ hash    └─► ring p→c ═ switch ═► │ hash
//!                              │ tally(p,c)                       │ tally(p,c)
//!                              └───────────────── verify ─────────┘
//! ```
//!
//! [`Stock`] makes the segments that producers push. [`run_flow`] drives one flow over attached rings: one thread per
//! endpoint, each doing nothing but local memory operations. Every item carries its producer and sequence number. Both
//! ends keep a running hash of the contents per pair of producer and consumer. Comparing them tells lost, doubled,
//! misordered, misrouted and altered items, in memory that does not grow with their number.

#![forbid(unsafe_code)]

mod compare;
mod consume;
mod drive;
mod error;
mod file;
pub mod item;
mod output;
mod pace;
mod produce;
mod source;
mod stock;
mod tally;
mod tpch;
mod verify;

pub use drive::{Control, FlowInput, FlowOutcome, Meter, RingOutcome, run_flow};
pub use error::WorkloadError;
pub use output::no_folder;
pub use output::{OutputError, OutputPlan};
pub use source::{Estimate, Prepared, Unit, input_columns, prepare};
pub use stock::{KEPT, Stock};
pub use tally::Tally;
pub use verify::{Discrepancy, Verification};

#[cfg(test)]
mod tests;
