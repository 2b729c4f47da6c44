//! The compiled P4 program as the controller sees it: artifacts, names, and a client of P4Runtime. Knows no flow.

pub mod artifacts;
pub mod client;
mod clock;
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

/// Counters that are read.
pub(crate) const COUNTERS: [&str; 5] =
    [counter::RECEIVED, counter::SENT, counter::TRANSFERS, counter::PRODUCER_TRANSFERS, counter::RETRIES];
