//! The compiled P4 program as the controller sees it: artifacts, names, and entries of its tables. Knows no flow.

pub mod artifacts;
mod clock;
pub mod names;
pub mod schema;
pub mod typed;

pub use artifacts::{ArtifactError, Artifacts};
pub use clock::Clock;
use names::counter;
pub use schema::{Key, Schema, SchemaError};

/// Tables that a program may be compiled without (P4: `ZSR_SEQUENCER`). No entry of the controller's own is in them.
pub const OPTIONAL: [&str; 1] = [<names::table::Sequencers as typed::Table>::NAME];

/// Counters that are read.
pub const COUNTERS: [&str; 5] =
    [counter::RECEIVED, counter::SENT, counter::TRANSFERS, counter::PRODUCER_TRANSFERS, counter::RETRIES];
