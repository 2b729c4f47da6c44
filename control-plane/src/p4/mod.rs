//! The compiled P4 program as the controller sees it: artifacts, names, and a client of P4Runtime. Knows no flow.

pub mod artifacts;
pub mod client;
mod clock;
mod given_up;
#[path = "../../../p4/artifacts/names.rs"]
pub mod names;
pub mod reader;
pub mod schema;
pub mod typed;

pub use artifacts::{ArtifactError, Artifacts};
pub use client::{ClientError, P4RuntimeSession, TimerPacket};
pub use clock::Clock;
use names::counter;
pub use reader::{Cell, P4RuntimeReader};
pub use schema::{Key, Schema, SchemaError};

/// Tables that a program may be compiled without (P4: `ZSR_SEQUENCER`). No entry of the controller's own is in them.
pub(crate) const OPTIONAL: [&str; 1] = [<names::table::Sequencers as typed::Table>::NAME];

/// Counters that are read.
pub(crate) const COUNTERS: [&str; 5] =
    [counter::RECEIVED, counter::SENT, counter::TRANSFERS, counter::PRODUCER_TRANSFERS, counter::RETRIES];
