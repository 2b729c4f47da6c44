//! A client of P4Runtime. Knows no flow.

mod client;
mod given_up;
mod reader;

pub use client::{ClientError, P4RuntimeDigests, P4RuntimeSession};
pub use reader::{Cell, P4RuntimeReader};
