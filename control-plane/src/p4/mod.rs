//! The compiled P4 program as the controller sees it: artifacts, names, and the switch that runs it.

pub mod artifacts;
pub mod client;
pub mod reader;
pub mod schema;

pub use artifacts::{ArtifactError, Artifacts};
pub use client::{ClientError, SwitchClient};
pub use reader::{Cell, SwitchReader};
pub use schema::{Key, Schema, SchemaError};
