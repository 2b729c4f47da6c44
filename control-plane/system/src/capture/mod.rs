//! `zsr pcap`: frames of a running link, with comments on each packet in terms of flows.
//!
//! ```text
//!  process::Capture ─ records ─► Annotator ─ packets with comments ─► PcapngWriter
//!                                    ▲ Names: queue pairs and rings, kept up to date by a Directory (controller's API)
//! ```

mod annotate;
mod directory;
mod names;
#[cfg(test)]
mod tests;

pub use annotate::{Annotator, Noted};
pub use directory::Directory;
pub use names::{Names, RingName};
