//! Links between nodes: in-memory queues, and wrappers for capture, counting and faults.
//!
//! A [`Port`] is one end of a link. Nothing blocks and nothing reads a clock: the caller says what time it is, and
//! brings the pool that buffers come from and go back to. Wrappers are ports too, so they stack:
//!
//! ```text
//! Faulty<Counted<Capture<MemoryPort>>>
//! ```

mod capture;
mod counted;
mod faults;
mod faulty;
mod memory;
mod pcap;
mod port;
mod rng;

pub use capture::Capture;
pub use counted::{Counted, PortStats};
pub use faults::{FaultError, FaultRates, FaultStats, Faults, Verdict};
pub use faulty::Faulty;
pub use memory::{MemoryPort, memory_link, thread_link};
pub use pcap::{CaptureError, PcapSink, PcapSummary};
pub use port::{Port, SendError};
pub use rng::Rng;
