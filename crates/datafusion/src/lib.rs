//! DataFusion across hosts: record batches of a query go from one worker to another through flows.
//!
//! The crate `datafusion-distributed` divides a plan into stages, puts network nodes between them (shuffle, broadcast, coalesce), and
//! brings each stage's plan to its workers. What it leaves open is how batches travel: that is [`Exchange`] here. A stage that begins
//! to read from another takes a flow from worker to worker that was kept, or makes one. When it has read all, the flow is kept for the
//! next one ([`Exchange::clear`] deletes those). When the query fails or is cancelled, or a worker dies, the flow is deleted.
//!
//! ```no_run
#![doc = include_str!("../examples/query.rs")]
//! ```
//!
//! [`tpch`] has the tables of TPC-H, each worker's part made by the worker.

#![forbid(unsafe_code)]

mod exchange;
mod session;
pub mod tpch;

pub use exchange::{Exchange, Meeting, Unknown, Unreachable, left_behind, remove};
