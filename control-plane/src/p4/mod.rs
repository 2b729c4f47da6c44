//! The compiled P4 program as the controller sees it: artifacts, names, and the switch that runs it.

pub mod artifacts;
pub mod client;
#[path = "../../../p4/artifacts/names.rs"]
pub mod names;
pub mod reader;
pub mod schema;
pub mod switch;
mod tofino;
pub mod typed;

pub use artifacts::{ArtifactError, Artifacts};
pub use client::{ClientError, P4RuntimeSession};
pub use reader::{Cell, P4RuntimeReader};
pub use schema::{Key, Schema, SchemaError};
pub use switch::{Digests, SwitchClient, SwitchReader};
